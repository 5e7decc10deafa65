"""Compares a plan with the plan of a store, which may be the same, a part of it, larger, or another one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from warpsim.arguments import refusing_malformed, shortened
from warpsim.hardware.gpu import GPU_LABELS
from warpsim.kernels import Kernel
from warpsim.results.provenance import load, read_call
from warpsim.store.place import StoreError
from warpsim.store.zarr_store import Store
from warpsim.sweeps.axes import Axis
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import read_replicates
from warpsim.sweeps.settings import from_json, to_json

_BY_NAME = ("gpus", "programs", "latency_tables")
"""Entries of a record that hold one value for each chip or kernel."""


def fit_to_store(plan: Plan, store: Store) -> tuple[Plan, list[str]]:
    """Rearranges a plan to a store: the tiles and the order of values of the store, followed by values that it lacks.

    Returns:
        The rearranged plan, and a description of each thing that it adds to the store (empty if nothing).

    Raises:
        StoreError: the store holds another plan; the message shows the differences.
    """
    try:
        with refusing_malformed("provenance", any_type=True):
            stored = _without_labels(read_call(store.attrs["provenance"], "sweep"))
            tile_shape = tuple(stored["tile_shape"])
            read_replicates(stored["settings"]["replicates"])
    except ValueError as error:
        raise StoreError(f"{store.path}: {error}") from None
    plan = plan.rearranged({name: _in_stored_order(axis, stored) for name, axis in plan.axes.items()}, tile_shape)
    record = _without_labels(plan.record())
    if differences(_stored_part(record, stored), stored):
        lines = differences(record, stored)
        shown = lines[:10] + [f"and {len(lines) - 10} more"] * (len(lines) > 10)
        selection = _selection(record, stored)
        what = "holds more than this plan" if selection else "holds another plan"
        advice = [f"to read this part: warpsim.open_results({str(store.path)!r}){selection}"] if selection else []
        raise StoreError("\n  ".join([f"{store.path}: {what}; it was not changed", *shown, *advice]))
    sizes = zip(plan.axes, plan.sizes, store.grid.sizes, strict=True)
    added = [f"{there} of {here} values of {axis}" for axis, here, there in sizes if here > there]
    if record["settings"]["replicates"] != stored["settings"]["replicates"]:
        added.append(f"replicates {stored['settings']['replicates']} of {record['settings']['replicates']}")
    return plan, added


def _without_labels(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a plan without what is only for people in its chips and kernels."""
    gpus = {name: _unlabelled_gpu(described) for name, described in record["gpus"].items()}
    programs = {name: load(Kernel, program).identity() for name, program in record["programs"].items()}
    named = {key: value for key, value in record.items() if key != "own_tables"}  # of which `latency_tables` has the digests
    return {**named, "gpus": gpus, "programs": programs, "latency_tables": record.get("latency_tables", {})}


def _unlabelled_gpu(described: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the description of a chip without labels, and without what only analytical models read."""
    not_simulated = ("measured", "contention", "pin_bandwidth_gbs", "distribution")  # the table is compared by its digest
    memory = {key: value for key, value in described["memory"].items() if key not in not_simulated}
    memory["queue"] = {key: value for key, value in memory["queue"].items() if key != "fit_rms_percent"}
    return {key: value for key, value in described.items() if key not in GPU_LABELS} | {"memory": memory}


def differences(plan: Any, stored: Any, key: str = "") -> list[str]:
    """Returns a line "key: A here, B in the store" for each key in which the records of two plans differ."""
    if isinstance(plan, dict) and isinstance(stored, dict):
        return [
            line
            for name in dict.fromkeys((*plan, *stored))
            for line in differences(
                plan.get(name, "nothing"), stored.get(name, "nothing"), f"{key}.{name}" if key else name
            )
        ]
    if all(isinstance(one, list) and any(isinstance(entry, dict) for entry in one) for one in (plan, stored)):
        # records are too long to be shown with those that both have
        here, there = ([one for one in ours if one not in others] for ours, others in ((plan, stored), (stored, plan)))
        plan, stored = (here or "nothing else", there or "nothing else") if here or there else (plan, stored)
    return [] if plan == stored else [f"{key}: {_text(plan)} here, {_text(stored)} in the store"]


def _text(value: Any) -> str:
    return shortened(value if isinstance(value, str) else json.dumps(value))


def _in_stored_order(axis: Axis, stored: Mapping[str, Any]) -> Axis:
    """Returns the axis with the store's values first, in the store's order; unchanged if it lacks one of them."""
    columns = [stored["settings"].get(name) for name in axis.columns]
    if not all(isinstance(column, list) for column in columns):
        return axis
    index_of = {tuple(map(to_json, row)): index for index, row in enumerate(axis.rows())}
    first = [index_of.get(row) for row in zip(*columns, strict=False)]
    if None in first:
        return axis
    rest = sorted({*range(len(axis))} - {*first})
    return axis.reordered([index for index in first if index is not None] + rest)


def _stored_part(record: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a plan reduced to what the store's plan has."""
    settings = dict(record["settings"])
    for name, values in settings.items():
        there = stored["settings"].get(name)
        if isinstance(values, list) and isinstance(there, list):
            settings[name] = values[: len(there)]
    if read_replicates(settings["replicates"]).extends(read_replicates(stored["settings"]["replicates"])):
        settings["replicates"] = stored["settings"]["replicates"]
    part = {**record, "settings": settings}
    part |= {name: {key: value for key, value in record[name].items() if key in stored[name]} for name in _BY_NAME}
    if _same_kernels(record, stored):
        part["kernels"] = stored["kernels"]
    return part


def _selection(record: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Returns the Python expression that selects a plan's part of the store's results; empty if the plan is not a part."""
    settings = dict(stored["settings"])
    chosen: dict[str, Any] = {}
    for axis, columns in stored["axes"].items():
        values, there = record["settings"].get(columns[0]), stored["settings"][columns[0]]
        wanted = values if isinstance(values, list) else [values]
        if len(columns) == 1 and values != there and isinstance(there, list) and all(value in there for value in wanted):
            settings[columns[0]] = values
            chosen[axis] = from_json(values)
    fewer, more = record["settings"]["replicates"], stored["settings"]["replicates"]
    if fewer != more and read_replicates(more).extends(read_replicates(fewer)):
        settings["replicates"] = fewer
    kernels = record["kernels"] if _same_kernels(stored, record) else []
    part = {**stored, "settings": settings, "tile_shape": record["tile_shape"], "kernels": kernels}
    part |= {name: {key: value for key, value in stored[name].items() if key in record[name]} for name in _BY_NAME}
    part["axes"] = {axis: columns for axis, columns in stored["axes"].items() if isinstance(settings[columns[0]], list)}
    if differences(record, part):
        return ""
    replicates = f".isel(replicate=slice({fewer}))" if fewer != more and isinstance(fewer, int) else ""
    return (f".sel({chosen})" if chosen else "") + replicates


def _same_kernels(whole: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Whether the kernels of `part` have the same digests in `whole`, as far as both hold them."""
    digests = _digests(whole)
    return all(digests.get(parameters, sha256) == sha256 for parameters, sha256 in _digests(part).items())


def _digests(record: Mapping[str, Any]) -> dict[frozenset[tuple[str, Any]], str]:
    """Returns the parameters of each kernel -> the digest of its program."""
    return {frozenset(item for item in digest.items() if item[0] != "sha256"): digest["sha256"] for digest in record["kernels"]}

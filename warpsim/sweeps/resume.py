"""A plan and the plan of a store: the same, a part of it, or another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsim.results.provenance import read_call
from warpsim.store.zarr_store import Store, StoreError
from warpsim.sweeps.axes import Axis
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.record import decoded, difference, encoded
from warpsim.sweeps.replicates import read_replicates


def as_stored(plan: Plan, store: Store) -> tuple[Plan, list[str]]:
    """The plan with the tiles of a store, and its values in the store's order; what the store lacks comes last.

    Returns:
        The plan; what it has more than the store, in words, or nothing.

    Raises:
        StoreError: the store holds another plan; the message shows the difference.
    """
    try:
        theirs = read_call(store.attrs["provenance"], "sweep")
    except ValueError as error:
        raise StoreError(f"{store.path}: {error}") from None
    plan = plan.arranged({name: _continued(axis, theirs) for name, axis in plan.axes.items()}, theirs["tile_shape"])
    ours = plan.record()
    lines = difference(_part(ours, theirs), theirs)
    if lines:
        lines = difference(ours, theirs)
        shown = lines[:10] + [f"and {len(lines) - 10} more"] * (len(lines) > 10)
        what = "holds more than this plan" if (part := _selection(ours, theirs)) else "holds another plan"
        read = [f"to read this part: warpsim.open_results({str(store.path)!r}){part}"] if part else []
        raise StoreError("\n  ".join([f"{store.path}: {what}; it was left as it is", *shown, *read]))
    sizes = zip(plan.axes, plan.sizes, store.grid.sizes, strict=True)
    added = [f"{there} of {here} values of {axis}" for axis, here, there in sizes if here > there]
    if ours["settings"]["replicates"] != theirs["settings"]["replicates"]:
        added.append(f"replicates {theirs['settings']['replicates']} of {ours['settings']['replicates']}")
    return plan, added


def _continued(axis: Axis, theirs: Mapping[str, Any]) -> Axis:
    """The axis with the store's values first, in its order; as it is where some of these are not on it."""
    columns = [theirs["settings"].get(name) for name in axis.columns]
    if not all(isinstance(column, list) for column in columns):
        return axis
    place = {tuple(map(encoded, row)): index for index, row in enumerate(axis.rows())}
    first = [place.get(row) for row in zip(*columns, strict=False)]
    if None in first:
        return axis
    there = {*first}
    return axis.taken([index for index in first if index is not None] + [i for i in range(len(axis)) if i not in there])


def _part(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The record of our plan, cut to what the store's plan has."""
    settings = dict(ours["settings"])
    for name, values in settings.items():
        there = theirs["settings"].get(name)
        if isinstance(values, list) and isinstance(there, list):
            settings[name] = values[: len(there)]
    if read_replicates(settings["replicates"]).extends(read_replicates(theirs["settings"]["replicates"])):
        settings["replicates"] = theirs["settings"]["replicates"]
    part = {**ours, "settings": settings}
    part |= {name: {key: value for key, value in ours[name].items() if key in theirs[name]} for name in ("gpus", "programs")}
    digests = _digests(ours)
    if all(digests.get(made_of, sha256) == sha256 for made_of, sha256 in _digests(theirs).items()):
        part["kernels"] = theirs["kernels"]
    return part


def _selection(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The selection that cuts a store's results to our plan, as Python; empty where our plan is no part of the store's."""
    cut = dict(theirs["settings"])
    chosen: dict[str, Any] = {}
    for axis, columns in theirs["axes"].items():
        values, there = ours["settings"].get(columns[0]), theirs["settings"][columns[0]]
        ours_listed = values if isinstance(values, list) else [values]
        if len(columns) == 1 and values != there and isinstance(there, list) and all(value in there for value in ours_listed):
            cut[columns[0]] = values
            chosen[axis] = decoded(values)
    few, many = ours["settings"]["replicates"], theirs["settings"]["replicates"]
    if few != many and read_replicates(many).extends(read_replicates(few)):
        cut["replicates"] = few
    digests = _digests(theirs)
    same = all(digests.get(made_of, sha256) == sha256 for made_of, sha256 in _digests(ours).items())
    part = {**theirs, "settings": cut, "tile_shape": ours["tile_shape"], "kernels": ours["kernels"] if same else []}
    part |= {name: {key: value for key, value in theirs[name].items() if key in ours[name]} for name in ("gpus", "programs")}
    part["axes"] = {axis: columns for axis, columns in theirs["axes"].items() if isinstance(cut[columns[0]], list)}
    if difference(ours, part):
        return ""
    replicates = f".isel(replicate=slice({few}))" if few != many and isinstance(few, int) else ""
    return (f".sel({chosen})" if chosen else "") + replicates


def _digests(record: Mapping[str, Any]) -> dict[frozenset[tuple[str, Any]], str]:
    """What kernels are made of -> the digest of their program."""
    return {frozenset(item for item in digest.items() if item[0] != "sha256"): digest["sha256"] for digest in record["kernels"]}

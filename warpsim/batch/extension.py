"""A plan and the plan of a store: the same, a part of it, or another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsim.batch.axes import Axis
from warpsim.batch.plan import Plan
from warpsim.batch.record import difference, encoded
from warpsim.batch.replicates import read_replicates
from warpsim.store.provenance import read_call
from warpsim.store.zarr_store import Store, StoreError


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
        raise StoreError("\n  ".join([f"{store.path}: holds another plan; it was left as it is", *shown]))
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


def _digests(record: Mapping[str, Any]) -> dict[frozenset[tuple[str, Any]], str]:
    """What kernels are made of -> the digest of their program."""
    return {frozenset(item for item in digest.items() if item[0] != "sha256"): digest["sha256"] for digest in record["kernels"]}

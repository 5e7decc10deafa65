"""Restores the metadata and the labels of a store from its inventory, or the inventory from them and the plan."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import zarr

from warpsim.results.schema import labels
from warpsim.store.inventory import ROOT, read_inventory, renew_inventory, restore_files
from warpsim.store.lease import changing_layout
from warpsim.store.place import Folder, Remote, StoreError, place_of
from warpsim.store.status import INVENTORY
from warpsim.store.verify import Damage, damaged_files
from warpsim.sweeps.plan import Plan


def restore(path: str | os.PathLike[str]) -> list[Damage]:
    """Writes the damaged files of a store again that do not belong to single tiles: metadata and labels.

    Returns:
        What was damaged.

    Raises:
        StoreError: the inventory is damaged as well, so that nothing tells what the store holds.
        BusyError: another process changes the layout for longer than a minute.
        LeaseLostError: another process has taken this one for dead.
    """
    place = place_of(path)
    if not place.exists() or not damaged_files(place):
        return []
    with changing_layout(place, alone=False) as require_lease:
        damages = damaged_files(place)
        files = read_inventory(place)
        require_lease()
        if files is not None:
            restore_files(place, files)
        elif any(damage.file == INVENTORY for damage in damages):
            _restore_metadata(place)
            _write_labels(place)
            renew_inventory(place)
        elif damages:
            _write_labels(place)
    return damages


def _restore_metadata(place: Folder | Remote) -> None:
    """Writes metadata of arrays and groups that cannot be read as the root has them, which holds a copy of each.

    Raises:
        StoreError: metadata can be read, but differ from the copy, so that nothing tells which of them are right.
    """
    try:
        copies = json.loads(place.read([ROOT])[0])["consolidated_metadata"]["metadata"]
        keys = {f"{name}/{ROOT}": {**copy} for name, copy in copies.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # the root cannot be read, which whoever opens it says
    for (key, copy), content in zip(keys.items(), place.read([*keys]), strict=True):
        copy.pop("consolidated_metadata", None)  # an empty part that only the copy of a group has
        found = _parsed(content)
        if found is None:
            place.write(key, json.dumps(copy, indent=2).encode())
        elif found != copy:
            reason = f"the inventory is damaged, and the file {key} differs from its copy in {ROOT}"
            raise StoreError(f"{place.path}: {reason}; one of them is damaged; sweep into a new store")


def _parsed(content: bytes) -> dict[str, Any] | None:
    """Returns the object in a JSON text; None if there is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _write_labels(place: Folder | Remote) -> None:
    """Writes the labels of a store as its plan has them."""
    try:
        group = zarr.open_group(place.root, mode="r+", zarr_format=3)
        plan = Plan.from_provenance(str(group.attrs["provenance"]))
    except Exception as error:  # Zarr raises exceptions of many types
        reason = f"the inventory and the root are damaged, or cannot be read ({type(error).__name__}: {error})"
        raise StoreError(f"{place.path}: {reason}; sweep into a new store") from None
    for name, value in plan.coordinates().items():
        values = value[1] if isinstance(value, tuple) else value
        array = group.get(name)
        if isinstance(array, zarr.Array) and array.shape == np.shape(values):
            array.with_config({"write_empty_chunks": True})[...] = labels(values)

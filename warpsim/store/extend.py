"""A store grows: more values at the end of its axes, more replicates, more operation classes. What is done is kept.

Chunks keep their shape, so that no chunk moves. Tiles that are done and that grow, at the end of an axis or in replicates, become
pending; a record in `tiles/kept` says how much of such a tile is there, so that only the rest of it is simulated. The
metadata of the root is written last: until then the store is as it was, but for these tiles.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from warpsim.results.provenance import history
from warpsim.results.schema import SWEEP_VARIABLES, labels
from warpsim.store.status import DONE, FAILED, KEPT, TILES, create_log
from warpsim.store.verify import has_chunks
from warpsim.store.zarr_store import Layout, Store, StoreError, open_store


def extend_store(store: Store, layout: Layout) -> Store:
    """Give a store a larger plan, while no sweep runs on it; the labels that it has stay where they are.

    Args:
        store: open for writing.
        layout: of the larger plan, with the axes and the tile shape of the store.

    Returns:
        The store, opened again.

    Raises:
        StoreError: the layout does not continue the store's; nothing was changed.
    """
    lengths = {name: len(layout.coordinates[name]) for name in store.coordinates}
    _check(store, layout)
    group = zarr.open_group(store.path, mode="r+", zarr_format=3, use_consolidated=False)
    if f"{TILES}/{KEPT}" not in group:
        create_log(group, store.grid, KEPT)
    _keep(store, layout, lengths, group[f"{TILES}/{KEPT}"])
    for declared in SWEEP_VARIABLES:
        _array(group, declared.name).resize(tuple(lengths[dim] for dim in (*store.grid.axes, *declared.dims)))
    for kind in (DONE, FAILED, KEPT):
        _array(group, f"{TILES}/{kind}").resize(layout.grid.counts)
    for name, value in layout.coordinates.items():
        dims, values = value if isinstance(value, tuple) else ((name,), value)
        if name in group and np.ndim(values) and set(dims) <= set(lengths):
            array = _array(group, name)
            array.resize(np.shape(values))
            array[...] = labels(values)
    added = layout.attrs["history"].splitlines()[-1].split(" ", 1)[1]
    group.attrs.update({**layout.attrs, "history": history(f"extended: {added}", store.attrs["history"])})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        zarr.consolidate_metadata(str(store.path), zarr_format=3)
    return open_store(store.path)


def kept_part(store: Store, index: int) -> Mapping[str, NDArray[Any]] | None:
    """What is there of a tile that was done before the store grew: every variable over that part; None if nothing is.

    The part is the first points of the tile along each axis, and of them the first replicates and operation classes.
    """
    if KEPT not in store.log.arrays:
        return None
    record = store.log.records(KEPT, [index]).get(index)
    if record is None:
        return None
    sizes: dict[str, int] = record["sizes"]
    region = store.grid.region(index)
    part = {axis: slice(where.start, where.start + sizes[axis]) for axis, where in region.items()}
    found = {}
    for declared in SWEEP_VARIABLES:
        own = [sizes[dim] for dim in declared.dims]
        if not has_chunks(store, index, declared.name, own):
            return None
        try:
            found[declared.name] = np.asarray(store.arrays[declared.name][(*part.values(), *map(slice, own))])
        except Exception:  # damaged, and a codec raises what it likes: the whole tile is simulated
            return None
    return found


def _keep(store: Store, layout: Layout, lengths: Mapping[str, int], kept: Any) -> None:
    """Make the tiles pending that grow, and say what of them is there."""
    own = {name: len(labels) for name, labels in store.coordinates.items() if name not in store.grid.axes}
    deeper = any(lengths[name] > length for name, length in own.items())
    for index in store.log.tiles(DONE):
        sizes = dict(zip(store.grid.axes, store.grid.tile_shape(index), strict=True))
        position = store.log.position(index)
        there = int(np.ravel_multi_index(position, layout.grid.counts)) if position else 0
        if deeper or tuple(sizes.values()) != layout.grid.tile_shape(there):
            kept[position] = json.dumps({"sizes": sizes | own})
            store.log.remove(DONE, index)


def _check(store: Store, layout: Layout) -> None:
    same = layout.grid.axes == store.grid.axes and layout.grid.shape == store.grid.shape
    for name, there in store.coordinates.items():
        here = labels(layout.coordinates[name])
        same = same and len(here) >= len(there) and here[: len(there)].tolist() == there.tolist()
    if not same:
        raise StoreError(f"{store.path}: the plan does not continue that of the store; it was left as it is")


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    found = group[name]
    assert isinstance(found, zarr.Array)
    return found

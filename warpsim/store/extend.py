"""Extends a store by values at the end of its axes, by replicates, and by operation classes, and keeps what is done.

Chunks keep their shape and their keys. A tile that is done becomes pending if it grows, at the end of an axis or by replicates; a
record in `tiles/kept` holds the size of its finished part, and a checksum of its values, so that only the rest is simulated.

The new metadata and labels are made in a temporary folder; writing the inventory (`warpsim.store.inventory`) then puts them in
force. Until then the store has its previous plan, except that these tiles are pending.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from warpsim.results.provenance import history
from warpsim.results.schema import SWEEP_VARIABLES, VALID, labels
from warpsim.store.create import consolidate
from warpsim.store.grid import Layout
from warpsim.store.inventory import folder_files, read_inventory, shared_keys, write_files
from warpsim.store.place import StoreError
from warpsim.store.status import (
    DONE,
    FAILED,
    KEPT,
    POINTS,
    SIZES,
    TILES,
    VALUES,
    create_log,
    has_points,
    has_values,
    mark_inventory,
)
from warpsim.store.verify import chunks_of, has_chunks
from warpsim.store.zarr_store import Store, array_of, open_store


def extend_store(store: Store, layout: Layout, require_lease: Callable[[], None]) -> Store:
    """Extends a store to a larger plan. Existing labels keep their indices. Hold the lease for the layout.

    Args:
        store: the store, open for writing.
        layout: layout of the larger plan, with the axes and the tile shape of the store.
        require_lease: raises a LeaseLostError if another process has taken the lease meanwhile.

    Returns:
        The store, opened again.

    Raises:
        StoreError: the layout does not extend that of the store; nothing was changed.
        LeaseLostError: the lease is gone; the store has its previous plan.
    """
    lengths = {name: len(layout.coordinates[name]) for name in store.coordinates}
    _check(store, layout)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder)
        _copy_files(store, draft)
        _change_files(store, layout, lengths, draft)
        _keep(store, layout, lengths)
        require_lease()
        _clear(store, layout)
        require_lease()
        write_files(store.place, folder_files(draft))
    return open_store(store.path)


def _copy_files(store: Store, draft: Path) -> None:
    """Copies the files that do not belong to single tiles into a folder, and adds what stores of warpsim 0.1 lack."""
    group = zarr.open_group(store.place.root, mode="r+", zarr_format=3, use_consolidated=False)
    if f"{TILES}/{KEPT}" not in group:
        create_log(group, store.grid, KEPT)
    files = read_inventory(store.place)
    if files is None:
        keys = [key for key in shared_keys(group) if store.place.exists(key)]
        files = dict(zip(keys, store.place.read(keys), strict=True))
    for key, content in files.items():
        (draft / key).parent.mkdir(parents=True, exist_ok=True)
        (draft / key).write_bytes(content)


def _change_files(store: Store, layout: Layout, lengths: Mapping[str, int], draft: Path) -> None:
    """Changes the metadata and the labels in a folder to those of the larger plan."""
    group = zarr.open_group(draft, mode="r+", zarr_format=3, use_consolidated=False)
    mark_inventory(group)
    for declared in SWEEP_VARIABLES:
        array_of(group, declared.name).resize(tuple(lengths[dim] for dim in (*store.grid.axes, *declared.dims)))
    for kind in (DONE, FAILED, KEPT):
        array_of(group, f"{TILES}/{kind}").resize(layout.grid.counts)
    for name, value in layout.coordinates.items():
        dims, values = value if isinstance(value, tuple) else ((name,), value)
        if name in group and np.ndim(values) and set(dims) <= set(lengths):
            _write_labels(group, name, labels(values))
    added = layout.attrs["history"].splitlines()[-1].split(" ", 1)[1]
    group.attrs.update({**layout.attrs, "history": history(f"extended: {added}", store.attrs["history"])})
    consolidate(draft)


def _write_labels(group: zarr.Group, name: str, values: NDArray[Any]) -> None:
    """Writes the labels of a coordinate. Whole numbers become floats where a new label is a fraction, or infinite."""
    array: Any = array_of(group, name).with_config({"write_empty_chunks": True})
    if values.dtype in (array.dtype, object):
        array.resize(values.shape)
        array[...] = values
        return
    group.create_array(
        name,
        data=values,
        chunks=array.chunks,
        compressors=array.compressors,
        dimension_names=array.metadata.dimension_names,
        attributes=array.attrs.asdict(),
        overwrite=True,
    )


def earlier_results(store: Store, index: int) -> Mapping[str, NDArray[Any]] | None:
    """Returns the results of a tile that was done before the store was extended; None if there are none.

    They are every variable over the first points of the tile along each axis, with the first replicates and operation classes.
    Where they are damaged, or not those that were recorded, the tile is simulated from the start.
    """
    record = store.log.records(KEPT, [index]).get(index)
    if record is None:
        return None
    sizes = record[SIZES]
    if not has_points(record, store.points_checksum(index, [sizes[axis] for axis in store.grid.axes])):
        return None
    region = store.grid.region(index)
    part = {axis: slice(where.start, where.start + sizes[axis]) for axis, where in region.items()}
    results = {}
    for declared in SWEEP_VARIABLES:
        own = [sizes[dim] for dim in declared.dims]
        if not has_chunks(store, index, declared.name, own):
            return None
        try:
            results[declared.name] = np.asarray(store.arrays[declared.name][(*part.values(), *map(slice, own))])
        except Exception:  # codecs raise exceptions of any type
            return None
    return results if has_values(record, results) else None


def _keep(store: Store, layout: Layout, lengths: Mapping[str, int]) -> None:
    """Makes the tiles pending that grow, and records the size of their finished parts."""
    group = zarr.open_group(store.place.root, mode="r+", zarr_format=3, use_consolidated=False)
    kept = replace(store.log, arrays={KEPT: array_of(group, f"{TILES}/{KEPT}")})
    own = {name: len(labels) for name, labels in store.coordinates.items() if name not in store.grid.axes}
    all_grow = any(lengths[name] > length for name, length in own.items())
    growing = [
        index
        for index in store.log.tiles(DONE)
        if all_grow or store.grid.tile_shape(index) != layout.grid.tile_shape(layout.grid.index(store.grid.position(index)))
    ]
    records = store.log.records(DONE, growing)
    for index in growing:
        record = records.get(index)
        if record is not None:  # what has a damaged record is simulated again from the start
            sizes = dict(zip(store.grid.axes, store.grid.tile_shape(index), strict=True))
            checksums = {entry: record[entry] for entry in (VALUES, POINTS) if entry in record}
            kept.write_record(KEPT, index, {SIZES: sizes | own, **checksums})
        store.log.remove(DONE, index)


def _clear(store: Store, layout: Layout) -> None:
    """Removes tiles that the store has not, but the larger plan has: files of another plan, which an old copy did not replace."""
    grid = layout.grid
    larger = replace(store, grid=grid, log=replace(store.log, grid=grid))
    for kind in store.log.arrays:
        for index in larger.log.tiles(kind):
            if all(i < count for i, count in zip(grid.position(index), store.grid.counts, strict=True)):
                continue
            larger.log.remove(kind, index)
            for declared in (VALID, *SWEEP_VARIABLES):
                own = [len(layout.coordinates[dim]) for dim in declared.dims]
                for key, _ in chunks_of(larger, index, declared.name, own):
                    store.place.remove(key)


def _check(store: Store, layout: Layout) -> None:
    same = layout.grid.axes == store.grid.axes and layout.grid.shape == store.grid.shape
    for name, old in store.coordinates.items():
        new = labels(layout.coordinates[name])
        same = same and len(new) >= len(old) and new[: len(old)].tolist() == old.tolist()
    if not same:
        raise StoreError(f"{store.path}: the plan does not extend that of the store; it was not changed")

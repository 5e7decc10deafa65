"""Writes the results of tiles, and their records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.core.sync import sync

from warpsim.results.schema import SWEEP_VARIABLES, VALID, Variable
from warpsim.store.lease import require_lease
from warpsim.store.status import DONE, FAILED, KEPT, POINTS, VALUES, checksum_of
from warpsim.store.zarr_store import Store


def write_tile(
    store: Store,
    index: int,
    arrays: Mapping[str, NDArray[Any]],
    coordinates: Mapping[str, Any],
    seconds: float = np.nan,
) -> None:
    """Writes the results of one tile, and then its record.

    Args:
        store: the store.
        index: index of the tile.
        arrays: every sweep variable over the points of this tile, of shape (*axes, *own dimensions).
        coordinates: labels of every dimension of the arrays.
        seconds: time that the tile took.

    Raises:
        ValueError: names, types, shapes or labels are not those of the tile; nothing was written.
        LeaseLostError: the lease of this sweep has gone meanwhile; the tile has no record.
    """
    region = store.grid.region(index)
    _check(store, region, arrays, coordinates)
    sync(_write_chunks(store, region, arrays))
    require_lease(store.place, store.lease)  # another process may have extended the store, so that the tile has more points now
    try:
        checksums = {VALUES: checksum_of(arrays), POINTS: store.points_checksum(index)}
        store.log.write(DONE, index, seconds, checksums=checksums)
    except BaseException:  # a full disk: without a record, the tile is not to look like one whose record was lost
        with suppress(Exception):
            if not (is_done(store, index) or index in store.log.kept_sizes([index])):  # what another has finished needs `valid`
                _remove_valid(store, index)
        raise
    store.log.remove(KEPT, index)


def _remove_valid(store: Store, index: int) -> None:
    metadata: Any = store.arrays[VALID.name].metadata
    store.place.remove(f"{VALID.name}/{metadata.encode_chunk_key(store.grid.position(index))}")


async def _write_chunks(store: Store, region: Mapping[str, slice], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes the chunks of a tile: all together, which takes two thirds of the time of one by one, but `valid` after the others.

    So a writer that is killed leaves no point that is valid and lacks variables.
    """

    async def write(declared: Variable) -> None:
        where = tuple(region.get(dim, slice(None)) for dim in (*store.grid.axes, *declared.dims))
        await store.arrays[declared.name].async_array.setitem(where, arrays[declared.name])

    others = [declared for declared in SWEEP_VARIABLES if declared is not VALID]
    for outcome in await asyncio.gather(*map(write, others), return_exceptions=True):
        if outcome is not None:
            raise outcome
    await write(VALID)


def mark_failed(store: Store, index: int, message: str, seconds: float = np.nan) -> None:
    """Marks a tile as failed, with the reason. It remains one of the pending tiles."""
    store.log.write(FAILED, index, seconds, message)


def is_done(store: Store, index: int) -> bool:
    """Whether a tile is done."""
    return store.log.has(DONE, index)


def _check(
    store: Store, region: Mapping[str, slice], arrays: Mapping[str, NDArray[Any]], coordinates: Mapping[str, Any]
) -> None:
    """Checks the results of a tile against the store; Zarr itself would broadcast and cast them silently."""
    expected = [declared.name for declared in SWEEP_VARIABLES]
    if sorted(arrays) != sorted(expected):
        raise ValueError(f"arrays: must hold the variables {', '.join(expected)}; got {', '.join(arrays)}")
    lengths = {dim: len(labels[region.get(dim, slice(None))]) for dim, labels in store.coordinates.items()}
    for declared in SWEEP_VARIABLES:
        array, dtype = arrays[declared.name], store.arrays[declared.name].dtype
        shape = tuple(lengths[dim] for dim in (*store.grid.axes, *declared.dims))
        if array.shape != shape:
            raise ValueError(f"arrays[{declared.name!r}].shape = {array.shape}: must be {shape}")
        if array.dtype != dtype:
            raise ValueError(f"arrays[{declared.name!r}].dtype = {array.dtype}: must be {dtype}")
    for dim, labels in store.coordinates.items():
        wanted = labels[region.get(dim, slice(None))].tolist()
        given = np.asarray(coordinates[dim]).tolist() if dim in coordinates else None
        if given != wanted:
            raise ValueError(f"coordinates[{dim!r}] = {given}: must be {wanted}")

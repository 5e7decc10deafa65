"""A sweep's results in a Zarr store, written tile by tile.

The store is a Zarr v3 group that xarray opens by itself. A tile is one chunk of every data variable, so that
tiles never share a chunk and may be written by several threads, processes or machines at once. Presence of a
chunk says nothing (a chunk that is all NaN is not stored): the array `tiles/status` does, one chunk per tile,
written after everything else of the tile.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.core.metadata import ArrayV3Metadata

from warpsim.store.grid import TileGrid
from warpsim.store.schema import SCHEMA_VERSION, SWEEP_VARIABLES, VALID, build_dataset

_VERSION = "warpsim_schema"
_TILES = "tiles"
_LOG = (
    ("status", "u1", 0),
    ("seconds", "f8", np.nan),
    ("finished", "f8", np.nan),
    ("host", "str", ""),
    ("message", "str", ""),
)
"""Arrays of the group `tiles`, one cell per tile: name, type, what a cell holds before the tile has run."""


class StoreError(ValueError):
    """The path cannot be used as the store of this sweep; nothing was changed."""


class Status(IntEnum):
    """State of a tile."""

    PENDING = 0
    DONE = 1
    FAILED = 2


@dataclass(frozen=True)
class Layout:
    """What a store is made from.

    Attributes:
        grid: axes and tiles.
        coordinates: name -> labels of that dimension, or (dimensions, labels), or a scalar.
        attrs: attributes of the Dataset, complete.
    """

    grid: TileGrid
    coordinates: Mapping[str, Any]
    attrs: Mapping[str, str]


@dataclass(frozen=True)
class Store:
    """An open store.

    Attributes:
        path: where it is.
        grid: axes and tiles.
        coordinates: labels of every dimension.
        attrs: attributes of the Dataset.
        arrays: the data variables, by name.
        log: the arrays of the tiles, by name, one cell per tile.
    """

    path: Path
    grid: TileGrid
    coordinates: Mapping[str, np.ndarray[Any, Any]]
    attrs: Mapping[str, str]
    arrays: Mapping[str, zarr.Array[Any]]
    log: Mapping[str, zarr.Array[Any]]


def create_store(path: str | os.PathLike[str], layout: Layout) -> Store:
    """Make an empty store: attributes, coordinates, and the arrays without any chunk.

    The store appears at `path` complete or not at all, so that two jobs may start at once: the first makes
    it.

    Raises:
        StoreError: something is there already that is not a store of warpsim.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        _write_template(draft, layout)
        if not os.path.lexists(target):
            try:
                draft.rename(target)
            except OSError:
                if not target.exists():
                    raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return open_store(target)


def open_store(path: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """Open an existing store.

    Raises:
        StoreError: there is none at this path, or it has another schema version.
    """
    place = Path(path)
    if not place.exists():
        raise StoreError(f"{place}: no such store")
    try:
        group = zarr.open_group(place, mode="r" if read_only else "r+", zarr_format=3, use_consolidated=False)
        version = group.attrs.get(_VERSION)
    except (OSError, ValueError, zarr.errors.BaseZarrError) as error:
        raise StoreError(
            f"{place}: exists, but is not a warpsim store; it was left as it is ({error})"
        ) from None
    if version is None:
        raise StoreError(
            f"{place}: exists, but is not a warpsim store; it was left as it is (no attribute {_VERSION})"
        )
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{place}: has schema version {version}; this warpsim reads and writes version {SCHEMA_VERSION}"
        )
    arrays = {declared.name: _array(group, declared.name) for declared in SWEEP_VARIABLES}
    valid = arrays[VALID.name]
    grid = TileGrid(_dims(valid), valid.shape, valid.chunks)
    for declared in SWEEP_VARIABLES:
        array = arrays[declared.name]
        chunks = (
            *grid.shape,
            *array.shape[len(grid.axes) :],
        )  # a tile is a whole chunk, or writes would collide
        if _dims(array) != (*grid.axes, *declared.dims) or array.chunks != chunks:
            raise StoreError(f"{place}: {declared.name} has chunks {array.chunks}, the tiles {chunks}")
    coordinates = {name: np.asarray(_array(group, name)[...]) for name in _dimensions(grid)}
    attrs = {key: str(group.attrs[key]) for key in ("source", "history", "provenance")}
    log = {name: _array(group, f"{_TILES}/{name}") for name, _, _ in _LOG}
    return Store(place, grid, coordinates, attrs, arrays, log)


def open_results(path: str | os.PathLike[str]) -> xr.Dataset:
    """Open the results of a sweep lazily; values are read when they are needed.

    Points that cannot exist, and those of tiles that have not been done, are NaN, and `valid` is False there.

    Raises:
        StoreError: there is no warpsim store at this path.
    """
    store = open_store(path, read_only=True)
    dataset: xr.Dataset = xr.open_zarr(store.path, consolidated=False, chunks=None)
    return dataset[[declared.name for declared in SWEEP_VARIABLES]]


def write_tile(store: Store, index: int, results: xr.Dataset, seconds: float = np.nan) -> None:
    """Write the results of one tile, then mark it as done.

    Args:
        store: where to.
        index: the tile.
        results: every sweep variable, over the points of this tile, with coordinates.
        seconds: how long the tile took.

    Raises:
        ValueError: variables, dimensions, types, shape or coordinates are not those of the tile; nothing was
            written.
    """
    region = store.grid.region(index)
    _check(store, region, results)
    for declared in SWEEP_VARIABLES:
        where = tuple(region.get(dim, slice(None)) for dim in (*store.grid.axes, *declared.dims))
        store.arrays[declared.name][where] = results[declared.name].values
    _log(store, index, Status.DONE, seconds, "")


def mark_failed(store: Store, index: int, message: str, seconds: float = np.nan) -> None:
    """Mark a tile as failed, with the reason. It stays among the pending tiles."""
    _log(store, index, Status.FAILED, seconds, message)


def pending_tiles(store: Store) -> list[int]:
    """Tiles that are not done, in order: those never run or interrupted, and those that failed."""
    return [int(i) for i in np.flatnonzero(np.asarray(store.log["status"][...]) != Status.DONE)]


def tile_log(store: Store) -> dict[str, np.ndarray[Any, Any]]:
    """What is known of every tile: `status`, `seconds`, `finished` (UTC, s since 1970), `host`, `message`."""
    return {name: np.asarray(array[...]) for name, array in store.log.items()}


@dataclass(frozen=True)
class TileCounts:
    """How far a store is.

    Attributes:
        done: tiles that are done.
        failures: tile -> why it failed.
        pending: tiles that have not run, or were interrupted.
        seconds: mean time of a tile that is done; NaN before the first.
    """

    done: int
    failures: Mapping[int, str]
    pending: int
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Time that one worker needs for the tiles that are not done; NaN before the first is."""
        return self.seconds * (self.pending + len(self.failures))


def tile_counts(store: Store) -> TileCounts:
    """Count the tiles of a store by state."""
    log = tile_log(store)
    done = log["status"] == Status.DONE
    failures = {int(i): str(log["message"][i]) for i in np.flatnonzero(log["status"] == Status.FAILED)}
    seconds = float(log["seconds"][done].mean()) if done.any() else np.nan
    return TileCounts(int(done.sum()), failures, int((log["status"] == Status.PENDING).sum()), seconds)


def _write_template(path: Path, layout: Layout) -> None:
    grid = layout.grid
    lengths = {name: len(value) for name, value in layout.coordinates.items() if name in _dimensions(grid)}
    empty = build_dataset(
        {}, layout.coordinates, dims=_dimensions(grid), attrs={**layout.attrs, _VERSION: SCHEMA_VERSION}
    )
    empty.to_zarr(path, mode="a", zarr_format=3, consolidated=False)
    group = zarr.open_group(path, mode="r+", zarr_format=3, use_consolidated=False)
    for declared in SWEEP_VARIABLES:
        dims = (*grid.axes, *declared.dims)
        group.create_array(
            declared.name,
            shape=tuple(lengths[dim] for dim in dims),
            chunks=(*grid.shape, *(lengths[dim] for dim in declared.dims)),
            dtype=declared.dtype,
            fill_value=declared.fill,
            dimension_names=dims,
            attributes=declared.attrs,
        )
    tiles = group.create_group(_TILES)
    for name, dtype, fill in _LOG:
        tiles.create_array(
            name, shape=(len(grid),), chunks=(1,), dtype=dtype, fill_value=fill, dimension_names=("tile",)
        )


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    found = group[name]
    assert isinstance(found, zarr.Array)
    return found


def _dims(array: zarr.Array[Any]) -> tuple[str, ...]:
    assert isinstance(array.metadata, ArrayV3Metadata)
    return tuple(str(name) for name in array.metadata.dimension_names or ())


def _dimensions(grid: TileGrid) -> tuple[str, ...]:
    own = dict.fromkeys(dim for declared in SWEEP_VARIABLES for dim in declared.dims)
    return (*grid.axes, *own)


def _check(store: Store, region: Mapping[str, slice], results: xr.Dataset) -> None:
    """Check a tile against the store, since Zarr checks nothing."""
    expected = [declared.name for declared in SWEEP_VARIABLES]
    if sorted(map(str, results.data_vars)) != sorted(expected):
        found = ", ".join(map(str, results.data_vars))
        raise ValueError(f"results: must hold the variables {', '.join(expected)}; got {found}")
    for declared in SWEEP_VARIABLES:
        array = store.arrays[declared.name]
        data = results[declared.name]
        dims = (*store.grid.axes, *declared.dims)
        if data.dims != dims:
            raise ValueError(f"results[{declared.name!r}].dims = {data.dims}: must be {dims}")
        if data.dtype != array.dtype:
            raise ValueError(f"results[{declared.name!r}].dtype = {data.dtype}: must be {array.dtype}")
    for dim, labels in store.coordinates.items():
        wanted = labels[region.get(dim, slice(None))].tolist()
        there = results[dim].values.tolist() if dim in results.coords else None
        if there != wanted:
            raise ValueError(f"results[{dim!r}] = {there}: must be {wanted}")


def _log(store: Store, index: int, status: Status, seconds: float, message: str) -> None:
    entry: dict[str, Any] = {
        "seconds": seconds,
        "finished": time.time(),
        "host": socket.gethostname(),
        "message": message,
        "status": status,
    }
    for name, value in entry.items():  # status comes last: what it promises is there by then
        store.log[name][index] = value

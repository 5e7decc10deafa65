"""The results of a sweep in a Zarr store.

The store is a Zarr v3 group that xarray can open without warpsim. Its metadata is consolidated, so that opening takes one read.
A tile is one chunk of every data variable. Tiles therefore never share a chunk, and several threads, processes or machines can
write at the same time. The record of a finished tile (`warpsim.store.status`) is written after its data. Every chunk of a
finished tile exists, even if it is all NaN, and has a checksum, so that `warpsim.store.verify` can find damage.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.core.metadata import ArrayV3Metadata

import warpsim.results.accessor  # noqa: F401  # registers `ds.warpsim`
from warpsim.arguments import shortened
from warpsim.results.provenance import Provenance
from warpsim.results.schema import READABLE_VERSIONS, SCHEMA_VERSION, SWEEP_VARIABLES, VALID
from warpsim.store.grid import MAX_POINTS, TileGrid
from warpsim.store.inventory import wrong_files
from warpsim.store.lease import LAYOUT
from warpsim.store.place import FULL, Folder, Remote, StoreError, place_of
from warpsim.store.reading import CheckedChunks, damage_text
from warpsim.store.status import DONE, FAILED, KEPT, ORIGIN, TILES, Status, TileLog, tile_status

VERSION = "warpsim_schema"
"""Attribute of the root with the version of the schema."""

_ATTEMPTS = 5
"""Times that a store is opened which others extend meanwhile, before its labels count as damaged."""

_MENDED = r"(?s).*The stored chunk shape .* is invalid"
"""Begins what Zarr 3.4 says where it takes a length of 0 for 1 in the metadata of an array. Earlier versions refuse that."""

MAX_CHUNK = 10**8
"""Values in a chunk, at most, so that a damaged store does not fill the memory."""


@dataclass(frozen=True)
class Store:
    """An open store.

    Attributes:
        place: its place.
        grid: axes and tiles.
        coordinates: labels of every dimension.
        attrs: attributes of the Dataset.
        arrays: the data variables, by name.
        log: the records of the tiles.
        origin: digest of the plan with which the store was created; empty if the store has none.
        lease: key of the lease under which this process, or the one that sent it a tile, writes tiles (`warpsim.store.lease`).
    """

    place: Folder | Remote
    grid: TileGrid
    coordinates: Mapping[str, np.ndarray[Any, Any]]
    attrs: Mapping[str, str]
    arrays: Mapping[str, zarr.Array[Any]]
    log: TileLog
    origin: str = ""
    lease: str | None = None

    @property
    def path(self) -> Path | str:
        """The folder, or the URL."""
        return self.place.path

    def points_checksum(self, index: int, shape: Sequence[int] | None = None) -> int:
        """Returns a checksum of what the points of a tile are: the origin of the store, and their labels.

        Args:
            index: index of the tile.
            shape: how many of its points along each axis, from the first on; None: all.
        """
        sizes = self.grid.tile_shape(index) if shape is None else shape
        first = (where.start for where in self.grid.region(index).values())
        parts = zip(self.grid.axes, first, sizes, strict=True)
        labels = [[axis, *map(_plain, self.coordinates[axis][start : start + size])] for axis, start, size in parts]
        return zlib.crc32(json.dumps([self.origin, labels]).encode())


def _plain(label: Any) -> str | float:
    """Returns a label as it is in an array of integers and of floats, which an extension may make of the former."""
    return label if isinstance(label, str) else float(label)


def open_store(path: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """Opens an existing store.

    Raises:
        StoreError: there is no warpsim store at this path, it has another schema version, or its metadata or labels are
            damaged; the message names the file.
    """
    place = place_of(path)
    if not place.exists():
        raise StoreError(f"{place.path}: no such store")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=_MENDED)
        return _open(place, read_only=read_only)


def _open(place: Folder | Remote, *, read_only: bool) -> Store:
    try:
        group = zarr.open_group(place.root, mode="r" if read_only else "r+", zarr_format=3)
        version, source = group.attrs.get(VERSION), group.attrs.get("source")
    except Exception as error:  # Zarr raises exceptions of many types where there is something else, or where it is damaged
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        _check_files(place)
        raise StoreError(
            f"{place.path}: exists, but is not a warpsim store; it was not changed ({shortened(error)})"
        ) from None
    if version is None:
        _check_files(place)
    _check_version(place.path, version, source, read_only=read_only)
    _check_files(place)
    try:
        return _opened(place, group)
    except StoreError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {shortened(error)}"
        raise StoreError(f"{place.path}: its metadata or labels cannot be read ({reason})") from None


def _opened(place: Folder | Remote, group: zarr.Group) -> Store:
    version = group.attrs.get(VERSION)
    held = [declared for declared in SWEEP_VARIABLES if version == SCHEMA_VERSION or declared.name in group]
    arrays = {declared.name: array_of(group, declared.name).with_config({"write_empty_chunks": True}) for declared in held}
    valid = arrays[VALID.name]
    grid = TileGrid(_dims(valid), valid.shape, valid.chunks)
    if len(grid.axes) != len(grid.sizes) or grid.points > MAX_POINTS:
        raise StoreError(f"{place.path}: {VALID.name} has shape {valid.shape}: must be up to {MAX_POINTS} points on named axes")
    labelled = {name: array_of(group, name) for name in dimensions_of(grid)}
    lengths = dict(zip(grid.axes, grid.sizes, strict=True))
    for name, array in labelled.items():
        length = array.shape[0] if len(array.shape) == 1 else -1
        if not 0 <= length == lengths.setdefault(name, length) <= MAX_POINTS or array.chunks[0] > MAX_POINTS:
            raise StoreError(f"{place.path}: {name} has shape {array.shape}: must be the labels of {lengths[name]} values")
    for declared in held:
        array = arrays[declared.name]
        chunks = array.chunks[: len(grid.axes)]  # tiles that share a chunk would overwrite each other
        if _dims(array) != (*grid.axes, *declared.dims) or chunks != grid.shape:
            raise StoreError(f"{place.path}: {declared.name} has chunks {array.chunks}, the tiles {grid.shape}")
        shape = tuple(lengths[dim] for dim in (*grid.axes, *declared.dims))
        if array.shape != shape or array.dtype != declared.dtype or not 1 <= math.prod(array.chunks) <= MAX_CHUNK:
            raise StoreError(
                f"{place.path}: {declared.name} has shape {array.shape}, chunks {array.chunks} and type {array.dtype}: must have "
                f"shape {shape}, chunks of 1 to {MAX_CHUNK} values, and type {declared.dtype}"
            )
    coordinates = {name: np.asarray(array[...]) for name, array in labelled.items()}
    attrs = {key: str(group.attrs[key]) for key in ("source", "history", "provenance")}
    kinds = (DONE, FAILED, *([KEPT] if f"{TILES}/{KEPT}" in group else []))
    log = TileLog(place, grid, {kind: array_of(group, f"{TILES}/{kind}") for kind in kinds})
    return Store(place, grid, coordinates, attrs, arrays, log, str(group[TILES].attrs.get(ORIGIN, "")))


def _check_files(place: Folder | Remote) -> None:
    """Raises a StoreError if a file that does not belong to a single tile is damaged. A change of the layout may be going on."""
    for _ in range(50):
        changing = place.exists(LAYOUT)
        wrong = list(wrong_files(place))
        if not wrong or not (changing or place.exists(LAYOUT)):
            break
        time.sleep(0.1)
    if wrong:
        key, what = wrong[0]
        more = f" (one of {len(wrong)} such files)" if len(wrong) > 1 else ""
        raise StoreError(damage_text(place.path, key, f"{what}{more}"))


def _check_version(path: Path | str, version: Any, source: Any, *, read_only: bool) -> None:
    if version is None:
        raise StoreError(f"{path}: exists, but is not a warpsim store; it was not changed (no attribute {VERSION})")
    if version != SCHEMA_VERSION and not (read_only and version in READABLE_VERSIONS):
        older = isinstance(version, int) and version < SCHEMA_VERSION
        raise StoreError(
            f"{path}: has schema version {version}, written by {source}; this version of warpsim reads and writes schema version "
            f"{SCHEMA_VERSION}. {'Open it with that version, or repeat the sweep' if older else 'Use a newer version of warpsim'}"
        )


def open_results(path: str | os.PathLike[str]) -> xr.Dataset:
    """Opens the results of a sweep lazily; values are read when they are needed.

    Points that a chip cannot hold, and points of unfinished tiles, are NaN, and their `valid` is False. A damaged or missing
    chunk of a tile that is done is a StoreError when it is read.

    Args:
        path: a folder, or a URL that fsspec supports, such as s3://bucket/name.zarr.

    Raises:
        StoreError: there is no warpsim store at this path.
    """
    for _ in range(_ATTEMPTS):
        store = open_store(path, read_only=True)
        try:
            dataset: xr.Dataset = xr.open_zarr(CheckedChunks(store.arrays[VALID.name].store, store), chunks=None)
        except Exception as error:  # Zarr and xarray raise exceptions of many types
            reason = f"{type(error).__name__}: {shortened(error)}"
            raise StoreError(f"{store.path}: its metadata or labels cannot be read ({reason})") from None
        if all(dataset.sizes[dim] == len(labels) for dim, labels in store.coordinates.items()):
            break  # otherwise another process has extended the store meanwhile
    else:
        raise StoreError(f"{store.path}: its labels do not fit its arrays; check it with `warpsim verify`")
    dataset.attrs["provenance"] = Provenance(dataset.attrs.get("provenance", ""))
    del dataset.attrs[VERSION]  # what is saved of it is no store
    opened = dataset[list(store.arrays)]
    opened.encoding["source"] = str(store.path)  # as xarray does where it opens a path
    return opened


def pending_tiles(store: Store) -> list[int]:
    """Returns the tiles that are not done, in ascending order, including those that failed."""
    return [int(i) for i in np.flatnonzero(tile_status(store.log) != Status.DONE)]


def array_of(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """Returns an array of a group."""
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


def _dims(array: zarr.Array[Any]) -> tuple[str, ...]:
    assert isinstance(array.metadata, ArrayV3Metadata)
    return tuple(str(name) for name in array.metadata.dimension_names or ())


def dimensions_of(grid: TileGrid) -> tuple[str, ...]:
    """Returns the dimensions of a store: its axes, and those of its variables."""
    own = dict.fromkeys(dim for declared in SWEEP_VARIABLES for dim in declared.dims)
    return (*grid.axes, *own)

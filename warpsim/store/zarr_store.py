"""The results of a sweep in a Zarr store, written tile by tile.

The store is a Zarr v3 group that xarray can open without warpsim. Its metadata is consolidated, so that opening takes one read.
A tile is one chunk of every data variable. Tiles therefore never share a chunk, and several threads, processes or machines can
write at the same time. The record of a finished tile (`warpsim.store.status`) is written after its data. Every chunk of a
finished tile exists, even if it is all NaN, and has a checksum, so that `warpsim.store.verify` can find damage.

Chunks are compressed by zstd without shuffling. A tile of 64 points with 8 replicates (205 kB) is compressed to 30 kB; with
shuffled bytes to 37 kB, at level 9 to 28.5 kB, in about the same time (`make bench` measures it; see docs/clusters.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

import warpsim.results.accessor  # noqa: F401  # registers `ds.warpsim`
from warpsim.arguments import shortened
from warpsim.results.provenance import Provenance, read_call
from warpsim.results.schema import READABLE_VERSIONS, SCHEMA_VERSION, SWEEP_VARIABLES, VALID, Variable, build_dataset
from warpsim.store.grid import Layout, TileGrid
from warpsim.store.inventory import ROOT, encoded, folder_files, wrong_files
from warpsim.store.lease import LAYOUT, require_lease
from warpsim.store.leftovers import draft_of
from warpsim.store.place import FULL, Folder, Remote, place_of
from warpsim.store.place import StoreError as StoreError
from warpsim.store.reading import CheckedChunks, damage_text
from warpsim.store.status import DONE, FAILED, INVENTORY, KEPT, TILES, Status, TileLog, create_log, mark_inventory, tile_status

_VERSION = "warpsim_schema"
_CLAIM = f"{TILES}/{DONE}/claim"
"""Key in an object store with the digest of the plan whose store is being created; written before anything else."""

COMPRESSORS = (ZstdCodec(level=3), Crc32cCodec())
"""Codecs of the chunks. The checksum comes last and covers the stored bytes."""


MAX_POINTS, MAX_CHUNK = 10**8, 10**8
"""Limits on the points of a store, and on the values in a chunk, so that a damaged store does not fill the memory."""


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
        lease: key of the lease under which this process, or the one that sent it a tile, writes tiles (`warpsim.store.lease`).
    """

    place: Folder | Remote
    grid: TileGrid
    coordinates: Mapping[str, np.ndarray[Any, Any]]
    attrs: Mapping[str, str]
    arrays: Mapping[str, zarr.Array[Any]]
    log: TileLog
    lease: str | None = None

    @property
    def path(self) -> Path | str:
        """The folder, or the URL."""
        return self.place.path


def create_store(path: str | os.PathLike[str], layout: Layout) -> Store:
    """Creates an empty store with attributes, coordinates, and arrays without chunks, or opens the existing one.

    The store appears at `path` completely or not at all, so that two jobs may start at the same time: one creates it, the other
    opens it. An object store cannot move a folder; there the root is written last, two jobs with the same plan write the same
    files, and a job with another plan is refused.

    Raises:
        StoreError: something else than a warpsim store exists at the path, or the store cannot be created.
    """
    place = place_of(path)
    if isinstance(place, Folder) and place.exists():
        return open_store(path)
    if isinstance(place, Remote):
        _create_remote(place, layout)
    else:
        _create_folder(place.path, layout)
    return open_store(path)


def _create_folder(target: Path, layout: Layout) -> None:
    with ExitStack() as stack:
        try:
            draft = stack.enter_context(draft_of(target)) / "store"
        except OSError as error:
            if error.errno in FULL:
                raise
            raise StoreError(f"{target}: no store can be created there: {error.strerror}") from None
        _write_template(draft, layout)
        if not os.path.lexists(target):
            try:
                draft.rename(target)
            except OSError:
                if not target.exists():
                    raise


def _create_remote(place: Remote, layout: Layout) -> None:
    if place.exists() and not place.exists(_CLAIM):
        return  # a store or something else, which opening it will tell
    call = read_call(layout.attrs["provenance"], "sweep")
    digest = hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()
    claim = place.claim(_CLAIM, f"{digest}\n{layout.attrs['history']}".encode()).decode()
    claimed, _, history = claim.partition("\n")
    if claimed != digest:
        if place.exists(ROOT):
            return
        raise StoreError(f"{place.path}: the store of another plan is being created here; it was not changed")
    if not place.exists(ROOT):
        # The history, which holds the time, is that of the first job, so that all write the same files
        layout = replace(layout, attrs={**layout.attrs, "history": history or layout.attrs["history"]})
        with tempfile.TemporaryDirectory() as folder:
            _write_template(Path(folder) / "draft", layout)
            place.upload(Path(folder) / "draft", last=ROOT)


def open_store(path: str | os.PathLike[str], *, read_only: bool = False) -> Store:
    """Opens an existing store.

    Raises:
        StoreError: there is no warpsim store at this path, it has another schema version, or its metadata or labels are
            damaged; the message names the file.
    """
    place = place_of(path)
    if not place.exists():
        raise StoreError(f"{place.path}: no such store")
    try:
        group = zarr.open_group(place.path, mode="r" if read_only else "r+", zarr_format=3)
        version, source = group.attrs.get(_VERSION), group.attrs.get("source")
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
    version = group.attrs.get(_VERSION)
    held = [declared for declared in SWEEP_VARIABLES if version == SCHEMA_VERSION or declared.name in group]
    arrays = {declared.name: array_of(group, declared.name).with_config({"write_empty_chunks": True}) for declared in held}
    valid = arrays[VALID.name]
    grid = TileGrid(_dims(valid), valid.shape, valid.chunks)
    if len(grid.axes) != len(grid.sizes) or grid.points > MAX_POINTS:
        raise StoreError(f"{place.path}: {VALID.name} has shape {valid.shape}: must be up to {MAX_POINTS} points on named axes")
    labelled = {name: array_of(group, name) for name in _dimensions(grid)}
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
    return Store(place, grid, coordinates, attrs, arrays, log)


def _check_files(place: Folder | Remote) -> None:
    """Raises a StoreError if a file that does not belong to a single tile is damaged. A change of the layout may be going on."""
    for _ in range(50):
        wrong = list(wrong_files(place))
        if not (wrong and place.exists(LAYOUT)):
            break
        time.sleep(0.1)
    if wrong:
        key, what = wrong[0]
        more = f" (one of {len(wrong)} such files)" if len(wrong) > 1 else ""
        raise StoreError(damage_text(place.path, key, f"{what}{more}"))


def _check_version(path: Path | str, version: Any, source: Any, *, read_only: bool) -> None:
    if version is None:
        raise StoreError(f"{path}: exists, but is not a warpsim store; it was not changed (no attribute {_VERSION})")
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
    store = open_store(path, read_only=True)
    try:
        dataset: xr.Dataset = xr.open_zarr(CheckedChunks(store.arrays[VALID.name].store, store), chunks=None)
    except Exception as error:  # Zarr and xarray raise exceptions of many types
        reason = f"{type(error).__name__}: {shortened(error)}"
        raise StoreError(f"{store.path}: its metadata or labels cannot be read ({reason})") from None
    dataset.attrs["provenance"] = Provenance(dataset.attrs.get("provenance", ""))
    del dataset.attrs[_VERSION]  # what is saved of it is no store
    opened = dataset[list(store.arrays)]
    opened.encoding["source"] = str(store.path)  # as xarray does where it opens a path
    return opened


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
        store.log.write(DONE, index, seconds, arrays=arrays)
    except BaseException:  # a full disk: without a record, the tile is not to look like one whose record was lost
        with suppress(Exception):
            if index not in store.log.kept_sizes([index]):  # the finished part of a tile that grew needs `valid`
                _remove_valid(store, index)
        raise
    if KEPT in store.log.arrays:
        store.log.remove(KEPT, index)


def _remove_valid(store: Store, index: int) -> None:
    metadata: Any = store.arrays[VALID.name].metadata
    store.place.remove(f"{VALID.name}/{metadata.encode_chunk_key(store.log.position(index))}")


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
    return store.place.exists(store.log.key(DONE, index))


def pending_tiles(store: Store) -> list[int]:
    """Returns the tiles that are not done, in ascending order, including those that failed."""
    return [int(i) for i in np.flatnonzero(tile_status(store.log) != Status.DONE)]


def _write_template(path: Path, layout: Layout) -> None:
    grid = layout.grid
    lengths = {name: len(value) for name, value in layout.coordinates.items() if name in _dimensions(grid)}
    empty = build_dataset(
        {}, layout.coordinates, dims=_dimensions(grid), attrs={**layout.attrs, _VERSION: SCHEMA_VERSION}
    )
    coded = {str(name): {"compressors": COMPRESSORS} for name in empty.coords}
    empty.to_zarr(path, mode="a", zarr_format=3, consolidated=False, encoding=coded, write_empty_chunks=True)
    group = zarr.open_group(path, mode="r+", zarr_format=3, use_consolidated=False)
    for declared in SWEEP_VARIABLES:
        dims = (*grid.axes, *declared.dims)
        group.create_array(
            declared.name,
            shape=tuple(lengths[dim] for dim in dims),
            chunks=(*grid.shape, *(lengths[dim] for dim in declared.dims)),
            dtype=declared.dtype,
            compressors=COMPRESSORS,
            fill_value=declared.fill,
            dimension_names=dims,
            attributes=declared.attrs,
        )
    create_log(group, grid)
    mark_inventory(group)
    consolidate(path)
    (path / INVENTORY).write_bytes(encoded(folder_files(path)))


def consolidate(folder: Path) -> None:
    """Copies the metadata of all arrays in a folder into that of its root."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        zarr.consolidate_metadata(folder, zarr_format=3)


def array_of(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """Returns an array of a group."""
    array = group[name]
    assert isinstance(array, zarr.Array)
    return array


def _dims(array: zarr.Array[Any]) -> tuple[str, ...]:
    assert isinstance(array.metadata, ArrayV3Metadata)
    return tuple(str(name) for name in array.metadata.dimension_names or ())


def _dimensions(grid: TileGrid) -> tuple[str, ...]:
    own = dict.fromkeys(dim for declared in SWEEP_VARIABLES for dim in declared.dims)
    return (*grid.axes, *own)


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

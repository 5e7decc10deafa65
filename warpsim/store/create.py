"""Creates the store of a sweep, without results: attributes, labels, and arrays without chunks."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from warpsim.arguments import shortened
from warpsim.results.provenance import read_call
from warpsim.results.schema import SCHEMA_VERSION, SWEEP_VARIABLES, build_dataset
from warpsim.store.grid import Layout
from warpsim.store.inventory import ROOT, encoded, folder_files
from warpsim.store.leftovers import draft_of
from warpsim.store.place import FULL, Folder, Remote, StoreError, place_of
from warpsim.store.status import DONE, INVENTORY, ORIGIN, TILES, create_log, mark_inventory
from warpsim.store.zarr_store import VERSION, Store, dimensions_of, open_store

_CLAIM = f"{TILES}/{DONE}/claim"
"""Key in an object store with the digest of the plan whose store is being created; written before anything else."""

_AXIS, _LONGEST_AXIS = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*"), 200
"""Names of axes, which are those of folders of a store, and their length in bytes at most."""

ZSTD_LEVEL = 3
"""Level at which chunks are compressed."""

COMPRESSORS = (ZstdCodec(level=ZSTD_LEVEL), Crc32cCodec())
"""Codecs of the chunks: zstd without shuffling, and a checksum, which comes last and covers the stored bytes.

A tile of 64 points with 8 replicates (205 kB) is compressed to 30 kB; with shuffled bytes to 37 kB, at level 9 to 28.5 kB, in
about the same time (`make bench` measures it; see docs/clusters.md).
"""


def create_store(path: str | os.PathLike[str], layout: Layout) -> Store:
    """Creates an empty store with attributes, coordinates, and arrays without chunks, or opens the existing one.

    The store appears at `path` completely or not at all, so that two jobs may start at the same time: one creates it, the other
    opens it. An object store cannot move a folder; there the root is written last, two jobs with the same plan write the same
    files, and a job with another plan is refused.

    Raises:
        StoreError: something else than a warpsim store exists at the path, or the store cannot be created.
        OSError: the disk is full; the message names the store.
    """
    place = place_of(path)
    if isinstance(place, Folder) and place.exists():
        return open_store(path)
    _check_names(place, layout)
    if isinstance(place, Remote):
        _create_remote(place, layout)
    else:
        _create_folder(place.path, layout)
    return open_store(path)


def _check_names(place: Folder | Remote, layout: Layout) -> None:
    """Refuses axes of which a store can have no folder, such as a/b."""
    for name in layout.grid.axes:
        if not _AXIS.fullmatch(name) or len(name.encode()) > _LONGEST_AXIS or name in (TILES, ROOT):
            raise StoreError(
                f"{place.path}: no store can have the axis {shortened(name)!r}: its name must have 1 to {_LONGEST_AXIS} bytes, "
                f"no / or \\, and no dot in front, and be neither {TILES} nor {ROOT}; nothing was created"
            )


def _create_folder(target: Path, layout: Layout) -> None:
    with ExitStack() as stack:
        try:
            draft = stack.enter_context(draft_of(target)) / "store"
        except OSError as error:
            if error.errno in FULL:
                raise _not_created(error, target) from error
            raise StoreError(f"{target}: no store can be created there: {error.strerror}") from None
        try:
            _write_template(draft, layout)
        except OSError as error:
            raise _not_created(error, target) from error
        if not os.path.lexists(target):
            try:
                draft.rename(target)
            except OSError:
                if not target.exists():
                    raise


def _not_created(error: OSError, target: Path) -> OSError:
    """Returns the error of a full disk that names the store; the error of the system names a draft, or nothing."""
    return OSError(error.errno, f"{error.strerror or error}; no store was created", str(target))


def _create_remote(place: Remote, layout: Layout) -> None:
    if place.exists() and not place.exists(_CLAIM):
        return  # a store or something else, which opening it will tell
    digest = _digest(layout)
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


def _digest(layout: Layout) -> str:
    """Returns a digest of the plan of a layout."""
    call = read_call(layout.attrs["provenance"], "sweep")
    return hashlib.sha256(json.dumps(call, sort_keys=True).encode()).hexdigest()


def _write_template(path: Path, layout: Layout) -> None:
    grid = layout.grid
    lengths = {name: len(value) for name, value in layout.coordinates.items() if name in dimensions_of(grid)}
    empty = build_dataset({}, layout.coordinates, dims=dimensions_of(grid), attrs={**layout.attrs, VERSION: SCHEMA_VERSION})
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
    group[TILES].attrs[ORIGIN] = _digest(layout)
    consolidate(path)
    (path / INVENTORY).write_bytes(encoded(folder_files(path)))


def consolidate(folder: Path) -> None:
    """Copies the metadata of all arrays in a folder into that of its root."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        zarr.consolidate_metadata(folder, zarr_format=3)

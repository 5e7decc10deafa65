"""The inventory of a store: a copy, with a checksum, of every file that does not belong to a single tile.

These files are the metadata (`zarr.json`) of the groups and arrays, and the labels. Zarr has no checksum of its metadata, and
reads a missing chunk of labels as zeros. With the inventory, damage is found whenever a store is opened, and the files are
written again. If the inventory itself is damaged, `warpsim.sweeps.repair` makes it again from the files and the plan.

A change of the layout is one write of the inventory: if the process is killed before all other files are written, the next one
that writes to the store completes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
import zlib
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import zarr

from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store.place import Folder, Place, Remote
from warpsim.store.status import INVENTORY, TILES

ROOT = "zarr.json"
"""The metadata of the root, with a copy of that of all arrays: what readers see."""


def encoded(files: Mapping[str, bytes]) -> bytes:
    """Returns the content of an inventory: a checksum, and the compressed files by key."""
    listed = {key: base64.b64encode(content).decode() for key, content in sorted(files.items())}
    packed = zlib.compress(json.dumps(listed).encode())
    return hashlib.sha256(packed).hexdigest().encode() + b"\n" + packed


def decoded(content: bytes) -> dict[str, bytes] | None:
    """Returns the files of an inventory; None if it is damaged or missing."""
    digest, _, packed = content.partition(b"\n")
    if hashlib.sha256(packed).hexdigest().encode() != digest:
        return None
    try:
        files = {key: base64.b64decode(text) for key, text in json.loads(zlib.decompress(packed)).items()}
    except (AttributeError, TypeError, ValueError, RecursionError, zlib.error):
        return None
    return files if all(map(_inside, files)) else None


def _inside(key: str) -> bool:
    """Whether a key is a file inside the store. The inventory of somebody else's store may name any file."""
    return "\\" not in key and ":" not in key and not {"", ".", ".."} & {*key.split("/")}


def folder_files(folder: Path) -> dict[str, bytes]:
    """Returns all files in a folder by key: those of a store without tiles."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def read_inventory(place: Place) -> dict[str, bytes] | None:
    """Returns the files of a store's inventory by key; None if it is damaged, or there is none."""
    return decoded(place.read([INVENTORY])[0])


def wrong_files(place: Place) -> Iterator[tuple[str, str]]:
    """Yields the key of each damaged file, and what is wrong with it. Of a store without inventory, labels are looked for."""
    (content,) = place.read([INVENTORY])
    files = decoded(content)
    if files is None:
        if content or place.exists(INVENTORY):
            yield INVENTORY, "is damaged"
        else:
            yield from _missing_files(place)
        return
    for (key, wanted), found in zip(files.items(), place.read(list(files)), strict=True):
        if found != wanted:
            yield key, "has changed" if found else "is empty" if place.exists(key) else "is missing"


def _missing_files(place: Place) -> Iterator[tuple[str, str]]:
    try:
        group = zarr.open_group(place.root, mode="r", zarr_format=3)
        has_inventory = TILES in group and INVENTORY in group[TILES].attrs
        axes = [name for name, array in group.arrays() if array.shape and array.shape[0] > 1]
        keys = [key for key in shared_keys(group) if key.partition("/")[0] in axes]  # a chunk of zeros need not exist
    except Exception:  # whatever this is, it cannot be read as a store; opening it will tell
        return
    if has_inventory:
        yield INVENTORY, "is missing"
    else:
        yield from ((key, "is missing") for key in keys if not place.exists(key))


def shared_keys(group: zarr.Group) -> Iterator[str]:
    """Yields the keys of all files of a store that do not belong to single tiles, the root last."""
    per_tile = {declared.name for declared in SWEEP_VARIABLES}
    for name, member in _members(group):
        yield f"{name}/{ROOT}"
        if isinstance(member, zarr.Array) and name not in per_tile and not name.startswith(f"{TILES}/"):
            counts = (-(-size // step) for size, step in zip(member.shape, member.chunks, strict=True))
            metadata: Any = member.metadata
            yield from (f"{name}/{metadata.encode_chunk_key(chunk)}" for chunk in product(*map(range, counts)))
    yield ROOT


def _members(group: zarr.Group) -> list[tuple[str, Any]]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Object at .* is not recognized")  # inventory and leases, without metadata
        return sorted(group.members(max_depth=None))


def write_files(place: Folder | Remote, files: Mapping[str, bytes]) -> None:
    """Writes the inventory of a store, then the files in it that differ, and the root last. Hold the lease for the layout."""
    place.write(INVENTORY, encoded(files))
    restore_files(place, files)


def restore_files(place: Folder | Remote, files: Mapping[str, bytes]) -> None:
    """Writes the files of an inventory that differ, the root last."""
    keys = sorted(files, key=lambda key: key == ROOT)
    for key, found in zip(keys, place.read(keys), strict=True):
        if found != files[key]:
            place.write(key, files[key])


def renew_inventory(place: Folder | Remote) -> None:
    """Makes the inventory from the files as they are. Hold the lease for the layout."""
    group = zarr.open_group(place.root, mode="r", zarr_format=3)
    keys = [key for key in shared_keys(group) if place.exists(key)]
    place.write(INVENTORY, encoded(dict(zip(keys, place.read(keys), strict=True))))


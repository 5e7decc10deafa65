"""Finds the damaged files of a store: tiles by the checksums of their chunks and records, all others by the inventory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.schema import SWEEP_VARIABLES, VALID
from warpsim.store.inventory import wrong_files
from warpsim.store.lease import has_leases
from warpsim.store.place import Folder, Remote
from warpsim.store.status import DONE, FAILED, KEPT, SIZES, has_points, has_values
from warpsim.store.zarr_store import Store

_OTHER_VALUES = "is the record of other values: a chunk is that of another tile, or an old one"
_OTHER_POINTS = "is the record of other points: the tile is that of another place, or of another store"


@dataclass(frozen=True)
class Damage:
    """A file of a store that is missing or has changed.

    Attributes:
        store: the store.
        file: its key in the store.
        reason: what is wrong with it.
        tile: index of the tile that it belongs to; None: it belongs to the whole store.
    """

    store: str
    file: str
    reason: str
    tile: int | None = None

    def __str__(self) -> str:
        tile = "" if self.tile is None else f"tile {self.tile}: "
        return f"{self.store}: {tile}{self.file}: {self.reason}"


def damaged_files(place: Folder | Remote) -> list[Damage]:
    """Returns the damaged files among those that do not belong to single tiles: metadata and labels."""
    return [Damage(str(place.path), key, what) for key, what in wrong_files(place)]


def damaged_tiles(store: Store) -> list[Damage]:
    """Reads every chunk of every tile that is done or kept by an extension, one tile at a time, and every record of a tile.

    Returns:
        The first damage of each damaged tile that is done or kept, and all damaged records.
    """
    log = store.log
    done = log.tiles(DONE)
    damages = [*map(partial(_damage, store), done), *_lost_records(store, done), *_kept_damages(store, {*done})]
    for kind in (FAILED, KEPT):
        tiles = log.tiles(kind)
        lost = {*tiles} - log.records(kind, tiles).keys()
        there = [index for index in sorted(lost) if log.has(kind, index)]  # a sweep may remove some meanwhile
        damages += [Damage(str(store.path), log.key(kind, index), "cannot be read", index) for index in there]
    return [damage for damage in damages if damage is not None]


def has_chunks(store: Store, index: int, name: str, own: Sequence[int]) -> bool:
    """Whether all chunks of a variable of a tile exist. A missing chunk would be read as the fill value.

    Args:
        store: the store.
        index: index of the tile.
        name: name of the variable.
        own: lengths along the variable's own dimensions.
    """
    return all(store.place.exists(key) for key, _ in chunks_of(store, index, name, own))


def chunks_of(store: Store, index: int, name: str, own: Sequence[int]) -> Iterator[tuple[str, tuple[slice, ...]]]:
    """Yields the key and the part of the array of each chunk of a variable of a tile; several if replicates were added."""
    array = store.arrays[name]
    region = tuple(store.grid.region(index).values())
    position = store.grid.position(index)
    steps = array.chunks[len(position) :]
    for chunk in product(*(range(-(-length // step)) for length, step in zip(own, steps, strict=True))):
        key = array.metadata.encode_chunk_key((*position, *chunk))
        parts = (slice(i * step, min((i + 1) * step, length)) for i, step, length in zip(chunk, steps, own, strict=True))
        yield f"{name}/{key}", (*region, *parts)


def _damage(store: Store, index: int) -> Damage | None:
    """Returns the first damage of a tile, unless an extension has made it pending meanwhile."""
    damage = _first_damage(store, index)
    return damage if damage is not None and index in store.log.tiles(DONE) else None


def _first_damage(store: Store, index: int) -> Damage | None:
    path, key = str(store.path), store.log.key(DONE, index)
    record = store.log.records(DONE, [index]).get(index)
    if record is None:
        return Damage(path, key, "cannot be read", index)
    if not has_points(record, store.points_checksum(index)):
        return Damage(path, key, _OTHER_POINTS, index)
    arrays = _read(store, index, {name: len(labels) for name, labels in store.coordinates.items()})
    if isinstance(arrays, Damage):
        return arrays
    return None if has_values(record, arrays) else Damage(path, key, _OTHER_VALUES, index)


def _kept_damages(store: Store, done: Collection[int]) -> Iterator[Damage]:
    """Reads the finished parts of the tiles that grew when the store was extended, and are not done again."""
    records = store.log.records(KEPT, [index for index in store.log.tiles(KEPT) if index not in done])
    for index, record in records.items():
        path, key, shape = str(store.path), store.log.key(KEPT, index), [record[SIZES][axis] for axis in store.grid.axes]
        arrays = _read(store, index, record[SIZES])
        if not store.log.has(KEPT, index):  # the tile has been done meanwhile
            continue
        if isinstance(arrays, Damage):
            yield arrays
            continue
        part = tuple(map(slice, shape))
        if not has_points(record, store.points_checksum(index, shape)):
            yield Damage(path, key, _OTHER_POINTS, index)
        elif not has_values(record, {name: values[part] for name, values in arrays.items()}):
            yield Damage(path, key, _OTHER_VALUES, index)


def _read(store: Store, index: int, lengths: Mapping[str, int]) -> dict[str, NDArray[Any]] | Damage:
    """Returns the values of a tile, by variable, up to these lengths of the variables' own dimensions, or the first damage."""
    shape = store.grid.tile_shape(index)
    whole = (slice(None),) * len(shape)
    arrays: dict[str, NDArray[Any]] = {}
    for declared in (declared for declared in SWEEP_VARIABLES if declared.name in store.arrays):
        own = [lengths[dim] for dim in declared.dims]
        values = np.empty((*shape, *own), declared.dtype)
        for key, part in chunks_of(store, index, declared.name, own):
            if not store.place.exists(key):
                return Damage(str(store.path), key, "is missing", index)
            try:
                values[whole + part[len(whole) :]] = store.arrays[declared.name][part]
            except Exception as error:  # codecs raise exceptions of any type
                return Damage(str(store.path), key, f"{type(error).__name__}: {error}", index)
        arrays[declared.name] = values
    return arrays


def _lost_records(store: Store, done: Sequence[int]) -> list[Damage]:
    """Returns a damage for each tile that has results, but is not recorded as done, or as done in part.

    None are looked for while a sweep runs, or after it was killed: it writes the data of a tile first.
    """
    if has_leases(store.place):
        return []
    recorded = {*done, *store.log.tiles(KEPT)}
    damages = [_lost_record(store, index) for index in range(len(store.grid)) if index not in recorded]
    lost = [damage for damage in damages if damage is not None]
    if not lost or has_leases(store.place):
        return []
    recorded = {*store.log.tiles(DONE), *store.log.tiles(KEPT)}  # a sweep may have ended meanwhile
    return [damage for damage in lost if damage.tile not in recorded]


def _lost_record(store: Store, index: int) -> Damage | None:
    """Returns a damage if a tile without record has its `valid`, which is written last, so that it was done, or a part of it."""
    if not has_chunks(store, index, VALID.name, ()):
        return None
    shapes = {declared.name: store.arrays[declared.name].shape[len(store.grid.axes) :] for declared in SWEEP_VARIABLES}
    whole = all(has_chunks(store, index, name, own) for name, own in shapes.items())
    kind = DONE if whole or KEPT not in store.log.arrays else KEPT
    return Damage(str(store.path), store.log.key(kind, index), "is missing", index)

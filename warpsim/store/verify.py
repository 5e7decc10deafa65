"""Finds damaged tiles of a store by the checksums of their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store.status import DONE
from warpsim.store.zarr_store import Store


@dataclass(frozen=True)
class Damage:
    """A tile that is recorded as done but cannot be read completely.

    Attributes:
        tile: its index.
        variable: the first variable that cannot be read.
        reason: the reason.
    """

    tile: int
    variable: str
    reason: str

    def __str__(self) -> str:
        return f"tile {self.tile}: {self.variable}: {self.reason}"


def damaged_tiles(store: Store) -> list[Damage]:
    """Reads every chunk of every tile that is done, one tile at a time, and returns the damaged tiles."""
    damages = (_damage(store, index) for index in store.log.tiles(DONE))
    return [damage for damage in damages if damage is not None]


def has_chunks(store: Store, index: int, name: str, own: Sequence[int]) -> bool:
    """Whether all chunks of a variable of a tile exist. A missing chunk would be read as the fill value.

    Args:
        store: the store.
        index: index of the tile.
        name: name of the variable.
        own: lengths along the variable's own dimensions.
    """
    array = store.arrays[name]
    position = [part.start // step for part, step in zip(store.grid.region(index).values(), store.grid.shape, strict=True)]
    steps = array.chunks[len(position) :]  # several chunks if replicates were added
    inner = product(*(range(-(-length // step)) for length, step in zip(own, steps, strict=True)))
    keys = (array.metadata.encode_chunk_key((*position, *chunk)) for chunk in inner)
    return all(store.place.exists(f"{name}/{key}") for key in keys)


def _damage(store: Store, index: int) -> Damage | None:
    if index not in store.log.records(DONE, [index]):
        return Damage(index, "record", "cannot be read")
    region = store.grid.region(index)
    for declared in SWEEP_VARIABLES:
        array = store.arrays[declared.name]
        if not has_chunks(store, index, declared.name, array.shape[len(region) :]):
            return Damage(index, declared.name, "its chunk is missing")
        try:
            array[tuple(region.get(dim, slice(None)) for dim in (*store.grid.axes, *declared.dims))]
        except Exception as error:  # codecs raise exceptions of any type
            return Damage(index, declared.name, f"{type(error).__name__}: {error}")
    return None

"""What of a store is damaged: the checksum of every chunk of the tiles that are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store.status import DONE
from warpsim.store.zarr_store import Store


@dataclass(frozen=True)
class Damage:
    """A tile that the store counts as done, and that is not whole.

    Attributes:
        tile: its index.
        variable: the first variable that cannot be read.
        reason: why.
    """

    tile: int
    variable: str
    reason: str

    def __str__(self) -> str:
        return f"tile {self.tile}: {self.variable}: {self.reason}"


def damaged_tiles(store: Store) -> list[Damage]:
    """Read every chunk of every tile that is done, one tile at a time, and list the tiles that are not whole."""
    done = store.log.tiles(DONE)
    found = (_damage(store, index) for index in done)
    return [damage for damage in found if damage is not None]


def has_chunks(store: Store, index: int, name: str, own: Sequence[int]) -> bool:
    """Whether the chunks of a variable of a tile are there: what is missing would read as if nothing had been simulated.

    Args:
        store: the store.
        index: the tile.
        name: of the variable.
        own: how much of each of its own dimensions.
    """
    array = store.arrays[name]
    position = [part.start // step for part, step in zip(store.grid.region(index).values(), store.grid.shape, strict=True)]
    steps = array.chunks[len(position) :]  # several chunks where replicates were added
    places = product(*(range(-(-length // step)) for length, step in zip(own, steps, strict=True)))
    keys = (array.metadata.encode_chunk_key((*position, *place)) for place in places)
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
        except Exception as error:  # a codec raises what it likes
            return Damage(index, declared.name, f"{type(error).__name__}: {error}")
    return None

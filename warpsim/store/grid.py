"""How a sweep's points are cut into tiles: a regular grid, one tile to a chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SMALLEST_TILE = 8
"""Points of a tile at least, where there are so many: writing one takes some 50 ms, whatever its size."""

SHARES = 32
"""A small sweep is cut into about this many tiles, so that it has work for several workers."""


@dataclass(frozen=True)
class TileGrid:
    """The axes of a sweep, and their division into tiles.

    Attributes:
        axes: names of the axes, outermost first.
        sizes: number of values on each.
        shape: points of a tile along each axis (fewer at an axis' end).
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def points(self) -> int:
        """Number of points of the sweep."""
        return math.prod(self.sizes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of tiles along each axis."""
        return tuple(-(-size // step) for size, step in zip(self.sizes, self.shape, strict=True))

    def __len__(self) -> int:
        return math.prod(self.counts)

    def region(self, index: int) -> dict[str, slice]:
        """The points of one tile: axis -> slice. Tiles are counted from 0, the last axis running fastest.

        Raises:
            ValueError: there is no tile of this index.
        """
        if not 0 <= index < len(self):
            raise ValueError(f"tile = {index}: must be from 0 to {len(self) - 1}")
        region = {}
        remaining = index
        for axis, size, step, count in reversed(
            list(zip(self.axes, self.sizes, self.shape, self.counts, strict=True))
        ):
            remaining, position = divmod(remaining, count)
            region[axis] = slice(position * step, min((position + 1) * step, size))
        return {axis: region[axis] for axis in self.axes}

    def tile_shape(self, index: int) -> tuple[int, ...]:
        """Number of points of one tile along each axis."""
        return tuple(part.stop - part.start for part in self.region(index).values())

    def tile_points(self, index: int) -> int:
        """Number of points of one tile."""
        return math.prod(self.tile_shape(index))


def tile_grid(axes: Sequence[str], sizes: Sequence[int], room: int) -> TileGrid:
    """Cut a sweep into tiles: inner axes whole while they fit, the next in equal parts, outer ones singly.

    Args:
        axes: names of the axes, outermost first.
        sizes: number of values on each.
        room: points of a tile at most.
    """
    room = min(room, max(SMALLEST_TILE, math.prod(sizes) // SHARES))
    shape = [1] * len(sizes)
    for i in reversed(range(len(sizes))):
        parts = -(-sizes[i] // room)
        shape[i] = -(-sizes[i] // parts)
        room = max(1, room // shape[i])
    return TileGrid(tuple(axes), tuple(sizes), tuple(shape))

"""The tiles of a sweep, a regular grid with one chunk for each tile, and the layout of a store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_POINTS = 10**8
"""Points of a sweep, and labels of an axis, at most."""

SMALLEST_TILE = 8
"""Minimum number of points in a tile, if the sweep has that many, because writing a tile of any size takes about 30 ms."""

SHARES = 32
"""Approximate number of tiles of a small sweep, so that several workers can share it."""


@dataclass(frozen=True)
class TileGrid:
    """The axes of a sweep, and their division into tiles.

    Attributes:
        axes: names of the axes, outermost first.
        sizes: number of values on each.
        shape: number of points of a tile along each axis (fewer at the end of an axis).
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
        """Returns the points of one tile: axis -> slice. Tiles are numbered from 0, with the last axis running fastest.

        Raises:
            ValueError: there is no tile with this index.
        """
        parts = zip(self.axes, self.position(index), self.sizes, self.shape, strict=True)
        return {axis: slice(i * step, min((i + 1) * step, size)) for axis, i, size, step in parts}

    def position(self, index: int) -> tuple[int, ...]:
        """Returns the position of a tile in the grid of tiles.

        Raises:
            ValueError: there is no tile with this index.
        """
        if not 0 <= index < len(self):
            raise ValueError(f"tile = {index}: must be from 0 to {len(self) - 1}")
        return tuple(map(int, np.unravel_index(index, self.counts)))

    def index(self, position: Sequence[int]) -> int:
        """Returns the tile at a position in the grid of tiles."""
        index = 0
        for i, count in zip(position, self.counts, strict=True):
            index = index * count + i
        return index

    def tile_shape(self, index: int) -> tuple[int, ...]:
        """Returns the number of points of one tile along each axis."""
        return tuple(part.stop - part.start for part in self.region(index).values())

    def tile_points(self, index: int) -> int:
        """Returns the number of points of one tile."""
        return math.prod(self.tile_shape(index))


@dataclass(frozen=True)
class Layout:
    """The layout of a store.

    Attributes:
        grid: axes and tiles.
        coordinates: name -> labels of that dimension, (dimensions, labels), or a scalar.
        attrs: all attributes of the Dataset.
    """

    grid: TileGrid
    coordinates: Mapping[str, Any]
    attrs: Mapping[str, str]


def tile_grid(axes: Sequence[str], sizes: Sequence[int], most: int) -> TileGrid:
    """Cuts a sweep into tiles of as many whole inner axes as fit, an equal part of the next axis, and one value of each other.

    Args:
        axes: names of the axes, outermost first.
        sizes: number of values on each.
        most: maximum number of points in a tile.
    """
    room = min(most, max(SMALLEST_TILE, math.prod(sizes) // SHARES))
    shape = [1] * len(sizes)
    for i in reversed(range(len(sizes))):
        parts = -(-sizes[i] // room)
        shape[i] = -(-sizes[i] // parts)
        room = max(1, room // shape[i])
    return TileGrid(tuple(axes), tuple(sizes), tuple(shape))

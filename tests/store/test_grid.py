"""The division of a sweep into tiles."""

import itertools
import math
from dataclasses import replace

import pytest

from warpsim.store.grid import tile_grid


@pytest.mark.parametrize("most", [1, 10, 64, 100_000])
@pytest.mark.parametrize("sizes", [(), (1,), (7,), (300,), (5, 25, 16, 2), (2, 5, 6, 2, 1), (3, 1000), (11, 13, 17)])
def test_tiles_are_neither_huge_nor_few(sizes, most):
    grid = tile_grid([f"axis{i}" for i in range(len(sizes))], sizes, most)
    assert math.prod(grid.shape) <= most
    assert all(1 <= part <= size for part, size in zip(grid.shape, sizes, strict=True))
    assert len(grid) >= min(grid.points // 16, 16)
    assert math.prod(grid.shape) >= min(most, grid.points, 8) / 4


def test_tiles_of_the_cusp_hold_all_occupancies_and_policies():
    assert tile_grid(("gpu", "alpha", "warps", "scheduler"), (5, 25, 16, 2), 64).shape == (1, 2, 16, 2)


def test_regions_follow_the_last_axis_fastest():
    grid = replace(tile_grid(("a", "b"), (3, 5), 4), shape=(2, 2))
    assert grid.counts == (2, 3)
    assert grid.region(1) == {"a": slice(0, 2), "b": slice(2, 4)}
    assert grid.region(5) == {"a": slice(2, 3), "b": slice(4, 5)}
    assert grid.tile_points(5) == 1
    with pytest.raises(ValueError, match="tile = 6: must be from 0 to 5"):
        grid.region(6)


@pytest.mark.parametrize("sizes", [(), (1,), (7,), (5, 3, 4)])
def test_positions_and_indices_of_tiles_belong_to_each_other(sizes):
    grid = replace(tile_grid([f"axis{i}" for i in range(len(sizes))], sizes, 4), shape=(2,) * len(sizes))
    positions = [grid.position(index) for index in range(len(grid))]
    assert positions == list(itertools.product(*map(range, grid.counts)))
    assert [grid.index(position) for position in positions] == list(range(len(grid)))
    with pytest.raises(ValueError, match="must be from 0 to"):
        grid.position(len(grid))

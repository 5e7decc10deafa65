"""The launch of a kernel as CUDA states it, and the blocks that stand for its grid."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from numbers import Integral
from typing import Any

import numpy as np

from warpsim.frontends.errors import FrontEndError
from warpsim.units import WARP_LANES

MAX_BLOCK_THREADS = 1024
SAMPLED_THREADS, MORE_SAMPLED_THREADS = 2048, 16384
"""Threads, over all sampled blocks, whose addresses and branches are evaluated, at first and perhaps again."""

_LARGE_SHARE = 1 / 8
"""Share of the grid from which on several blocks stand for it, if there is room."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_SCATTERED_IN_SPACE = (0.8192, 0.6710, 0.5497)
"""Powers of the inverse of the root of x^4 = x + 1: their multiples are spread evenly in space."""

_MOST_BLOCKS, _MOST_THREADS_Z = (2**31 - 1, 65535, 65535), 64


@dataclass(frozen=True)
class Geometry:
    """A launch.

    Attributes:
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        dynamic_shared: bytes of dynamic shared memory of a block.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def block_warps(self) -> int:
        """Warps of a block; the last one may have threads that do not exist."""
        return -(-math.prod(self.block) // WARP_LANES)

    def sample(self, most_threads: int = SAMPLED_THREADS) -> list[tuple[tuple[int, int, int], float]]:
        """Returns blocks that stand for the grid, each with the number of blocks that it stands for.

        Along each dimension the last block stands for itself, as the first one does where there is room, and some between, in
        irregular places, for the others. They have so many threads at most, or are one block; but where there is room for
        several, a few more blocks stand for those whose indices x and y are the same. What room is left goes to blocks that
        would stand for a large share of the grid, as one between the edges of three dimensions does.
        """
        room = max(1, most_threads // (self.block_warps * WARP_LANES))
        counts = [1, 1, 1]
        while larger := [d for d in range(3) if counts[d] < self.grid[d] and math.prod(counts) * (1 + 1 / counts[d]) <= room]:
            counts[min(larger, key=lambda d: (counts[d], -self.grid[d]))] += 1
        along_x, along_y, along_z = (_picks(size, count) for size, count in zip(self.grid, counts, strict=True))
        has_diagonal = min(self.grid[:2]) > 1 and room > 1
        cells = [
            _Cell((*at, z.at), weight * z.stands_for, (x, y, z))
            for x, y in product(along_x, along_y)
            for at, weight in _in_plane(x, y, has_diagonal=has_diagonal)
            for z in along_z
        ]
        large = [one for one in cells if one.weight > _LARGE_SHARE * self.blocks and one.at[0] != one.at[1]]
        pairs = (room - math.prod(counts)) // (2 * len(large)) if large else 0
        return [one for cell in cells for one in cell.blocks(pairs if cell in large else 0, off_diagonal=has_diagonal)]


@dataclass(frozen=True)
class _Pick:
    """An index of a dimension, which stands for all those of a range."""

    at: int
    begin: int
    end: int

    @property
    def stands_for(self) -> int:
        """Indices for which it stands."""
        return self.end - self.begin


@dataclass(frozen=True)
class _Cell:
    """A block that stands for some of those with the indices of three ranges."""

    at: tuple[int, int, int]
    weight: int
    ranges: tuple[_Pick, _Pick, _Pick]

    def blocks(self, pairs: int, *, off_diagonal: bool) -> list[tuple[tuple[int, int, int], float]]:
        """Returns the block and so many pairs of others that stand for the same ones, at mirrored places of the ranges."""
        found = [self.at]
        for number in range(1, pairs + 1):
            share = [number * by % 1 / 2 for by in _SCATTERED_IN_SPACE]
            share = [1 - one if number >> axis & 1 else one for axis, one in enumerate(share)]
            steps = [int(one.stands_for * by) for one, by in zip(self.ranges, share, strict=True)]
            x, y, z = (one.begin + step for one, step in zip(self.ranges, steps, strict=True))
            a, b, c = (one.end - 1 - step for one, step in zip(self.ranges, steps, strict=True))
            found += [(x, y, z), (a, b, c)] if not off_diagonal or (x != y and a != b) else []
        found = list(dict.fromkeys(found))
        each, rest = divmod(self.weight, len(found))
        return [(block, float(each + (rest if block == self.at else 0))) for block in found]


def _picks(size: int, count: int) -> list[_Pick]:
    """Returns some indices of a dimension, in order."""
    if count >= size:
        return [_Pick(at, at, at + 1) for at in range(size)]
    first, last = int(count > 2), int(count > 1)
    parts = count - first - last
    edges = [first + (size - first - last) * part // parts for part in range(parts + 1)]
    inner = [_Pick(begin + _place(end - begin, part, parts), begin, end) for part, (begin, end) in enumerate(pairwise(edges))]
    ends = _Pick(0, 0, 1), _Pick(size - 1, size - 1, size)
    return [*ends[:first], *inner, *ends[2 - last :]]


def _in_plane(x: _Pick, y: _Pick, *, has_diagonal: bool) -> Iterator[tuple[tuple[int, int], int]]:
    """Yields indices x and y that stand for those of two ranges, each with the number of blocks that it stands for.

    Blocks with the same x and y are few, and many kernels do something else in them: they have one of their own that stands for
    them, and the other one stands for the others.
    """
    blocks = x.stands_for * y.stands_for
    same = range(max(x.begin, y.begin), min(x.end, y.end))
    if not has_diagonal or not same:
        yield (x.at, y.at), blocks
        return
    middle = same[len(same) // 2]
    yield (middle, middle), len(same)
    if blocks > len(same):
        beside = [(x.at, b) for b in (y.at, y.begin + y.end - 1 - y.at, y.at + 1, y.at - 1) if y.begin <= b < y.end]
        beside += [(a, y.at) for a in (x.at + 1, x.at - 1) if x.begin <= a < x.end]
        yield next((a, b) for a, b in beside if a != b), blocks - len(same)


def _place(size: int, part: int, parts: int) -> int:
    """Returns the index in a part of so many that stands for it.

    They are in irregular places, those of the second half of the parts in the mirrored places of the first one, so that what
    grows with the index has the right mean.
    """
    mirrored = parts - 1 - part
    if part == mirrored:
        return size // 2
    return int(size * _scattered(part)) if part < mirrored else size - 1 - int(size * _scattered(mirrored))


def _scattered(number: int) -> float:
    """Returns a place between 0 and 1, the middle first; those of successive numbers lie far apart."""
    return (0.5 + number * _GOLDEN) % 1


def as_geometry(launch: Any) -> Geometry:
    """Returns a launch that is given as such, as (grid, block) or (grid, block, bytes of shared memory), or as text.

    A grid or block is a number or up to three; as text: "1024,256" or "32x32,16x16".

    Raises:
        FrontEndError: it is something else, or a size that CUDA does not allow.
    """
    if isinstance(launch, Geometry):
        return launch
    form = 'must be (grid, block) or (grid, block, shared bytes), such as ((32, 32), 256), or text such as "32x32,256"'
    if isinstance(launch, str):
        if not re.fullmatch(r"\d+(x\d+){0,2},\d+(x\d+){0,2}(,\d+)?", launch):
            raise FrontEndError(f"launch = {launch!r}: {form}")
        words = [tuple(int(n) for n in word.split("x")) for word in launch.split(",")]
        launch = (*words[:2], *(word[0] for word in words[2:]))
    launch = _listed(launch)
    if not isinstance(launch, Sequence) or not 2 <= len(launch) <= 3:
        raise FrontEndError(f"launch = {launch!r}: {form}")
    grid, block = (_three(name, value) for name, value in zip(("grid", "block"), launch, strict=False))
    shared = launch[2] if len(launch) == 3 else 0
    if not _is_integer(shared) or not 0 <= shared <= 2**20:
        raise FrontEndError(f"launch: shared bytes = {shared!r}: must be an integer from 0 to {2**20}")
    for name, size, most in zip("xyz", grid, _MOST_BLOCKS, strict=True):
        if size > most:
            raise FrontEndError(f"launch: grid.{name} = {size}: must be at most {most}")
    if block[2] > _MOST_THREADS_Z:
        raise FrontEndError(f"launch: block.z = {block[2]}: must be at most {_MOST_THREADS_Z}")
    if math.prod(block) > MAX_BLOCK_THREADS:
        raise FrontEndError(f"launch: block of {math.prod(block)} threads: must be at most {MAX_BLOCK_THREADS}")
    return Geometry(grid, block, int(shared))


def _three(name: str, value: Any) -> tuple[int, int, int]:
    value = _listed(value)
    numbers = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not 1 <= len(numbers) <= 3 or not all(_is_integer(n) and n >= 1 for n in numbers):
        raise FrontEndError(f"launch: {name} = {value!r}: must be one to three integers from 1")
    x, y, z, *_ = (*map(int, numbers), 1, 1)
    return x, y, z


def _listed(value: Any) -> Any:
    """Returns a value; of an array of NumPy, the list of its numbers."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def _is_integer(value: object) -> bool:
    """Whether a value is an integer, of Python or of NumPy; truth values are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def threads(block: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Yields the indices of a block's threads in order: x first."""
    for z, y, x in product(*(range(n) for n in reversed(block))):
        yield x, y, z

"""What the accesses of a block that are left out of a walk through the caches do: how many lines they touch, and which again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.units import LINE_BYTES, WARP_LANES

_MOST_LOOKED_AT = 1_000_000
"""Addresses that are looked at, about: those of some warps of the block."""

_LATE_SHARE = 0.25
"""Share of a block's accesses that are its last ones."""


@dataclass(frozen=True)
class Excerpt:
    """What is known of a block beside the calls that are walked.

    Attributes:
        part: share of the block's calls that are walked.
        lines: lines that all its calls touch.
        own: share of the lines of the next block that this one does not touch.
        more: float64[calls]: lines that all calls of the same instruction touch, over those that its walked calls touch.
        to_the_end: bool[calls]: whether the block accesses the lines of a call until it ends, rather than for a while.
        stands_for: float64[calls]: calls of the same instruction that hit as often as this one. The last ones of those that are
            walked stand for those that are left out, since the first ones find empty caches.
    """

    part: float
    lines: float
    own: float
    more: NDArray[np.float64]
    to_the_end: NDArray[np.bool_]
    stands_for: NDArray[np.float64]

    @staticmethod
    def of_equal(calls: int, part: float = 1.0) -> Excerpt:
        """Returns that of calls that are like those that are left out, each with a line of its own."""
        all_alike = np.full(calls, 1.0 / part)
        return Excerpt(part, calls / part, 0.0, all_alike, np.zeros(calls, np.bool_), all_alike)

    def stays_in(self, lines: float, blocks: int) -> bool:
        """Returns whether a cache of so many lines holds all that so many blocks touch."""
        return self.lines * (1.0 + (blocks - 1) * self.own) <= lines


def excerpt(
    calls: Sequence[tuple[int, NDArray[np.int64]]], threads: int, kept: NDArray[np.int64], left_out: float
) -> Excerpt:
    """Returns what the calls of a block tell, of which some are kept.

    Args:
        calls: instruction, and the addresses of the threads of the block, and of the next one if that is known; negative: a
            thread does not access.
        threads: threads of a block.
        kept: numbers of those that are kept.
        left_out: how many of the block's calls are not kept, with those that are not among `calls`.
    """
    warps, all_calls = threads // WARP_LANES, len(kept) + left_out
    some = np.linspace(0, warps - 1, max(1, min(warps, _MOST_LOOKED_AT // (len(calls) * WARP_LANES))), dtype=int)
    rows = [row.reshape(-1, WARP_LANES) for _, row in calls]
    call, line = _lines([row[some] for row in rows])
    _, of_next = _lines([row[warps : 2 * warps][some] if len(row) > warps else row[:0] for row in rows])
    number, is_kept = np.array([number for number, _ in calls]), np.isin(call, kept)
    touched, by_kept = _distinct(number[call], line), _distinct(number[call[is_kept]], line[is_kept])
    executed = all_calls / len(calls)
    more = [executed * touched[each] / max(1, by_kept[each]) for each in number[kept].tolist()]
    lines = executed * warps / len(some) * len(np.unique(line))
    own = 1.0 - float(np.isin(np.unique(of_next), line).mean()) if len(of_next) else 1.0
    to_the_end = _to_the_end(call, line, len(calls))[kept]
    return Excerpt(len(kept) / all_calls, lines, own, np.array(more), to_the_end, _stands_for(number, kept, executed))


def _stands_for(number: NDArray[np.int64], kept: NDArray[np.int64], executed: float) -> NDArray[np.float64]:
    """Returns for how many calls of its instruction each one that is kept stands.

    The last ones, up to half, stand for all further ones. They are a power of two, so that they are whole periods of those that
    go through a sector, or a line, word by word.

    Args:
        number: int64[calls]: the instruction of each call.
        kept: calls that are kept.
        executed: how many calls there are for each of these numbers.
    """
    found = np.ones(len(kept))
    for each in np.unique(number[kept]):
        calls = np.flatnonzero(number[kept] == each)
        last = calls[-(1 << max(1, len(calls) // 2).bit_length() - 1) :]
        found[last] += (executed * (number == each).sum() - len(calls)) / len(last)
    return found


def _to_the_end(call: NDArray[np.int64], line: NDArray[np.int64], calls: int) -> NDArray[np.bool_]:
    """Returns for each call whether most of its lines are accessed among the last calls as well as before."""
    is_late = call >= (1 - _LATE_SHARE) * calls
    stays = np.isin(line, np.intersect1d(line[is_late], line[~is_late]))
    found: NDArray[np.bool_] = 2 * np.bincount(call, stays, calls) > np.bincount(call, minlength=calls)
    return found


def _lines(rows: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the different lines that each call touches, one after another: the number of the call, and the line."""
    found = [np.unique(row // LINE_BYTES) for row in rows]
    call, line = np.repeat(np.arange(len(rows)), [len(each) for each in found]), np.concatenate(found)
    return call[line >= 0], line[line >= 0]


def _distinct(number: NDArray[np.int64], line: NDArray[np.int64]) -> Counter[int]:
    """Returns how many different lines each instruction touches, of which numbers and lines are given."""
    order = np.lexsort((line, number))
    number, line = number[order], line[order]
    is_new = (np.diff(number, prepend=-1) != 0) | (np.diff(line, prepend=-1) != 0)
    return Counter(number[is_new].tolist())

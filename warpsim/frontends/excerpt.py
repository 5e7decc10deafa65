"""What the accesses of a block that are left out of a walk through the caches do: how many lines they touch, and which again."""

from __future__ import annotations

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
        more: float64[calls]: lines that all calls of the same instruction touch, over those that its walked calls touch.
        to_the_end: bool[calls]: whether the block accesses the lines of a call until it ends, rather than for a while.
    """

    part: float
    more: NDArray[np.float64]
    to_the_end: NDArray[np.bool_]

    @staticmethod
    def of_equal(calls: int, part: float = 1.0) -> Excerpt:
        """Returns that of calls that are like those that are left out, each with lines of its own."""
        return Excerpt(part, np.full(calls, 1.0 / part), np.zeros(calls, np.bool_))


def excerpt(calls: Sequence[tuple[int, NDArray[np.int64]]], kept: NDArray[np.int64], left_out: float) -> Excerpt:
    """Returns what the calls of a block tell, of which some are kept.

    Args:
        calls: instruction, and the addresses of the threads of the block; negative: a thread does not access.
        kept: numbers of those that are kept.
        left_out: how many of the block's calls are not kept, with those that are not among `calls`.
    """
    all_calls = len(kept) + left_out
    warps = len(calls[0][1]) // WARP_LANES
    some = np.linspace(0, warps - 1, max(1, min(warps, _MOST_LOOKED_AT // (len(calls) * WARP_LANES))), dtype=int)
    lines = [np.unique(row.reshape(warps, WARP_LANES)[some] // LINE_BYTES) for _, row in calls]
    call = np.repeat(np.arange(len(calls)), [len(each) for each in lines])
    line, is_kept = np.concatenate(lines), np.isin(call, kept)
    call, line, is_kept = call[line >= 0], line[line >= 0], is_kept[line >= 0]
    number = np.array([number for number, _ in calls])
    touched, touched_by_kept = (
        np.bincount(np.unique(np.stack([number[call], line])[:, chosen], axis=1)[0], minlength=number.max() + 1)
        for chosen in (slice(None), is_kept)
    )
    more = all_calls / len(calls) * touched / np.maximum(1, touched_by_kept)
    is_late = call >= (1 - _LATE_SHARE) * len(calls)
    stays = np.isin(line, np.intersect1d(line[is_late], line[~is_late]))
    share = np.bincount(call, stays, len(calls)) / np.maximum(1, np.bincount(call, minlength=len(calls)))
    return Excerpt(len(kept) / all_calls, more[number[kept]], share[kept] > 0.5)

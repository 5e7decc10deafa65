"""Hong and Kim's algorithms 1 and 2: the transactions of an access, from its index expression (HK, appendix).

An index is linear in the thread: `increment` is d Index / d tx, and `starts` are the values of the index where half-warps
begin. The models do not use these algorithms but `warpsim.kernels.access`, which counts from addresses. The two agree for
aligned starts and increments of 1 to 16 elements. Otherwise algorithm 2 can count more than 16 transactions for a half-warp,
which has only 16 threads, none where all threads read one address, and one more where the starts are not aligned.
HK is Hong and Kim 2009 (docs/bibliography.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from warpsim import units

HALF_WARP = units.WARP_LANES // 2


class HalfWarpTransactions(NamedTuple):
    """Result of algorithm 2: the size of a transaction in bytes, and the number of transactions of a half-warp."""

    bytes: int
    number: int


def coalesces(increment: float, starts: Sequence[int], bytes_per_thread: int) -> bool:
    """Returns whether an access is coalesced before compute capability 1.3 (HK algorithm 1).

    Args:
        increment: d Index / d tx, in elements.
        starts: indices at which half-warps begin.
        bytes_per_thread: bytes of an element (sizeof(localvar) in HK).

    Raises:
        ValueError: `bytes_per_thread` is not 1, 2, 4, 8 or 16, or `starts` is empty.
    """
    _check(starts, bytes_per_thread)
    return bytes_per_thread in (4, 8, 16) and increment == 1 and all(start % HALF_WARP == 0 for start in starts)


def half_warp_transactions(increment: float, starts: Sequence[int], bytes_per_thread: int) -> HalfWarpTransactions:
    """Returns the transactions of a half-warp from compute capability 1.3 on (HK algorithm 2).

    A half-warp that begins at an index not divisible by 16 adds one transaction. The paper does not state that its number
    is that of a half-warp, but its formula has 16 threads.

    Args:
        increment: d Index / d tx, in elements, at least 0.
        starts: indices at which half-warps begin.
        bytes_per_thread: bytes of an element (sizeof(localvar) in HK).

    Raises:
        ValueError: `bytes_per_thread` is not 1, 2, 4, 8 or 16, `starts` is empty, or `increment` is below 0.
    """
    _check(starts, bytes_per_thread)
    if not increment >= 0:
        raise ValueError(f"increment = {increment!r}: must be at least 0")
    size = {1: 32, 2: 64}.get(bytes_per_thread, 128)
    misaligned = any(start % HALF_WARP for start in starts)
    return HalfWarpTransactions(size, misaligned + math.ceil(increment * HALF_WARP * bytes_per_thread / size))


def _check(starts: Sequence[int], bytes_per_thread: int) -> None:
    if bytes_per_thread not in (1, 2, 4, 8, 16):
        raise ValueError(f"bytes_per_thread = {bytes_per_thread!r}: must be 1, 2, 4, 8 or 16")
    if not starts:
        raise ValueError("starts = (): must have at least one index")

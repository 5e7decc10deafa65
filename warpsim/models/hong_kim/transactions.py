"""Hong and Kim's algorithms 1 and 2: the transactions of an access, from its index expression (HK, appendix).

HK is Hong & Kim 2009. An index is linear in the thread: `increment` = d Index / d tx, and `starts` are its
values where a half-warp begins. `warpsim.kernels.access` counts from addresses, and is what the models use.
The two agree where the algorithms are right; algorithm 2 counts more than 16 transactions for a half-warp of
widely scattered threads, which has 16 threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

HALF_WARP = 16


class HalfWarpTransactions(NamedTuple):
    """Algorithm 2's output: the size of a transaction in bytes, and how many a half-warp makes."""

    bytes: int
    number: int


def coalesces(increment: float, starts: Sequence[int], bytes_per_thread: int) -> bool:
    """Return whether an access is coalesced before compute capability 1.3 (HK algorithm 1).

    Args:
        increment: d Index / d tx, in elements.
        starts: indices at which half-warps begin.
        bytes_per_thread: sizeof(localvar), the bytes of an element.

    Raises:
        ValueError: `bytes_per_thread` is not 1, 2, 4, 8 or 16, or `starts` is empty.
    """
    _check(starts, bytes_per_thread)
    return bytes_per_thread in (4, 8, 16) and increment == 1 and all(start % HALF_WARP == 0 for start in starts)


def half_warp_transactions(increment: float, starts: Sequence[int], bytes_per_thread: int) -> HalfWarpTransactions:
    """Return the transactions of a half-warp from compute capability 1.3 on (HK algorithm 2).

    One more is counted where any half-warp begins at an index that 16 does not divide. The paper does not say
    that its number is that of a half-warp; its formula takes 16 threads.

    Args:
        increment: d Index / d tx, in elements, at least 0.
        starts: indices at which half-warps begin.
        bytes_per_thread: sizeof(localvar), the bytes of an element.

    Raises:
        ValueError: `bytes_per_thread` is not 1, 2, 4, 8 or 16, `starts` is empty, or `increment` is below 0.
    """
    _check(starts, bytes_per_thread)
    if not increment >= 0:
        raise ValueError(f"increment = {increment!r}: at least 0")
    size = {1: 32, 2: 64}.get(bytes_per_thread, 128)
    misaligned = any(start % HALF_WARP for start in starts)
    return HalfWarpTransactions(size, misaligned + math.ceil(increment * HALF_WARP * bytes_per_thread / size))


def _check(starts: Sequence[int], bytes_per_thread: int) -> None:
    if bytes_per_thread not in (1, 2, 4, 8, 16):
        raise ValueError(f"bytes_per_thread = {bytes_per_thread!r}: 1, 2, 4, 8 or 16")
    if not starts:
        raise ValueError("starts = (): at least one index")

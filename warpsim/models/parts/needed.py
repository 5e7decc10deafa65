"""The smallest occupancy at which a model attains a throughput, for models without a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

MOST_WARPS = 1 << 17
"""Upper limit of the search in warps per SM, far above what any chip holds."""

_ONE_BY_ONE = 1024

_TOLERANCE = 1e-9


def smallest_warps(rate: Callable[[float], float], target: float) -> float:
    """Returns the smallest number of warps with rate(warps) >= target, or infinity if `MOST_WARPS` do not attain it.

    `rate` must be continuous, but need not be monotonic: whole numbers are tried, up to 1024 one by one and from there on in
    steps that double, and the root is bracketed below the first one that attains the target.
    """
    target *= 1 - _TOLERANCE
    low, high = 0.0, 1.0
    while rate(high) < target:
        low, high = high, high + 1 if high < _ONE_BY_ONE else 2 * high
        if high > MOST_WARPS:
            return math.inf
    if low == 0 and rate(low) >= target:
        return low
    return float(brentq(lambda n: rate(n) - target, low, high, xtol=1e-9))

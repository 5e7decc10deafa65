"""The smallest occupancy at which a model attains a throughput, for models without a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

MOST_WARPS = 1024
"""Upper limit of the search in warps per SM, far above what any chip holds."""

_TOLERANCE = 1e-9


def smallest_warps(rate: Callable[[float], float], target: float) -> float:
    """Returns the smallest number of warps with rate(warps) >= target, or infinity if `MOST_WARPS` do not attain it.

    `rate` must be continuous, but need not be monotonic: whole numbers are tried one by one, and the root is bracketed below
    the first one that attains the target.
    """
    target *= 1 - _TOLERANCE
    for warps in range(1, MOST_WARPS + 1):
        if rate(float(warps)) >= target:
            low = warps - 1.0
            if low > 0 or rate(low) < target:
                return float(brentq(lambda n: rate(n) - target, low, float(warps), xtol=1e-9))
            return low
    return math.inf

"""Curves of simulated throughput over occupancy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Curve = dict[int, NDArray[np.float64]]
"""Occupancy in warps per SM -> the throughput of each replicate."""


def needed(curve: Curve, level: float) -> float:
    """Returns the least occupancy in warps per SM at which a curve attains a level; NaN: none."""
    return next((float(warps) for warps, values in curve.items() if values.mean() >= level), np.nan)


def largest(curve: Curve) -> float:
    """Returns the largest mean of a curve."""
    return max(float(values.mean()) for values in curve.values())

"""Numbers that a measurement gives, each with its unit and how it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Probabilities of the quantiles of latencies and of turnover, as in V Table 6.6."""

TABLE_LEVELS = (0.0, 0.01, *(twentieth / 20 for twentieth in range(1, 20)), 0.99, 1.0)
"""Probabilities of the quantiles of latencies in a chip's table.

With the few of V Table 6.6, straight lines between them make the mean of a distribution with two peaks, as the halves of L2
cause, 2 % too high, and its 99 % quantile 10 % too low (experiments/hardware/h100.record).
"""


@dataclass(frozen=True)
class Value:
    """A number or a list of numbers.

    Attributes:
        value: the number, or a list of numbers or of lists of them.
        unit: its unit; of a list of lists, the units of the columns.
        how: in words, how it was found.
    """

    value: Any
    unit: str
    how: str


def quantile_of(cycles: Floats, counts: Floats, level: float) -> float:
    """Returns a quantile of a histogram: the least value whose cumulative share reaches `level`."""
    order = np.argsort(cycles)
    share = np.cumsum(counts[order]) / np.sum(counts)
    place = min(int(np.searchsorted(share, level - 1e-12)), len(share) - 1)
    return float(cycles[order][place])

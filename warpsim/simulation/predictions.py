"""How far predicted times are from measured ones: the interval in which a measurement of a launch is to be expected.

The intervals of replicates say how much chance moves a result, and nothing of the error of the model. That is taken from
launches that were predicted and measured: `params/predictions.csv` has the ratio of the two for each kernel of a chip, and the
interval holds the middle of these ratios. If the new kernel is as easy to predict as those, it holds its time with the
probability that it states, whatever the distribution of the ratios is (split conformal prediction; Lei, G'Sell, Rinaldo,
Tibshirani & Wasserman 2018, "Distribution-free predictive inference for regression", section 2.2).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

from warpsim.hardware.files import params_dir
from warpsim.kernels.program import Kernel
from warpsim.kernels.traversal import issued

Origin = Literal["source", "report"]
"""What a kernel was made of: source or machine code alone, or a profiler's report of the launch."""

LEVEL = 0.9
"""Probability with which an interval is to hold a measured time."""

SHORTEST_MICROSECONDS = 10.0
"""Launches that are shorter have not been compared."""


@dataclass(frozen=True)
class PredictionInterval:
    """Where the measured time of a launch is to be expected.

    Attributes:
        low: us, at least.
        high: us, at most.
        level: the probability that it lies there.
        kernels: kernels of a chip whose times were compared.
    """

    low: float
    high: float
    level: float
    kernels: int


def prediction_interval(microseconds: float, origin: Origin, level: float = LEVEL) -> PredictionInterval | None:
    """Returns the interval for a launch of which the time has been simulated, in us; None: none as short has been compared.

    Raises:
        ValueError: so few kernels have been compared that no interval has this level.
    """
    if microseconds < SHORTEST_MICROSECONDS:
        return None
    ratios = _ratios()[origin]
    low, high = middle(len(ratios), level)
    return PredictionInterval(microseconds * ratios[low], microseconds * ratios[high], level, len(ratios))


def middle(count: int, level: float) -> tuple[int, int]:
    """Returns the places of two of so many sorted values between which another one lies with a probability of at least `level`.

    It is as likely to come before the first one as between any two of them, or behind the last one.

    Raises:
        ValueError: there are too few values.
    """
    outside = math.floor((count + 1) * (1.0 - level) / 2.0 + 1e-9)
    if outside < 1:
        raise ValueError(f"level = {level}: must be smaller, since {count} kernels have been compared")
    return outside - 1, count - outside


def is_of_machine_code(kernel: Kernel) -> bool:
    """Returns whether a kernel was made of machine code: most instructions have costs of their own, such as stall counts."""
    own = [instruction.cost is not None for instruction in issued(kernel.body)]
    return 2 * sum(own) > len(own)


@cache
def _ratios() -> dict[str, list[float]]:
    """Returns origin -> measured over simulated time of each kernel of a chip, sorted."""
    found: dict[str, list[float]] = {"source": [], "report": []}
    with (params_dir() / "predictions.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["origin"]].append(float(row["ratio"]))
    return {origin: sorted(ratios) for origin, ratios in found.items()}

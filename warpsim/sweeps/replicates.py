"""How many replicates a point gets: a number, or until its mean is known well enough.

The rule: after `least` replicates, go on until half the width of the 95 % interval of the mean (Student's t) is at most `rtol`
times the mean, but not before as many replicates as the variance of the first `least` asks for (C. Stein, A two-sample test for a
linear hypothesis whose power is independent of the variance, Annals of Mathematical Statistics 16, 1945). A rule that
stops when the interval happens to be narrow stops too early: intervals are narrow where the variance is underestimated. With
Stein's number the true mean is within `rtol` in at least 95 % of cases, if replicates are normally distributed, since the
mean does not depend on the variances that decide when to stop. Student's interval of the replicates that were kept covers it in
93 to 95 % (`make verify` measures both).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.sweeps.settings import integer

LEVEL = 0.95
"""Confidence of the intervals."""

_MAY_BE_OF = tuple(declared.name for declared in SWEEP_VARIABLES if declared.dims in (("replicate",), ("replicate", "op")))

Results = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Replicates:
    """The rule of a plan.

    Attributes:
        least: replicates of every point, at least 2 where there is a tolerance.
        most: replicates of a point at most; it then stays less sharp.
        rtol: half the width of the 95 % interval, relative to the mean; infinite for a fixed number.
        of: the variable whose mean it is; where it has operation classes, their sum.
    """

    least: int
    most: int
    rtol: float = math.inf
    of: str = "ipc"

    @property
    def fixed(self) -> bool:
        """Whether every point has the same number."""
        return self.least == self.most

    @property
    def middle(self) -> float:
        """About how many a point gets, before anything is known of it: the geometric mean of the two."""
        return math.sqrt(self.least * self.most)

    def extends(self, other: Replicates) -> bool:
        """Whether a point never needs fewer replicates than by another rule, of the same variable."""
        same = self.of == other.of or other.fixed
        return same and self.least >= other.least and self.most >= other.most and (other.fixed or self.rtol <= other.rtol)

    def needed(self, values: NDArray[np.float64]) -> int:
        """How many replicates there should be, by those that there are; so many as there are: enough.

        Args:
            values: of the replicates in order, at least `least` of them.
        """
        have = len(values)
        if have >= self.most or math.isinf(self.rtol):
            return have
        width = self.rtol * abs(float(np.mean(values)))
        if not math.isfinite(width):
            return have
        first, now = _wanted(values[: self.least], width), _wanted(values, width)
        return int(min(self.most, max(have, first, now)))


def read_replicates(value: Any) -> Replicates:
    """The rule from what a plan says: a number, or a table of `rtol`, `least`, `most` and `of`.

    Raises:
        TypeError, ValueError: it is neither, or a value is not allowed.
    """
    if isinstance(value, Replicates):
        return value
    if not isinstance(value, Mapping):
        number = integer("replicates", value)
        return Replicates(number, number)
    names = [field.name for field in fields(Replicates)]
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ValueError(f"replicates.{unknown[0]}: unknown; must be one of {', '.join(names)}")
    table = {"rtol": 0.01, "least": 8, "most": 64, "of": "ipc"} | dict(value)
    least = integer("replicates.least", table["least"], 2)
    most = integer("replicates.most", table["most"], least)
    rtol, of = table["rtol"], table["of"]
    if isinstance(rtol, bool) or not isinstance(rtol, int | float) or not 0 < rtol < 1:
        raise ValueError(f"replicates.rtol = {rtol!r}: must be a number above 0 and below 1")
    if of not in _MAY_BE_OF:
        raise ValueError(f"replicates.of = {of!r}: must be one of {', '.join(_MAY_BE_OF)}")
    return Replicates(least, most, float(rtol), of)


def recorded(rule: Replicates) -> int | dict[str, Any]:
    """What `read_replicates` reads the rule from, in JSON types."""
    if rule.fixed and math.isinf(rule.rtol):
        return rule.most
    return {field.name: getattr(rule, field.name) for field in fields(rule)}


def replicated(
    simulate: Callable[[int, int], Results], rule: Replicates, known: Results | None = None
) -> dict[str, NDArray[Any]]:
    """Run replicates of a point until there are enough.

    The result does not depend on what is known: a number that is known is what a run would give.

    Args:
        simulate: (first, number) -> results of that many replicates from number `first` on, replicate first.
        rule: how many.
        known: results of the first replicates.
    """
    results = {} if known is None else dict(known)
    number = rule.least
    while True:
        have = len(next(iter(results.values()))) if results else 0
        if number > have:
            new = simulate(have, number - have)
            results = {name: np.concatenate([results[name], new[name]]) for name in results} if have else dict(new)
        values = results[rule.of][:number]
        needed = rule.needed(values if values.ndim == 1 else values.sum(axis=-1))
        if needed <= number:
            return {name: array[:number] for name, array in results.items()}
        number = needed


def _wanted(values: NDArray[np.float64], width: float) -> float:
    """Replicates that bring half the width of the interval to `width`, if the variance is that of the values."""
    from scipy.special import stdtrit

    deviation = float(np.std(values, ddof=1))
    if deviation == 0.0:
        return 0.0
    quantile = float(stdtrit(len(values) - 1.0, (1.0 + LEVEL) / 2.0))
    return math.ceil((quantile * deviation / width) ** 2) if width else math.inf

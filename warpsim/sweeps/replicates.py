"""The number of replicates of a point: a fixed number, or as many as a tolerance on the mean requires.

The rule runs `least` replicates, and then adds replicates until the half-width of the 95 % confidence interval of the mean
(Student's t) is at most `rtol` times the mean. It never stops before the number that the variance of the first `least` replicates
requires (C. Stein, A two-sample test for a linear hypothesis whose power is independent of the variance, Annals of Mathematical
Statistics 16, 1945). A rule without this number stops too early, because an interval is narrow where the variance is
underestimated. With it, the true mean is within `rtol` in at least 95 % of cases if replicates are normally distributed, because
the mean is independent of the variances that decide when to stop. Student's interval of the replicates covers the true mean in
93 to 95 % of cases (`make verify` measures both).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import integer
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.results.statistics import LEVEL
from warpsim.simulation.limits import MAX_REPLICATES

_ALLOWED = tuple(declared.name for declared in SWEEP_VARIABLES if declared.dims in (("replicate",), ("replicate", "op")))

Results = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Replicates:
    """The rule for the number of replicates of a point.

    Attributes:
        least: minimum number of replicates, at least 2 if there is a tolerance.
        most: maximum number of replicates; a point that reaches it may miss the tolerance.
        rtol: tolerance on the half-width of the 95 % confidence interval, relative to the mean; infinite for a fixed number.
        of: the variable whose mean is meant; a variable with operation classes is summed over them.
    """

    least: int
    most: int
    rtol: float = math.inf
    of: str = "ipc"

    @property
    def fixed(self) -> bool:
        """Whether every point has the same number of replicates."""
        return self.least == self.most

    @property
    def expected(self) -> float:
        """A guess of the number of replicates of a point before it runs: the geometric mean of `least` and `most`."""
        return math.sqrt(self.least * self.most)

    def extends(self, other: Replicates) -> bool:
        """Whether this rule never requires fewer replicates than the other one, and for the same variable."""
        same = self.of == other.of or other.fixed
        return same and self.least >= other.least and self.most >= other.most and (other.fixed or self.rtol <= other.rtol)

    def needed(self, values: NDArray[np.float64]) -> int:
        """Returns the number of replicates required, given those run so far. If it equals len(values), no more are needed.

        Args:
            values: the variable in each replicate, in order; at least `least` replicates.
        """
        have = len(values)
        if have >= self.most or math.isinf(self.rtol):
            return have
        width = self.rtol * abs(float(np.mean(values)))
        if not math.isfinite(width):
            return have
        stein, student = _required(values[: self.least], width), _required(values, width)
        return int(min(self.most, max(have, stein, student)))


def read_replicates(value: Any) -> Replicates:
    """Reads the setting `replicates` of a plan: a number, or a table of `rtol`, `least`, `most` and `of`.

    Raises:
        TypeError, ValueError: it is neither, or a value is not allowed.
    """
    if isinstance(value, Replicates):
        return value
    if isinstance(value, list | tuple | range | np.ndarray):
        raise TypeError(f"replicates = {value!r}: must be one number; it cannot be an axis")
    if not isinstance(value, Mapping):
        number = integer("replicates", value, 1, MAX_REPLICATES)
        return Replicates(number, number)
    names = [field.name for field in fields(Replicates)]
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ValueError(f"replicates.{unknown[0]}: unknown; must be one of {', '.join(names)}")
    table = {"rtol": 0.01, "least": 8, "most": 64, "of": "ipc"} | dict(value)
    least = integer("replicates.least", table["least"], 2, MAX_REPLICATES)
    most = integer("replicates.most", table["most"], least, MAX_REPLICATES)
    rtol, of = table["rtol"], table["of"]
    if isinstance(rtol, bool) or not isinstance(rtol, int | float) or not 0 < rtol < 1:
        raise ValueError(f"replicates.rtol = {rtol!r}: must be a number above 0 and below 1")
    if of not in _ALLOWED:
        raise ValueError(f"replicates.of = {of!r}: must be one of {', '.join(_ALLOWED)}")
    return Replicates(least, most, float(rtol), of)


def recorded(rule: Replicates) -> int | dict[str, Any]:
    """Returns the rule in JSON types, as `read_replicates` reads it."""
    if rule.fixed and math.isinf(rule.rtol):
        return rule.most
    return {field.name: getattr(rule, field.name) for field in fields(rule)}


def replicated(
    simulate: Callable[[int, int], Results], rule: Replicates, earlier: Results | None = None
) -> dict[str, NDArray[Any]]:
    """Runs replicates of a point until there are as many as the rule requires.

    Args:
        simulate: (first, number) -> results of `number` replicates from replicate `first` on, with replicates along axis 0.
        rule: determines the number of replicates.
        earlier: results of the first replicates from an earlier run. They save time and do not change the result.
    """
    results = {} if earlier is None else dict(earlier)
    number = rule.least
    while True:
        have = len(next(iter(results.values()))) if results else 0
        if number > have:
            new = simulate(have, number - have)
            results = {name: np.concatenate([results[name], new[name]]) for name in results} if have else dict(new)
        kept = {name: array[:number] for name, array in results.items()}
        needed = required(kept, rule)
        if needed <= number:
            return kept
        number = needed


def required(results: Results, rule: Replicates) -> int:
    """Returns the number of replicates that a rule requires, given the results of at least `rule.least` of them."""
    values = results[rule.of]
    return rule.needed(values if values.ndim == 1 else values.sum(axis=-1))


def _required(values: NDArray[np.float64], width: float) -> float:
    """Returns the number of replicates for which the half-width is `width`, if the variance is that of the values."""
    from scipy.special import stdtrit

    deviation = float(np.std(values, ddof=1))
    if deviation == 0.0:
        return 0.0
    quantile = float(stdtrit(len(values) - 1.0, (1.0 + LEVEL) / 2.0))
    return math.ceil((quantile * deviation / width) ** 2) if width else math.inf

"""Checks of the arguments of the kernel builders: all that are wrong are reported at once."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any, TypeVar

from warpsim.kernels.program import WARP_SIZE, Access

__all__ = ["ALPHA_TOLERANCE", "MAX_GROUP", "Arguments"]

MAX_GROUP = 1024
"""Most instructions in the repeating group of a mix."""

ALPHA_TOLERANCE = 0.005
"""Largest relative error with which a mix may represent alpha."""

PATTERNS = ("coalesced", "stride", "random", "broadcast")

_Value = TypeVar("_Value")


class Arguments:
    """Collects what is wrong with a call. A check returns the value, or a harmless one where it is wrong."""

    def __init__(self) -> None:
        """Start with nothing wrong."""
        self._problems: list[str] = []

    def wrong(self, name: str, value: object, allowed: str) -> None:
        """Note a wrong argument."""
        self._problems.append(f"{name} = {value!r}: {allowed}")

    def done(self) -> None:
        """End the checks.

        Raises:
            ValueError: with a line "argument = value: what is allowed" for each wrong argument.
        """
        if self._problems:
            raise ValueError("\n".join(self._problems))

    def integer(self, name: str, value: Any, low: int, high: int) -> int:
        """An integer from `low` to `high`; numpy's integers are taken."""
        number = _plain(value)
        if type(number) is int and low <= number <= high:
            return number
        self.wrong(name, value, f"an integer from {low} to {high}")
        return low

    def choice(self, name: str, value: object, allowed: tuple[_Value, ...]) -> _Value:
        """One of `allowed`; numpy's integers and strings are taken."""
        plain = _plain(value)
        for choice in allowed:
            if type(choice) is type(plain) and choice == plain:
                return choice
        self.wrong(name, value, f"one of {', '.join(map(str, allowed))}")
        return allowed[0]

    def flag(self, name: str, value: Any) -> bool:
        """True or False."""
        if not isinstance(value, bool):
            self.wrong(name, value, "True or False")
        return bool(value)

    def iterations(self, value: Any) -> int | None:
        """A number of iterations, or None for endless."""
        number = _plain(value)
        if type(number) is int and number >= 1:
            return number
        if value is not None:
            self.wrong("iterations", value, "an integer of at least 1, or left out for endless")
        return None

    def ways(self, value: Any, op: str) -> int:
        """A degree of bank conflicts; other than 1 only for shared memory."""
        ways = self.integer("ways", value, 1, WARP_SIZE)
        if ways != 1 and op != "smem":
            self.wrong("ways", value, f"1 for {op}; only smem has bank conflicts")
        return ways

    def access(self, pattern: Any, stride: Any, op: str) -> Access | None:
        """The access of a load of 4 bytes per thread; None for other classes, which have none."""
        pattern = self.choice("pattern", pattern, PATTERNS)
        stride = self.integer("stride", stride, 1, 2**31)
        if op != "load":
            if pattern != "coalesced":
                self.wrong("pattern", pattern, f"coalesced for {op}; only load has others")
            return None
        if stride != 1 and pattern != "stride":
            self.wrong("stride", stride, '1, unless pattern = "stride"')
            return None
        return Access.model_validate({"pattern": pattern, "stride": stride})

    def ratio(self, name: str, value: Any) -> tuple[int, int]:
        """A pair (p, q) with p / q within the tolerance of `value`; 0 is (0, 1), infinity (1, 0).

        The smaller of the two is the least that will do, and the larger is the nearest to it.
        """
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not (is_number and value >= 0):  # nan is not
            self.wrong(name, value, "a number of at least 0, or inf")
            return (0, 1)
        if value == 0 or value == math.inf:
            return (0, 1) if value == 0 else (1, 0)
        beyond = 2.0 * MAX_GROUP  # any number that is as far out of range
        target = float(max(1 / beyond, min(value, beyond)))
        steep = max(target, 1 / target)
        for few in range(1, MAX_GROUP // 2 + 1):
            many = min(round(steep * few), MAX_GROUP - few)
            adds, others = (many, few) if target >= 1.0 else (few, many)
            if abs(adds / others - target) <= ALPHA_TOLERANCE * target:
                return (adds, others)
        least, most = 1 / (MAX_GROUP - 1), MAX_GROUP - 1
        nearest = least if target < 1.0 else most
        allowed = f"0, inf, or from {least:.6g} to {most}: a group of at most {MAX_GROUP} instructions"
        self.wrong(name, value, f"not representable; the nearest is {nearest:.6g} ({allowed})")
        return (0, 1)


def _plain(value: object) -> object:
    """Numpy's integers and strings as Python's; anything else, True and False too, as it is."""
    if isinstance(value, str):
        return str(value)
    return operator.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value

"""Checks the arguments of the kernel builders and reports all errors of a call together."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, SupportsIndex, TypeVar

from warpsim import arguments
from warpsim.kernels.instruction import MAX_STRIDE, Access
from warpsim.kernels.statements import MAX_TRIPS
from warpsim.units import WARP_LANES

MAX_GROUP = 1024
"""Largest number of instructions in the repeating group of a mix."""

ALPHA_TOLERANCE = 0.005
"""Largest relative error with which a mix may represent alpha."""

PATTERNS = ("coalesced", "stride", "random", "broadcast")

_Value = TypeVar("_Value")


class Arguments:
    """Collects the errors of a call. Each check returns the value, or a valid placeholder if the value is wrong."""

    def __init__(self) -> None:
        """Starts without errors."""
        self._problems: list[str] = []

    def wrong(self, name: str, value: object, allowed: str) -> None:
        """Records an argument with a wrong value."""
        self._problems.append(f"{name} = {value!r}: must be {allowed}")

    def done(self) -> None:
        """Ends the checks.

        Raises:
            ValueError: an argument is wrong; the message has a line "argument = value: must be ..." for each.
        """
        if self._problems:
            raise ValueError("\n".join(self._problems))

    def integer(self, name: str, value: object, least: int, most: int) -> int:
        """Checks an integer from `least` to `most`."""
        return self._check(lambda: arguments.integer(name, value, least, most), least)

    def iterations(self, value: object) -> int | None:
        """Checks a number of iterations; None means endless."""
        if value is None:
            return None
        return self._check(lambda: arguments.integer("iterations", value, 1, MAX_TRIPS, alternatives="None (endless) or "), 1)

    def choice(self, name: str, value: object, allowed: tuple[str, ...]) -> str:
        """Checks a word."""
        return str(self._check(lambda: arguments.choice(name, value, allowed), allowed[0]))

    def number(self, name: str, value: object, allowed: tuple[int, ...]) -> int:
        """Checks that an integer is one of `allowed`."""
        number = operator.index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else None
        if number in allowed:
            return number
        self.wrong(name, value, f"one of {', '.join(map(str, allowed))}")
        return allowed[0]

    def flag(self, name: str, value: object) -> bool:
        """Checks a boolean."""
        if not isinstance(value, bool):
            self.wrong(name, value, "True or False")
        return bool(value)

    def ways(self, value: object, op: str) -> int:
        """Checks a degree of bank conflicts, which only shared memory may have."""
        ways = self.integer("ways", value, 1, WARP_LANES)
        if ways != 1 and op != "smem":
            self.wrong("ways", value, f"1 for {op}: only smem has bank conflicts")
        return ways

    def access(self, pattern: object, stride: object, op: str) -> Access | None:
        """Returns the access of a load of 4 bytes per thread, or None for other operation classes."""
        pattern = self.choice("pattern", pattern, PATTERNS)
        stride = self.integer("stride", stride, 1, MAX_STRIDE)
        if op != "load":
            if pattern != "coalesced":
                self.wrong("pattern", pattern, f"coalesced for {op}: only load has other patterns")
            return None
        if stride != 1 and pattern != "stride":
            self.wrong("stride", stride, '1 unless pattern = "stride"')
            return None
        return Access.model_validate({"pattern": pattern, "stride": stride})

    def ratio(self, name: str, value: Any) -> tuple[int, int]:
        """Returns integers (p, q) whose ratio p / q is within `ALPHA_TOLERANCE` of `value`.

        The smaller of the two is the smallest possible, and the larger is the nearest to it. The value 0 gives
        (0, 1), and infinity gives (1, 0).
        """
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not (is_number and value >= 0):  # false for NaN
            self.wrong(name, value, "a number from 0, or inf")
            return (0, 1)
        if value == 0 or value == math.inf:
            return (0, 1) if value == 0 else (1, 0)
        limit = 2.0 * MAX_GROUP  # clips the value; beyond this limit no ratio fits a group anyway
        target = float(max(1 / limit, min(value, limit)))
        steepness = max(target, 1 / target)
        for rarer in range(1, MAX_GROUP // 2 + 1):
            commoner = min(round(steepness * rarer), MAX_GROUP - rarer)
            p, q = (commoner, rarer) if target >= 1.0 else (rarer, commoner)
            if abs(p / q - target) <= ALPHA_TOLERANCE * target:
                return (p, q)
        least, most = 1 / (MAX_GROUP - 1), MAX_GROUP - 1
        nearest = least if target < 1.0 else most
        self.wrong(
            name,
            value,
            f"0, inf, or from {least:.6g} to {most}, since a group has at most {MAX_GROUP} instructions;"
            f" the nearest possible value is {nearest:.6g}",
        )
        return (0, 1)

    def _check(self, check: Callable[[], _Value], placeholder: _Value) -> _Value:
        try:
            return check()
        except (TypeError, ValueError) as error:
            self._problems.append(str(error))
            return placeholder

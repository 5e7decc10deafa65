"""Branches for operands that are rare, by which the compiler's mathematical functions tell them apart.

These are numbers that are infinite, or none; those from which on a sine or a cosine needs a long reduction; and 0 and 1 as the
base of a power. The functions stand in the code of the kernel, so that only the numbers with which they compare tell them.
"""

from __future__ import annotations

import re

from warpsim.frontends.machine_code.operands import conditions, written
from warpsim.frontends.machine_code.sass import MachineInstruction

_LONG_REDUCTION = "105615"
"""The operand of a sine or a cosine of single precision from which on it is reduced by many digits of pi."""

_TEST = re.compile(r"P\d, PT, (\|?)(R\d+)(?:\.reuse)?\|?(?:\.reuse)?, ([^ ,]+) *, (!?)(PT|P\d)$")
_OF_SMALLER = ("LT", "LE", "NE")
"""Comparisons that hold of a number and a larger one."""


def common_jumps(code: tuple[MachineInstruction, ...]) -> dict[int, bool]:
    """Returns the branches that tell rare operands apart: index -> whether a warp without any of these jumps."""
    found: dict[int, bool] = {}
    for index, one in enumerate(code):
        if one.base != "BRA" or len(predicates := conditions(one)) != 1:
            continue
        if (holds := _commonly(code, index, predicates[0].name)) is not None:
            found[index] = holds != predicates[0].negative
    return found


def _commonly(code: tuple[MachineInstruction, ...], before: int, predicate: str) -> bool | None:
    """Returns what a predicate is at a place for operands that are not rare; None: it does not tell any apart."""
    index = next((n for n in range(before - 1, -1, -1) if predicate in written(code[n])), None)
    test = None if index is None else _TEST.match(code[index].operands)
    if index is None or test is None or code[index].base not in ("FSETP", "DSETP"):
        return None
    how, combined = code[index].opcode.split(".")[1:3]
    absolute, number, bound, negative, other = test.groups()
    if other == "PT" and not negative and combined == "AND":
        if absolute and bound in ("+INF", _LONG_REDUCTION):
            return how.removesuffix("U") in _OF_SMALLER
        if bound == "1" and how == "NEU" and _is_tested_for_none(code, before, number):
            return True
    elif bound == "RZ" and how == "EQ" and combined == "OR" and _commonly(code, index, other) is (negative == "!"):
        return False
    return None


def _is_tested_for_none(code: tuple[MachineInstruction, ...], branch: int, number: str) -> bool:
    """Returns whether the first comparison behind a branch is that by which a power tells whether its base is a number."""
    behind = next((one for one in code[branch + 1 :] if one.base in ("FSETP", "DSETP")), None)
    test = None if behind is None else _TEST.match(behind.operands)
    return test is not None and behind is not None and ".GTU." in behind.opcode and test.group(2, 3) == (number, "+INF")

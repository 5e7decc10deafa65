"""Which variables in constant memory a kernel reads."""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.frontends.machine_code.cubin import Variable
from warpsim.frontends.machine_code.operands import ZERO, Constant, operands
from warpsim.frontends.machine_code.sass import MachineFunction

OF_VARIABLES = 3
"""The constant bank with the variables."""


def variables_read(function: MachineFunction, variables: Iterable[Variable]) -> tuple[Variable, ...]:
    """Returns those of some variables in constant memory that a function reads; all of them if it does so with an index."""
    places: set[int] = set()
    for one in function.code:
        size = 16 if ".128" in one.opcode else 8 if ".64" in one.opcode or "WIDE" in one.opcode else 4
        for part in operands(one.operands):
            if not isinstance(part, Constant) or part.bank != OF_VARIABLES:
                continue
            if part.index is not None and part.index.name not in ZERO:
                return tuple(variables)
            places.update(range(part.offset, part.offset + size))
    return tuple(one for one in variables if not places.isdisjoint(range(one.offset, one.offset + one.size)))

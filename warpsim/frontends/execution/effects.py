"""Effects of machine instructions: what they are, and how their makers take operands apart.

A maker raises ValueError, or another error of a look-up, for a form of the instruction that is not foreseen.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsim.frontends.execution.state import State
from warpsim.frontends.machine_code.operands import Operand, Register, is_predicate, registers_of
from warpsim.frontends.values import Values

Effect = Callable[[State], list[tuple[str, Values]]]
"""Computes the results of an instruction, as (register, value)."""

Suffixes = tuple[str, ...]
Parts = tuple[Operand, ...]


def name_of(part: Operand) -> str:
    """Returns the name of a register."""
    if not isinstance(part, Register):
        raise ValueError
    return part.name


def names_of(part: Operand, count: int) -> tuple[str, ...]:
    """Returns the names of consecutive registers, of which an operand is the first; of one that is always zero, its own."""
    name = name_of(part)
    return registers_of(name, count) or (name,) * count


def predicate(part: Operand) -> Operand:
    """Returns an operand that must be a predicate."""
    if not is_predicate(part):
        raise ValueError
    return part


def split(parts: Parts) -> tuple[str, list[str], list[Operand], list[Operand]]:
    """Returns the result, predicates written after it, values read, and predicates read after them."""
    rest = list(parts[1:])
    carries = []
    while rest and is_predicate(rest[0]):
        carries.append(name_of(rest.pop(0)))
    tail: list[Operand] = []
    while rest and is_predicate(rest[-1]):
        tail.insert(0, rest.pop())
    return name_of(parts[0]), carries, rest, tail

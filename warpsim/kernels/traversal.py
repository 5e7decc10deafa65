"""What statements hold: all of them in program order, how often a warp is expected to execute each, and all of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional, Loop, Statement


def expected_executions(statements: Iterable[Statement], block_warps: int | None = None) -> Iterator[tuple[Instruction, float]]:
    """Yields instructions, and branches of conditionals, with the expected executions by a warp; of an endless loop, in one trip.

    What follows an early exit counts for the warps that go on. If a conditional depends on the warp of a block, its sides count
    as many warps of a block of this size as execute them, or one half each if the size is not given.
    """
    statements = tuple(statements)
    # those that leave may be those that a later side names, as may those that execute the side around it
    by_warp = block_warps is not None and (has_op(statements, "exit") or _has_side_of_side(statements))
    for one, times in _executions(statements, np.ones(block_warps or 1) if by_warp else 1.0, block_warps):
        yield one, times if isinstance(times, float) else float(times.mean())


def _has_side_of_side(statements: Iterable[Statement], within: bool = False) -> bool:
    """Returns whether a conditional that depends on the warp of a block stands on a side of another one, or `within` one."""
    for one in statements:
        by_warp = isinstance(one, Conditional) and one.warps is not None
        if (by_warp and within) or any(_has_side_of_side(inner, within or by_warp) for _, inner in inner_statements(one)):
            return True
    return False


def leaving(statements: tuple[Statement, ...], block_warps: int | None = None) -> float:
    """Returns the share of the warps that leave the program in some statements, by an exit."""
    return float(np.mean(_leaving(statements, 1.0, block_warps)))


def expected_trips(loop: Loop) -> float:
    """Returns the expected trips of a loop, of which warps may leave the program in each trip."""
    return float(_trips(loop, _leaving(loop.body, 1.0, None)))


_Times = float | NDArray[np.float64]
"""How many warps execute something, of one, or of each warp of a block."""


def _executions(
    statements: tuple[Statement, ...], here: _Times, block_warps: int | None
) -> Generator[tuple[Instruction, _Times], None, _Times]:
    """Yields instructions with their expected executions where so many warps come here; returns how many of these leave."""
    all_lost: _Times = 0.0
    for statement in statements:
        lost: _Times = 0.0
        if isinstance(statement, Instruction):
            yield statement, here
            lost = here if statement.op == "exit" else 0.0
        elif isinstance(statement, Loop):
            share = _leaving(statement.body, here * 0.0 + 1.0, block_warps)
            trips = _trips(statement, share)
            yield from _executions(statement.body, here * trips, block_warps)
            lost = here * trips * share
        else:
            yield statement.branch, here
            for side, share in zip((statement.then, statement.orelse), _sides(statement, here, block_warps), strict=True):
                lost = lost + (yield from _executions(side, here * share, block_warps))
        here, all_lost = here - lost, all_lost + lost
    return all_lost


def _sides(statement: Conditional, here: _Times, block_warps: int | None) -> tuple[_Times, _Times]:
    """Returns how often a warp that comes to a conditional executes its sides; for each warp of a block if `here` is so."""
    if statement.warps is None or isinstance(here, float):
        return statement.sides(block_warps)
    then = np.array([statement.falls_through(warp) for warp in range(len(here))])
    return then, 1.0 - then


def _leaving(statements: tuple[Statement, ...], here: _Times, block_warps: int | None) -> _Times:
    """Returns how many of the warps that come to some statements leave the program there."""
    if not has_op(statements, "exit"):
        return 0.0
    run = _executions(statements, here, block_warps)
    while True:
        try:
            next(run)
        except StopIteration as end:
            return cast(_Times, end.value)


def _trips(loop: Loop, share: _Times) -> _Times:
    """Returns the expected trips of a loop, of whose warps such a share leaves the program in each trip."""
    if isinstance(share, float) and not share:
        return loop.mean_trips
    some = np.asarray(share) > 0.0
    return np.where(some, (1.0 - (1.0 - share) ** loop.mean_trips) / np.where(some, share, 1.0), loop.mean_trips)


def expected_instructions(statements: Iterable[Statement], block_warps: int | None = None) -> float:
    """Returns how many instructions a warp is expected to execute, as `expected_executions`."""
    return sum(times for _, times in expected_executions(statements, block_warps))


def walk(statements: tuple[Statement, ...], path: str = "body") -> Iterator[tuple[str, Statement]]:
    """Yields every statement in program order, outer before inner, with its path, such as "body[3].then[0]"."""
    for index, statement in enumerate(statements):
        here = f"{path}[{index}]"
        yield here, statement
        for name, inner in inner_statements(statement):
            yield from walk(inner, f"{here}.{name}")


def issued(statements: tuple[Statement, ...]) -> Iterator[Instruction]:
    """Yields every instruction in program order, with the branches of conditionals."""
    for _, statement in walk(statements):
        if isinstance(statement, Instruction | Conditional):
            yield statement.branch if isinstance(statement, Conditional) else statement


def mapped(statements: Iterable[Statement], edit: Callable[[Instruction], Instruction]) -> tuple[Statement, ...]:
    """Returns statements in which each instruction is replaced by what `edit` makes of it."""
    found: list[Statement] = []
    for one in statements:
        if isinstance(one, Instruction):
            found.append(edit(one))
        else:
            found.append(one.model_copy(update={name: mapped(inner, edit) for name, inner in inner_statements(one)}))
    return tuple(found)


def has_op(statements: Iterable[Statement], op: str) -> bool:
    """Returns whether one of some statements, or of those inside them, is an instruction of class `op`."""
    return any(isinstance(statement, Instruction) and statement.op == op for _, statement in walk(tuple(statements)))


def inner_statements(statement: Statement) -> tuple[tuple[str, tuple[Statement, ...]], ...]:
    """Returns the statements inside a statement, with the name of the field that contains them."""
    if isinstance(statement, Loop):
        return (("body", statement.body),)
    if isinstance(statement, Conditional):
        return (("then", statement.then), ("orelse", statement.orelse))
    return ()

"""What statements hold: all of them in program order, how often a warp is expected to execute each, and all of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional, Loop, Statement


def expected_executions(
    statements: Iterable[Statement], block_warps: int | None = None
) -> Iterator[tuple[Instruction, float]]:
    """Yields instructions, and branches of conditionals, with the expected executions by a warp; of an endless loop, in one trip.

    If a conditional depends on the warp of a block, its sides count as many warps of a block of this size as execute them, or one
    half each if the size is not given.
    """
    for statement in statements:
        if isinstance(statement, Instruction):
            yield statement, 1.0
        elif isinstance(statement, Loop):
            trips = statement.mean_trips
            yield from ((one, trips * times) for one, times in expected_executions(statement.body, block_warps))
        else:
            yield statement.branch, 1.0
            for side, share in zip((statement.then, statement.orelse), statement.sides(block_warps), strict=True):
                yield from ((one, share * times) for one, times in expected_executions(side, block_warps))


def expected_instructions(statements: Iterable[Statement]) -> float:
    """Returns how many instructions a warp is expected to execute, as `expected_executions`."""
    return sum(times for _, times in expected_executions(statements))


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

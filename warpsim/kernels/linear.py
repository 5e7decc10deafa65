"""The flat form of a kernel: the one place that turns nested statements into a list of steps.

The simulator and the analytical models read it. Steps are executed from index 0 on; after a step comes the
next one, unless it is a "branch" that is taken, a "loop_end" with trips left, or a "jump": then its `target`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from warpsim.kernels.program import Conditional, Instruction, Kernel, Loop, Statement, walk

__all__ = ["LinearProgram", "Step", "linear"]


@dataclass(frozen=True)
class Step:
    """One step. Fields that its kind does not use keep their defaults.

    Attributes:
        kind: "issue": issue `instruction`. "branch": issue `instruction` (of class "branch"), then go on with
            the next step (not taken, the side `then`) or at `target` (taken). "loop_begin": set the loop's
            counter to a number of trips. "loop_end": count one trip down; back to `target` while any are
            left. "jump": go on at `target`. Only the first two take time.
        instruction: what is issued; None for loops and jumps.
        dst: number of the register written; -1: none.
        src: numbers of the registers read, each once, in order of first use.
        loop: number of the loop, for "loop_begin" and "loop_end"; -1 otherwise.
        trips: least and greatest number of trips, drawn uniformly per warp and per entry; (-1, -1): endless.
        target: index of a step; -1: none.
        probability: that a branch is NOT taken, so that `then` is executed; 1.0 where both sides are
            executed.
        warps: warps of the block that do NOT take the branch, instead of a probability; None otherwise.
        draws: whether the warp draws one random number here: a "branch" by probability (also where that is 0
            or 1), and a "loop_begin" whose least and greatest number of trips differ.
    """

    kind: Literal["issue", "branch", "loop_begin", "loop_end", "jump"]
    instruction: Instruction | None = None
    dst: int = -1
    src: tuple[int, ...] = ()
    loop: int = -1
    trips: tuple[int, int] = (-1, -1)
    target: int = -1
    probability: float = 1.0
    warps: tuple[int, ...] | None = None
    draws: bool = False


@dataclass(frozen=True)
class LinearProgram:
    """The steps of a kernel.

    Attributes:
        steps: the last one issues "exit"; it cannot be reached where the kernel ends in an endless loop.
        registers: names; the place in this tuple is the register's number.
        written: numbers of the registers that some instruction writes. The others are inputs only, and never
            wait.
        loops: number of loops; each has a counter of its own.
    """

    steps: tuple[Step, ...]
    registers: tuple[str, ...]
    written: frozenset[int]
    loops: int


def linear(kernel: Kernel) -> LinearProgram:
    """Flatten a kernel.

    Registers are numbered in order of first use in the program; inputs that are never used get no number.
    """
    names = dict.fromkeys(name for _, statement in walk(kernel.body) for name in _operands(statement))
    flattener = _Flattener({name: number for number, name in enumerate(names)})
    flattener.add(kernel.body)
    flattener.add((Instruction("exit"),))
    steps = tuple(flattener.steps)
    written = frozenset(step.dst for step in steps if step.dst >= 0)
    return LinearProgram(steps=steps, registers=tuple(names), written=written, loops=flattener.loops)


def _operands(statement: Statement) -> Iterator[str]:
    if not isinstance(statement, Loop):
        yield from statement.src
    if isinstance(statement, Instruction) and statement.dst is not None:
        yield statement.dst


class _Flattener:
    """Steps collected so far; targets are filled in when they are known."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers
        self.steps: list[Step] = []
        self.loops = 0

    def add(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            if isinstance(statement, Instruction):
                dst = -1 if statement.dst is None else self.numbers[statement.dst]
                self.steps.append(Step("issue", statement, dst, self._sources(statement.src)))
            elif isinstance(statement, Loop):
                self._add_loop(statement)
            else:
                self._add_conditional(statement)

    def _add_loop(self, loop: Loop) -> None:
        number, self.loops = self.loops, self.loops + 1
        low, high = loop.trip_range
        self.steps.append(Step("loop_begin", loop=number, trips=(low, high), draws=low < high))
        first = len(self.steps)
        self.add(loop.body)
        self.steps.append(Step("loop_end", loop=number, trips=(low, high), target=first))

    def _add_conditional(self, conditional: Conditional) -> None:
        branch = len(self.steps)
        self.steps.append(
            Step(
                "branch",
                Instruction("branch", src=conditional.src),
                src=self._sources(conditional.src),
                probability=1.0 if conditional.probability is None else conditional.probability,
                warps=conditional.warps,
                draws=conditional.probability is not None,
            )
        )
        self.add(conditional.then)
        skip = len(self.steps)
        if conditional.orelse and not conditional.diverges:
            self.steps.append(Step("jump"))
        self.steps[branch] = replace(self.steps[branch], target=len(self.steps))
        self.add(conditional.orelse)
        if conditional.orelse and not conditional.diverges:
            self.steps[skip] = replace(self.steps[skip], target=len(self.steps))

    def _sources(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.numbers[name] for name in dict.fromkeys(names))

"""Flattens the nested statements of a kernel into a list of steps.

The simulator and the analytical models read this form. Execution starts at step 0. The next step follows in the
list, unless a "branch" is taken, a "loop_end" has trips left, or the step is a "jump": then it is `target`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.traversal import walk


@dataclass(frozen=True)
class Step:
    """One step. Fields that its kind does not use have their default values.

    Attributes:
        kind: "issue": issue `instruction`. "branch": issue `instruction` (of class "branch"), then continue with
            the next step (not taken, the side `then`) or at `target` (taken). "loop_begin": set the loop's
            counter to a number of trips. "loop_end": decrement the counter; return to `target` while trips are
            left. "jump": continue at `target`. Only "issue" and "branch" take time.
        instruction: the instruction issued; None for loops and jumps.
        dst: number of the register written; -1: none.
        src: numbers of the registers read, each once, in order of first use.
        loop: number of the loop, for "loop_begin" and "loop_end"; -1 otherwise.
        trips: smallest and largest number of trips, drawn uniformly per warp and per entry; (-1, -1): endless.
        target: index of a step; -1: none.
        probability: probability that a branch is NOT taken, so that `then` is executed; 1.0 if both sides are
            executed.
        warps: warps of the block that do NOT take the branch, instead of a probability; None otherwise.
        draws: whether the warp draws one random number here: a "branch" with a probability (even 0 or 1), and a
            "loop_begin" with a random number of trips.
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
class FlatProgram:
    """The steps of a kernel.

    Attributes:
        steps: the last step issues "exit"; it is unreachable if the kernel ends in an endless loop.
        registers: names; the index in this tuple is the number of the register.
        written: numbers of the registers that some instruction writes. The others are inputs only, and are
            always ready.
        loops: number of loops; each has its own counter.
        entries: steps at which warps start, one for each entry of the kernel; (0,) without any.
    """

    steps: tuple[Step, ...]
    registers: tuple[str, ...]
    written: frozenset[int]
    loops: int
    entries: tuple[int, ...] = (0,)


@kept_by_object
def flatten(kernel: Kernel) -> FlatProgram:
    """Returns the kernel as a list of steps.

    Registers are numbered in order of first use in the program; unused inputs have no number.
    """
    names = dict.fromkeys(name for _, statement in walk(kernel.body) for name in _operands(statement))
    flattener = _Flattener({name: number for number, name in enumerate(names)})
    entries = []
    for _, path in kernel.paths():
        entries.append(len(flattener.steps))
        flattener.add(path)
    flattener.add((Instruction("exit"),))
    steps = tuple(flattener.steps)
    written = frozenset(step.dst for step in steps if step.dst >= 0)
    return FlatProgram(steps=steps, registers=tuple(names), written=written, loops=flattener.loops, entries=tuple(entries))


def _operands(statement: Statement) -> Iterator[str]:
    if not isinstance(statement, Loop):
        yield from statement.src
    if isinstance(statement, Instruction) and statement.dst is not None:
        yield statement.dst


class _Flattener:
    """Collects steps, and fills in their targets as soon as they are known."""

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
                conditional.branch,
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

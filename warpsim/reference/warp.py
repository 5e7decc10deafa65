"""The warps of the slow twin: a warp's path through its kernel, its registers and what it waits for.

Sections 2, 3, 4 and 7 of docs/model.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from warpsim.hardware.gpu import Gpu, Op
from warpsim.kernels import Conditional, Instruction, Kernel, Loop
from warpsim.reference.memory import Stream

SCOREBOARD = {"math": "wait", "none": "wait", "mio": "short_scoreboard", "lg": "long_scoreboard"}
"""The name of waiting for a register, by the pipe of its writer (7)."""


@dataclass(frozen=True)
class Step:
    """An instruction on a warp's path, and its place in the kernel (a barrier is known by its place)."""

    place: str
    instruction: Instruction

    @property
    def op(self) -> str:
        return self.instruction.op


def walk(body: tuple, place: str, warp: Warp) -> Iterator[Step]:
    """Yield a warp's steps in program order (2). It goes on after a step once that step has issued."""
    for index, statement in enumerate(body):
        here = f"{place}[{index}]"
        if isinstance(statement, Loop):
            trips = warp.draw_trips(statement)
            while trips is None or trips > 0:
                yield from walk(statement.body, f"{here}.body", warp)
                trips = None if trips is None else trips - 1
        elif isinstance(statement, Conditional):
            yield Step(here, Instruction(op="branch", src=statement.src))
            first = warp.takes_first(statement)
            warp.branch_taken = not first and not statement.diverges
            if first or statement.diverges:
                yield from walk(statement.then, f"{here}.then", warp)
            if not first or statement.diverges:
                yield from walk(statement.orelse, f"{here}.orelse", warp)
        else:
            yield Step(here, statement)
    if place == "body":
        yield Step("end", Instruction(op="exit"))


@dataclass(frozen=True)
class Write:
    """The last write of a register: its class, its issue, what bank conflicts add, a load's return, its place."""

    op: Op
    issue: int
    conflict_cycles: int
    returns: int | None
    place: str

    def ready(self, consumer: str) -> int:
        """The cycle from which an instruction of class `consumer` can use the register (3)."""
        if self.returns is not None:
            return self.returns
        return self.issue + self.op.latency_to.get(consumer, self.op.latency_cycles) + self.conflict_cycles


class Warp:
    """A launched warp: its path, registers and times. It is resident from `start` up to and including R."""

    def __init__(self, number: int, index: int, slot: int, start: int, kernel: Kernel, seed: int) -> None:
        self.number = number  # over the grid: block number * block_warps + index
        self.index = index  # in the block
        self.slot = slot
        self.start = start
        self.stream = Stream.of_warp(seed, number)
        self.gap_end = start
        self.writes: dict[str, Write] = {}
        self.returns: list[int] = []  # of its loads
        self.loads: list[str] = []  # their places
        self.last_issued = ""  # the place of its last instruction
        self.barrier: str | None = None  # the place of the barrier where it waits
        self.last_barrier = ""  # the place of the barrier that held it last
        self.barrier_passed = start - 1  # cycle of the last arrival at its latest barrier
        self.barrier_end = start  # that cycle + the barrier's latency
        self.branch_taken = False
        self.exited = False
        self.retired: int | None = None  # R
        self.program = walk(kernel.body, "body", self)
        self.next = next(self.program)

    def draw_trips(self, loop: Loop) -> int | None:
        """Return how often the loop's body runs; one draw where that is random (6)."""
        low, high = loop.trip_range
        if low < high:
            return low + math.floor(self.stream.uniform() * (high - low + 1))
        return None if loop.trips is None else low

    def takes_first(self, conditional: Conditional) -> bool:
        """Return whether the warp takes the first body; one draw where that is random (6)."""
        if conditional.probability is not None:
            return self.stream.uniform() < conditional.probability
        return conditional.warps is not None and self.index in conditional.warps

    def stall(self, gpu: Gpu, gap_end: int) -> tuple[int, str, str]:
        """Return the first cycle without a constraint on the next step; the name and the cause of the last one (7)."""
        step = self.next
        ends = [(gap_end, "wait", self.last_issued), (self.barrier_end, "barrier", self.last_barrier)]
        for register in (*step.instruction.src, step.instruction.dst):
            if register in self.writes:
                write = self.writes[register]
                ends.append((write.ready(step.op), SCOREBOARD[write.op.pipe], write.place))
        limit = gpu.memory.loads_per_warp
        if step.op == "load" and limit is not None and len(self.returns) >= limit:
            ends.append((sorted(self.returns)[-limit], "lg_throttle", step.place))
        return max(ends, key=lambda end: end[0])  # of equal ends, max returns the first

    def held(self, t: int) -> bool:
        """Return whether a barrier holds the warp: up to and including the last arrival's cycle (4, 7)."""
        return self.barrier is not None or t <= self.barrier_passed

    def line(self, t: int) -> str:
        """Return the place to which the warp's cycle belongs: its next step, or the barrier that holds it (7)."""
        return self.last_barrier if self.held(t) else self.next.place

    def cause(self, t: int, gpu: Gpu) -> str:
        """Return the place of what keeps the warp from being eligible (7)."""
        if self.exited:
            return self.loads[self.returns.index(max(self.returns))]
        return self.last_barrier if self.held(t) else self.stall(gpu, self.gap_end)[2]

    def eligible(self, t: int, gpu: Gpu) -> bool:
        return not self.exited and not self.held(t) and self.stall(gpu, self.gap_end)[0] <= t

    def resident(self, t: int) -> bool:
        return self.retired is None or t <= self.retired

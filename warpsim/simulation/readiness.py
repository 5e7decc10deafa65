"""Finds which registers that a step names are certainly ready when it becomes eligible, whatever the run.

The engine need not look at these. It is a forward analysis of the program: it bounds from above when each register can be read,
over all paths to a step. What a memory or a queue decides has no bound until a step has waited for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from warpsim.engine.constants import Kind
from warpsim.engine.machine import Machine

NOTHING = -1  # no step, no register

_Late = dict[int, dict[int, float]]
"""By register and class of its writer: the cycle from which it can be read, apart from what a reader sees more."""


@dataclass(frozen=True)
class Readiness:
    """What is certain about the registers of a program.

    Attributes:
        uncertain: for each step, the registers that it names and that may not be ready, in the order in which it names them.
        alone: for each step, whether the one that certainly follows can wait for nothing but this one.
    """

    uncertain: list[list[int]]
    alone: list[bool]


def readiness(machine: Machine, registers: list[list[int]], following: list[int]) -> Readiness:
    """Analyses a program.

    Args:
        machine: the machine, of which steps, costs and classes must be encoded.
        registers: the registers that each step names.
        following: for each step the instruction that certainly follows, or NOTHING.
    """
    analysis = _Analysis(machine, registers, following)
    late_before: dict[int, _Late] = {int(entry): {} for entry in machine.entries}
    changed = sorted(late_before)  # a heap: in program order, inner loops come to rest before what is behind them is looked at
    while changed:
        begin = heappop(changed)
        for step, late in analysis.pass_straight(begin, late_before[begin]):
            is_new = step not in late_before
            if (_join(late_before.setdefault(step, {}), late) or is_new) and step not in changed:
                heappush(changed, step)
    return Readiness(analysis.uncertain, analysis.alone)


def _join(late: _Late, other: _Late) -> bool:
    """Adds to `late` what holds on another path; returns whether a register may be later by that."""
    grown = False
    for register, by_writer in other.items():
        known = late.setdefault(register, {})
        for writer, cycle in by_writer.items():
            if cycle > known.get(writer, -math.inf):
                known[writer], grown = cycle, True
    return grown


class _Analysis:
    def __init__(self, machine: Machine, registers: list[list[int]], following: list[int]) -> None:
        program, details, classes = machine.program, machine.details, machine.classes
        self._registers, self._following = registers, following
        self._kind, self._op, self._dst, self._gap, self._latency = (
            program[name].tolist() for name in ("kind", "op", "dst", "gap", "latency")
        )
        self._target, self._taken_gap = details["target"].tolist(), details["taken_gap"].tolist()
        self._endless = (details["low"] < 0).tolist()
        self._queued = (classes["queue"] > 0).tolist()
        self._pairs = machine.chip[0]["issue_width"] == 2
        extra = machine.latency_to.reshape(len(classes), -1)
        self._extra, self._most_extra = extra.tolist(), np.maximum(extra.max(axis=1), 0).tolist()
        jumps = np.isin(program["kind"], (Kind.BRANCH, Kind.LOOP_END, Kind.JUMP))
        self._joins = {*details["target"][jumps].tolist(), *machine.entries.tolist()}
        self.uncertain, self.alone = list(registers), [False] * len(registers)

    def pass_straight(self, step: int, late: _Late) -> list[tuple[int, _Late]]:
        """Passes the straight code that begins with a step; `late` says how late registers may be there.

        Returns the steps that can follow that code, each with how late registers may be there. Cycles count from the one in
        which the first step is eligible if its registers are ready.
        """
        late = {register: dict(by_writer) for register, by_writer in late.items()}
        now, eligible = 0, 0  # cycle before which the step does not issue; up to which its registers do not matter
        while self._kind[step] < Kind.LOOP_BEGIN:
            self.uncertain[step] = [
                register for register in self._registers[step] if self._is_late(late, register, step, eligible)
            ]
            self._issue(late, step, now)
            if self._kind[step] == Kind.EXIT:
                return []
            spacing, in_time = self._spacing(step)
            after = self._following[step]
            eligible, now = now + in_time, now + spacing
            self.alone[step] = after != NOTHING and not any(
                self._is_late(late, register, after, eligible)
                for register in self._registers[after]
                if register != self._dst[step]
            )
            if self._kind[step] == Kind.BRANCH:
                taken = eligible if self._pairs else eligible + self._taken_gap[step] - self._gap[step]
                return [(step + 1, self._counted_from(late, eligible)), (self._target[step], self._counted_from(late, taken))]
            step += 1
            if step in self._joins:
                return [(step, self._counted_from(late, eligible))]
        late = self._counted_from(late, eligible)
        steps = [] if self._kind[step] == Kind.JUMP or (self._kind[step] == Kind.LOOP_END and self._endless[step]) else [step + 1]
        return [(following, late) for following in steps + ([] if self._kind[step] == Kind.LOOP_BEGIN else [self._target[step]])]

    def _is_late(self, late: _Late, register: int, reader: int, eligible: int) -> bool:
        """Returns whether a register may be ready later than at a cycle for a step that reads it."""
        if register not in late:
            return False
        op = self._op[reader]
        return any(cycle + self._extra[writer][op] > eligible for writer, cycle in late[register].items())

    def _issue(self, late: _Late, step: int, now: int) -> None:
        """A step issues at a cycle, or later: what it names is ready for it, and it writes its register."""
        op, dst = self._op[step], self._dst[step]
        for register in self._registers[step]:
            for writer, cycle in late.get(register, {}).items():
                late[register][writer] = min(cycle, now - self._extra[writer][op])
        if dst != NOTHING:
            late[dst] = {op: now + self._latency[step] if self._takes_its_latency(step) else math.inf}

    def _takes_its_latency(self, step: int) -> bool:
        """Returns whether the result of a step is ready its latency after the issue, and no later."""
        return self._kind[step] == Kind.COMPUTE and not self._queued[self._op[step]]

    def _spacing(self, step: int) -> tuple[int, int]:
        """Returns after how many cycles the next step issues, at least, and within how many registers are ready for it for sure.

        Where both may issue together, the gap says nothing: it comes after both.
        """
        after, own, gap = self._following[step], 0, self._gap[step]
        if after != NOTHING and self._takes_its_latency(step) and self._dst[step] in self._registers[after]:
            own = self._latency[step] + self._extra[self._op[step]][self._op[after]]
        if not self._pairs:
            return max(gap, own), max(gap, own - 1)
        return (max(gap, own), own - 1) if own > 0 else (0, 0)

    def _counted_from(self, late: _Late, cycle: int) -> _Late:
        """Returns the same with cycles that count from another one, without the registers that are ready by then for anyone."""
        counted: _Late = {}
        for register, by_writer in late.items():
            kept = {writer: ready - cycle for writer, ready in by_writer.items() if ready + self._most_extra[writer] > cycle}
            if kept:
                counted[register] = kept
        return counted

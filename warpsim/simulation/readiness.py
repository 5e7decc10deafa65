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
"""By register and class of its writer: a cycle from which it can be read at the latest; infinite: there is no bound.

A reader may see it later or sooner than that, as `Machine.latency_to` says. Registers that are ready for everyone are left out.
The inner dictionaries are shared, and never changed.
"""


@dataclass(frozen=True)
class Readiness:
    """What is certain about the registers of a program.

    Attributes:
        uncertain: for each step, the registers that it names and that may not be ready, in the order in which it names them.
        to_next: for each step, the cycles from its issue until the instruction that certainly follows can read its result; 0 if
            that does not name it, or if there is no bound.
        decides: for each step, whether the instruction that certainly follows waits for nothing but the gap of this one, and its
            result, of which the time is known.
    """

    uncertain: list[list[int]]
    to_next: list[int]
    decides: list[bool]


def readiness(machine: Machine, registers: list[list[int]], following: list[int]) -> Readiness:
    """Analyses a program.

    Blocks of straight code are passed in program order, and again when a path makes a register later at their begin, until
    nothing changes: what holds at a step is what its last pass has found.

    Args:
        machine: the machine, of which steps, costs and classes must be encoded.
        registers: the registers that each step names.
        following: for each step the instruction that certainly follows, or NOTHING.
    """
    analysis = Analysis(machine, registers, following)
    late_before: dict[int, _Late] = {int(entry): {} for entry in machine.entries}
    changed = sorted(late_before)  # a heap
    waiting = set(changed)
    while changed:
        begin = heappop(changed)
        waiting.discard(begin)
        for step, late in analysis.pass_straight(begin, late_before[begin]):
            is_new = step not in late_before
            if (_join(late_before.setdefault(step, {}), late) or is_new) and step not in waiting:
                waiting.add(step)
                heappush(changed, step)
    return Readiness(analysis.uncertain, analysis.to_next, analysis.decides)


def _join(late: _Late, other: _Late) -> bool:
    """Adds to `late` what holds on another path; returns whether a register may be later by that."""
    grown = False
    for register, by_writer in other.items():
        known = late.get(register)
        if known is None:
            late[register], grown = by_writer, True
        elif known is not by_writer and any(cycle > known.get(writer, -math.inf) for writer, cycle in by_writer.items()):
            latest = {writer: max(cycle, known.get(writer, -math.inf)) for writer, cycle in by_writer.items()}
            late[register], grown = known | latest, True
    return grown


def behind_control(kind: int, step: int, target: int, *, endless: bool) -> list[int]:
    """Returns the steps that can come after one that only steers, of which the kind and the target are given."""
    if kind == Kind.LOOP_BEGIN:
        return [step + 1]
    if kind == Kind.JUMP or endless:
        return [target]
    return [step + 1, target]


class Analysis:
    """Passes over blocks of straight code, and what the latest pass over each step has found."""

    def __init__(self, machine: Machine, registers: list[list[int]], following: list[int]) -> None:
        program, details, classes = machine.program, machine.details, machine.classes
        self._registers, self._following = registers, following
        self._kind, self._op, self._dst, self._gap, self._latency = (
            program[name].tolist() for name in ("kind", "op", "dst", "gap", "latency")
        )
        self._target, self._taken_gap = details["target"].tolist(), details["taken_gap"].tolist()
        self._endless = (details["low"] < 0).tolist()
        self._waits_in_unit = ((classes["queue"][program["op"]] > 0) | (program["data_ticks"] > 0)).tolist()
        self._pairs = machine.chip[0]["issue_width"] == 2
        extra = machine.latency_to.reshape(len(classes), -1)
        self._extra, self._most_extra = extra.tolist(), np.maximum(extra.max(axis=1), 0).tolist()
        jumps = np.isin(program["kind"], (Kind.BRANCH, Kind.LOOP_END, Kind.JUMP))
        self._joins = {*details["target"][jumps].tolist(), *machine.entries.tolist()}
        self.uncertain, self.to_next, self.decides = list(registers), [0] * len(registers), [False] * len(registers)

    def pass_straight(self, step: int, late: _Late) -> list[tuple[int, _Late]]:
        """Passes the straight code that begins with a step, and notes what is found there.

        `late` says how late registers may be at its begin. Cycles count from the one in which the first step is eligible if its
        registers are ready. Returns the steps that can follow the code, each with how late registers may be there.
        """
        late = dict(late)
        # A step does not issue before cycle `now`. It looks at no register that is ready by cycle `eligible`: it is not eligible
        # before, for its gap, or for a register that is ready later still.
        now = eligible = 0
        while self._kind[step] < Kind.LOOP_BEGIN:
            names = self._registers[step]
            self.uncertain[step] = [register for register in names if self._is_late(late, register, step, eligible)]
            self._issue(late, step, now)
            if self._kind[step] == Kind.EXIT:
                return []
            after = self._following[step]
            now, eligible = self._next_eligible(step, now)
            if after != NOTHING:
                unknown = (each for each in self._registers[after] if each != self._dst[step] or self.to_next[step] == 0)
                self.decides[step] = not any(self._is_late(late, register, after, eligible) for register in unknown)
            if self._kind[step] == Kind.BRANCH:
                taken = eligible if self._pairs else eligible + self._taken_gap[step] - self._gap[step]
                return [(step + 1, self._counted_from(late, eligible)), (self._target[step], self._counted_from(late, taken))]
            step += 1
            if step in self._joins:
                return [(step, self._counted_from(late, eligible))]
        behind = behind_control(self._kind[step], step, self._target[step], endless=self._endless[step])
        return [(following, self._counted_from(late, eligible)) for following in behind]

    def _is_late(self, late: _Late, register: int, reader: int, eligible: int) -> bool:
        """Returns whether a register may be ready later than at a cycle for a step that reads it."""
        if register not in late:
            return False
        op = self._op[reader]
        return any(cycle + self._extra[writer][op] > eligible for writer, cycle in late[register].items())

    def _issue(self, late: _Late, step: int, now: int) -> None:
        """A step issues at a cycle, or later: what it names is ready for it then, and it writes its register."""
        op, dst = self._op[step], self._dst[step]
        for register in self._registers[step]:
            if register in late:
                by_writer = late[register].items()
                late[register] = {writer: min(cycle, now - self._extra[writer][op]) for writer, cycle in by_writer}
        if dst != NOTHING:
            late[dst] = {op: now + self._latency[step] if self._takes_its_latency(step) else math.inf}

    def _takes_its_latency(self, step: int) -> bool:
        """Returns whether the result of a step is ready its latency after the issue, and no later."""
        return self._kind[step] == Kind.COMPUTE and not self._waits_in_unit[step]

    def _next_eligible(self, step: int, now: int) -> tuple[int, int]:
        """Returns `now` and `eligible` of the step behind one that issues at cycle `now`, and notes its `to_next`.

        Where both may issue together, the gap says nothing, as it comes after both.
        """
        after, own = self._following[step], 0
        if after != NOTHING and self._takes_its_latency(step) and self._dst[step] in self._registers[after]:
            own = max(self._latency[step] + self._extra[self._op[step]][self._op[after]], 0)
        self.to_next[step] = own
        if self._pairs and own == 0:
            return now, now
        return now + max(self._gap[step], own), now + (own - 1 if self._pairs else max(self._gap[step], own - 1))

    def _counted_from(self, late: _Late, cycle: int) -> _Late:
        """Returns the same with cycles that count from another one, without the registers that are ready by then for everyone."""
        counted: _Late = {}
        for register, by_writer in late.items():
            if min(by_writer.values()) == math.inf:
                counted[register] = by_writer
            elif kept := {w: ready - cycle for w, ready in by_writer.items() if ready + self._most_extra[w] > cycle}:
                counted[register] = kept
        return counted

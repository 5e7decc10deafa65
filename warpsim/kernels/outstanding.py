"""Which loads of a warp may be under way when it issues an access. docs/model.md, section 5, echoes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.handovers import copies_under_way
from warpsim.kernels.program import Kernel
from warpsim.kernels.steps import FlatProgram, Step, flatten
from warpsim.units import ACCESS_KINDS

MOST_OUTSTANDING = 16
"""Accesses that an echo looks back, so that no more of them matter; and loads that a counter counts, at most."""

_MOST_FOLLOWED = 64
"""Loads of which it is followed at a time whether they are under way; of more, those that issued first count as awaited."""

Loads = dict[int, int]
"""Load, a step -> how many of its latest executions may be under way: 1, MOST_OUTSTANDING for all, or the buffers for it."""

Counters = dict[int, int]
"""Dependence counter -> how much it may count."""


@dataclass(frozen=True)
class Outstanding:
    """What may be under way when a warp issues an access.

    Attributes:
        loads: step of an access -> the loads that may be under way; others are awaited, but for those that are counted or unread.
        counters: step of an access -> what the dependence counters may count; of the loads that a counter counts, so many that
            return last.
        counted: load -> the counter that counts it.
        unread: loads for which a warp waits at its end only.
    """

    loads: dict[int, Loads]
    counters: dict[int, Counters]
    counted: dict[int, int]
    unread: frozenset[int]


@dataclass
class _State:
    """What may be under way at a step: load -> (executions, accesses that have left the SM since); and the counters."""

    loads: dict[int, tuple[int, int]]
    counters: Counters

    def copy(self) -> _State:
        return _State(dict(self.loads), dict(self.counters))

    def joined(self, other: _State) -> _State:
        """Returns what may be under way where two ways meet."""
        loads = dict(self.loads)
        for load, (times, age) in other.loads.items():
            known = loads.get(load)
            loads[load] = (times, age) if known is None else (max(times, known[0]), min(age, known[1]))
        counters = {c: max(self.counters.get(c, 0), other.counters.get(c, 0)) for c in self.counters | other.counters}
        return _State(loads, counters)


@kept_by_object
def outstanding(kernel: Kernel) -> Outstanding:
    """Returns what may be under way when a warp of a kernel issues an access, whatever way it took through the program."""
    program = flatten(kernel)
    handed_over = copies_under_way(kernel, MOST_OUTSTANDING) if kernel.mbarriers else {}
    flow = _Flow(program, handed_over)
    entry = {number: _State({}, {}) for number in program.entries}
    todo = sorted(entry)
    while todo:
        first = todo.pop(0)
        state, number = entry[first].copy(), first
        while True:
            flow.pass_step(number, state)
            if number in flow.ends:
                break
            number += 1
        for target in flow.ends[number]:
            joined = entry[target].joined(state) if target in entry else state.copy()
            if target not in entry or joined != entry[target]:
                entry[target] = joined
                if target not in todo:
                    todo.append(target)
        todo.sort()
    for access, copies in handed_over.items():
        flow.loads_at.setdefault(access, {}).update((copy, times) for copy, times in copies.items() if copy in flow.handed_over)
    return Outstanding(flow.loads_at, flow.counters_at, flow.counted, flow.unread)


class _Flow:
    """Passes steps, and keeps what may be under way at the accesses."""

    def __init__(self, program: FlatProgram, handed_over: Mapping[int, Mapping[int, int]]) -> None:
        self.steps = program.steps
        self.ends = _ends(program)
        loads = [number for number, step in enumerate(program.steps) if _kind(step) == "load"]
        self.counted = {number: counter for number in loads if (counter := _counter(program.steps[number])) is not None}
        without = {number for number in loads if number not in self.counted and program.steps[number].dst < 0}
        self.handed_over = without & {copy for copies in handed_over.values() for copy in copies}
        self.unread = frozenset(without - self.handed_over)
        self.loads_at: dict[int, Loads] = {}
        self.counters_at: dict[int, Counters] = {}

    def pass_step(self, number: int, state: _State) -> None:
        """Has a step wait, notes what may be under way if it is an access, and then has it begin."""
        step = self.steps[number]
        if step.instruction is None:
            return
        hints = step.instruction.hints
        if hints is None:
            named = {register for register in (*step.src, step.dst) if register >= 0}
            for load in [x for x, (times, _) in state.loads.items() if times == 1 and self.steps[x].dst in named]:
                del state.loads[load]
        else:
            for counter in hints.waits:
                state.counters[counter] = min(state.counters.get(counter, 0), hints.at_most)
            for load in [x for x in state.loads if step.dst >= 0 and self.steps[x].dst == step.dst]:
                state.loads[load] = MOST_OUTSTANDING, state.loads[load][1]  # its register is another one's: nobody waits for it
        if _kind(step) is None:
            return
        self._note(number, state)
        if step.instruction.access is not None and step.instruction.access.l1_hit == 0.0:
            state.loads = {x: (times, age + 1) for x, (times, age) in state.loads.items() if age + 1 < MOST_OUTSTANDING}
        if number in self.counted:
            counter = self.counted[number]
            state.counters[counter] = min(state.counters.get(counter, 0) + 1, MOST_OUTSTANDING)
        elif _kind(step) == "load" and number not in self.unread | self.handed_over:
            times, _ = state.loads.pop(number, (1, 0))
            state.loads[number] = times, 0
            if len(state.loads) > _MOST_FOLLOWED:
                del state.loads[next(iter(state.loads))]

    def _note(self, number: int, state: _State) -> None:
        loads, counters = self.loads_at.setdefault(number, {}), self.counters_at.setdefault(number, {})
        for load, (times, _) in state.loads.items():
            loads[load] = max(loads.get(load, 0), times)
        for counter, count in state.counters.items():
            counters[counter] = max(counters.get(counter, 0), count)


def _kind(step: Step) -> str | None:
    """Returns "load" or "store" for an access; None for other steps."""
    return None if step.instruction is None else ACCESS_KINDS.get(step.instruction.op)


def _counter(step: Step) -> int | None:
    """Returns the dependence counter that counts a step until its result can be used."""
    hints = None if step.instruction is None else step.instruction.hints
    return None if hints is None else hints.write


def _ends(program: FlatProgram) -> dict[int, tuple[int, ...]]:
    """Returns the steps after which another one than the next can follow, or which others can come to next: what follows each."""
    ends = dict(_jumps(program))
    for number in {target for targets in ends.values() for target in targets} | set(program.entries):
        if number > 0 and number - 1 not in ends:
            ends[number - 1] = (number,)
    return ends


def _jumps(program: FlatProgram) -> Iterator[tuple[int, tuple[int, ...]]]:
    for number, step in enumerate(program.steps):
        if step.kind == "branch":
            certain = step.warps is None and step.probability == 1.0
            yield number, (number + 1,) if certain else (number + 1, step.target)
        elif step.kind == "loop_end":
            back = () if step.trips == (1, 1) else (step.target,)
            yield number, back if step.trips[0] < 0 else (*back, number + 1)
        elif step.kind == "jump":
            yield number, (step.target,)
        elif step.instruction is not None and step.instruction.op == "exit":
            yield number, ()

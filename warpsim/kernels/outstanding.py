"""Which loads of a warp may be under way when it issues an access. docs/model.md, section 5, echoes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.program import Kernel
from warpsim.kernels.steps import FlatProgram, Step, flatten
from warpsim.units import ACCESS_KINDS

__all__ = ["MOST_OUTSTANDING", "Outstanding", "outstanding"]

MOST_OUTSTANDING = 16
"""Executions of a load that are told apart."""

_Loads = dict[int, int]
"""Load -> how many of its latest executions may be under way; what is not there is awaited."""


@dataclass(frozen=True)
class Outstanding:
    """What may be under way when a warp issues an access.

    Attributes:
        at: step of an access -> load -> how many of its latest executions may be under way.
        unread: loads for which a warp waits at its end only.
    """

    at: dict[int, _Loads]
    unread: frozenset[int]


@kept_by_object
def outstanding(kernel: Kernel) -> Outstanding:
    """Returns what may be under way when a warp of a kernel issues an access, whatever way it took through the program.

    An instruction waits for the registers that it names, so that of each load the latest execution alone can be under way; or for
    the dependence counters that its hints name, at most so many of what they count being left.
    """
    program = flatten(kernel)
    loads = {number for number, step in enumerate(program.steps) if _is_load(step)}
    unread = frozenset(number for number in loads if program.steps[number].dst < 0 and _counter(program.steps[number]) is None)
    waits = _waits(program, sorted(loads - unread))
    found: dict[int, _Loads] = {}
    entry: dict[int, _Loads] = {number: {} for number in program.entries}
    ends = _ends(program)
    todo = sorted(entry)
    while todo:
        first = todo.pop(0)
        state, number = dict(entry[first]), first
        while True:
            step = program.steps[number]
            for load, left in waits[number]:
                if state.get(load, 0) > left:
                    state[load] = left
                    if left == 0:
                        del state[load]
            if step.instruction is not None and step.instruction.op in ACCESS_KINDS:
                found[number] = _joined(found.get(number, {}), state)
            if number in loads and number not in unread:
                state[number] = min(state.get(number, 0) + 1, MOST_OUTSTANDING)
            if number in ends:
                break
            number += 1
        for target in ends[number]:
            joined = _joined(entry.get(target, {}), state)
            if target not in entry or joined != entry[target]:
                entry[target] = joined
                if target not in todo:
                    todo.append(target)
        todo.sort()
    return Outstanding(found, unread)


def _is_load(step: Step) -> bool:
    return step.instruction is not None and ACCESS_KINDS.get(step.instruction.op) == "load"


def _counter(step: Step) -> int | None:
    """Returns the dependence counter that counts a step until its result can be used."""
    hints = None if step.instruction is None else step.instruction.hints
    return None if hints is None else hints.write


def _waits(program: FlatProgram, loads: list[int]) -> list[list[tuple[int, int]]]:
    """Returns for each step the loads for which it waits, and how many of the latest executions of each it leaves."""
    by_register: dict[int, list[int]] = {}
    by_counter: dict[int, list[int]] = {}
    for load in loads:
        step = program.steps[load]
        by_register.setdefault(step.dst, []).append(load)
        if (counter := _counter(step)) is not None:
            by_counter.setdefault(counter, []).append(load)
    found: list[list[tuple[int, int]]] = []
    for step in program.steps:
        hints = None if step.instruction is None else step.instruction.hints
        if hints is None:
            named = dict.fromkeys((*step.src, step.dst)) if step.instruction is not None else {}
            found.append([(load, 0) for register in named if register >= 0 for load in by_register.get(register, ())])
        else:
            found.append([(load, hints.at_most) for counter in hints.waits for load in by_counter.get(counter, ())])
    return found


def _ends(program: FlatProgram) -> dict[int, tuple[int, ...]]:
    """Returns the steps after which another one than the next can follow, or which others can come to next: what follows each."""
    last = len(program.steps) - 1
    ends = dict(_jumps(program))
    for number in {target for targets in ends.values() for target in targets} | set(program.entries):
        if number > 0 and number - 1 not in ends:
            ends[number - 1] = (number,)
    ends[last] = ()
    return ends


def _jumps(program: FlatProgram) -> Iterator[tuple[int, tuple[int, ...]]]:
    for number, step in enumerate(program.steps):
        if step.kind == "branch":
            yield number, (number + 1, step.target)
        elif step.kind == "loop_end":
            yield number, (step.target,) if step.trips[0] < 0 else (step.target, number + 1)
        elif step.kind == "jump":
            yield number, (step.target,)


def _joined(a: _Loads, b: _Loads) -> _Loads:
    """Returns of each load the larger number of executions."""
    return {load: max(a.get(load, 0), b.get(load, 0)) for load in a.keys() | b.keys()}

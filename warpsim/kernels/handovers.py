"""Buffers that warps of a block hand over at mbarriers (docs/model.md, section 4).

How far do copies run ahead of the warps that use them? Does a block come to its end? How often does a warp arrive, and wait?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warpsim.kernels.instruction import Instruction, Mbarrier
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop, Statement
from warpsim.kernels.steps import FlatProgram, Step, flatten
from warpsim.kernels.traversal import walk
from warpsim.units import ACCESS_KINDS, MAX_WARPS

_MOST_STEPS = 100_000
"""Steps that are followed of each warp."""


def copies_under_way(kernel: Kernel, most: int) -> dict[int, dict[int, int]]:
    """Returns for each access, a step, how many executions of each copy may be under way, at most, when a warp issues it.

    It is found by running a block in which no copy ever comes back until all warps are held: of warps that execute the same
    one, and every phase takes as many arrivals as there are such kinds of warps that arrive. Loops without accesses and
    mbarriers have one trip. A copy of which `most` or more may be under way is left out: then mbarriers set no limit.
    """
    program = flatten(kernel)
    block = _Block(kernel, program)
    found: dict[int, Counter[int]] = {}
    free = set[int]()
    for warp, number in block.issues():
        if warp.steps > _MOST_STEPS:
            return {}
        before = found.setdefault(number, Counter())
        for copy, times in warp.copies.items():
            before[copy] = max(before[copy], times)
            if times >= most:
                free.add(copy)
        if len(free) == len(block.copies):
            break
    return {number: {copy: counts[copy] for copy in block.copies - free} for number, counts in found.items()}


def runs_to_its_end(kernel: Kernel) -> bool:
    """Returns whether all warps of a block come to their ends if copies are back at once; True if that takes too long to find."""
    block = _Block(kernel, flatten(kernel), copies_return=True)
    for _ in block.issues():
        pass
    too_long = any(warp.steps > _MOST_STEPS for warp in block.warps)
    return too_long or all(block.has_ended(warp) for warp in block.warps)


Passes = Counter[tuple[str, str]]
"""How often a warp `arrives` at each mbarrier, and `awaits` it."""


def passes(statements: tuple[Statement, ...], warp: int) -> Passes | None:
    """Returns how often a warp of a block passes each mbarrier in some statements; None if chance decides."""
    try:
        return _passes(statements, warp)[0]
    except _ChanceDecidesError:
        return None


class _ChanceDecidesError(Exception):
    """How often a warp passes mbarriers depends on chance."""


def _passes(statements: tuple[Statement, ...], warp: int) -> tuple[Passes, bool]:
    """Returns how often a warp passes each mbarrier, and whether it ends there."""
    found = Passes()
    for one in statements:
        if isinstance(one, Instruction):
            if one.op == "exit":
                return found, True
            found.update((role, name) for role in ("arrives", "awaits") if (name := getattr(one, role)) is not None)
            continue
        if isinstance(one, Conditional):
            share = 0.5 if one.diverges else one.falls_through(warp)
            sides = [side for side, taken in ((one.then, share > 0.0), (one.orelse, share < 1.0)) if taken]
        else:
            sides = [one.body]
        inside = [_passes(side, warp) for side in sides]
        by_chance = isinstance(one, Conditional) and len(inside) > 1 and not one.diverges
        if by_chance and any(passed or ends for passed, ends in inside):
            raise _ChanceDecidesError
        low, high = one.trip_range if isinstance(one, Loop) else (1, 1)
        for passed, ends in inside:
            if passed and (low != high or low < 1):
                raise _ChanceDecidesError
            found.update({what: times * low for what, times in passed.items()})
            if ends:
                return found, True
    return found, False


class _Warp:
    """A warp on its way, which stands for all of its kind."""

    def __init__(self, entry: int, index: int) -> None:
        self.index, self.at = index, entry
        self.trips: dict[int, int] = {}
        self.arrived, self.awaited = Counter[str](), Counter[str]()
        self.copies = Counter[int]()
        self.reported = Counter[str]()
        self.steps = 0


class _Block:
    """Warps of each kind, and the phases that they complete."""

    def __init__(self, kernel: Kernel, program: FlatProgram, *, copies_return: bool = False) -> None:
        self.copies_return = copies_return
        self.steps = program.steps
        self.facts: dict[str, Mbarrier] = {mbarrier.name: mbarrier for mbarrier in kernel.mbarriers}
        self.copies = {n for n, step in enumerate(self.steps) if step.instruction and step.instruction.op == "async_copy"}
        self.repeats = _loops_that_matter(self.steps)
        size = kernel.block_warps or MAX_WARPS
        sides = [one.warps for _, one in walk(kernel.body) if isinstance(one, Conditional) and one.warps is not None]
        kinds = {tuple(index in warps for warps in sides): index for index in reversed(range(size))}
        self.warps = [_Warp(entry, index) for entry in program.entries for index in sorted(kinds.values())]
        self.complete: dict[str, dict[int, set[int]]] = {name: {} for name in self.facts}
        self.arriving = self._who_arrives()

    def _who_arrives(self) -> dict[str, set[int]]:
        """Returns which kinds of warps arrive at each mbarrier, by their place in `warps`."""
        found: dict[str, set[int]] = {name: set() for name in self.facts}
        for place, warp in enumerate(self.warps):
            at, seen = [warp.at], set[int]()
            while at:
                number = at.pop()
                if number in seen or number >= len(self.steps):
                    continue
                seen.add(number)
                step = self.steps[number]
                if step.instruction is not None and step.instruction.arrives is not None:
                    found[step.instruction.arrives].add(place)
                at += self._next(step, number, warp.index)
        return found

    def _next(self, step: Step, number: int, index: int) -> list[int]:
        """Returns the steps that may follow one for a warp."""
        if step.kind == "jump":
            return [step.target]
        if step.kind == "branch":
            if step.warps is not None:
                return [number + 1 if index in step.warps else step.target]
            return [number + 1, step.target]
        if step.kind == "loop_end":
            return [number + 1, step.target]
        return [] if step.instruction is not None and step.instruction.op == "exit" else [number + 1]

    def issues(self) -> Iterator[tuple[_Warp, int]]:
        """Yields each access that a warp issues, until all warps are held or have ended."""
        goes_on = True
        while goes_on:
            goes_on = False
            for place, warp in enumerate(self.warps):
                for number in self._run(place, warp):
                    goes_on = True
                    if number >= 0:
                        yield warp, number

    def has_ended(self, warp: _Warp) -> bool:
        """Returns whether a warp has come to its `exit`."""
        one = self.steps[warp.at].instruction
        return one is not None and one.op == "exit"

    def _run(self, place: int, warp: _Warp) -> Iterator[int]:
        """Runs a warp until it is held or ends; yields its accesses before they issue, and -1 for what else it does."""
        while warp.steps <= _MOST_STEPS:
            step, number = self.steps[warp.at], warp.at
            one = step.instruction
            if self.has_ended(warp):
                return
            if one is not None and one.awaits is not None:
                phase = warp.awaited[one.awaits] - self.facts[one.awaits].ahead
                if phase >= 0 and self.complete[one.awaits].get(phase, set()) != self.arriving[one.awaits]:
                    return
                warp.awaited[one.awaits] += 1
            warp.steps += 1
            yield number if one is not None and one.op in ACCESS_KINDS else -1
            if number in self.copies:
                warp.copies[number] += 1
            if one is not None and one.reports_to is not None:
                warp.reported[one.reports_to] += 1
            if one is not None and one.arrives is not None:
                if self.copies_return or not warp.reported[one.arrives]:  # the phase waits for copies that do not come back
                    self.complete[one.arrives].setdefault(warp.arrived[one.arrives], set()).add(place)
                warp.arrived[one.arrives] += 1
            warp.at = self._following(step, number, warp)

    def _following(self, step: Step, number: int, warp: _Warp) -> int:
        """Returns the step that a warp executes after one; of two likely ones, the likelier."""
        if step.kind == "branch":
            falls = warp.index in step.warps if step.warps is not None else step.probability >= 0.5
            return number + 1 if falls else step.target
        if step.kind == "loop_begin":
            warp.trips[step.loop] = step.trips[0] if step.loop in self.repeats else 1
        elif step.kind == "loop_end":
            warp.trips[step.loop] -= 1
            return step.target if warp.trips[step.loop] != 0 else number + 1
        return step.target if step.kind == "jump" else number + 1


def _loops_that_matter(steps: tuple[Step, ...]) -> set[int]:
    """Returns the loops with accesses, or instructions that name mbarriers, inside them."""
    found, around = set[int](), list[int]()
    for step in steps:
        one = step.instruction
        if step.kind == "loop_begin":
            around.append(step.loop)
        elif step.kind == "loop_end":
            around.pop()
        elif one is not None and (one.op in ACCESS_KINDS or one.names_mbarrier):
            found.update(around)
    return found

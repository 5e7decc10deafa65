"""Executes the integer part of a kernel for sampled blocks: which way branches go, how often loops run, what addresses are.

All sampled warps advance together, block by block in the order of the flow, so that threads that part meet again where
their paths join. Whatever depends on data is unknown; branches on it go as the caller says, or as assumed with a note.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from operator import is_

import numpy as np

from warpsim.frontends.accesses.tally import for_each
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution import windows
from warpsim.frontends.execution.access_counter import AccessCounter
from warpsim.frontends.execution.bases import Bases
from warpsim.frontends.execution.decisions import Decisions
from warpsim.frontends.execution.evaluation import Evaluation, Given, Record, add_counts
from warpsim.frontends.execution.leaps import Leaps
from warpsim.frontends.execution.rewrites import rewrites_of
from warpsim.frontends.execution.state import initial_state
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask, Watch, warps_of
from warpsim.frontends.machine_code.memory_instructions import is_swap
from warpsim.frontends.machine_code.operands import calls_outside, conditions, table_of
from warpsim.frontends.values import NOTHING, UNKNOWN, Values, array, known, one_array
from warpsim.frontends.waits.async_copies import CopyLog, first_lanes, first_of
from warpsim.units import WARP_LANES

MAX_STEPS = 400_000
"""Instructions that are executed, all sampled warps together counting as one."""

_INSTRUCTION_BYTES = 16
"""Bytes of an instruction, from Volta on."""


class Evaluator:
    """Executes a flow for the sampled blocks of a launch.

    Args:
        given: the kernel, the launch, and what the caller states.
        sample: blocks, each with the number of blocks that it stands for; None: some that stand for the grid.
    """

    def __init__(self, given: Given, sample: list[tuple[tuple[int, int, int], float]] | None = None) -> None:
        flow, geometry = given.flow, given.geometry
        self.flow, self.function = flow, flow.function
        self.notes: dict[str, None] = {}
        self.decisions = Decisions(given, self.notes)
        self.loop_at = flow.loop_at()
        self.loops_of: list[tuple[int, ...]] = [
            tuple(number for number, loop in enumerate(flow.loops) if block in loop.blocks) for block in range(len(flow.blocks))
        ]
        sample = geometry.sample() if sample is None else sample
        self.block_warps = geometry.block_warps
        self.weights = np.repeat([weight for _, weight in sample], self.block_warps).astype(np.float64)
        self.state, self.alive = initial_state(geometry, [block for block, _ in sample], given.arguments, self.function)
        self.steps = given.steps
        self.record = Record()
        self.copies = CopyLog(len(self.weights))
        self.bases: Bases | None = Bases(rewrites_of(given, len(sample)))
        self.iterations = {number: np.zeros(len(self.weights), np.int64) for number in range(len(flow.loops))}
        self.watches: list[Watch] = []
        self.elsewhere: dict[int, Mask] = {}  # blocks to come -> threads there
        self.if_it_holds: dict[str, dict[str, Values]] = {}  # unknown guard of a block -> what registers hold if it holds
        self.overruled, self.stated_by_line = given.overruled, given.stated_by_line
        self.decided: set[int] = set()  # blocks whose branches have been decided by conditions
        self.open: set[int] = set()  # blocks with conditions that were not known, of some threads at least
        self.shared_bytes = self.function.shared_bytes + geometry.dynamic_shared
        self.executed, self.most_executed = 0, MAX_STEPS
        self.spent = Counter[int]()  # innermost loop -> instructions that were executed in it
        self.counter = AccessCounter(self)
        self.leaps = Leaps(self)
        self.computed: dict[Step, tuple[list[Values | None], dict[str, Values]]] = {}  # inputs and results that are one number

    def run(self) -> Evaluation:
        """Executes the kernel.

        Raises:
            FrontEndError: how often a loop runs depends on what is not known; the message names it.
        """
        pending = {0: self.alive}
        if 0 in self.loop_at:
            self._enter(self.loop_at[0], warps_of(self.alive))
        self.advance(pending, None)
        warps = np.arange(len(self.weights)) % self.block_warps
        stated = {block: p for block, p in self.decisions.stated.items() if block not in self.decided}
        found = self.record
        spaces = found.resolved()
        self.counter.note_what_is_odd(spaces)
        self._note_known()
        counted = found.counts, found.entries, found.made, found.accesses, spaces, found.distances
        return Evaluation(*counted, self.weights, warps, stated, tuple(self.notes), self.copies)

    def _note_known(self) -> None:
        """Notes the lines whose probabilities are stated although their conditions are known, and where others are not known."""
        lines = {self.flow.last(block).line for block in self.open}
        known = [block for block in self.stated_by_line if self.flow.last(block).line not in lines]
        others = {self.decisions.where(block): None for block in sorted(self.decisions.assumed)}
        there = f"; conditions that depend on data: {', '.join(others)}" if others else ""
        for block in sorted(known):
            if block in self.overruled:
                how = "goes as its probability says all the same"
            elif block in self.decided:
                how = "says how often a loop runs: its probability is not used, unless an address names the branch"
            else:
                continue
            what = "the condition follows from indices and arguments, and"
            self.notes[f"{self.decisions.where(block)}: {what} {how}{there}"] = None

    def advance(self, pending: dict[int, Mask], trip_of: int | None) -> None:
        """Executes until no thread is left, or one trip of a loop: until its header comes again, or no thread is left inside."""
        loop = None if trip_of is None else self.flow.loops[trip_of]
        first = loop is not None
        while pending:
            block = min(pending)
            if loop is not None and not first and (block == loop.header or block not in loop.blocks):
                return
            if block in self.loop_at and not first:
                self._skip_trips(self.loop_at[block], block, pending)
            first = False
            self._execute(block, pending.pop(block), pending)

    def _execute(self, number: int, mask: Mask, pending: dict[int, Mask]) -> None:
        block = self.flow.blocks[number]
        warps = warps_of(mask)
        add_counts(self.record.counts, number, warps)
        if number in self.loop_at:
            self.iterations[self.loop_at[number]][warps] += 1
        self.executed += len(block.code)
        if (loop := self.decisions.innermost[number]) is not None:
            self.spent[loop] += len(block.code)
        if self.executed > self.most_executed:
            raise self._too_much(number)
        full = bool(mask.all())
        self.if_it_holds = {}
        self.elsewhere = pending
        for step in self.steps.of_block(number):
            self._step(number, step, mask, full)
        self._leave(number, mask, pending)

    def _step(self, number: int, step: Step, mask: Mask, full: bool) -> None:
        state, active, sure = self.state, mask, None
        if step.guard is not None:
            condition = state.read(step.guard)
            if (condition == 0).all():
                return
            active = mask & (condition != 0)
            if np.count_nonzero(condition < 0):
                sure = condition == 1
            full = full and bool(active.all())
        state.active = active
        values = state.values
        if sure is not None and (assumed := self.if_it_holds.get(step.one.guard)):
            state.values = values | assumed
        if step.role is not None:
            active = self._follow_copies(number, step, active)
        if step.one.base == "BAR" and step.guard is not None:
            add_counts(self.record.made, (number, step.index), warps_of(active))
        if step.accesses:
            if is_swap(step.one) and active.any():
                self.decisions.swap(number, for_each(self.addresses_of(step), active), active)
            self._access(number, step, active)
            if sure is not None and (number, step.index) in self.record.accesses:
                doubtful = self.weights[warps_of(active & ~sure)]
                self.record.accesses[number, step.index].doubtful += float(doubtful.sum())
        found = self._results(step) if step.effect else {}
        if self.watches:
            with_values = {name for name, value in found.items() if (value != UNKNOWN).any()}
            for watch in self.watches:
                watch.follow(step.one, step.results, with_values)
        bases = self.bases
        made_up = bases.results(step, state, found) if step.results and bases is not None else {}
        if bases is not None and bases.rewrites is not None:
            bases.rewrites.follow(step, state, self.elsewhere.values())
        state.values = values
        for name in step.results:
            value = known_value = found.get(name, NOTHING)
            old = state.values.get(name, array(0))  # of a register that holds nothing yet, no thread reads the rest
            self._assume(step.one.guard if sure is not None else "", name, value)
            if (not full or sure is not None) and value is not old:
                value = _merged(value, old, active, sure)
            state.values[name] = value
            if bases is not None and (name in made_up or name in bases.values):
                other, held = made_up.get(name, known_value), bases.values.get(name, old)
                if step.guard is not None and sure is not None:
                    other = bases.merged(name, (other, known_value), old, state, step.guard, sure)
                bases.write(name, _merged(other, held, active, None), value)

    def _results(self, step: Step) -> dict[str, Values]:
        """Returns what an instruction computes; of the same numbers for all threads as the last time, what it computed then."""
        assert step.effect is not None
        state, before = self.state, self.computed.get(step)
        inputs = list(map(state.values.get, step.inputs))
        notes = step.compares and state.differences is not None
        if before is not None and not notes and all(map(is_, inputs, before[0])):
            return before[1]
        found = dict(step.effect(state))
        if all(value is None or value.size == 1 for value in chain(found.values(), inputs)):
            found = {name: one_array(value) for name, value in found.items()}
            if step.is_pure:
                self.computed[step] = inputs, found
        return found

    def _assume(self, guard: str, name: str, value: Values) -> None:
        """Keeps what a register holds if an unknown guard holds, for the instructions of a block with the same guard."""
        for other, assumed in list(self.if_it_holds.items()):
            if other.lstrip("@!") == name:
                del self.if_it_holds[other]
            else:
                assumed.pop(name, None)
        if guard and guard.lstrip("@!") != name:
            self.if_it_holds.setdefault(guard, {})[name] = value

    def _follow_copies(self, number: int, step: Step, active: Mask) -> Mask:
        """Notes what an instruction does with asynchronous copies. Returns which threads do it: of a bulk copy, one of a warp."""
        assert step.role is not None
        barriers = None if step.barrier is None else self.state.address(step.barrier)
        barrier = UNKNOWN if barriers is None else first_of(barriers, active)
        if barriers is not None and (np.broadcast_to(barriers, active.shape)[active] != barrier).any():
            self.copies.phases.is_known = False  # warps name several barriers with one instruction at a time
        length = UNKNOWN if step.length is None else first_of(self.state.read(step.length), active)
        if step.role == "bulk":
            active = first_lanes(active)
        self.copies.follow((number, step.index), step.one, step.role, warps_of(active), barrier, length)
        return active

    def _access(self, number: int, step: Step, active: Mask) -> None:
        if active.any():
            self.counter.count((number, step.index), step, active)

    def addresses_of(self, step: Step) -> Values:
        """Returns the addresses that an instruction accesses in its memory; of a bulk copy those at which it begins.

        Of a copy from global to shared memory they are those that it reads: the loads decide its time. A texture and a tensor
        map without a stated tile do not tell theirs. Generic addresses of shared and local memory count as unknown.
        """
        if step.tile is not None:
            return step.tile.first(tuple(self.state.read(place) for place in step.corner), step.index)
        if not step.addresses:
            return NOTHING
        found = self.state.address(step.addresses[-1] if step.one.base == "LDGSTS" else step.addresses[0])
        return windows.outside(found) if windows.is_generic(step.one) else found

    def _leave(self, number: int, mask: Mask, pending: dict[int, Mask]) -> None:
        """Moves the threads on to the blocks that follow."""
        block = self.flow.blocks[number]
        last = self.flow.last(number)
        if not block.targets and last.base != "EXIT":
            if calls_outside(last):
                what = "a function that the binary does not hold, such as malloc or printf, is taken to need no time"
                self.notes[f"{self.decisions.where(number)}: {what}"] = None
            if block.following is not None:
                self._move(number, block.following, mask, pending)
            return
        condition = array(1)
        for predicate in conditions(last):
            value = self.state.read(predicate)
            condition = np.where((condition == 0) | (value == 0), 0, np.where((condition < 0) | (value < 0), UNKNOWN, 1))
        jumps = mask & (condition == 1)
        open_lanes = mask & (condition < 0)
        if open_lanes.any():
            self.open.add(number)
        if number in self.overruled or self.decisions.are_stated_as_trips(number, leaving=self.is_too_long()):
            jumps, open_lanes = np.zeros_like(mask), mask  # as the caller says, whatever the condition is
        if block.following is None:
            jumps, open_lanes = mask, np.zeros_like(mask)
        if block.following is not None and number not in self.overruled and (mask & (condition >= 0)).any():
            self.decided.add(number)
        if open_lanes.any():
            warps = warps_of(open_lanes)
            jumping = np.repeat(self.decisions.jumping(number, warps, self.iterations), WARP_LANES)
            jumps = jumps | (open_lanes & jumping)
        stays = mask & ~jumps
        if block.following is not None and stays.any():
            self._move(number, block.following, stays, pending)
        if block.targets and jumps.any():
            self._jump(number, block.targets, jumps, pending)

    def _jump(self, number: int, targets: tuple[int, ...], mask: Mask, pending: dict[int, Mask]) -> None:
        if len(targets) == 1:
            self._move(number, targets[0], mask, pending)
            return
        asked, unknown = self._asked_by_table(number), mask.copy()
        for target in targets:
            there = mask & (asked == self.flow.function.code[self.flow.blocks[target].code.start].address)
            if there.any():
                self._move(number, target, there, pending)
                unknown &= ~there
        if not unknown.any():
            return
        turn = np.repeat(self.decisions.targets(number, len(targets), len(self.weights)), WARP_LANES)
        for k, target in enumerate(targets):
            if (unknown & (turn == k)).any():
                self._move(number, target, unknown & (turn == k), pending)

    def _asked_by_table(self, number: int) -> Values:
        """Returns the addresses to which threads jump through the table at the end of a block; UNKNOWN where not known."""
        last = self.flow.last(number)
        through = table_of(last)
        if through is None:
            return NOTHING
        value = self.state.register(through.name)
        return known(value + through.offset + last.address + _INSTRUCTION_BYTES, value)

    def _move(self, source: int, target: int, mask: Mask, pending: dict[int, Mask]) -> None:
        there = pending.get(target, np.zeros_like(mask))
        for loop in self.loops_of[target]:
            if loop not in self.loops_of[source]:
                self._enter(loop, warps_of(mask) & ~warps_of(there))  # threads of a warp that come on two paths enter together
        pending[target] = there | mask

    def _enter(self, loop: int, warps: Mask) -> None:
        inside = self.flow.loops[loop]
        if not self.flow.leaving[loop] and self.flow.is_closed(inside):
            raise FrontEndError(f"the loop at {self.decisions.where(inside.header)}: no warp ever leaves it")
        add_counts(self.record.entries, loop, warps)
        self.iterations[loop] = np.where(warps, 0, self.iterations[loop])
        self.leaps.last.pop(loop, None)

    def _skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        self.leaps.skip_trips(loop, header, pending)

    def is_too_long(self) -> bool:
        """Returns whether so much has been executed that stated trips need not be what they would be."""
        return self.executed > self.most_executed // 2

    def _too_much(self, number: int) -> Exception:
        """Returns why a block is not executed any more; the error names the innermost loop around it that is not stated."""
        loop = self.decisions.innermost[number]
        while loop is not None and loop in self.decisions.trips:
            loop = self.flow.loops[loop].parent
        if loop is None:
            loop = max(set(self.spent) - self.decisions.trips.keys(), key=self.spent.__getitem__, default=None)
        if loop is None:
            return FrontEndError(f"{self.function.name}: more than {MAX_STEPS} instructions to evaluate")
        why = f"its trips follow no simple rule, and there are more than {MAX_STEPS} instructions"
        return self.decisions.trips_are_needed(loop, why)


def _merged(value: Values, old: Values, active: Mask, sure: Mask | None) -> Values:
    """Returns what a register holds after some threads have written it; `sure` says which of them certainly have."""
    new = value if sure is None else np.where(sure | (value == old), value, UNKNOWN)
    return np.where(active, new, old)

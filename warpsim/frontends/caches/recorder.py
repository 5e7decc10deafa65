"""Executions of blocks that keep the addresses of their accesses, trip by trip, and when these are made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np

from warpsim.frontends.accesses.tally import for_each
from warpsim.frontends.caches.excerpt import Excerpt, excerpt
from warpsim.frontends.caches.timing import Clock
from warpsim.frontends.caches.until_enough import WALKED, BlockIndex, EnoughError, UntilEnough, kind_of, patterns_of
from warpsim.frontends.caches.walk import LOCAL, STORE, Accesses
from warpsim.frontends.execution.evaluation import Evaluation, Given, add_counts
from warpsim.frontends.execution.evaluator import MAX_STEPS
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask, warps_of
from warpsim.frontends.machine_code.flow import Place
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread
from warpsim.frontends.values import UNKNOWN, Values
from warpsim.frontends.waits.async_copies import BULK_UNIT_BYTES, bulk_units, first_of
from warpsim.frontends.waits.dependences import Waits
from warpsim.units import LINE_BYTES, WARP_LANES

_SAMPLED_CALLS = 64
"""Accesses of a block of which the lines are counted."""

_MOST_WORK, _MOST_WORK_FOR_EACH = 100_000_000, 400_000_000
"""Instructions of threads that are executed, and as many as may be as long as accesses are missing; what comes later is left
out."""

_LEAST_SHARE = 0.5
"""Of two instructions that are executed repeatedly, the smaller share of the calls that are kept over the larger one."""

_MOST_ADDRESSES, _MOST_CALLS, _MORE_CALLS = 8_000_000, 10_000, 2
"""Addresses that are kept, and accesses of a block; and how many times as many may be as long as accesses are missing."""

_MOST_TRIPS, _FEWEST_TRIPS, _SHARE_OF_FIRST_TRIPS = 4096, 4, 0.5
"""Trips of each loop that are kept where some are left out; and the share of the work that these may be, so that the rest is
enough to find out which ones are alike."""


class Recorder(UntilEnough):
    """An evaluator that keeps the addresses of all accesses.

    It leaves out no trip of a loop unless the whole of its blocks would be too much, by an evaluation of the kernel: then it
    keeps the first trips of each loop. It does not execute those behind them that are alike.

    `asked` are the accesses of which each should be among what it keeps: `missing` are those that are not.
    """

    def __init__(
        self,
        given: Given,
        waits: Waits,
        tick: int,
        blocks: list[BlockIndex],
        evaluation: Evaluation | None = None,
        asked: Iterable[Place] = (),
        *,
        made_up: bool = False,
    ) -> None:
        super().__init__(given, blocks, evaluation, made_up=made_up)
        self.blocks, self.threads = blocks, given.geometry.block_warps * WARP_LANES
        threads = len(blocks) * self.threads
        self.most_executed, self.most_for_each = (
            min(MAX_STEPS, max(1, work // threads)) for work in (_MOST_WORK, _MOST_WORK_FOR_EACH)
        )
        self.most_calls = max(1, min(_MOST_CALLS, _MOST_ADDRESSES // threads))
        self.missing = set(asked)
        self.numbers: dict[Place, int] = {}
        self.calls: list[tuple[int, Values]] = []
        self.facts: list[tuple[int, int]] = []
        self.trips: list[int] = []  # of each call: that of the loops around it which has made most trips before
        self.gaps: dict[int, int] = {}  # call -> how many are left out before it
        self.most_trips = None if evaluation is None else self._most_trips(evaluation)
        self.is_leaping = self.is_late = False  # whether trips are left out, and whether one is executed that is not kept
        self.clock = Clock(given.flow, waits, tick)
        self.complete = False

    def _most_trips(self, evaluation: Evaluation) -> int | None:
        """Returns how many trips of each loop are kept; None: all of them."""
        steps = {number: float(runs.max()) * len(self.flow.blocks[number].code) for number, runs in evaluation.counts.items()}
        calls = dict.fromkeys(steps, 0.0)
        for place, made in evaluation.made.items():
            calls[place[0]] += float(made.max()) * (self.space_of(place) in WALKED)
        mean = {
            loop: float(evaluation.counts[self.flow.loops[loop].header].sum() / entries.sum())
            for loop, entries in evaluation.entries.items()
        }

        def work(trips: float) -> float:
            """The larger share of what can be executed, and of what can be kept, if so many trips of each loop are."""
            kept = {number: math.prod(min(1.0, trips / mean[loop]) for loop in self.loops_of[number]) for number in steps}
            executed, made = (sum(kept[number] * of_block[number] for number in steps) for of_block in (steps, calls))
            return max(executed / self.most_executed, made / self.most_calls)

        if work(math.inf) < 1:
            return None
        trips = _MOST_TRIPS
        while trips > _FEWEST_TRIPS and work(trips) > _SHARE_OF_FIRST_TRIPS:
            trips //= 2
        return trips

    def execute_blocks(self) -> bool:
        """Executes the blocks, and notes whether to their end; returns whether any address is known."""
        self.complete = self.runs_to_the_end()
        return bool(self.calls)

    def calls_by_block(self, places: Collection[Place]) -> Values:
        """Returns in how many of the calls of some instructions each block takes part."""
        numbers = {self.numbers[each] for each in places if each in self.numbers}
        made = np.zeros(len(self.blocks), np.int64)
        for number, row in self.calls:
            if number in numbers:
                made += (row.reshape(len(self.blocks), self.threads) >= 0).any(axis=1)
        return made

    def threads_at_most(self) -> int:
        """Returns of how many threads all accesses can be recorded; 0: not even of those whose accesses have been."""
        whole = self.complete and not self.gaps
        return min(_MOST_ADDRESSES // len(self.calls), _MOST_WORK // self.executed) if whole else 0

    def block_steps(self) -> Values | None:
        """Returns by how much addresses grow with the block index: int64[calls, 3]; None: they are not affine in it."""
        rows = np.stack([row for _, row in self.calls]).reshape(len(self.calls), len(self.blocks), self.threads)
        first, active = rows[:, 0], rows[:, 0] >= 0
        if not ((rows >= 0) == active[:, None]).all():
            return None
        lane = active.argmax(axis=1)
        calls = np.arange(len(rows))
        found = np.zeros((len(rows), 3), np.int64)
        index = np.array(self.blocks, np.int64) - np.array(self.blocks[0], np.int64)
        for number, distance in enumerate(index):
            if np.abs(distance).sum() == 1 and distance.sum() == 1:
                found[:, int(distance.argmax())] = rows[calls, number, lane] - first[calls, lane]
        expected = first[:, None] + (found @ index.T)[:, :, None]
        return found if (np.where(active[:, None], expected, -1) == rows).all() else None

    def first_patterns(self) -> Values | None:
        """Returns the pattern of the first call of each instruction in each block: int64[blocks, instructions]; 0: it makes none.

        Where the index of a block is divided into those of a tile, as in most products of matrices, blocks of the same patterns
        differ by the same distance in all calls of an instruction. None: there are two that do not.
        """
        number, all_blocks = np.array([number for number, _ in self.calls]), np.arange(len(self.blocks))
        calls = [np.flatnonzero(number == each) for each in range(len(self.facts))]
        before: Counter[int] = Counter()
        of_calls = []
        for each, row in self.calls:
            of_calls.append(patterns_of(row.reshape(len(self.blocks), self.threads), np.full(len(self.blocks), before[each])))
            before[each] += 1
        begins, patterns = (np.stack(each) for each in zip(*of_calls, strict=True))
        first = np.stack([each[(patterns[each] != 0).argmax(axis=0)] for each in calls])  # of each instruction, in each block
        found: Values = patterns[first, all_blocks].T
        like = (found[:, None] == found).all(axis=2).argmax(axis=1)
        moved = np.where(patterns != 0, begins - begins[first, all_blocks][number], 0)
        return found if (patterns == patterns[:, like]).all() and (moved == moved[:, like]).all() else None

    def calls_of_all(self) -> int:
        """Returns how many calls there are until each load has made one."""
        first: dict[int, int] = {}
        for at, (number, _) in enumerate(self.calls):
            first.setdefault(number, at)
        return max((at for number, at in first.items() if self.facts[number][0] & ~LOCAL != STORE), default=0) + 1

    def first_calls(self, most: int) -> Values:
        """Returns the numbers of the first calls, so many; where warps have tasks of their own, so many of each warp.

        Where these lack an instruction, the calls of those that make only one are among them. Where they lack one all the same,
        or have but a few trips of a loop behind another one, they are those of the first trips of each loop; and where these
        lack all loads, or all stores, as many of each.
        """
        made = np.stack([(row[: self.threads].reshape(-1, WARP_LANES) >= 0).any(axis=1) for _, row in self.calls])
        made, chosen = made[:, made.any(axis=0)], np.arange(0)
        have_common = (made.T.astype(np.int64) @ made > 0).all()  # each two warps have a call in common
        kinds, by_trip = np.array([self.facts[number][0] for number, _ in self.calls]), np.argsort(self.trips, kind="stable")
        of_kinds = [by_trip[kinds[by_trip] == kind] for kind in np.unique(kinds)]
        ranks = np.concatenate([np.arange(len(each)) for each in of_kinds])
        by_kind = np.concatenate(of_kinds)[np.argsort(ranks, kind="stable")]
        numbers = np.array([number for number, _ in self.calls])
        by_repetition = np.argsort(np.bincount(numbers)[numbers] > 1, kind="stable")  # first those that are not repeated
        for order in (np.arange(len(self.calls)), by_repetition, by_trip, by_kind):
            is_first = np.arange(len(order))[:, None] < most if have_common else made[order].cumsum(axis=0) <= most
            chosen = np.sort(order[(is_first & (made[order] | have_common)).any(axis=1)])
            is_whole = self._kept(chosen).all() and not self.cut_short(chosen)
            if is_whole or (order is by_trip and len(np.unique(kinds[chosen])) == len(of_kinds)):
                break
        return chosen

    def cut_short(self, kept: Values) -> bool:
        """Returns whether all instructions are among the calls that are kept, but of some loop much less than of another one.

        What the first trips of a loop find may be what the loop before it has accessed last, which the others do not.
        """
        of_all, of_kept = self._kept(np.arange(len(self.calls))), self._kept(kept)
        shares = of_kept[of_all > 1] / of_all[of_all > 1]
        return bool(of_kept.all()) and len(shares) > 0 and bool(shares.min() < _LEAST_SHARE * shares.max())

    def _kept(self, calls: Values) -> Values:
        """Returns how many of some calls are of each instruction."""
        return np.bincount([self.calls[call][0] for call in calls], minlength=len(self.facts))

    def left_out(self, kept: Values) -> Values:
        """Returns how many calls of the block are left out before each of those that are kept, and behind the last one."""
        before = np.array([*self.gaps.values()], np.int64)
        gaps = np.zeros(len(self.calls) + 1, np.int64)
        gaps[[*self.gaps]] = before
        place = np.arange(len(self.calls) + 1) + gaps.cumsum()
        found: Values = np.diff(place[[*kept, len(self.calls)]], prepend=-1) - 1
        return found

    def excerpt(self, kept: Values) -> Excerpt:
        """Returns what is known of a block beside the calls that are kept."""
        return excerpt(self.calls, self.threads, kept, float(self.left_out(kept).sum()))

    def lines_of_an_access(self) -> float:
        """Returns how many lines an access of a warp touches, on average."""
        from warpsim.frontends.caches.compiled_walk import compressed  # numba takes a while to load

        chosen = [self.calls[at] for at in np.linspace(0, len(self.calls) - 1, _SAMPLED_CALLS, dtype=int)]
        rows = np.concatenate([row[: self.threads].reshape(-1, WARP_LANES) for _, row in chosen])
        widths = np.repeat([self.facts[number][1] for number, _ in chosen], self.block_warps)
        return max(1.0, len(compressed(rows, widths)[0]) / len(rows))

    def accesses(
        self, groups: Values, group: Values, index: Values, step: Values | None, moved: Values | None, kept: Values
    ) -> Accesses:
        """Returns the calls that are kept; the executed blocks of some numbers stand for others, as `Accesses` says."""
        calls = [self.calls[call] for call in kept]
        step = np.zeros((len(calls), 3), np.int64) if step is None else step[kept]
        moved = np.zeros((len(group), len(calls)), np.int64) if moved is None else moved
        place = np.array([number for number, _ in calls], np.int64)
        kind, width = np.array(self.facts, np.int64).T
        addresses = np.stack([row.reshape(-1, self.threads)[groups].ravel() for _, row in calls])
        timing, left = self.clock.timing(kept), self.left_out(kept)[:-1]
        return Accesses(addresses, place, kind[place], width[place], self.block_warps, group, index, step, moved, timing, left)

    def _execute(self, number: int, mask: Mask, pending: dict[int, Mask]) -> None:
        if self.missing and self.executed + len(self.flow.blocks[number].code) > self.most_executed:
            self.most_executed = self.most_for_each
        self.is_late = self._comes_late(number, mask)
        if is_kept := not self.is_leaping and not self.is_late:
            self.clock.enter(number)
        super()._execute(number, mask, pending)
        if is_kept:
            self.clock.go_on(self.flow.blocks[number].code.stop)

    def _comes_late(self, number: int, mask: Mask) -> bool:
        """Returns whether a block is about to be executed in a trip of a loop behind those that are kept."""
        if self.most_trips is None:
            return False
        warps = warps_of(mask)
        begun = {loop: int(self.iterations[loop][warps].max()) for loop in self.loops_of[number]}
        return any(trips - (self.loop_at.get(number) != loop) >= self.most_trips for loop, trips in begun.items())

    def _follow_copies(self, number: int, step: Step, active: Mask) -> Mask:
        active = super()._follow_copies(number, step, active)
        if step.role not in ("wait", "test") or self.is_leaping or self.is_late:
            return active
        if (left := self.copies.left_at((number, step.index))) is not None:
            self.clock.go_on(step.index)
            self.clock.wait_for_copies(left)
        return active

    def _access(self, number: int, step: Step, active: Mask) -> None:
        place = number, step.index
        if (space := self.space_of(place)) not in WALKED or not active.any():
            return
        addresses = for_each(self.whole_addresses(place, step), active)
        if not (addresses[active] >= 0).any():
            return
        if place not in self.numbers:
            width = bytes_per_thread(step.one) if step.role != "bulk" else LINE_BYTES
            self.numbers[place] = len(self.facts)
            self.facts.append((kind_of(step.one, space), width))
        row = np.where(active, addresses, -1)
        rows = [row] if step.role != "bulk" else self._lines(step, row)
        warps = self.counter.active(active).warps
        add_counts(self.record.made, place, warps * float(len(rows)))
        if self.is_leaping:
            return
        if self.is_late:
            self._leave_out(len(rows))
            return
        self.clock.go_on(step.index + 1)
        self.clock.make(step, len(rows))
        self.calls += [(self.numbers[place], row) for row in rows]
        trips = [int(self.iterations[loop][warps].max()) - 1 for loop in self.loops_of[number]]
        self.trips += [max(trips, default=0)] * len(rows)
        self.missing.discard(place)
        if len(self.calls) >= self.most_calls * (_MORE_CALLS if self.missing else 1):
            raise EnoughError

    def _leave_out(self, calls: int) -> None:
        """Notes that calls are left out before the next one that is kept."""
        self.gaps[len(self.calls)] = self.gaps.get(len(self.calls), 0) + calls

    def _lines(self, step: Step, row: Values) -> list[Values]:
        """Returns the accesses of a bulk copy: each lane of its warp takes a line, again and again."""
        first = row.reshape(-1, WARP_LANES).max(axis=1)[:, None]
        if step.tile is not None:
            lines = step.tile.lines
        else:
            length = UNKNOWN if step.length is None else first_of(self.state.read(step.length), row >= 0)
            lines = np.arange(0, bulk_units(step.one, length) * BULK_UNIT_BYTES, LINE_BYTES)
        found = []
        for begin in range(0, len(lines), WARP_LANES):
            part = lines[begin : begin + WARP_LANES]
            accessed = np.full((len(first), WARP_LANES), -1)
            accessed[:, : len(part)] = np.where(first >= 0, first + part, -1)
            found.append(accessed.ravel())
        return found

    def _skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        """Leaves out trips behind the first ones that are kept, if any are."""
        if self.most_trips is None or self.iterations[loop][warps_of(pending[header])].max() < self.most_trips:
            return
        if self.is_leaping:
            super()._skip_trips(loop, header, pending)
            return
        before = self._made()
        self.is_leaping = True
        super()._skip_trips(loop, header, pending)
        self.is_leaping = False
        if (left := round(self._made() - before)) > 0:
            self._leave_out(left)

    def _made(self) -> float:
        """Returns how many calls a block has made, with those that were left out."""
        return sum(float(made.max()) for made in self.record.made.values())

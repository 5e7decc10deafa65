"""Leaves out trips of a loop that are alike.

A loop whose registers advance by the same amounts in each trip is not executed trip by trip: the state is advanced by many
trips at once, and one trip from there must do the same as before; otherwise fewer trips are skipped. The operands of each
comparison must have come nearer to each other, or further apart, by the same amount in each trip, without passing each other.
How many trips can be skipped is searched for, by twice as many each time. In long executions it is calculated from how fast the
operands come nearer to each other, and searched for where that does not hold; and groups of a few trips may take the place of
trips, since the number of a buffer comes back in each group.

Where chance decides in a trip, it decides alike in the trips that are left out. So a loop that warps leave by chance, or that
ends by nothing that advances, as one that goes on while a branch left to chance has set a flag, is executed trip by trip.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from warpsim.frontends.execution.evaluation import Record
from warpsim.frontends.execution.trips import (
    Advance,
    Executed,
    Mask,
    Trip,
    Watch,
    advance_of,
    advance_of_groups,
    grew_evenly,
    growth_of,
    same_advance,
    totals_after,
    trips_before_change,
    warps_of,
)
from warpsim.frontends.values import MASK

if TYPE_CHECKING:
    from warpsim.frontends.execution.evaluator import Evaluator

_SEARCHED_STEPS = 10_000
"""Executed instructions up to which trips that can be left out are always searched for, since that executes more trips, and so
tells more addresses."""

_MOST_LEFT_OUT = 2**30
"""Trips that are left out at once, at most. In each, operands of a comparison grow by less than 2^33: the sum fits in 64 bits."""

_MOST_WRONG = 3
"""By how many the calculated numbers of trips of a loop that did not hold are more than those that did, before it is searched."""

_SHORTEST_GROUP, _LONGEST_GROUP = 2, 4
"""Trips after which registers that alternate come back to their values, such as the numbers of buffers: those that are tried."""

_MOST_UNGROUPED = 64
"""How often that is tried in vain in a loop, before it is given up."""

_FEWEST_LEFT_OUT = 2
"""Stated trips before the last one from which on they are left out in an execution that becomes too long."""


class Leaps:
    """Leaves out trips of the loops of an execution.

    Attributes:
        run: the execution.
        last: loop -> its last trips, the latest last.
        uneven: loops of which no trip is left out.
        chances: loop -> blocks at whose ends chance decided in the trip that was executed last.
        wrong: loop -> calculated numbers of trips that did not hold, less those that did.
        ungrouped: loop -> how often in succession its trips have not formed groups that are alike.
    """

    def __init__(self, run: Evaluator) -> None:
        self.run = run
        self.last: dict[int, list[Trip]] = {}
        self.uneven: set[int] = set()
        self.chances: dict[int, set[int]] = {}
        self.wrong = Counter[int]()
        self.ungrouped = Counter[int]()

    def skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        """Advances a loop by many trips at once, as long as each does what the last two have done, or groups of trips do."""
        if loop in self.uneven and not self._goes_on_as_stated(loop):
            return
        mask, values = pending[header], dict(self.run.state.values)
        earlier = self.last.get(loop, [])
        before = earlier[-1] if earlier else None
        step, bases = None, {} if self.run.bases is None else dict(self.run.bases.values)
        if before is not None and np.array_equal(before.mask, mask):
            step = advance_of(before.values, values, mask)
            if self._leap_as_stated(loop, Advance(step or {}), pending):
                return
        self.last[loop] = [*earlier[-2 * _LONGEST_GROUP :], Trip(mask, values, step, bases)]
        if loop in self.uneven:
            return
        is_tried_at_once = self.run.executed > _SEARCHED_STEPS and self.wrong[loop] < 0
        if step is not None and before is not None and before.step is not None and same_advance(step, before.step):
            is_tried_at_once, advance = False, Advance(step)
        elif step is not None and is_tried_at_once:
            advance = Advance(step)
        elif (found := self._advance_of_groups(loop)) is not None:
            advance = found
        else:
            return
        if self.run.bases is not None and before is not None:
            self.run.bases.forget_uneven(before.bases, mask)
        one = self._leap(loop, 0, advance, pending, None)
        if one is None and is_tried_at_once:
            self.wrong[loop] += 1
        latest = None if one is None else self._leap(loop, 0, advance, pending, None)
        is_even = loop not in self.uneven and not (advance.trips > 1 and self.ungrouped[loop] >= _MOST_UNGROUPED)
        if is_even and one is not None and latest is not None and len(one.differences) == len(latest.differences):
            growth = growth_of(one, latest)
            if self._ends_by_chance(loop, latest, growth, mask):
                self.uneven.add(loop)
                return
            latest, is_last = self._leap_to_change(loop, advance, pending, latest, growth)
            trips, growing = 1, True
            while trips >= 0 and not is_last and not self._goes_on_as_stated(loop):
                met = self._leap(loop, trips, advance, pending, (latest, growth))
                latest, growing = (latest, False) if met is None else (met, growing)
                trips = min(trips * 2, _MOST_LEFT_OUT) if growing else trips // 2 if trips else -1
        if one is not None:  # one trip more follows those before it, and several do not
            bases = {} if self.run.bases is None else dict(self.run.bases.values)
            since = Trip(mask, dict(self.run.state.values), advance.step if advance.trips == 1 else None, bases)
            self.last[loop] = [*(self.last[loop] if latest is None and advance.trips == 1 else ()), since]

    def _advance_of_groups(self, loop: int) -> Advance | None:
        """Returns by how much the registers of a loop advance in each group of trips, if they do, and the execution is long."""
        earlier = self.last[loop]
        if self.run.executed <= _SEARCHED_STEPS or self.ungrouped[loop] >= _MOST_UNGROUPED or len(earlier) <= 2 * _SHORTEST_GROUP:
            return None
        found = advance_of_groups(earlier, _LONGEST_GROUP)
        self.ungrouped[loop] = 0 if found is not None else self.ungrouped[loop] + 1
        return found

    def _leap_to_change(
        self, loop: int, advance: Advance, pending: dict[int, Mask], latest: Executed, growth: Executed
    ) -> tuple[Executed, bool]:
        """Leaves out those trips of a loop in which comparisons come out as in the latest one, by how their operands go on.

        Returns what the last trip did that was executed, and whether the next one is known to be another.
        """
        mask = pending[self.run.flow.loops[loop].header]
        while self.run.executed > _SEARCHED_STEPS and self.wrong[loop] < _MOST_WRONG and not self._goes_on_as_stated(loop):
            changes, left = trips_before_change(latest, growth, mask), self._stated_trips_left(loop, mask)
            limits = changes, None if left is None else left // advance.trips
            trips = min((limit for limit in limits if limit is not None), default=None)
            if trips is None or trips <= 0:
                return latest, trips is not None
            met = self._leap(loop, min(trips, _MOST_LEFT_OUT) - 1, advance, pending, (latest, growth))
            self.wrong[loop] += 1 if met is None else -1
            if met is None:
                break
            latest = met
        return latest, False

    def _leap_as_stated(self, loop: int, advance: Advance, pending: dict[int, Mask]) -> bool:
        """Leaves out all trips of a loop with stated trips but one and the last one, in an execution that becomes too long.

        Returns whether that is so, and the trip does not end for some threads elsewhere.
        """
        mask = pending[self.run.flow.loops[loop].header]
        left = self._stated_trips_left(loop, mask) if self._goes_on_as_stated(loop) else None
        if left is None or left < _FEWEST_LEFT_OUT:
            return False
        if self.run.bases is not None:
            self.run.bases.forget_uneven(self.last[loop][-1].bases, mask)
        if self._leap(loop, left - 1, advance, pending, None, as_stated=True) is None:
            return False
        many = f"there are more than {self.run.most_executed // 2} instructions"
        self._note(loop, f"the trips of this loop are taken to be alike, since {many}")
        self.last.pop(loop)
        return True

    def _goes_on_as_stated(self, loop: int) -> bool:
        """Returns whether the trips of a loop are stated, and the execution becomes so long that they are taken to be alike."""
        return loop in self.run.decisions.trips and self.run.is_too_long()

    def _stated_trips_left(self, loop: int, mask: Mask) -> int | None:
        """Returns how many trips of a loop go before the last one of those that the caller states; None: he states none."""
        stated = self.run.decisions.trips.get(loop)
        return None if stated is None else stated - 1 - int(self.run.iterations[loop][warps_of(mask)].max())

    def _leap(
        self,
        loop: int,
        groups: int,
        advance: Advance,
        pending: dict[int, Mask],
        before: tuple[Executed, Executed] | None,
        *,
        as_stated: bool = False,
    ) -> Executed | None:
        """Leaves out some groups of trips of a loop and executes the next one; mostly a group is one trip.

        Returns what that trip did. Where `before` gives what an earlier one did and how that grows by trip, it must have grown
        so, and no comparison may have come out otherwise: then this holds for all trips in between. Returns None, and changes
        nothing, if the trip was not like those before, or updates sectors of its own, which have to be counted. If the trips are
        to be `as_stated`, it is enough that all threads come to the next one.
        """
        mask, state = pending[self.run.flow.loops[loop].header], self.run.state
        saved = dict(state.values), self.run.record, {number: each.copy() for number, each in self.run.iterations.items()}
        outer, reached, copies = state.differences, self.run.counter.reached, self.run.copies
        drawn = dict(self.run.decisions.drawn)
        bases = None if self.run.bases is None else self.run.bases.copy()
        for name, by in advance.step.items():
            value = state.register(name)
            state.values[name] = np.where(value < 0, value, (value + by * groups) & MASK)
        self.run.iterations[loop][warps_of(mask)] += groups * advance.trips
        start, trial = dict(state.values), dict(pending)
        self.run.record, self.run.copies, state.differences = Record(), copies.copy(), []
        self.run.watches.append(Watch(advance.step))
        same_threads, trips = True, 0
        while same_threads and trips < advance.trips:
            self.run.advance(trial, loop)
            same_threads = trial.keys() == pending.keys() and all(np.array_equal(trial[k], pending[k]) for k in pending)
            trips += 1
        found, met = self.run.record, Executed(state.differences, self.run.record.totals())
        moved = advance_of(start, state.values, mask) if same_threads else None
        self.chances[loop] = {block for block, many in self.run.decisions.drawn.items() if many != drawn.get(block, 0)}
        state.differences, self.run.decisions.drawn = outer, drawn  # branches that nothing decides come out alike in each trip
        self._note_uneven(loop, self.run.watches.pop(), advance)
        if self._is_left_by_chance(loop):
            self.uneven.add(loop)
        values, record, iterations = saved
        alike = moved is not None and same_advance(moved, advance.step) and not (groups and record.is_widened_by(found))
        alike |= as_stated and same_threads
        if alike and (before is None or grew_evenly(*before, met, 1 + groups, mask)):
            self.run.record = record
            record.add(found, 1 + groups, None if before is None else totals_after(*before))
            return met
        state.values, self.run.record, self.run.iterations = values, record, iterations
        self.run.counter.reached, self.run.copies, self.run.bases = reached, copies, bases
        return None

    def _note_uneven(self, loop: int, watch: Watch, advance: Advance) -> None:
        """Notes whether a condition in a loop may come back in later trips, after others, so that none can be left out.

        Where the caller states the trips, some are left out all the same, since they may be many.
        """
        if watch.decides and loop in self.run.decisions.trips:
            what = "conditions on bits of what advances in this loop come out as in some of its trips"
            self._note(loop, f"{what}; state them with probabilities")
        elif watch.decides and advance.trips > 1:
            self.ungrouped[loop] = _MOST_UNGROUPED
        elif watch.decides:
            self.uneven.add(loop)

    def _is_left_by_chance(self, loop: int) -> bool:
        """Returns whether some warps left a loop in its last trip, and others stayed, as chance would have it."""
        leaving = self.chances[loop].intersection(self.run.flow.leaving[loop])
        return any(0.0 < self.run.decisions.stated.get(block, 0.5) < 1.0 for block in leaving)

    def _ends_by_chance(self, loop: int, latest: Executed, growth: Executed, mask: Mask) -> bool:
        """Returns whether chance decides in a loop, and nothing else that is known can end it."""
        is_stated = loop in self.run.decisions.trips
        return bool(self.chances[loop]) and not is_stated and trips_before_change(latest, growth, mask) is None

    def _note(self, loop: int, what: str) -> None:
        self.run.notes[f"{self.run.decisions.where(self.run.flow.loops[loop].header)}: {what}"] = None

"""Runs a machine from cycle 0 to its end, and has it keep what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsim.engine.state import Machine, State

NO_END = 1 << 60
_CHECKED_EVERY = 1 << 16  # cycles after which a run without room for its records stops, at the latest
_VERIFIED_EVERY = 2_000  # cycles


class DeadlockError(ValueError):
    """Warps of a block wait at different barriers, or at one that not all of them reach."""


class TraceLimitError(ValueError):
    """A trace needs more memory than its `max_bytes`."""


@dataclass(frozen=True)
class Keep:
    """What is kept of a run besides its counters, and for how many of each there is room.

    Attributes:
        issues: instructions issued.
        issue_window: the first cycle of which issues are kept, and the first of which they are not.
        lives: warps that retired in the window.
        changes: changes of an SM's number of resident warps in the window, its number at the begin among them.
        bins: counters are read this often, at most, at even distances.
    """

    issues: int = 0
    issue_window: tuple[int, int] = (0, NO_END)
    lives: int = 0
    changes: int = 0
    bins: int = 0


class Bins:
    """Counters at the edges of equal spans of time, the last one perhaps shorter, of which there are at most so many.

    Where the end is not known the spans grow: each time that there are too many, every second edge is given up.

    Attributes:
        width: cycles of a span.
        edges: cycles.
        totals: for each edge what was counted up to it, as `engine.chip.read` writes it.
    """

    def __init__(self, most: int, begin: int, cycles: int | None) -> None:
        self._most = most
        self.width = 1 if cycles is None else -(-cycles // most)
        self.edges = [begin]
        self.totals: list[NDArray[np.float64]] = []

    def run(self, machine: Machine, state: State, stop: int) -> int:
        """Runs the machine to cycle `stop`, or to the end of the grid, and reads its counters; returns an Outcome."""
        from warpsim.engine.chip import run
        from warpsim.engine.state import Outcome

        while True:
            if len(self.edges) > self._most:
                self.width *= 2
                self.edges, self.totals = self.edges[::2], self.totals[1::2]
            following = self.edges[0] + len(self.edges) * self.width
            totals = _totals(self._most + 1 - len(self.edges), state)
            rows, outcome = run(machine, state, stop, following, self.width, totals)
            self.edges += [following + i * self.width for i in range(rows)]
            self.totals += list(totals[:rows])
            if outcome != Outcome.STOPPED or state.clock[0].cycle == stop:
                return int(outcome)

    def close(self, machine: Machine, state: State, end: int) -> None:
        """Reads the counters at the end of the run, unless that was an edge."""
        from warpsim.engine.chip import read

        if self.edges[-1] < end:
            self.totals.append(_totals(1, state)[0])
            self.edges.append(end)
            read(machine, state, end, self.totals[-1])


def _totals(rows: int, state: State) -> NDArray[np.float64]:
    """Room for counters at so many edges."""
    from warpsim.engine.chip import OTHERS
    from warpsim.engine.state import STATES

    return np.zeros((rows, STATES + OTHERS + len(state.sms)))


def drive(
    machine: Machine, kernel: str, warmup: int, cycles: int | None, keep: Keep | None = None, *, check: bool = False
) -> tuple[State, Bins | None]:
    """Runs a machine and counts `cycles` cycles after `warmup`, fewer where the grid ends sooner; None: to its end.

    `kernel` is its name, for messages. With `check` the engine verifies its state every 2,000 cycles, and its counters at the end
    (`engine.check`); an AssertionError then says what is wrong.

    Returns:
        The state at the end, with all counters; and those at the edges of bins, where they are kept.

    Raises:
        DeadlockError: warps wait at different barriers.
        TraceLimitError: there was no room for what is kept.
        ValueError: the grid ends within `warmup`.
    """
    from warpsim.engine.check import verify
    from warpsim.engine.chip import begin_counting, end_counting, run
    from warpsim.engine.state import Outcome, allocate

    keep = keep or Keep()
    state = allocate(machine, issues=keep.issues, lives=keep.lives, changes=keep.changes)
    bins = Bins(keep.bins, warmup, cycles) if keep.bins else None
    end = NO_END if cycles is None else warmup + cycles
    marks = {warmup, end, *(keep.issue_window if keep.issues else ())}
    now, outcome = 0, int(Outcome.STOPPED)
    with np.errstate(over="ignore"):  # 64-bit arithmetic wraps around on purpose, also where nothing is compiled
        while outcome == Outcome.STOPPED and now < end:
            if now == warmup:
                begin_counting(machine, state, now)
            if keep.issues and now in keep.issue_window:
                state.tally[0].tracing = now == keep.issue_window[0]
            stop = min(mark for mark in marks if mark > now)
            if keep.issues or keep.lives or keep.changes:
                stop = min(stop, now + _CHECKED_EVERY)
            if check:
                stop = min(stop, now + _VERIFIED_EVERY)
            if bins and now >= warmup:
                outcome = bins.run(machine, state, stop)
            else:
                _, outcome = run(machine, state, stop, 0, 1, _totals(0, state))
            now = int(state.clock[0].cycle)
            if outcome == Outcome.DEADLOCK:
                raise DeadlockError(f"kernel {kernel}: {_deadlock(machine, state)}")
            if check:
                verify(machine, state)
            _check_room(state, keep, now, warmup)
        if now <= warmup:
            raise ValueError(f"warmup = {warmup}: less than {now}, after so many cycles the grid is at its end")
        if bins:
            bins.close(machine, state, now)
        end_counting(machine, state, now)
        if check:
            verify(machine, state, counted_from=warmup)
    return state, bins


def _check_room(state: State, keep: Keep, now: int, warmup: int) -> None:
    tally = state.tally[0]
    if keep.issues and tally.traced > keep.issues:
        raise TraceLimitError(
            f"issues: more than the {keep.issues} for which there is room had been issued by cycle {now}: "
            "a shorter window, a slice of the chip (sms), or a larger max_bytes"
        )
    if keep.lives and now > warmup and tally.retired > keep.lives:
        raise TraceLimitError(
            f"warps: more than the {keep.lives} for which there is room had retired by cycle {now}: "
            "fewer cycles, a slice of the chip (sms), or a larger max_bytes"
        )
    if keep.changes and now > warmup and tally.n_changes > keep.changes:
        raise TraceLimitError(
            f"occupancy: more than the {keep.changes} changes for which there is room had happened by cycle {now}: "
            "a number of bins in place of True, fewer cycles, a slice of the chip (sms), or a larger max_bytes"
        )


def _deadlock(machine: Machine, state: State) -> str:
    from warpsim.engine.state import MAX_WARPS, Life

    chip, clock = machine.chip[0], state.clock[0]
    first = clock.stuck_sm * MAX_WARPS + clock.stuck_seat * chip.block_warps
    waiting = [
        f"warp {i} before step {warp.step}"
        for i, warp in enumerate(state.warps[first : first + chip.block_warps])
        if warp.life == Life.AT_BARRIER
    ]
    block = state.seats[clock.stuck_sm * chip.seats + clock.stuck_seat].block
    return f"deadlock at cycle {clock.cycle}: the warps of block {block} wait at different barriers: " + ", ".join(waiting)

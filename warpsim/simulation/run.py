"""Runs a machine to its end and records the requested events."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import DeadlockError
from warpsim.kernels.iteration import places
from warpsim.simulation.compilation import announce_compilation
from warpsim.simulation.limits import MAX_CYCLES

if TYPE_CHECKING:
    from warpsim.engine.machine import Machine
    from warpsim.engine.state import State
    from warpsim.kernels.program import Kernel

NO_END = 1 << 60
_CAPACITY_INTERVAL = 1 << 16  # cycles between checks that the recorded events still fit
_VERIFY_INTERVAL = 2_000  # cycles between verifications of the engine's state
_FIRST_SLICE = 4096  # cycles until the first time that the engine returns
_SLICE_SECONDS = 0.1  # between two returns of the engine, about
_TIMED_CYCLES = 2_000  # of a call by which threads are judged, at least
_CALLS_TO_TRIAL = 32  # between two trials of the number of threads that was slower


class TraceLimitError(ValueError):
    """A trace needs more memory than its `max_bytes`."""


@dataclass(frozen=True)
class Capacity:
    """Events that a run records, with the capacity for each kind.

    Attributes:
        issues: instructions issued.
        issue_window: first cycle in which issues are recorded, and the cycle in which recording stops.
        lives: warps that retired in the window.
        changes: occupancy changes in the window, including the initial value of each SM.
        bins: maximum number of equal time bins for counters; 0: none.
    """

    issues: int = 0
    issue_window: tuple[int, int] = (0, NO_END)
    lives: int = 0
    changes: int = 0
    bins: int = 0


class Bins:
    """Cumulative counters at the edges of at most `most` equal time bins; the last bin may be shorter.

    If the end is unknown, the bin width doubles whenever there are too many bins.

    Attributes:
        width: width of a bin, in cycles.
        edges: edges of the bins, in cycles.
        totals: counters at each edge except the first, in the layout of `engine.chip.read`.
    """

    def __init__(self, most: int, begin: int, cycles: int | None) -> None:
        self._most = most if cycles is None else min(most, cycles)
        self.width = 1 if cycles is None else -(-cycles // self._most)
        self.edges = [begin]
        self.totals: list[NDArray[np.float64]] = []

    def run(self, machine: Machine, state: State, stop: int, team: Team) -> tuple[State, int]:
        """Runs the machine to cycle `stop` or to the end of the grid, reads its counters; returns the state and an Outcome."""
        from warpsim.engine.allocation import enlarged
        from warpsim.engine.constants import Outcome

        while True:
            if len(self.edges) > self._most:
                self.width *= 2
                self.edges, self.totals = self.edges[::2], self.totals[1::2]
            following = self.edges[0] + len(self.edges) * self.width
            totals = _empty_totals(self._most + 1 - len(self.edges), state)
            rows, outcome = team.run(machine, state, stop, following, self.width, totals)
            self.edges += [following + i * self.width for i in range(rows)]
            self.totals += list(totals[:rows])
            if outcome == Outcome.FULL:
                state = enlarged(machine, state)
            elif outcome != Outcome.STOPPED or state.clock[0].cycle == stop:
                return state, int(outcome)

    def close(self, machine: Machine, state: State, end: int) -> None:
        """Reads the counters at the end of the run, unless the end is already an edge."""
        from warpsim.engine.chip import read

        if self.edges[-1] < end:
            self.totals.append(_empty_totals(1, state)[0])
            self.edges.append(end)
            read(machine, state, end, self.totals[-1])


def _empty_totals(rows: int, state: State) -> NDArray[np.float64]:
    """Returns a zeroed array for the counters at `rows` edges."""
    from warpsim.engine.chip import OTHERS
    from warpsim.engine.constants import STATES

    return np.zeros((rows, STATES + OTHERS + len(state.sms)))


def run_to(machine: Machine, state: State, stop: int, team: Team | None = None) -> tuple[State, int]:
    """Runs the machine to cycle `stop` or to the end of the grid; returns the state and an Outcome."""
    from warpsim.engine.allocation import enlarged
    from warpsim.engine.constants import Outcome

    team = team or Team()
    while True:
        _, outcome = team.run(machine, state, stop, 0, 1, _empty_totals(0, state))
        if outcome != Outcome.FULL:
            return state, int(outcome)
        state = enlarged(machine, state)


class Team:
    """The threads that run the engine: all of them, or one where that turns out to be faster, as on a busy computer.

    Attributes:
        most: their number.
    """

    def __init__(self, most: int = 1, pool: Executor | None = None) -> None:
        self.most, self._pool = most, pool
        self._compiled, self._timed = False, 0
        self._pace: dict[int, float] = {}  # threads -> seconds per cycle, when they ran last

    def run(
        self, machine: Machine, state: State, stop: int, edge: int, width: int, totals: NDArray[np.float64]
    ) -> tuple[int, int]:
        """Runs `engine.chip.run`."""
        number, begin, first = self._number(), time.perf_counter(), state.clock[0].cycle
        result = self._run(number, machine, state, stop, edge, width, totals)
        self._note(number, int(state.clock[0].cycle - first), time.perf_counter() - begin)
        return result

    def _note(self, threads: int, cycles: int, seconds: float) -> None:
        """Notes how fast a call was, unless it was short, or the first one, which may compile."""
        if self._compiled and cycles >= _TIMED_CYCLES:
            self._pace[threads] = seconds / cycles
            self._timed += 1
        self._compiled = True

    def _number(self) -> int:
        """Returns by how many threads the next call runs: by as many as were faster, now and then by the others, as a trial."""
        if not self._compiled:
            return self.most
        for untried in (1, self.most):
            if untried not in self._pace:
                return untried
        slower, faster = sorted((1, self.most), key=self._pace.__getitem__, reverse=True)
        return slower if self._timed % _CALLS_TO_TRIAL == 0 else faster

    def _run(
        self, number: int, machine: Machine, state: State, stop: int, edge: int, width: int, totals: NDArray[np.float64]
    ) -> tuple[int, int]:
        from warpsim.engine.chip import run
        from warpsim.engine.threads import give_up, prepare, release, share

        def help_out(thread: int) -> None:
            part = share(state, thread)
            try:
                run(machine, part, stop, edge, width, totals, thread)
            except BaseException:
                give_up(part)  # or this thread would wait for ever
                raise

        prepare(state, number)
        others = []
        try:
            for thread in range(1, number):
                assert self._pool is not None
                others.append(self._pool.submit(help_out, thread))
            found: tuple[int, int] = run(machine, state, stop, edge, width, totals, 0)
        finally:
            release(state)
            wait(others)
        for other in others:
            other.result()
        return found


def run_machine(
    machine: Machine,
    kernel: Kernel,
    warmup: int,
    cycles: int | None,
    capacity: Capacity | None = None,
    *,
    threads: int = 1,
    check: bool = False,
    pause: Callable[[], None] | None = None,
) -> tuple[State, Bins | None]:
    """Runs a machine from cycle 0 and counts `cycles` cycles after `warmup`.

    Compiled code does not notice Ctrl-C. So the engine runs in slices of about a tenth of a second; they change no result.

    Args:
        machine: the encoded machine, with its seed.
        kernel: the program, for messages.
        warmup: cycles before counting starts.
        cycles: cycles to count; None: to the end of the grid. A grid that ends earlier ends the run.
        capacity: events to record; None: none.
        threads: threads that run the SMs, at most. Where single events are recorded, or the state is verified, one does.
        check: whether the engine verifies its state every 2,000 cycles, and its counters at the end (`engine.check`). An
            AssertionError then describes the inconsistency.
        pause: called between slices; an exception that it raises ends the run.

    Returns:
        The final state with all counters, and the counters at the edges of the bins if there are any.

    Raises:
        DeadlockError: warps wait at different barriers.
        TraceLimitError: more events happened than `capacity` allows.
        ValueError: the grid ends within `warmup`, or not within MAX_CYCLES, or the run ends before the issues that are recorded.
    """
    from warpsim.engine.allocation import allocate
    from warpsim.engine.check import verify
    from warpsim.engine.chip import begin_counting, end_counting
    from warpsim.engine.constants import Outcome
    from warpsim.engine.phases import spread
    from warpsim.engine.threads import share, threads_for

    announce_compilation()
    capacity = capacity or Capacity()
    events = check or capacity.issues or capacity.lives or capacity.changes
    threads = 1 if events else threads_for(int(machine.chip[0].sms), threads)
    state = allocate(machine, issues=capacity.issues, lives=capacity.lives, changes=capacity.changes, threads=threads)
    bins = Bins(capacity.bins, warmup, cycles) if capacity.bins else None
    end = MAX_CYCLES if cycles is None else warmup + cycles
    _check_issue_window(capacity, end)
    marks = {warmup, end, *(capacity.issue_window if capacity.issues else ())}
    now, outcome, cycles_in_slice = 0, int(Outcome.STOPPED), _FIRST_SLICE
    # 64-bit arithmetic wraps around on purpose, also without compilation
    with np.errstate(over="ignore"), ThreadPoolExecutor(threads) as pool:
        team = Team(threads, pool)
        if machine.chip[0].iteration > 0:
            spread(machine, state)
        while outcome == Outcome.STOPPED and now < end:
            if now == warmup:
                begin_counting(machine, state, now)
            if capacity.issues and now in capacity.issue_window:
                state.tally[0].tracing = now == capacity.issue_window[0]
            stop = min(now + cycles_in_slice, *(mark for mark in marks if mark > now))
            if capacity.issues or capacity.lives or capacity.changes:
                stop = min(stop, now + _CAPACITY_INTERVAL)
            if check:
                stop = min(stop, now + _VERIFY_INTERVAL)
            if pause is not None:
                pause()
            begin = time.perf_counter()
            if bins and now >= warmup:
                state, outcome = bins.run(machine, state, stop, team)
            else:
                state, outcome = run_to(machine, state, stop, team)
            if time.perf_counter() - begin > _SLICE_SECONDS:
                cycles_in_slice = max(1, cycles_in_slice // 2)
            else:
                cycles_in_slice *= 2
            now = int(state.clock[0].cycle)
            if outcome == Outcome.DEADLOCK:
                raise DeadlockError(f"kernel {kernel.name}: {_deadlock(machine, state, kernel)}")
            if check:
                verify(machine, state)
            _check_capacity(state, capacity, now, warmup)
        if cycles is None and outcome == Outcome.STOPPED:
            raise ValueError(f"launch: the grid of {kernel.name} has not ended after {MAX_CYCLES:.0e} cycles, the most of a run")
        if now <= warmup:
            raise ValueError(f"warmup = {warmup}: must be below {now}, the cycle at which the grid ends")
        _check_issue_window(capacity, now)
        if bins:
            bins.close(machine, state, now)
        end_counting(machine, state, now)
        if check:
            verify(machine, state, counted_from=warmup)
    return share(state, 0), bins


def _check_issue_window(capacity: Capacity, end: int) -> None:
    """Raises a ValueError if the window of recorded issues begins after the last cycle of the run, which is `end` - 1."""
    start, stop = capacity.issue_window
    if capacity.issues and start >= end:
        raise ValueError(f"trace.issues = {(start, stop)}: must begin within the run, whose last cycle is {end - 1}")


def _check_capacity(state: State, capacity: Capacity, now: int, warmup: int) -> None:
    """Raises a TraceLimitError if more events happened than can be recorded."""
    tally = state.tally[0]
    if capacity.issues and tally.traced > capacity.issues:
        raise TraceLimitError(
            f"trace.issues: more than {capacity.issues} instructions by cycle {now}, the limit that max_bytes allows; "
            "shorten the window, simulate a slice of the chip (sms), or increase max_bytes"
        )
    if capacity.lives and now > warmup and tally.retired > capacity.lives:
        raise TraceLimitError(
            f"trace.warps: more than {capacity.lives} warps retired by cycle {now}, the limit that max_bytes allows; "
            "count fewer cycles, simulate a slice of the chip (sms), or increase max_bytes"
        )
    if capacity.changes and now > warmup and tally.n_changes > capacity.changes:
        raise TraceLimitError(
            f"trace.occupancy: more than {capacity.changes} changes by cycle {now}, the limit that max_bytes allows; "
            "request a number of bins instead of True, count fewer cycles, simulate a slice of the chip (sms), or increase "
            "max_bytes"
        )


def _deadlock(machine: Machine, state: State, kernel: Kernel) -> str:
    """Describes a deadlock: its cycle, its block, and where the warps are that are held.

    If a warp is not held, it is one that has arrived at an mbarrier whose phase had no room for it.
    """
    from warpsim.engine.constants import MOST_PHASES, Kind, Life

    chip, clock = machine.chip[0], state.clock[0]
    first = state.sms[clock.stuck_sm].first_index + clock.stuck_seat * chip.block_warps
    warps = state.warps[first : first + chip.block_warps]
    place = dict(zip(np.flatnonzero(machine.program.kind < Kind.LOOP_BEGIN).tolist(), places(kernel), strict=True))
    held = [
        f"warp {i} at {place[int(warp.barrier)]}"
        for i, warp in enumerate(warps)
        if warp.life in (Life.AT_BARRIER, Life.AT_MBARRIER)
    ]
    block = state.seats[clock.stuck_sm * chip.seats + clock.stuck_seat].block
    if len(state.lacking) and any(warp.life == Life.RUNNING for warp in warps):
        which = f"a phase of an mbarrier that has all arrivals, or is {MOST_PHASES} phases ahead of one that is not complete"
        return f"deadlock at cycle {clock.cycle}: a warp of block {block} arrives in {which}"
    wait = "wait for each other at mbarriers" if len(state.lacking) else "wait at different barriers"
    return f"deadlock at cycle {clock.cycle}: the warps of block {block} {wait}: " + ", ".join(held)

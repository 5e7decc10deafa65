"""How far the accesses of other blocks are moved from those of a recorded one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.accesses.tally import for_each
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.until_enough import WALKED, BlockIndex, EnoughError, UntilEnough, patterns_of
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask
from warpsim.frontends.values import Values

_MOST_THREADS_OF_FIRSTS, _THREADS_TOGETHER = 1_500_000, 65_536
"""Threads that are executed for the sake of the first calls of instructions, as many as in four waves of the largest chip; and
those of them that are executed together."""

_MOST_WORK = 600_000_000
"""Instructions of threads that are executed for the sake of the first calls, or of where each call begins, about."""

_MOST_APART = 1 / 32
"""Share of blocks whose threads are not all moved by the same, at most, where an address wraps."""

_MOST_SHAPES = 12
"""Shapes of blocks of which some are recorded: those in the corners, at the edges, and within a grid, and a few more."""


class Firsts(UntilEnough):
    """An evaluator that keeps the addresses of the first call of each instruction in each block, and how many calls were before.

    It ends once each instruction has made a call in one of the blocks.
    """

    def __init__(self, given: Given, blocks: list[BlockIndex], like: Recorder) -> None:
        super().__init__(given, blocks, like.evaluation, made_up=like.bases is not None)
        self.numbers, self.threads = like.numbers, like.threads
        self.made = np.zeros(len(like.numbers), np.int64)
        self.rows = np.full((len(like.numbers), len(blocks), like.threads), -1)
        self.before = np.zeros((len(like.numbers), len(blocks)), np.int64)
        self.awaited = np.ones((len(like.numbers), len(blocks)), np.bool_)

    def _access(self, number: int, step: Step, active: Mask) -> None:
        at = self.numbers.get((number, step.index))
        if at is None or not active.any():
            return
        begin = self.awaited[at] & active.reshape(-1, self.threads).any(axis=1)
        if begin.any():
            row = np.where(active, self.whole_addresses((number, step.index), step), -1).reshape(-1, self.threads)
            self.rows[at, begin], self.before[at, begin], self.awaited[at, begin] = row[begin], self.made[at], False
        self.made[at] += 1
        if self.made.all():
            raise EnoughError


class Shifts(UntilEnough):
    """An evaluator that keeps by how much further the addresses of each call are in some blocks than in the recorder's first one.

    `shifts` has a row for each of the first calls, up to the last one that is asked for, and `apart` the blocks of each whose
    threads are not all moved by the same. It ends early where the blocks do not make the recorder's calls, in its order.
    """

    def __init__(self, given: Given, blocks: list[BlockIndex], like: Recorder, calls: int) -> None:
        super().__init__(given, [like.blocks[0], *blocks], like.evaluation, made_up=like.bases is not None)
        self.like, self.asked = like, calls
        self.shifts: list[Values] = []
        self.apart: list[int] = []

    def _access(self, number: int, step: Step, active: Mask) -> None:
        place = number, step.index
        if self.space_of(place) not in WALKED or not active.any():
            return
        addresses = for_each(self.whole_addresses(place, step), active)
        if not (addresses[active] >= 0).any():
            return
        rows = np.where(active, addresses, -1).reshape(-1, self.like.threads)
        instruction, expected = self.like.calls[len(self.shifts)]
        if self.like.numbers.get(place) != instruction or (rows[0] != expected[: self.like.threads]).any():
            raise EnoughError
        lane = int((rows[0] >= 0).argmax())
        self.shifts.append(np.where(rows[1:, lane] >= 0, rows[1:, lane] - rows[0, lane], 0))
        _, patterns = patterns_of(rows, np.zeros(len(rows), np.int64))
        self.apart.append(int((patterns != patterns[0]).sum()))
        if len(self.shifts) == self.asked:
            raise EnoughError

    def _skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        """Leaves out no trip, as the recorder."""


@dataclass(frozen=True)
class Moved:
    """Blocks that access what recorded ones do, moved by a distance for each instruction.

    Attributes:
        recorder: has recorded some blocks.
        blocks: that make accesses. Those that make none, as those beyond the end of the data, are left out.
        patterns: int64[blocks, instructions]: of the first call of each instruction (`patterns_of`).
        like: int64[blocks]: number of the recorded block that each one is like.
        further: int64[blocks, instructions]: by how much further the addresses of each instruction are than in that one.
        as_one: bool[blocks, instructions]: whether those of all threads are.
    """

    recorder: Recorder
    blocks: list[BlockIndex]
    patterns: Values
    like: Values
    further: Values
    as_one: NDArray[np.bool_]

    def tell_all(self) -> bool:
        """Returns whether the recorded blocks tell what the others access, but for a few in which an address wraps."""
        return len(self.blocks) > 0 and bool(((~self.as_one).mean(axis=0) <= _MOST_APART).all())

    def of_each_shape(self) -> list[BlockIndex]:
        """Returns two blocks of each of the most frequent shapes, the most frequent one first."""
        _, shape, count = np.unique(self.patterns, axis=0, return_inverse=True, return_counts=True)
        shapes = np.argsort(-count, kind="stable")[:_MOST_SHAPES]
        return [self.blocks[at] for each in shapes for at in np.unique(np.flatnonzero(shape == each)[[0, -1]])]


def moved_by_instruction(
    given: Given, recorder: Recorder, recorder_of: Callable[[list[BlockIndex]], Recorder], order: list[BlockIndex]
) -> Moved | None:
    """Returns how the accesses of some blocks follow from those of recorded ones.

    They are those of the recorder or, where these are not of all shapes, others. None: the first calls of the instructions do
    not tell, or there are too many threads, or shapes.
    """
    if len(order) * recorder.threads > _MOST_THREADS_OF_FIRSTS:
        return None
    found = _moved_from(given, recorder, order)
    if found is not None and found.blocks and not found.tell_all():
        others = recorder_of(found.of_each_shape())
        found = _moved_from(given, others, order) if others.execute_blocks() else None
    return found if found is not None and found.tell_all() else None


def _moved_from(given: Given, recorder: Recorder, order: list[BlockIndex]) -> Moved | None:
    """Returns how the first calls of some blocks follow from those of a recorder; None: further calls may not, or are others."""
    if (recorded := recorder.first_patterns()) is None:
        return None
    count, together = len(recorder.blocks), max(1, _THREADS_TOGETHER // recorder.threads)
    parts = []
    for begin in range(0, len(order), together):
        firsts = Firsts(given, [*recorder.blocks, *order[begin : begin + together]], recorder)
        firsts.most_executed = min(firsts.most_executed, _MOST_WORK // (len(order) * recorder.threads))
        firsts.runs_to_the_end()
        if not firsts.made.all():
            return None
        begins, patterns = (np.stack(each, axis=1) for each in zip(*map(patterns_of, firsts.rows, firsts.before), strict=True))
        like = (patterns[count:, None] == patterns[:count]).all(axis=2).argmax(axis=1)  # the first one if it is like none
        is_known = (patterns[:count] != 0) | (recorded == 0)
        as_one = (patterns[count:] == patterns[like]) & is_known[like]
        parts.append((patterns[count:], like, begins[count:] - begins[like], as_one))
    patterns, like, further, as_one = (np.concatenate(each) for each in zip(*parts, strict=True))
    busy = np.flatnonzero(patterns.any(axis=1))
    return Moved(recorder, [order[at] for at in busy], patterns[busy], like[busy], further[busy], as_one[busy])


def moved_by_call(given: Given, recorder: Recorder, order: list[BlockIndex], calls: Values) -> Values | None:
    """Returns by how much further the addresses of some calls are in some blocks than in the recorder's first one.

    Calls of an instruction may be moved differently. None: the blocks do not make the same calls, or it would take too long.
    """
    last = int(calls.max(initial=-1)) + 1  # 0 where the recorder's first block makes no call
    work = recorder.executed * last / len(recorder.calls) * len(order) * recorder.threads
    if not last or recorder.gaps or recorder.most_trips is not None or work > _MOST_WORK:
        return None
    found: list[Values] = []
    apart, together = np.zeros(last), max(1, _THREADS_TOGETHER // recorder.threads)
    for begin in range(0, len(order), together):
        shifts = Shifts(given, order[begin : begin + together], recorder, last)
        shifts.runs_to_the_end()
        if len(shifts.shifts) < last:
            return None
        found.append(np.stack(shifts.shifts, axis=1))
        apart += shifts.apart
        if apart.mean() > _MOST_APART * len(order):
            return None
    return np.concatenate(found)[:, calls]

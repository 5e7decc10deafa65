"""How far the accesses of other blocks are moved from those of a recorded one."""

from __future__ import annotations

import numpy as np

from warpsim.frontends.accesses.tally import for_each
from warpsim.frontends.caches.recorder import Recorder
from warpsim.frontends.caches.until_enough import WALKED, BlockIndex, EnoughError, UntilEnough, moved_as_one
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask
from warpsim.frontends.values import Values

_MOST_THREADS_OF_FIRSTS, _THREADS_TOGETHER = 1_500_000, 65_536
"""Threads that are executed for the sake of the first calls of instructions, as many as in four waves of the largest chip; and
those of them that are executed together."""

_MOST_WORK_OF_SHIFTS = 600_000_000
"""Instructions of threads that are executed for the sake of where each call begins, about."""

_MOST_APART = 1 / 32
"""Share of blocks whose threads are not all moved by the same, at most, where an address wraps."""


class Firsts(UntilEnough):
    """An evaluator that keeps the addresses of the first call of each instruction."""

    def __init__(self, given: Given, blocks: list[BlockIndex], like: Recorder) -> None:
        super().__init__(given, blocks, like.evaluation, made_up=like.bases is not None)
        self.numbers, self.rows = like.numbers, dict[int, Values]()

    def _access(self, number: int, step: Step, active: Mask) -> None:
        place = number, step.index
        if place not in self.numbers or self.numbers[place] in self.rows or not active.any():
            return
        self.rows[self.numbers[place]] = np.where(active, self.whole_addresses(place, step), -1)
        if len(self.rows) == len(self.numbers):
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
        self.apart.append(len(rows) - int(moved_as_one(rows).sum()))
        if len(self.shifts) == self.asked:
            raise EnoughError

    def _skip_trips(self, loop: int, header: int, pending: dict[int, Mask]) -> None:
        """Leaves out no trip, as the recorder."""


def moved_by_instruction(
    given: Given, recorder: Recorder, order: list[BlockIndex], calls: Values
) -> tuple[Values | None, list[BlockIndex]]:
    """Returns by how much the addresses of some calls are further in some blocks than in the recorder's first one, and which.

    They are moved by the same in all calls of an instruction. None: that cannot be known from the first calls of the
    instructions, or there are too many threads. A few blocks may lie where an address wraps; they are taken to be moved as their
    first thread is. Blocks that make no access, as those beyond the end of the data, are left out.
    """
    if len(order) * recorder.threads > _MOST_THREADS_OF_FIRSTS:
        return None, order
    moved = np.zeros((len(order), len(recorder.numbers)), np.int64)
    apart, busy = np.zeros(len(recorder.numbers)), np.zeros(len(order), np.bool_)
    together = max(1, _THREADS_TOGETHER // recorder.threads)
    for begin in range(0, len(order), together):
        blocks = [recorder.blocks[0], *order[begin : begin + together]]
        firsts = Firsts(given, blocks, recorder)
        firsts.runs_to_the_end()
        if len(firsts.rows) < len(recorder.numbers):
            return None, order
        rows_of = {number: row.reshape(len(blocks), recorder.threads) for number, row in firsts.rows.items()}
        accessing = np.zeros(len(blocks), np.bool_)
        for rows in rows_of.values():
            accessing |= (rows >= 0).any(axis=1)
        busy[begin : begin + len(blocks) - 1] = accessing[1:]
        for number, rows in rows_of.items():
            apart[number] += (accessing & ~moved_as_one(rows)).sum()
            lane = int((rows[0] >= 0).argmax())
            moved[begin : begin + len(blocks) - 1, number] = np.where(rows[1:, lane] >= 0, rows[1:, lane] - rows[0, lane], 0)
        if (apart > _MOST_APART * len(order)).any():
            return None, order
    if not busy.any():
        return None, order
    here = [block for block, accesses in zip(order, busy, strict=True) if accesses]
    return moved[busy][:, [recorder.calls[call][0] for call in calls]], here


def moved_by_call(given: Given, recorder: Recorder, order: list[BlockIndex], calls: Values) -> Values | None:
    """Returns the same where calls of an instruction are moved differently; None: it may also take too long."""
    last = int(calls.max(initial=-1)) + 1  # 0 where the recorder's first block makes no call
    work = recorder.executed * last / len(recorder.calls) * len(order) * recorder.threads
    if not last or recorder.gaps or recorder.most_trips is not None or work > _MOST_WORK_OF_SHIFTS:
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

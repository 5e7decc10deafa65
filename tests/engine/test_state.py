"""What a state holds: sums after a run, lanes of warps, and the pools of transitions.

The kill suite of the mutants runs all of it (`kill_suite.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.engine.directed_cases import kernel, one
from tests.support.cases import small_gpu
from warpsim.engine import allocation, echoes, lanes, timetable
from warpsim.engine.accounts import steps_issued
from warpsim.engine.constants import EPOCH, EPOCHS, NEVER, RANK_BITS, Kind
from warpsim.engine.machine import STEP
from warpsim.engine.state import CLOCK, POOL, TRANSITION
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Loop
from warpsim.simulation.encode import encode, with_seed
from warpsim.simulation.run import Capacity, run_machine


def _allocated(warps: int = 4, program: Any = None) -> tuple[Any, Any]:
    """Returns a machine of one SM with so many warps, and its state at cycle 0."""
    launch = Launch(block_warps=1, resident_blocks=warps)
    machine = with_seed(encode(small_gpu(), program or kernel(one("alu")), launch, scheduler="lrr", memory="fixed"), 1)
    return machine, allocation.allocate(machine)


def test_the_sum_of_latencies_is_that_of_the_histogram() -> None:
    """Also with a warm-up, of which nothing is left."""
    load = one("load", access=Access(l1_hit=0.1, l2_hit=0.5))
    program = kernel(Loop(body=[load, one("alu")], trips=None))
    machine, _ = _allocated(program=program)
    for warmup in (0, 300):
        tally = run_machine(machine, program, warmup, 900)[0].tally[0]
        assert tally.latency_sum == np.arange(len(tally.histogram)) @ tally.histogram > 0


def test_sums_are_those_of_what_they_count() -> None:
    program = kernel(one("load"), one("alu"), one("store"))
    machine, _ = _allocated(program=program)
    for warmup in (0, 300):
        state = run_machine(machine, program, warmup, 900, Capacity(lives=1000))[0]
        tally, accesses = state.tally[0], int(steps_issued(machine, state)[[0, 2]].sum())
        moved = tally.moved_bytes / machine.details[0].request_bytes
        assert moved == round(moved) and abs(moved - accesses) <= 4 * (warmup > 0), "accesses of 4 warps are under way at an edge"
        lives = state.lives[: tally.retired]
        assert tally.lifetime_sum == (lives[:, 3] - lives[:, 2] + 1).sum() > 0
        assert (lives[:, 3] >= warmup).all() and (np.diff(lives[:, 3]) >= 0).all()


@pytest.mark.parametrize("distance", [*range(lanes.FARTHEST - 1, lanes.FARTHEST + 3), 3 * lanes.FARTHEST])
def test_lanes_move_on_by_any_number_of_cycles(distance: int) -> None:
    """A lane that is not later than the new begin is at 0 then; one that is not known stays so."""
    machine, allocated = _allocated()
    wakes = allocated.schedulers[0].wakes
    ahead = [0, 5, lanes.FARTHEST - 2, lanes.FARTHEST - 1, lanes.FARTHEST]
    wakes[:] = NEVER
    wakes[: len(ahead)] = np.array(ahead) << RANK_BITS
    timetable.move_on(machine, allocated, allocated.sms[0], np.int64(distance))
    assert (wakes[: len(ahead)] >> RANK_BITS).tolist() == [max(cycle - distance, 0) for cycle in ahead]
    assert (wakes[len(ahead) :] == NEVER).all()


@pytest.mark.parametrize(("warps", "count"), [(2, 16), (16, 16), (17, 32), (32, 32), (33, 64), (64, 64)])
def test_schedulers_have_as_many_lanes_as_their_warps_need(warps: int, count: int) -> None:
    assert _allocated(warps)[1].schedulers.wakes.shape == (1, count)


@pytest.mark.parametrize(("accesses", "room"), [(1, 1 << 15), (512, 1 << 15), (513, 1 << 14), (1024, 1 << 14), (1025, 1 << 13),
                                                (1 << 16, 256), (1 << 17, 256)])  # fmt: skip
def test_room_of_a_pool(accesses: int, room: int) -> None:
    machine = Programmed(np.zeros(accesses, STEP))
    machine.program["kind"] = Kind.LOAD
    assert allocation.pool_room(machine) == room


class Programmed(NamedTuple):
    program: Any


class Pooled(NamedTuple):
    clock: Any
    pools: Any
    transitions: Any


def _pooled() -> Pooled:
    """Returns one empty pool with room for 64 transitions, of which ten can be recorded in an epoch."""
    kinds = ((1, CLOCK), (1, POOL), (64, TRANSITION))
    pooled = Pooled(*(np.zeros(count, kind).view(np.recarray) for count, kind in kinds))
    pooled.clock[0].pool_room = 64
    return pooled


def test_an_epoch_has_room_for_ten_transitions() -> None:
    pooled = _pooled()
    pool, totals = pooled.pools[0], []
    for epoch, number in ((5, 15), (6, 15), (8, 4), (9, 15), (13, 15)):
        for _ in range(number):
            echoes.record(pooled, pool, np.int64(epoch * EPOCH + 3), np.int64(1), np.int64(0), False, np.int64(0))
        totals.append(int(pool.total))
    assert totals == [10, 20, 24, 34, 44]


@pytest.mark.parametrize("step", range(1, 2 * EPOCHS + 1))
def test_transitions_are_known_by_epoch(step: int) -> None:
    """Records at several cycles of every `step`-th epoch; what is known of an epoch are the transitions up to its end."""
    pooled = _pooled()
    pool, seen = pooled.pools[0], []
    for epoch in (2, *range(3, 3 + 5 * step, step)):
        for cycle in (epoch * EPOCH, epoch * EPOCH + 7, (epoch + 1) * EPOCH - 1):
            echoes.record(pooled, pool, np.int64(cycle), np.int64(1), np.int64(0), False, np.int64(0))
            seen.append(epoch)
            for last in range(epoch - EPOCHS + 1, epoch + 1):
                if last >= 1:
                    assert pool.by_epoch[last & (EPOCHS - 1)] == sum(known <= last for known in seen)

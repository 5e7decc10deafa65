"""How many copies may be under way where mbarriers hand buffers over."""

import pytest

from warpsim.kernels import Conditional, Instruction, Kernel, Loop, Mbarrier, producer_consumer
from warpsim.kernels.handovers import copies_under_way, passes, runs_to_its_end
from warpsim.kernels.outstanding import MOST_OUTSTANDING, outstanding
from warpsim.kernels.whatif import interleaved, with_another_stage, without

AWAIT_EMPTY, COPY = Instruction("smem", awaits="empty"), Instruction("async_copy", arrives="full")
AWAIT_FULL, HAND_BACK = Instruction("smem", awaits="full"), Instruction("smem", arrives="empty")


def ring(producer, consumer, ahead, trips=40):
    sides = {"then": (Loop(body=producer, trips=trips),), "orelse": consumer}
    mbarriers = (Mbarrier(name="full", arrivals=1), Mbarrier(name="empty", arrivals=2, ahead=ahead))
    return Kernel(name="ring", block_warps=3, mbarriers=mbarriers, body=(Conditional(warps=(0,), **sides),))


@pytest.mark.parametrize("stages", [1, 2, 15])
def test_as_many_copies_as_the_other_buffers(stages):
    kernel = producer_consumer(stages)
    ((copy, others),) = copies_under_way(kernel, MOST_OUTSTANDING).items()
    assert others == {copy: stages - 1}
    assert outstanding(kernel).loads == {copy: {copy: stages - 1}}
    assert not outstanding(kernel).unread


def test_mbarriers_that_set_no_limit():
    ((copy, others),) = copies_under_way(producer_consumer(16), MOST_OUTSTANDING).items()
    assert others == {copy: 15}
    assert copies_under_way(producer_consumer(17), MOST_OUTSTANDING) == {copy: {}}
    assert outstanding(producer_consumer(17)).unread == {copy}


def test_buffers_that_consumers_hand_back_at_the_begin():
    """Three arrivals before the loop say that three buffers are free."""
    consumer = (HAND_BACK, HAND_BACK, HAND_BACK, Loop(body=(AWAIT_FULL, HAND_BACK), trips=40))
    ((copy, others),) = copies_under_way(ring((AWAIT_EMPTY, COPY), consumer, ahead=0), MOST_OUTSTANDING).items()
    assert others == {copy: 2}


def test_two_copies_for_each_buffer():
    """Each has as many under way as there are other buffers, and the second one finds the first one of its own."""
    consumer = (Loop(body=(AWAIT_FULL, HAND_BACK), trips=40),)
    kernel = ring((AWAIT_EMPTY, Instruction("async_copy", reports="full"), COPY), consumer, ahead=3)
    first, second = sorted(found := copies_under_way(kernel, MOST_OUTSTANDING))
    assert found == {first: {first: 2, second: 2}, second: {first: 3, second: 2}}


def test_work_in_long_loops_is_passed_over():
    work = Loop(body=(Instruction("alu"),), trips=10**9)
    consumer = (Loop(body=(AWAIT_FULL, work, HAND_BACK), trips=40),)
    ((copy, others),) = copies_under_way(ring((AWAIT_EMPTY, COPY), consumer, ahead=2), MOST_OUTSTANDING).items()
    assert others == {copy: 1}


def test_another_stage_is_one_more_buffer_of_the_warp_that_copies():
    deeper = with_another_stage(producer_consumer(3))
    assert {one.name: one.ahead for one in deeper.mbarriers} == {"full": 0, "empty": 4}
    assert with_another_stage(producer_consumer(32)) is None
    assert with_another_stage(Kernel(name="none", body=(Instruction("async_copy"),))) is None


@pytest.mark.parametrize("stages", [1, 4])
def test_changed_programs_hand_over_as_many_buffers(stages):
    """Neither more work for each tile, nor less, changes how often warps pass mbarriers, so that no block is stuck."""
    kernel = producer_consumer(stages, iterations=5)
    for changed in (interleaved(kernel, 2), without(kernel, "smem", "branch"), without(kernel, "alu")):
        assert [passes(changed.body, warp) for warp in (0, 1)] == [passes(kernel.body, warp) for warp in (0, 1)]
        assert runs_to_its_end(changed)


def test_warps_that_would_wait_forever():
    assert runs_to_its_end(producer_consumer(2, iterations=5))
    consumer = (Loop(body=(AWAIT_FULL,), trips=40),)
    assert not runs_to_its_end(ring((AWAIT_EMPTY, COPY), (*consumer, HAND_BACK), ahead=3))


def test_mbarriers_under_conditions_of_chance_are_not_counted():
    one = Instruction("smem", arrives="full")
    assert passes((Conditional(probability=0.5, then=(one,)),), 0) is None
    assert passes((Conditional(probability=1.0, then=(one,)),), 0) == {("arrives", "full"): 1}
    assert passes((Loop(body=(one,), trips=(1, 2)),), 0) is None
    assert passes((Conditional(warps=(0,), then=(one, Instruction("exit"))), one), 0) == {("arrives", "full"): 1}

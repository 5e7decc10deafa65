"""Mbarriers: phases, arrivals with copies, and deadlocks, exact by the rules of docs/model.md, section 4, in both machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import warpsim as ws
from tests.engine.test_against_reference import assert_same
from tests.engine.test_check import started
from tests.support.cases import Case, op_facts, small_gpu
from warpsim.arguments import DeadlockError
from warpsim.engine import constants
from warpsim.engine.check import InconsistentError, dump, verify
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Cost, Instruction, Kernel, Loop, Mbarrier, instruction
from warpsim.reference import simulator
from warpsim.reference.result import Result
from warpsim.simulation.run import run_to

LATENCY, SMEM = 40, 10
"""Of a load of the small chip, with the memory model `fixed`, and of `smem`."""

COPY = {"async_copy": op_facts("lg", latency_cycles=0, scope="sm")}

AWAIT, FULL = Instruction("alu", awaits="full"), Mbarrier(name="full", arrivals=1)


def kernel(producer: Sequence[Any], consumer: Sequence[Any], *mbarriers: Mbarrier) -> Kernel:
    """Returns a kernel in which warp 0 of a block executes one list of statements, and the others another one."""
    body = (Conditional(warps=(0,), then=tuple(producer), orelse=tuple(consumer)),)
    return Kernel(name="pipeline", body=body, mbarriers=mbarriers)


def run(program: Kernel, *, warps: int = 2, schedulers: int = 2, blocks: int = 1, memory: str = "fixed") -> Result:
    gpu = small_gpu(ops=COPY, sm={"schedulers": schedulers})
    launch = Launch(blocks=blocks, block_warps=warps, resident_blocks=1)
    options = {"scheduler": "gto", "memory": memory, "seed": 1, "cycles": None}
    assert_same(Case(gpu, program, launch, options))
    return simulator.simulate(gpu, program, launch, **options)


def issues(result: Result, slot: int) -> list[tuple[int, str]]:
    return [(cycle, op) for cycle, _, at, op in result.issues if at == slot]


def test_both_layers_have_room_for_as_many_phases() -> None:
    assert constants.MOST_PHASES == instruction.MOST_PHASES


def test_a_warp_waits_until_the_result_of_the_last_arrival() -> None:
    """The branch issues at 0, the arrival at 2; the waiting warp is held up to the issue, and waits for its result then."""
    seen = run(kernel([Instruction("smem", arrives="full")], [AWAIT, Instruction("sfu")], FULL))
    assert issues(seen, 0)[1] == (2, "smem")
    assert issues(seen, 1)[1:3] == [(3, "alu"), (2 + SMEM, "sfu")]
    assert seen.warp_cycles["barrier"] == SMEM - 2
    assert seen.line_cycles[1, "end", "barrier"] == 0
    assert seen.caused_cycles["body[0].orelse[0]", "barrier"] == SMEM - 2


@pytest.mark.parametrize("gap", [SMEM - 2, SMEM - 1, SMEM])
def test_a_gap_that_ends_with_the_phase_is_the_wait(gap: int) -> None:
    """The waiting warp issues at 3, when the end of the phase, 2 + SMEM, is known; of two equal ends that of the gap counts."""
    awaits = Instruction("alu", awaits="full", cost=Cost(gap_cycles=gap))
    seen = run(kernel([Instruction("smem", arrives="full")], [awaits, Instruction("sfu")], FULL))
    assert issues(seen, 1)[2] == (max(2 + SMEM, 3 + gap), "sfu")
    assert seen.warp_cycles["barrier"] == (SMEM - 2 if gap == SMEM - 2 else 0)


def test_an_arrival_waits_for_the_copies_before_it() -> None:
    """A copy at 2, and an arrival at 3 that has no result of its own to wait for: the phase is complete when the copy is back."""
    producer = [Instruction("async_copy", reports="full"), Instruction("alu", cost=Cost(latency_cycles=0), arrives="full")]
    consumer = [AWAIT, Instruction("sfu")]
    seen = run(kernel(producer, consumer, FULL))
    assert issues(seen, 1)[2] == (2 + LATENCY, "sfu")


def test_copies_that_report_elsewhere_do_not_count() -> None:
    """The producer arrives at `empty` while its copy for `full` is under way, as where all warps hand buffers back."""
    producer = [Instruction("async_copy", arrives="full"), Instruction("alu", cost=Cost(latency_cycles=0), arrives="empty")]
    consumer = [Instruction("alu", awaits="empty"), Instruction("sfu"), AWAIT, Instruction("sfu")]
    seen = run(kernel(producer, consumer, FULL, Mbarrier(name="empty", arrivals=1)))
    assert [cycle for cycle, op in issues(seen, 1) if op == "sfu"] == [4, 2 + LATENCY]


def test_a_copy_arrives_when_it_is_back() -> None:
    seen = run(kernel([Instruction("async_copy", arrives="full")], [AWAIT, Instruction("sfu")], FULL))
    assert issues(seen, 1)[2] == (2 + LATENCY, "sfu")


def test_a_phase_needs_all_its_arrivals() -> None:
    late = Instruction("alu", cost=Cost(gap_cycles=100))
    body = (
        Conditional(warps=(2,), then=(late,)),
        Conditional(warps=(0,), then=(AWAIT, Instruction("sfu")), orelse=(Instruction("smem", arrives="full"),)),
    )
    seen = run(Kernel(name="two", body=body, mbarriers=(Mbarrier(name="full", arrivals=2),)), warps=3, schedulers=3)
    (arrival,) = (cycle for cycle, op in issues(seen, 2) if op == "smem")
    (after,) = (cycle for cycle, op in issues(seen, 0) if op == "sfu")
    assert arrival > 100
    assert after == arrival + SMEM


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_stages_let_a_producer_run_ahead(stages: int) -> None:
    """Copies of 40 cycles, and work of 60: with one stage they take turns, and with several the work alone counts."""
    work, trips = 60, 20
    producer = [Loop(body=[Instruction("alu", awaits="empty"), Instruction("async_copy", arrives="full")], trips=trips)]
    step = Instruction("alu", cost=Cost(gap_cycles=work))
    consumer = [Loop(body=[AWAIT, step, Instruction("alu", arrives="empty")], trips=trips)]
    seen = run(kernel(producer, consumer, FULL, Mbarrier(name="empty", arrivals=1, ahead=stages)))
    period = seen.end / trips
    assert (period > LATENCY + work) if stages == 1 else (work < period < work + 8)


def test_blocks_that_follow_begin_anew() -> None:
    producer = [Loop(body=[Instruction("alu", awaits="empty"), Instruction("async_copy", arrives="full")], trips=3)]
    consumer = [Loop(body=[AWAIT, Instruction("alu", arrives="empty")], trips=3)]
    program = kernel(producer, consumer, FULL, Mbarrier(name="empty", arrivals=1, ahead=2))
    once, thrice = (run(program, blocks=blocks) for blocks in (1, 3))
    assert len(thrice.retired) == 3 * len(once.retired)
    first_end = max(last for *_, last in once.retired)
    lengths = [last - start for _, _, start, last in thrice.retired]
    assert max(lengths) == first_end


def test_the_checks_of_the_engine_know_mbarriers() -> None:
    """`verify` finds a count that does not agree, and `dump` names a warp that is held."""
    producer = [Loop(body=[Instruction("alu")], trips=9), Instruction("smem", arrives="full")]
    program = kernel(producer, [AWAIT], FULL)
    launch = Launch(blocks=1, block_warps=2, resident_blocks=1)
    machine, state = started(Case(small_gpu(ops=COPY), program, launch, {"scheduler": "lrr", "memory": "fixed", "seed": 1}))
    with np.errstate(over="ignore"):
        state, _ = run_to(machine, state, 5)
    verify(machine, state)
    assert "at_mbarrier" in dump(machine, state)
    state.lacking[0] = 0
    with pytest.raises(InconsistentError, match="warps held for phases without"):
        verify(machine, state)


def test_copies_of_a_queue_complete_phases_in_any_order() -> None:
    access = Access(l2_hit=0.5)
    copy = Instruction("async_copy", access=access, arrives="full")
    producer = [Loop(body=[Instruction("alu", awaits="empty"), copy], trips=30)]
    consumer = [Loop(body=[AWAIT, Instruction("alu", dst="r"), Instruction("alu", arrives="empty")], trips=30)]
    run(kernel(producer, consumer, FULL, Mbarrier(name="empty", arrivals=3, ahead=4)), warps=4, memory="queue")


@pytest.mark.parametrize("stages", [1, 3])
def test_echoes_wait_for_the_buffers_of_their_own(stages: int) -> None:
    """A slice takes about as long as the whole chip: its echoes do not copy ahead of buffers that they do not have."""
    program = ws.kernels.producer_consumer(stages, alpha=10, iterations=40)
    cycles = [
        float(ws.simulate("h100", program, launch=ws.Launch(blocks=sms, block_warps=5), sms=sms, replicates=1).cycles.mean())
        for sms in (4, 132)
    ]
    assert cycles[0] == pytest.approx(cycles[1], rel=0.1)


class TestDeadlocks:
    def test_nobody_arrives_any_more(self) -> None:
        producer = [Instruction("alu", arrives="full")]
        consumer = [Loop(body=[AWAIT], trips=2)]
        program = kernel(producer, consumer, FULL)
        with pytest.raises(DeadlockError, match="wait for each other"):
            run(program)
        with pytest.raises(DeadlockError, match=r"wait for each other at mbarriers: warp 1 at body\[0\].orelse\[0\].body\[0\]"):
            ws.simulate(small_gpu(ops=COPY), program, launch=Launch(blocks=1, block_warps=2), replicates=1)

    def test_a_barrier_and_an_mbarrier(self) -> None:
        body = (AWAIT, Instruction("barrier"), Instruction("alu", arrives="full"))
        with pytest.raises(DeadlockError, match="wait for each other"):
            run(Kernel(name="stuck", body=body, mbarriers=(Mbarrier(name="full", arrivals=2),)))

    def test_a_phase_that_has_begun_lacks_one_arrival(self) -> None:
        later = Instruction("alu", cost=Cost(gap_cycles=50))
        with pytest.raises(DeadlockError, match="wait for each other"):
            run(kernel([Instruction("alu", arrives="full"), AWAIT], [later, AWAIT], Mbarrier(name="full", arrivals=2)))

    def test_a_warp_that_runs_too_far_ahead(self) -> None:
        """Its 33rd arrival would need room for a phase beside 32 that others have not completed."""
        ahead = [Loop(body=[Instruction("alu", arrives="full")], trips=40)]
        behind = [Instruction("alu", cost=Cost(gap_cycles=500)), *ahead]
        with pytest.raises(DeadlockError, match="cannot arrive in phase 32"):
            run(kernel(ahead, behind, Mbarrier(name="full", arrivals=2)))

    def test_more_arrivals_than_a_phase_has(self) -> None:
        program = Kernel(name="many", body=(Instruction("alu", arrives="full"),), mbarriers=(FULL,))
        with pytest.raises(DeadlockError, match="cannot arrive in phase 0"):
            run(program)
        with pytest.raises(DeadlockError, match="a warp of block 0 arrives in a phase of an mbarrier that has all arrivals"):
            ws.simulate(small_gpu(ops=COPY), program, launch=Launch(blocks=1, block_warps=2), replicates=1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"op": "load", "arrives": "full"}, "arrives = 'full': must be left out for load"),
        ({"op": "store", "arrives": "full"}, "arrives = 'full': must be left out for store"),
        ({"op": "async_copy", "awaits": "full"}, "awaits = 'full': must be left out for async_copy"),
        ({"op": "barrier", "awaits": "full"}, "awaits = 'full': must be left out for barrier"),
        ({"op": "alu", "awaits": "full", "arrives": "full"}, "must not be given together"),
        ({"op": "alu", "reports": "full"}, "reports = 'full': must be left out but for an async_copy"),
        ({"op": "async_copy", "reports": "full", "arrives": "full"}, "reports = 'full': must be left out but for an async_copy"),
        ({"op": "alu", "awaits": "a b"}, "must be a name"),
    ],
)
def test_instructions_that_cannot_name_an_mbarrier(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Instruction(**fields)


def test_kernels_name_their_mbarriers() -> None:
    arrives, awaits = Instruction("alu", arrives="full"), AWAIT
    with pytest.raises(ValueError, match="must be one of the kernel's mbarriers, which are empty"):
        Kernel(name="k", body=(arrives, awaits), mbarriers=[{"name": "empty", "arrivals": 1}])
    with pytest.raises(ValueError, match="is awaited, but no instruction arrives at it"):
        Kernel(name="k", body=(awaits,), mbarriers=(FULL,))
    for ahead, arrivals in ((33, 1), (-1, 1), (0, 0), (0, 65)):
        with pytest.raises(ValueError, match="must be"):
            Mbarrier(name="full", arrivals=arrivals, ahead=ahead)
    with pytest.raises(ValueError, match="'full' is there twice"):
        Kernel(name="k", body=(), mbarriers=(FULL, FULL))

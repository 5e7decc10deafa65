"""A warp alone against the listings of V and the reference simulator, and by hand for random choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import random_chips, strategies
from tests.support.model_inputs import ADD, BARRIER, LOAD, at_exit, changed, kernel
from warpsim import kernels
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Cost, Instruction, Loop
from warpsim.models import volkov
from warpsim.models.parts.common import as_loads_and_stores
from warpsim.models.parts.warp_path import warp_path
from warpsim.reference import simulator as reference_simulator


def test_listing_3_1():
    assert at_exit(load_gpu("kepler"), kernels.listing_3_1()) == 343  # the exit pairs with the store


@pytest.mark.parametrize(("kind", "cycles"), [("adds", 7 * 6), ("stores", 7 * 34)])
def test_listing_3_2(kind, cycles):
    assert at_exit(load_gpu("fermi"), kernels.listing_3_2(kind)) == cycles


def test_the_sixth_load_waits_for_the_first():
    gpu = changed("fermi", memory__loads_per_warp=5)
    # 0, 6, 12, 18, 24, then 513 and 519, whose load is back at 1032; V Listing 3.2 has 526 and 534.
    assert at_exit(gpu, kernels.listing_3_2("loads")) == 1032


def test_listing_3_3():
    gpu = load_gpu("fermi")
    # V's listing is at a memory latency of 512; the last add is at 580, the exit 6 cycles later.
    assert at_exit(gpu, kernels.listing_3_3(), block_warps=2, memory_latency=512) == 586


def test_a_warp_that_has_ended_is_the_last_to_reach_the_barrier():
    gpu = load_gpu("fermi")
    leave = Conditional(warps=(0,), then=(LOAD, ADD, Instruction("exit")))
    # Branch 28, load 513, add 6: exit at 547, which frees the others 34 cycles later.
    assert at_exit(gpu, kernel(leave, BARRIER, ADD), block_warps=2) == 28 + 513 + 6 + 34 + 6


@pytest.mark.parametrize("name", ["g80", "fermi", "kepler"])
@pytest.mark.parametrize(
    "program",
    [
        kernels.vector_add(),
        kernels.permute(),
        kernels.vabs(negative=True),
        kernels.vabs(negative=False),
        kernels.copy(floats=2),
        kernels.listing_3_1(),
        kernels.listing_3_2("adds"),
        kernels.mix(3, iterations=3),
        kernels.mix(2, other="smem", ways=2, iterations=3),
        kernels.chain("alu", ilp=3, iterations=5),
        kernel(Conditional(diverges=True, then=(ADD, ADD), orelse=(LOAD,)), BARRIER, ADD),
        kernel(Loop(body=(ADD, Loop(body=(LOAD, ADD), trips=2)), trips=3), BARRIER),
    ],
    ids=lambda value: value.name,
)
def test_the_reference_agrees_on_one_warp(name, program):
    gpu = load_gpu(name)
    launch = Launch(blocks=1, block_warps=1, resident_blocks=1)
    run = reference_simulator.simulate(gpu, program, launch, memory="fixed", seed=1, cycles=None)
    assert at_exit(gpu, program) == run.retired[0][3]


@st.composite
def uncontended_chips(draw: st.DrawFn) -> Gpu:
    """Random latencies and gaps, a scheduler for each warp, and units and memory that are never short."""
    classes = draw(random_chips.ops())
    for facts in classes.values():
        facts |= {"interval_cycles": "1/1000", "issue_slots": 1}
    memory = draw(random_chips.memories()) | {
        "bandwidth_gbs": 1e5,
        "transaction_latency_cycles": 2.0,
        "loads_per_sm": None,
        "stores_per_sm": None,
    }
    return strategies.small_gpu(
        sm={"schedulers": 4}, issue={"width": draw(st.integers(1, 2))}, ops=classes, memory=memory
    )


def uncontended(statements: tuple, plain: bool) -> tuple:
    """The same statements, of which no instruction has a time of its own for its unit or its scheduler.

    If `plain`, accesses are coalesced, and there are no bank conflicts, so that nothing is reissued.
    """

    def edited(s):
        inner = {n: uncontended(getattr(s, n), plain) for n in ("body", "then", "orelse") if hasattr(s, n)}
        cost = getattr(s, "cost", None)
        if cost is not None:
            inner["cost"] = Cost(gap_cycles=cost.gap_cycles, latency_cycles=cost.latency_cycles)
        if plain and isinstance(s, Instruction):
            return Instruction(s.op, dst=s.dst, src=s.src, **inner)
        return s.model_copy(update=inner)

    return tuple(edited(s) for s in statements)


# Models take atomics for loads.
KERNELS = strategies.kernels(random=False).map(
    lambda k: as_loads_and_stores(k.model_copy(update={"body": uncontended(k.body, False)}))
)
PLAIN_KERNELS = KERNELS.map(lambda k: k.model_copy(update={"body": uncontended(k.body, True)}))


@strategies.examples(60)
@given(uncontended_chips(), PLAIN_KERNELS | PLAIN_KERNELS | KERNELS, st.integers(1, 4))
def test_the_reference_agrees_where_nothing_is_contended(gpu, program, block_warps):
    launch = Launch(blocks=1, block_warps=block_warps, resident_blocks=1)
    run = reference_simulator.simulate(gpu, program, launch, memory="fixed", seed=1, cycles=None)
    last = max(retired for _, _, _, retired in run.retired)
    path = warp_path(gpu, program, block_warps=block_warps)
    assert path.cycles - gpu.block_launch_cycles <= last
    if not any(
        use.used_by == "reissue" for use in path.uses
    ):  # reissues hold the scheduler, a limit of throughput
        assert path.cycles - gpu.block_launch_cycles == last
        issued = volkov.throughput_bound(gpu, program, block_warps=block_warps).instructions
        assert issued == pytest.approx({op: n / block_warps for op, n in run.instructions.items()})


def test_a_block_of_different_warps_waits_for_the_slowest():
    gpu = load_gpu("fermi")
    program = kernel(Conditional(warps=(1,), then=(ADD,) * 4))
    assert at_exit(gpu, program, block_warps=1) == 32  # the branch is taken
    assert at_exit(gpu, program, block_warps=4) == 28 + 3 * 18 + 6
    assert volkov.throughput_bound(gpu, program, block_warps=4).instructions["alu"] == 1


def test_loops_are_skipped_exactly():
    gpu = load_gpu("kepler")
    body = (ADD, Instruction("alu", dst="r2", src=("r3",)), Instruction("sfu", dst="r3", src=("r1", "r2")))
    looped = warp_path(gpu, kernel(Loop(body=body, trips=101), LOAD))
    unrolled = warp_path(gpu, kernel(*(body * 101), LOAD))
    assert looped.cycles == unrolled.cycles
    assert looped.uses == pytest.approx(unrolled.uses)


@pytest.mark.parametrize("trips", [None, 7])
def test_a_barrier_in_a_loop_joins_the_warps(trips):
    gpu = load_gpu("fermi")
    program = kernel(Loop(body=(Conditional(warps=(0,), then=(ADD, ADD, ADD)), BARRIER), trips=trips))
    slowest = 28 + 2 * 18 + 6 + 34  # branch, three dependent adds, barrier
    cycles = slowest if trips is None else 7 * slowest
    path = warp_path(gpu, program, block_warps=8)
    assert path.cycles == cycles + (0 if trips is None else gpu.block_launch_cycles)


def test_random_conditionals_are_averaged():
    gpu = load_gpu("fermi")
    program = kernel(ADD, Conditional(probability=0.25, then=(ADD, ADD)), ADD)
    # Taken: add 0, branch 6, add 38. Not taken: add 0, branch 6, adds 34, 52, 70.
    assert at_exit(gpu, program) == pytest.approx(0.75 * 44 + 0.25 * 76)
    sheet = volkov.throughput_bound(gpu, program)
    assert sheet.instructions == pytest.approx({"alu": 2.5, "branch": 1, "exit": 1})


def test_random_trips_are_averaged():
    gpu = load_gpu("fermi")
    program = kernel(Loop(body=(ADD,), trips=(2, 6)))
    assert at_exit(gpu, program) == pytest.approx(3 * 18 + 6)
    assert volkov.throughput_bound(gpu, program).instructions["alu"] == pytest.approx(4)


def test_a_chance_to_leave_an_endless_loop():
    gpu = load_gpu("fermi")
    program = kernel(Loop(body=(ADD, Conditional(probability=0.2, then=(Instruction("exit"),))), trips=None))
    # The add pauses 6 cycles, the branch 28 before the exit and 32 otherwise; 4 rounds before the last one.
    assert at_exit(gpu, program) == pytest.approx(4 * 38 + 34, rel=1e-6)
    assert volkov.throughput_bound(gpu, program).per == "warp"


def test_caches_shorten_the_mean_latency():
    gpu = changed("kepler", memory__l1_latency_cycles=40, memory__l2_latency_cycles=200)
    access = Access(l1_hit=0.5, l2_hit=0.5)
    program = kernel(Loop(body=(Instruction("load", dst="r1", src=("r1",), access=access),), trips=None))
    assert volkov.latency_bound(gpu, program) == pytest.approx(0.5 * 40 + 0.25 * 200 + 0.25 * 301)
    sheet = volkov.throughput_bound(gpu, program)
    assert (sheet.traffic_bytes, sheet.requested_bytes) == (pytest.approx(32), 128)


def test_a_pair_of_one_class_needs_a_unit_that_takes_two_a_cycle():
    gpu = changed("kepler", ops__alu__interval_cycles=1)
    pair = (Instruction("alu", dst="r2", src=("r1",)), Instruction("alu", dst="r3", src=("r1",)))
    program = kernel(Loop(body=pair, trips=None))
    assert volkov.throughput_bound(gpu, program).totals["issue"] == pytest.approx(2 / 4)
    assert volkov.throughput_bound(load_gpu("kepler"), program).totals["issue"] == pytest.approx(1 / 4)

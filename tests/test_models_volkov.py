"""Volkov's model against V's printed numbers, its own closed forms, and the twin for one warp."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference_simulator, strategies
from warpsim import kernels, units
from warpsim.gpu import Gpu, load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop
from warpsim.models import NotCoveredError, volkov
from warpsim.models.warp_path import warp_path
from warpsim.residency import Launch

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
ADD = Instruction("alu", dst="r1", src=("r1",))
LOAD = Instruction("load", dst="r1", src=("r1",))
BARRIER = Instruction("barrier")


def changed(name: str, **values: object) -> Gpu:
    """A chip with some values replaced; `__` stands for the dot of a key."""
    data = load_gpu(name).to_dict()
    for key, value in values.items():
        *tables, last = key.split("__")
        table = data
        for part in tables:
            table = table[part]
        table[last] = value
    return Gpu.from_dict(data)


def single_issue_slots(name: str) -> Gpu:
    """A chip whose instructions take one issue slot each, as V 4.1 assumes."""
    return changed(name, ops__load__issue_slots=1, ops__sfu__issue_slots=1, ops__smem__issue_slots=1)


def kernel(*body: Instruction | Loop | Conditional) -> Kernel:
    return Kernel(name="test", inputs=("r1", "r2", "r3"), body=body)


def at_exit(gpu: Gpu, program: Kernel, **arguments: object) -> float:
    """When the exit issues, all loads being back."""
    return warp_path(gpu, program, **arguments).cycles - gpu.block_launch_cycles


# Throughput bound (V 3.6)


@pytest.fixture
def table_3_3() -> Gpu:
    gpu = single_issue_slots("maxwell").to_dict()
    gpu["memory"] |= {"bandwidth_gbs": 10.4 * 16 * 1.266, "transaction_bytes": 128}  # one reissue at stride 2
    return Gpu.from_dict(gpu)


def test_table_3_4(table_3_3):
    sheet = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2())
    assert sheet.per == "repetition"
    totals = sheet.totals
    assert {resource: totals[resource] for resource in ("alu", "sfu", "smem", "issue")} == pytest.approx(
        {"alu": 25, "sfu": 5, "smem": 30, "issue": 36.25}
    )
    memory = [row for row in sheet.rows if row.resource == "memory"]
    assert [(round(row.cycles_per_instruction, 1), row.instructions) for row in memory] == [
        (12.3, 5),
        (24.6, 5),
    ]
    assert sum(round(row.cycles_per_instruction, 1) * row.instructions for row in memory) == pytest.approx(
        184.5
    )
    assert totals["memory"] == pytest.approx(15 * 128 / 10.4)  # 184.6: V goes on from the rounded 12.3
    assert sheet.tightest == "memory"
    assert round(1 / sheet.cycles, 5) == 0.00542
    issue = {row.used_by: row.instructions for row in sheet.rows if row.resource == "issue"}
    assert issue == pytest.approx({"single issue": 125, "dual issue": 5, "reissue": 15})


def test_worksheet_as_text(table_3_3):
    text = str(volkov.throughput_bound(table_3_3, kernels.worksheet_3_2()))
    assert "Resource: CUDA cores" in text
    assert "Total (the tightest bound):" in text
    assert text.index("CUDA cores") < text.index("Memory system") < text.index("Warp scheduler")


def test_the_finite_worksheet_is_the_same_and_an_exit(table_3_3):
    endless = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2())
    finite = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2(iterations=10))
    assert finite.per == "warp"
    assert finite.totals["memory"] == pytest.approx(10 * endless.totals["memory"])
    assert finite.totals["issue"] == pytest.approx(
        10 * endless.totals["issue"]
    )  # exit pairs with the last add
    assert finite.instructions["exit"] == 1


def test_issue_slots_are_those_of_the_chip():
    gpu = load_gpu("maxwell")  # V 4.7: an SFU instruction 2 slots, a shared memory access 3
    assert volkov.throughput_bound(gpu, kernels.mix(1, other="sfu")).totals["issue"] == pytest.approx(3 / 4)
    assert volkov.throughput_bound(gpu, kernels.mix(1, other="smem")).totals["issue"] == pytest.approx(4 / 4)


def test_random_accesses_move_more():
    gpu = load_gpu("kepler")
    sheet = volkov.throughput_bound(gpu, kernels.chain("load", pattern="random"))
    ops_per_scheduler = 32 / sheet.cycles / gpu.sm.schedulers
    assert ops_per_scheduler == pytest.approx(0.034, rel=0.01)  # V Table 6.1
    assert (sheet.requested_bytes, sheet.traffic_bytes) == (128, pytest.approx(32 * 125.9))


def test_loads_in_flight_of_an_sm_are_a_resource():
    gpu = changed("kepler", memory__loads_per_sm=20)
    sheet = volkov.throughput_bound(gpu, kernels.chain("load"))
    assert sheet.totals["loads in flight"] == pytest.approx(301 / 20)
    assert sheet.tightest == "loads in flight"
    ds = volkov.throughput(gpu, kernels.chain("load"), warps=64, refined=True)
    assert ds.ipc.sel(op="load").item() == pytest.approx(20 / ds.memory_latency.item())
    assert volkov.needed_warps(gpu, kernels.chain("load"), refined=True) == math.inf


# Latency bound (V 3.7, 3.8)


def test_vector_add_takes_544_cycles():
    gpu = load_gpu("kepler")
    assert volkov.latency_bound(gpu, kernels.vector_add()) == 544
    sheet = volkov.throughput_bound(gpu, kernels.vector_add())
    assert sheet.totals["issue"] == 8 * 0.25  # 4 of 12 instructions are dual-issued
    assert sheet.traffic_bytes == pytest.approx(3 * 128)


def test_vector_add_throughput():
    ds = volkov.throughput(load_gpu("kepler"), kernels.vector_add(), warps=np.arange(4, 65, 4))
    expected = np.minimum(6.35 * ds.warps, 154)
    np.testing.assert_allclose(ds.bandwidth, expected, rtol=5e-4)
    assert list(ds.bottleneck.values[[0, -1]]) == ["latency", "memory"]
    assert (ds.throughput_bound.values == pytest.approx(0.0446, abs=5e-5)) and (ds.latency_bound == 544).all()


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
def test_the_twin_agrees_on_one_warp(name, program):
    gpu = load_gpu(name)
    launch = Launch(blocks=1, block_warps=1, resident_blocks=1)
    run = reference_simulator.simulate(gpu, program, launch, memory="fixed", seed=1, cycles=None)
    assert at_exit(gpu, program) == run.retired[0][3]


@st.composite
def uncontended_chips(draw: st.DrawFn) -> Gpu:
    """Random latencies and gaps, a scheduler for each warp, and units and memory that are never short."""
    classes = draw(strategies.ops())
    for facts in classes.values():
        facts |= {"interval_cycles": "1/1000", "issue_slots": 1}
    memory = draw(strategies.memories()) | {
        "bandwidth_gbs": 1e5,
        "transaction_latency_cycles": 2.0,
        "loads_per_sm": None,
    }
    return strategies.small_gpu(
        sm={"schedulers": 4}, issue={"width": draw(st.integers(1, 2))}, ops=classes, memory=memory
    )


def plain(statements: tuple) -> tuple:
    """The same statements with coalesced accesses and without bank conflicts, so that nothing is reissued."""
    return tuple(
        Instruction(s.op, dst=s.dst, src=s.src)
        if isinstance(s, Instruction)
        else s.model_copy(
            update={n: plain(getattr(s, n)) for n in ("body", "then", "orelse") if hasattr(s, n)}
        )
        for s in statements
    )


KERNELS = strategies.kernels(random=False)
PLAIN_KERNELS = KERNELS.map(lambda k: k.model_copy(update={"body": plain(k.body)}))


@settings(max_examples=60, deadline=None)
@given(uncontended_chips(), PLAIN_KERNELS | PLAIN_KERNELS | KERNELS, st.integers(1, 4))
def test_the_twin_agrees_where_nothing_is_contended(gpu, program, block_warps):
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


def test_block_of_unlike_warps_waits_for_the_slowest():
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


def test_chance_is_averaged():
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


# Mixes in closed form (V 4.1, 4.5, 4.7)

TABLE_4_1 = {
    "g80": (444, 0.0268, 20, 0.25, 0.5),
    "gt200": (434, 0.0277, 24, 0.25, 0.5),
    "fermi": (513, 0.0599, 18, 1, 1),
    "kepler": (301, 0.1338, 9, 4, 4),
    "maxwell": (368, 0.0814, 6, 4, 4),
}


@pytest.mark.parametrize("name", CHIPS)
def test_table_4_1(name):
    mem_lat, mem_thru, alu_lat, alu_thru, issue_thru = volkov.mix_parameters(load_gpu(name))[:5]
    assert (mem_lat, round(mem_thru, 4), alu_lat, alu_thru, issue_thru) == TABLE_4_1[name]


@pytest.mark.parametrize("name", CHIPS)
def test_table_4_2(name):
    mem_lat, mem_thru, alu_lat, alu_thru, issue_thru = TABLE_4_1[name]
    alpha = xr.DataArray([0.25, 1, 8, 32, 128, 512], dims="alpha")
    n = xr.DataArray([1, 4, 16, 24, 64], dims="warps")
    limit = alu_thru / alpha if name in ("g80", "gt200") else issue_thru / (alpha + 1)
    adds = 32 * alpha * np.minimum(np.minimum(n / (mem_lat + alu_lat * alpha), mem_thru), limit)
    ds = volkov.mix_throughput(load_gpu(name), alpha.values, n.values)
    assert ds.throughput.dims == ("alpha", "warps", "op")
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), adds, rtol=2e-3)  # V's mem_thru has three digits
    gbs = units.ipc_to_gbs(1, load_gpu(name).clock_ghz, load_gpu(name).sms)
    np.testing.assert_allclose(ds.bandwidth, gbs * ds.ipc.sel(op="load"))


def test_the_cusp_on_maxwell():
    gpu = load_gpu("maxwell")
    memory, arithmetic = volkov.mix_needed_warps(gpu, [0, np.inf]).values
    assert (round(memory), round(arithmetic)) == (30, 24)
    alpha = np.geomspace(1, 512, 2001)
    needed = volkov.mix_needed_warps(gpu, alpha)
    assert needed.max().item() == pytest.approx(54, abs=0.6)
    assert needed.idxmax("alpha").item() == pytest.approx(49, abs=1.1)
    rising = np.diff(needed) > 0
    assert (np.diff(rising.astype(int)) != 0).sum() == 1


def test_fractions_need_fewer_warps():
    gpu = load_gpu("kepler")
    full, part = (volkov.mix_needed_warps(gpu, 32, fraction=f).item() for f in (1, 0.9))
    assert part == pytest.approx(0.9 * full)
    assert volkov.needed_warps(gpu, kernels.mix(32), fraction=0.9) == pytest.approx(part)


@pytest.mark.parametrize("refined", [False, True])
@pytest.mark.parametrize("name", CHIPS)
def test_the_framework_gives_the_closed_form(name, refined):
    gpu = single_issue_slots(name)
    for alpha in (0, 0.25, 1, 32, math.inf):
        mix = kernels.mix(alpha)
        warps = np.array([0, 1, 3, 16, 24, 64])
        general = volkov.throughput(gpu, mix, warps=warps, refined=refined)
        closed = volkov.mix_throughput(gpu, alpha, warps, refined=refined)
        np.testing.assert_allclose(general.ipc, closed.ipc, rtol=1e-9)
        needed = volkov.needed_warps(gpu, mix, fraction=0.9, refined=refined)
        assert needed == pytest.approx(
            volkov.mix_needed_warps(gpu, alpha, fraction=0.9, refined=refined).item()
        )


@pytest.mark.parametrize("other", ["sfu", "smem"])
@pytest.mark.parametrize("name", ["fermi", "kepler", "maxwell"])
def test_mixes_with_other_instructions(name, other):
    gpu = single_issue_slots(name)
    for alpha in (0, 0.25, 1, 4, math.inf):
        general = volkov.throughput(gpu, kernels.mix(alpha, other=other), warps=[1, 8, 64])
        closed = volkov.mix_throughput(gpu, alpha, [1, 8, 64], other=other)
        np.testing.assert_allclose(general.ipc, closed.ipc, rtol=1e-9)


def test_maxwell_adds_see_shorter_latencies():
    gpu = load_gpu("maxwell")
    one = {
        (other, alpha): volkov.mix_throughput(gpu, alpha, 1, other=other).ipc.sel(op=other).item()
        for other in ("sfu", "smem")
        for alpha in (0, 1, 0.25)
    }
    assert one["sfu", 0] == pytest.approx(1 / 13)
    assert one["sfu", 1] == pytest.approx(1 / (9 + 6))
    assert one["smem", 1] == pytest.approx(1 / (22 + 6))
    assert one["smem", 0.25] == pytest.approx(4 / (3 * 24 + 22 + 6))


# Refined by contention (V 6.4, 6.5)


def test_the_equation_of_6_5():
    gpu = load_gpu("kepler")
    for alpha in (0, 1, 8, 32, 64, 128, 512):
        for n in (1, 8, 16, 32, 48, 64):
            low, high = 0.0, min(0.1338, 4 / (alpha + 1))
            for _ in range(60):  # bisection, as V does
                x = (low + high) / 2
                attained = min(n / (300 + 32 * x / (0.1477 - x) + 9 * alpha), 0.1338, 4 / (alpha + 1))
                low, high = (x, high) if attained > x else (low, x)
            ds = volkov.mix_throughput(gpu, alpha, n, refined=True)
            assert ds.ipc.sel(op="load").item() == pytest.approx(x, rel=2e-3)


@pytest.mark.parametrize("name", CHIPS)
def test_contention_lowers_throughput_near_the_knee_only(name):
    gpu = load_gpu(name)
    warps = np.arange(1, 257)
    basic = volkov.mix_throughput(gpu, 8, warps).bandwidth
    refined = volkov.mix_throughput(gpu, 8, warps, refined=True).bandwidth
    idle = gpu.memory.latency_cycles / gpu.memory.contention.a_cycles  # Fermi and Kepler: a little above 1
    assert (refined <= basic * max(1, idle)).all()
    assert refined[0].item() == pytest.approx(basic[0].item(), rel=0.03)
    if name != "g80":  # whose first term ends at 71 GB/s, below the peak of 74
        assert refined[-1].item() == pytest.approx(basic[-1].item())
    assert (np.diff(refined) >= -1e-9).all()


def test_g80_has_two_terms():
    gpu = load_gpu("g80")
    ds = volkov.mix_throughput(gpu, 0, 12, refined=True)
    x = ds.bandwidth.item()
    latency = 441 + 4 * x / (71 - x) + 156 * x / (121 - x)
    assert ds.memory_latency.item() == pytest.approx(latency)
    assert ds.ipc.sel(op="load").item() == pytest.approx(12 / latency)
    assert volkov.mix_needed_warps(gpu, 0, refined=True).item() == math.inf
    assert volkov.needed_warps(gpu, kernels.mix(0), refined=True) == math.inf


def test_refined_vector_add_solves_its_equation():
    gpu = load_gpu("kepler")
    ds = volkov.throughput(gpu, kernels.vector_add(), warps=[8, 24, 64], refined=True)
    x = ds.bandwidth
    np.testing.assert_allclose(ds.memory_latency, 300 + 32 * x / (170 - x))
    np.testing.assert_allclose(ds.latency_bound, 544 - 301 + ds.memory_latency)
    rate = units.bytes_per_cycle_to_gbs(3 * 128 * gpu.sms / ds.latency_bound * ds.warps, gpu.clock_ghz)
    np.testing.assert_allclose(x, np.minimum(rate, 154))


# The call, and what it refuses


def test_dataset_has_the_simulators_names():
    ds = volkov.throughput(load_gpu("fermi"), kernels.mix(4), warps=16)
    assert ds.warps.item() == 16
    assert ds.ipc.dims == ("op",)
    assert {"ipc", "throughput", "bandwidth", "memory_latency", "latency_bound", "throughput_bound"} <= set(
        ds
    )
    assert all({"units", "long_name"} <= set(ds[name].attrs) for name in ds)
    assert ds.throughput.sel(op="alu").item() == pytest.approx(4 * ds.throughput.sel(op="load").item())


def test_bottleneck():
    gpu = load_gpu("fermi")
    assert volkov.bottleneck(gpu, kernels.mix(1)) == "memory"
    assert volkov.bottleneck(gpu, kernels.mix(512)) == "issue"
    assert volkov.bottleneck(gpu, kernels.mix(1), warps=4) == "latency"
    assert volkov.bottleneck(load_gpu("g80"), kernels.mix(512), warps=24) == "alu"


def test_warps_of_a_block_are_told_apart_only_with_its_size():
    gpu = load_gpu("fermi")
    with pytest.raises(ValueError, match="block_warps = None: a number"):
        volkov.latency_bound(gpu, kernels.listing_3_3())
    ds = volkov.throughput(
        gpu, kernels.listing_3_3(), warps=[2, 8, 48]
    )  # 8 blocks at most: of 1, 1 and 6 warps
    share = ds.ipc.sel(op="load") / ds.ipc.sel(op="barrier")
    np.testing.assert_allclose(share, [1, 1, 1 / 6])


def test_unlike_rates_are_not_covered():
    gpu = load_gpu("fermi")
    uneven = Loop(body=(Conditional(warps=(0,), then=(ADD,)),), trips=None)
    leaving = Loop(body=(Conditional(warps=(0,), then=(Instruction("exit"),)),), trips=None)
    for loop in (uneven, leaving):
        with pytest.raises(NotCoveredError, match="endless loop"):
            volkov.latency_bound(gpu, kernel(loop), block_warps=2)


def test_a_barrier_that_some_miss_is_refused():
    program = kernel(Conditional(probability=0.5, then=(BARRIER,)))
    with pytest.raises(ValueError, match=r"not all warps reach the barrier at body\[0\]\.then\[0\]"):
        volkov.latency_bound(load_gpu("fermi"), program, block_warps=2)
    assert volkov.latency_bound(load_gpu("fermi"), program, block_warps=1) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda gpu, mix: volkov.throughput(gpu, mix, warps=-1), "warps = -1: numbers, at least 0"),
        (lambda gpu, mix: volkov.throughput(gpu, mix, warps=[1, math.nan]), "warps = .*nan"),
        (
            lambda gpu, mix: volkov.needed_warps(gpu, mix, fraction=1.5),
            "fraction = 1.5: above 0 and at most 1",
        ),
        (lambda gpu, mix: volkov.mix_needed_warps(gpu, 1, fraction=0), "fraction = 0: above 0"),
        (lambda gpu, mix: volkov.mix_throughput(gpu, -1, 1), "alpha = -1: numbers, at least 0"),
        (
            lambda gpu, mix: volkov.mix_throughput(gpu, 1, 1, other="store"),
            "other = 'store': 'load', 'sfu' or 'smem'",
        ),
        (
            lambda gpu, mix: volkov.mix_throughput(gpu, 1, 1, other="sfu", refined=True),
            "refined = True: only with",
        ),
        (
            lambda gpu, mix: volkov.latency_bound(gpu, kernel(Instruction("fp64", dst="r1"))),
            "op = 'fp64': kepler has",
        ),
        (lambda gpu, mix: volkov.latency_bound(gpu, mix, block_warps=0), "block_warps = 0: at least 1"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(load_gpu("kepler"), kernels.mix(1))


def test_text_is_no_number_of_warps():
    with pytest.raises(TypeError, match="warps = 'all': a number"):
        volkov.throughput(load_gpu("kepler"), kernels.mix(1), warps="all")


def test_an_unknown_cache_latency_is_asked_for():
    program = kernel(Instruction("load", dst="r1", access=Access(l1_hit=0.5)))
    with pytest.raises(ValueError, match=r"memory\.l1_latency_cycles = None: kepler needs it"):
        volkov.latency_bound(load_gpu("kepler"), program)

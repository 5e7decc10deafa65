"""Rates and times in closed form on the engine, with fixed latencies (docs/model.md, section 8).

V is Volkov 2016, L is Lemeire et al.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.engine.test_against_reference import assert_same
from tests.support.cases import POLICIES, Case, small_gpu
from tests.support.whole_run import WholeRun, whole_run
from warpsim import kernels
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
FIXED: dict[str, Any] = {"memory": "fixed", "seed": 1}


def test_vector_add_on_every_sm() -> None:
    """V 3.8, without contention: exit at 343, the next block at 544; MOV+S2R, LD+ISCADD, ST+EXIT issue in pairs."""
    kepler = load_gpu("kepler")
    ample = {"bandwidth_gbs": 1e9, "pin_bandwidth_gbs": 1e9}
    gpu = kepler.model_copy(update={"memory": kepler.memory.model_copy(update=ample)})
    launch = Launch(blocks=3 * gpu.sms, block_warps=1, resident_blocks=1)
    run = whole_run(gpu, kernels.vector_add(), launch, **FIXED)
    for sm in range(gpu.sms):
        issues = [(t, op) for t, m, _, op in run.issues if m == sm]
        cycles = [t for t, _ in issues]
        assert cycles[:12] == [0, 0, 3, 12, 21, 21, 30, 33, 33, 334, 343, 343]
        assert cycles == [544 * block + t for block in range(3) for t in cycles[:12]]
        assert [op for t, op in issues if t == 33] == ["load", "alu"]
        assert [op for t, op in issues if t == 343] == ["store", "exit"]
    assert [(start, last) for _, _, start, last in run.retired] == [
        (544 * (n // gpu.sms), 544 * (n // gpu.sms) + 343) for n in range(3 * gpu.sms)
    ]
    assert run.end == 2 * 544 + 343 + 1


def latency_bound(gpu: Gpu, alpha: float, warps: int, **options: Any) -> dict[str, Fraction]:
    """Returns instructions per cycle: n / (mem_lat + alpha alu_lat), and the rate measured over 10 periods."""
    adds, loads = Fraction(alpha).as_integer_ratio()
    group = loads * gpu.memory.latency_cycles + adds * gpu.ops["alu"].latency_cycles
    launch = Launch(block_warps=1, resident_blocks=warps)
    run = whole_run(gpu, kernels.mix(alpha), launch, warmup=20 * group, cycles=10 * group, **FIXED, **options)
    expected = {"load": 10 * warps * loads, "alu": 10 * warps * adds}
    assert run.instructions == {op: n for op, n in expected.items() if n}
    return {op: Fraction(n, 10 * group) for op, n in expected.items()}


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("alpha", [0, 0.5, 1, 4, 32])
@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
def test_a_warp_for_each_scheduler_is_bound_by_latency(name: str, alpha: float, scheduler: str) -> None:
    """The rate is exactly min(n / (mem_lat + alpha alu_lat), bound): every warp issues 10 groups in 10 periods (V 4.3)."""
    gpu = load_gpu(name)
    latency_bound(gpu, alpha, gpu.sm.schedulers, sms=1, scheduler=scheduler)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("warps", [1, 2, 3, 5, 8])
def test_a_few_warps_of_loads_are_bound_by_latency(name: str, warps: int) -> None:
    rate = latency_bound(load_gpu(name), 0, warps, sms=1)["load"]
    assert rate == Fraction(warps, load_gpu(name).memory.latency_cycles)


@pytest.mark.parametrize("warps", [4, 8, 12])
@pytest.mark.parametrize("alpha", [0.5, 1, 4, 32])
def test_warps_that_miss_each_other_are_bound_by_latency(warps: int, alpha: float) -> None:
    """On Kepler, three warps per scheduler never collide, because their adds are 9 cycles apart."""
    latency_bound(load_gpu("kepler"), alpha, warps, sms=1)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("per_scheduler", [1, 2, 3, 6, 8, 12])
def test_adds_alone(name: str, per_scheduler: int) -> None:
    """The rate is exactly min(n / alu_lat, alu_thru) for even numbers of warps per scheduler (V 4.2)."""
    gpu = load_gpu(name)
    schedulers, alu = gpu.sm.schedulers, gpu.ops["alu"]
    warps = per_scheduler * schedulers
    issue, unit = Fraction(schedulers, gpu.issue.interval_cycles), schedulers / alu.interval_cycles
    assert alu.scope == "scheduler"
    window = 40 * alu.latency_cycles
    point = make_point(gpu, kernels.mix(float("inf")), warps=warps, sms=1, warmup=window, cycles=window)
    adds = simulate_point(point)["instructions"].sum()
    assert adds == window * min(Fraction(warps, alu.latency_cycles), issue, unit)


# V Figure 4.7 with its times doubled

FIGURE_4_7 = small_gpu(
    ops={"alu": {"interval_cycles": 2}, "load": {"scope": "scheduler"}}, memory={"latency_cycles": 24}
)


def adds_from(run: WholeRun, cycle: int) -> int:
    """Returns the adds issued from a cycle on."""
    return sum(op == "alu" and t >= cycle for t, *_, op in run.issues)


@pytest.mark.parametrize(
    ("scheduler", "warps", "adds", "period"),
    [
        ("oldest", 5, 20, 48),
        ("gto", 5, 20, 48),
        ("lrr", 5, 20, 61),
        ("oldest", 6, 24, 49),
        ("gto", 6, 24, 49),
        ("lrr", 6, 24, 67),
        ("lrr", 8, 32, 66),
    ],
)
def test_convoys_of_figure_4_7(scheduler: str, warps: int, adds: int, period: int) -> None:
    """The peak is 1/2. V has 0.417 and 0.490 for oldest and gto at n = 5 and 6, 0.328 and 0.358 for lrr."""
    launch = Launch(block_warps=1, resident_blocks=warps)
    options = {"scheduler": scheduler, **FIXED}
    run = whole_run(FIGURE_4_7, kernels.mix(4), launch, cycles=1_000 + 300 * period, **options)  # the warps start together
    assert adds_from(run, 1_000) == 300 * adds
    later = {(t, slot, op) for t, _, slot, op in run.issues if t >= 1_000}
    moved = {(t - period, slot, op) for t, slot, op in later if t >= 1_000 + period}
    assert moved == {issue for issue in later if issue[0] < 1_000 + 299 * period}
    assert_same(Case(FIGURE_4_7, kernels.mix(4), launch, {**options, "warmup": 0, "cycles": 1_480}))


@pytest.mark.parametrize("scheduler", POLICIES)
@pytest.mark.parametrize("warps", range(1, 17))
def test_no_policy_beats_the_bound(scheduler: str, warps: int) -> None:
    """Adds are at most min(4 n / 48, 1/2) a cycle, but for a group of each warp at the edge of the window; up to three
    warps attain it under every policy, as do all but lrr and random up to five.
    """
    launch = Launch(block_warps=1, resident_blocks=warps)
    run = whole_run(FIGURE_4_7, kernels.mix(4), launch, scheduler=scheduler, cycles=5_280, **FIXED)
    bound, adds = min(4 * warps * 100, 2_400), adds_from(run, 480)
    assert adds <= min(4 * warps * 101, 2_401)
    if warps <= 3 or (warps <= 5 and scheduler in ("gto", "oldest")):
        assert adds == bound
    elif 5 <= warps <= 7 and scheduler == "lrr":
        assert adds < 0.8 * bound


# L equation 1


def one_pipeline(latency: int, interval: int, warps: int, length: int, scheduler: str = "lrr") -> int:
    """Returns the cycles from the first issue to the last result of `warps` warps with `length` dependent instructions each."""
    gpu = small_gpu(ops={"alu": {"latency_cycles": latency, "interval_cycles": interval}})
    launch = Launch(blocks=warps, block_warps=1, resident_blocks=warps)
    point = gpu.model_copy(update={"sm": gpu.sm.model_copy(update={"max_blocks": 64, "max_warps": 64})})
    run = whole_run(point, kernels.chain("alu", iterations=length), launch, scheduler=scheduler, **FIXED)
    return max(t for t, _, _, op in run.issues if op == "alu") + latency


@pytest.mark.parametrize("length", [1, 2, 7, 40])
@pytest.mark.parametrize("warps", [1, 2, 3, 4, 5, 8, 12, 13, 25, 40])
@pytest.mark.parametrize(("latency", "interval"), [(12, 1), (12, 2), (12, 4), (10, 4), (24, 24), (18, 2)])
def test_one_pipeline(latency: int, interval: int, warps: int, length: int) -> None:
    """L equation 1: N latency + (W - 1) interval below W = latency / interval, else latency + (N W - 1) interval."""
    starved = warps * interval < latency
    expected = (
        length * latency + (warps - 1) * interval if starved else latency + (length * warps - 1) * interval
    )
    assert one_pipeline(latency, interval, warps, length) == expected


def test_one_pipeline_is_not_kept_busy_by_old_warps_first() -> None:
    """With `oldest`, the old warps end together and leave too few warps; equation 1 assumes that warps advance in turn."""
    assert one_pipeline(12, 1, 25, 40, "lrr") == 12 + 25 * 40 - 1
    assert one_pipeline(12, 1, 25, 40, "oldest") > 12 + 25 * 40 - 1 + 100

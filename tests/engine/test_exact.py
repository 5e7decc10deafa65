"""Exact cycle counts of section 8 of docs/model.md on the engine, with fixed latencies and without contention."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.whole_run import whole_run
from warpsim import kernels
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point


def cycles(gpu: Gpu, kernel: Kernel, *, blocks: int = 1, warps: int = 1, slot: int = 0) -> list[int]:
    """Returns the issue cycles of one slot of SM 0."""
    launch = Launch(blocks=blocks, block_warps=warps, resident_blocks=1)
    run = whole_run(gpu, kernel, launch, memory="fixed", seed=1)
    return [cycle for cycle, sm, at, _ in run.issues if (sm, at) == (0, slot)]


def test_listing_3_1_register_latencies() -> None:
    assert cycles(load_gpu("kepler"), kernels.listing_3_1())[:5] == [0, 301, 325, 334, 343]


def test_listing_3_2_adds() -> None:
    assert cycles(load_gpu("fermi"), kernels.listing_3_2("adds"))[:7] == [6 * i for i in range(7)]


def test_listing_3_2_stores() -> None:
    assert cycles(load_gpu("fermi"), kernels.listing_3_2("stores"))[:7] == [34 * i for i in range(7)]


def test_listing_3_2_loads_stop_at_five() -> None:
    """The sixth load waits for the first one to return. V measured 526, and 38 for the fourth load; the chip file has neither."""
    assert cycles(load_gpu("fermi"), kernels.listing_3_2("loads"))[:7] == [0, 6, 12, 18, 24, 513, 519]


def test_listing_3_3_barrier() -> None:
    """V's 546 implies a load latency of 512 cycles, one less than his Table 6.2."""
    fermi = load_gpu("fermi")
    listed = fermi.model_copy(update={"memory": fermi.memory.model_copy(update={"latency_cycles": 512})})
    first = cycles(listed, kernels.listing_3_3(), warps=2, slot=0)
    second = cycles(listed, kernels.listing_3_3(), warps=2, slot=1)
    assert first[:5] == [0, 28, 540, 546, 580]
    assert second[:3] == [0, 32, 580]


def test_vector_add_takes_544_cycles_to_the_next_block() -> None:
    kepler = load_gpu("kepler")
    endless = {"pin_bandwidth_gbs": 1e9, "bandwidth_gbs": 1e9}
    gpu = kepler.model_copy(update={"sms": 1, "memory": kepler.memory.model_copy(update=endless)})
    found = cycles(gpu, kernels.vector_add(), blocks=2)
    assert len(found) == 24
    assert found[11] == 343
    assert found[12] == 544


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
@pytest.mark.parametrize("alpha", [0, 1, 8, 32])
def test_single_warps_are_bound_by_latency(name: str, alpha: int) -> None:
    """One warp of the only SM: a group of alpha + 1 instructions takes mem_lat + alpha alu_lat (V 4.1)."""
    gpu = load_gpu(name).model_copy(update={"sms": 1})  # a slice would have the echoes of other SMs
    group = gpu.memory.latency_cycles + alpha * gpu.ops["alu"].latency_cycles
    run = whole_run(
        gpu, kernels.mix(alpha), Launch(block_warps=1, resident_blocks=1), memory="fixed", seed=1, cycles=5 * group
    )
    assert [cycle for cycle, *_, op in run.issues if op == "load"] == [group * i for i in range(5)]


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
def test_adds_alone_attain_the_bound(name: str) -> None:
    """The rate of adds is min(n / alu_lat, alu_thru) for numbers of warps that divide evenly among schedulers (V 4.2)."""
    gpu = load_gpu(name)
    latency, peak = gpu.ops["alu"].latency_cycles, min(gpu.issue_ipc, gpu.unit_ipc("alu"))
    for per_scheduler in (1, 2, 4, 16):
        warps = per_scheduler * gpu.sm.schedulers
        run = simulate_point(make_point(gpu, kernels.mix(float("inf")), warps=warps, warmup=latency * 100, cycles=latency * 1000))
        ops = list(gpu.ops)
        assert run["ipc"][0, ops.index("alu")] == pytest.approx(min(warps / latency, peak), rel=1e-12)


def convoy(scheduler: str, warps: int) -> float:
    """Returns adds per cycle for V Figure 4.7 with doubled times: alu latency 6, interval 2, load latency 24, alpha = 4."""
    kepler = load_gpu("kepler").to_dict()
    kepler["sms"] = 1
    kepler["sm"]["schedulers"] = 1
    kepler["issue"] = {"interval_cycles": 1, "width": 1}
    kepler["ops"]["alu"] |= {"latency_cycles": 6, "interval_cycles": "2", "gap_cycles": 1}
    kepler["ops"]["load"] |= {"gap_cycles": 1}
    kepler["memory"] |= {"latency_cycles": 24, "pin_bandwidth_gbs": 1e9, "bandwidth_gbs": 1e9}
    gpu = Gpu.from_dict(kepler)
    settings = {"scheduler": scheduler, "memory": "fixed", "warmup": 0, "cycles": 60_000}  # the warps start together
    run = simulate_point(make_point(gpu, kernels.mix(4), warps=warps, block_warps=1, **settings))
    return float(run["ipc"][0, list(gpu.ops).index("alu")])


def test_convoy_of_figure_4_7() -> None:
    """`oldest` almost attains the peak of 0.5 adds per cycle; `lrr` keeps the convoy (docs/model.md, section 8)."""
    assert [round(convoy("gto", n), 3) for n in (5, 6)] == [round(convoy("oldest", n), 3) for n in (5, 6)]
    assert convoy("gto", 5) == pytest.approx(0.416, abs=0.005)
    assert convoy("gto", 6) == pytest.approx(0.49, abs=0.01)
    assert convoy("lrr", 5) == pytest.approx(0.33, abs=0.005)
    assert convoy("lrr", 6) == pytest.approx(0.36, abs=0.01)


def test_identities_on_a_finite_grid() -> None:
    """Sums of warp states and of scheduler-cycles, and Little's law (docs/model.md, section 7)."""
    gpu = load_gpu("kepler")
    run = whole_run(gpu, kernels.vector_add(), Launch(blocks=300, block_warps=4, resident_blocks=8), seed=3)
    resident = sum(warps * n for warps, n in run.occupancy_cycles.items())
    lifetimes = sum(last - start + 1 for _, _, start, last in run.retired)
    assert len(run.retired) == 1200
    assert sum(run.warp_cycles.values()) == resident == lifetimes
    assert sum(run.scheduler_cycles.values()) == gpu.sms * gpu.sm.schedulers * run.end
    assert np.sum(list(run.occupancy_cycles.values())) == gpu.sms * run.end

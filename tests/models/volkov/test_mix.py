"""Volkov's closed forms for mixes against the tables of V and the general framework."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from tests.support.model_inputs import single_issue_slots
from warpsim import kernels, units
from warpsim.hardware.gpu import load_gpu
from warpsim.models import volkov

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")

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

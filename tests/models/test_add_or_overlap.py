"""Times that overlap or add up, against V 4.11 and 4.12."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, kernel
from warpsim import kernels, models
from warpsim.hardware.gpu import load_gpu
from warpsim.models import NotCoveredError, add_or_overlap, volkov

V_4_11 = {"g80": 16, "gt200": 16, "fermi": 32, "kepler": 32, "maxwell": 64}
"""The intensities of V Figures 4.11 to 4.13, those of V Table 4.3."""


@pytest.mark.parametrize("name", V_4_11)
@pytest.mark.parametrize("alpha", [0, 1, 16, 64, math.inf])
def test_the_formulas(name, alpha):
    gpu = load_gpu(name)
    mem_lat, mem_thru, alu_lat, alu_thru = volkov.mix_parameters(gpu)[:4]
    for n in (1, 4, 16, 48):
        arithmetic, memory = max(alu_lat / n, 1 / alu_thru), max(mem_lat / n, 1 / mem_thru)
        weights = (0, 1) if math.isinf(alpha) else (1, alpha)
        for times, cycles in (
            ("overlap", max(weights[1] * arithmetic, weights[0] * memory)),
            ("add", weights[1] * arithmetic + weights[0] * memory),
        ):
            ds = add_or_overlap.throughput(gpu, kernels.mix(alpha), warps=n, times=times)
            assert ds.ipc.sum().item() == pytest.approx(sum(weights) / cycles)
            assert ds.execution_time.item() == pytest.approx(n * cycles)


@pytest.mark.parametrize("name", V_4_11)
def test_overlap_gives_about_twice_the_throughput_of_few_warps(name):
    gpu = load_gpu(name)
    mix = kernels.mix(V_4_11[name])
    few = [gpu.sm.schedulers]
    true = volkov.throughput(gpu, mix, warps=few).throughput.sel(op="alu").item()
    overlap, add = (
        add_or_overlap.throughput(gpu, mix, warps=few, times=times).throughput.sel(op="alu").item() / true
        for times in ("overlap", "add")
    )
    assert 1.7 < overlap < 2  # V 4.11: about 2
    assert add == pytest.approx(1)


def test_adding_halves_the_throughput_of_many_warps():
    gpu = load_gpu("gt200")
    alpha = 0.25 / volkov.mix_parameters(gpu).other_throughput  # both bind
    true, overlap, add = (
        ds.ipc.sum().item()
        for ds in (
            volkov.throughput(gpu, kernels.mix(alpha), warps=1000),
            add_or_overlap.throughput(gpu, kernels.mix(alpha), warps=1000),
            add_or_overlap.throughput(gpu, kernels.mix(alpha), warps=1000, times="add"),
        )
    )
    assert overlap == pytest.approx(true)
    assert add == pytest.approx(true / 2, rel=0.01)


def test_kothapalli_ignores_occupancy():
    gpu = load_gpu("fermi")
    ds = add_or_overlap.throughput(gpu, kernels.mix(32), warps=[1, 8, 10_000], at_peak=True, times="add")
    assert len(np.unique(ds.ipc.sel(op="load"))) == 1
    many = add_or_overlap.throughput(gpu, kernels.mix(32), warps=10_000, times="add")
    np.testing.assert_allclose(ds.ipc[-1], many.ipc)


def test_needed_warps_show_no_cusp():
    gpu = load_gpu("maxwell")
    needed = models.over_alpha(add_or_overlap.needed_warps, gpu, [0, 49, math.inf], fraction=0.9)
    np.testing.assert_allclose(needed[[0, 2]], [0.9 * 29.95, 0.9 * 24], rtol=1e-3)
    assert needed[1] < 30  # V's model: 0.9 x 54
    assert add_or_overlap.needed_warps(gpu, kernels.mix(1), times="add") == pytest.approx(29.95, abs=0.01)


def test_bottleneck():
    gpu = load_gpu("kepler")
    assert add_or_overlap.bottleneck(gpu, kernels.mix(8), warps=8) == "memory"
    assert add_or_overlap.bottleneck(gpu, kernels.mix(64), warps=8) == "arithmetic"
    assert add_or_overlap.bottleneck(gpu, kernels.mix(1, other="smem"), warps=8) == "smem"


def test_wrong_arguments():
    gpu = load_gpu("kepler")
    with pytest.raises(ValueError, match="times = 'both': must be one of overlap, add"):
        add_or_overlap.throughput(gpu, kernels.mix(1), warps=1, times="both")
    with pytest.raises(NotCoveredError, match="add_or_overlap does not cover barrier"):
        add_or_overlap.throughput(gpu, kernel(ADD, BARRIER), warps=1)
    with pytest.raises(ValueError, match="warps = -1"):
        add_or_overlap.throughput(gpu, kernels.mix(1), warps=-1)

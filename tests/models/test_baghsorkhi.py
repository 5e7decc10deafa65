"""The model of Baghsorkhi et al. against V 7.2."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, kernel
from warpsim import kernels, models
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, baghsorkhi

N = np.arange(1, 25)


@pytest.mark.parametrize("alpha", [1, 2, 8, 11, 32, 512])
def test_the_closed_form(alpha):
    x = alpha * np.maximum(4, 20 / N) + 4
    latency = np.maximum(np.maximum(37, x), 440 - (N - 2) * x)
    ds = baghsorkhi.throughput(load_gpu("g80"), kernels.mix(alpha), warps=N)
    np.testing.assert_allclose(ds.warp_latency, latency, rtol=0.01)  # V rounds 37.4 cycles to 37
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), 32 * alpha / ds.warp_latency)


def test_memory_alone():
    ds = baghsorkhi.throughput(load_gpu("g80"), kernels.mix(0), warps=[1, 24, 102, 104])
    np.testing.assert_allclose(ds.warp_latency, [444, 448 - 96, 448 - 408, 37.4], rtol=2e-3)
    assert ds.ipc.sel(op="load")[1].item() < 1 / 37 / 8  # V 7.2: more than 8 times too small at full occupancy


def test_over_100_warps_for_the_peak():
    needed = baghsorkhi.needed_warps(load_gpu("g80"), kernels.mix(0))
    assert 100 < needed < 104  # V 7.2: over 100
    assert baghsorkhi.needed_warps(load_gpu("g80"), kernels.mix(0), fraction=0.9) == pytest.approx(
        (448 - 37.36 / 0.9) / 4, abs=0.1
    )


def test_adds_alone_are_exact():
    ds = baghsorkhi.throughput(load_gpu("g80"), kernels.mix(math.inf), warps=[0, 1, 2, 5, 24])
    np.testing.assert_allclose(ds.ipc.sel(op="alu"), [0, 1 / 20, 2 / 20, 0.25, 0.25])
    assert baghsorkhi.needed_warps(load_gpu("g80"), kernels.mix(math.inf)) == pytest.approx(5)


def test_throughput_may_fall_with_the_warps():
    ds = baghsorkhi.throughput(load_gpu("g80"), kernels.mix(11), warps=N)
    slopes = np.diff(ds.throughput.sel(op="alu"), n=2)
    assert (slopes > 0.1).any() and (slopes < -0.1).any()  # V 7.2: neither linear nor sublinear


def test_independent_loads_overlap():
    # Two loads, then the add that waits for both: the second load's latency counts, not the sum.
    two = (Instruction("load", dst="r1"), Instruction("load", dst="r2"), Instruction("alu", dst="r3", src=("r1", "r2")))
    gpu = load_gpu("g80")
    ds = baghsorkhi.throughput(gpu, kernel(Loop(body=two, trips=None)), warps=1)
    compute = 20 + 2 * 4
    issue = 4 + max(0, 2 * 37.36 - compute) / 2
    assert ds.warp_latency.item() == pytest.approx(issue + 444 + 20, abs=0.1)


def test_a_finite_kernel_counts_one_wait_more():
    gpu = load_gpu("g80")
    ds = baghsorkhi.throughput(gpu, kernel(LOAD, ADD), warps=10)
    compute = 4 + 4 + 2  # a load, an add, an exit
    assert ds.warp_latency.item() == pytest.approx(444 - 9 * compute / 2 + 4 + 2, abs=0.1)


def test_over_alpha_and_time():
    gpu = load_gpu("g80")
    ds = models.over_alpha(baghsorkhi.throughput, gpu, [1, 8], warps=N)
    assert ds.throughput.dims == ("alpha", "warps", "op")
    times = baghsorkhi.execution_time(gpu, kernels.mix(8), warps=N)
    np.testing.assert_allclose(times, N * ds.warp_latency.sel(alpha=8))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (kernel(LOAD, BARRIER), "does not cover barrier"),
        (kernel(Conditional(probability=0.5, then=(ADD,))), "does not cover conditionals"),
        (kernels.mix(1, other="smem"), "does not cover smem"),
    ],
)
def test_what_is_not_covered(program, message):
    with pytest.raises(NotCoveredError, match=f"baghsorkhi {message}"):
        baghsorkhi.throughput(load_gpu("g80"), program, warps=1)

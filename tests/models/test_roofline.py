"""The roofline: two roofs, and where they meet."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.models import NotCoveredError, roofline


@pytest.mark.parametrize("alpha", [0, 0.25, 1, 8, 16, 128, math.inf])
def test_two_roofs(alpha):
    gpu = load_gpu("gt200")  # its peak is 8 adds a cycle, and nothing else binds
    ds = roofline.throughput(gpu, kernels.mix(alpha), warps=[1, 32])
    loads = min(0.25 / alpha if alpha else math.inf, 0.0277)
    expected = 8 if math.isinf(alpha) else 32 * alpha * loads
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), expected, rtol=2e-3)  # V Table 4.1 has three digits
    assert roofline.bottleneck(gpu, kernels.mix(alpha)) == ("memory" if alpha < 0.25 / 0.0277 else "alu")


def test_ridge():
    gpu = load_gpu("gt200")
    assert roofline.ridge(gpu) == pytest.approx(240 * 1.296 / gpu.memory.bandwidth_gbs)
    intensity = roofline.throughput(gpu, kernels.mix(4), warps=8).operational_intensity
    assert intensity.item() == pytest.approx(4 / 4)  # an add to a byte: each thread adds 4 times and loads 4 bytes


def test_stride_halves_the_slope():
    gpu = load_gpu("fermi")
    near, far = (roofline.throughput(gpu, kernels.mix(1, pattern="stride", stride=s), warps=8).bandwidth for s in (1, 2))
    assert near.item() == pytest.approx(161)
    assert far.item() == pytest.approx(161 / 2)


def test_a_kernel_of_neither_is_not_covered():
    with pytest.raises(NotCoveredError, match="sfu_chain: roofline only covers"):
        roofline.throughput(load_gpu("fermi"), kernels.chain("sfu"), warps=8)


def test_execution_time():
    gpu = load_gpu("fermi")
    times = roofline.execution_time(gpu, kernels.mix(math.inf), warps=[0, 1, 8])
    np.testing.assert_allclose(times, [0, 1, 8])
    assert times.attrs["units"] == "cycles"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpu": 3}, "gpu = 3: must be a Gpu"),
        ({"kernel": 3}, "kernel = 3: must be a Kernel"),
        ({"alfa": 8}, "alfa = 8: unknown, did you mean 'alpha'"),
    ],
)
def test_wrong_chips_and_kernels_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        roofline.throughput(**{"gpu": "fermi", "kernel": "mix", "warps": 8} | arguments)


@pytest.mark.parametrize(("warps", "error"), [("x", TypeError), (-1, ValueError)])
def test_the_bottleneck_is_of_an_occupancy(warps, error):
    assert roofline.bottleneck("fermi", "mix", alpha=8, warps=8) == roofline.bottleneck("fermi", "mix", alpha=8)
    with pytest.raises(error, match="warps"):
        roofline.bottleneck("fermi", "mix", alpha=8, warps=warps)

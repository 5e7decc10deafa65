"""The needed occupancy of the CUDA guide against V 4.8 and Table 4.3."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, changed, kernel
from warpsim import kernels, models
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Loop
from warpsim.models import NotCoveredError, cuda_guide, volkov

TABLE_4_3 = {
    "g80": (16, 444, 4, "6.9"),
    "gt200": (16, 434, 4, "6.8"),
    "fermi": (32, 513, 1, "16"),
    "kepler": (32, 301, 0.25, "38"),
    "maxwell": (64, 368, 0.25, "23"),
}


@pytest.mark.parametrize("name", TABLE_4_3)
def test_table_4_3(name):
    alpha, mem_lat, time, printed = TABLE_4_3[name]
    needed = cuda_guide.needed_warps(load_gpu(name), kernels.mix(alpha))
    assert needed == pytest.approx(mem_lat / (time * alpha))
    assert f"{needed:.{len(printed.partition('.')[2])}f}" == printed


def test_the_guides_own_example():
    # Latency 600, instruction time 4, 30 instructions: about 5; with the load and the waiting warp 31 and 6.
    gpu = changed("gt200", memory__latency_cycles=600)
    assert cuda_guide.needed_warps(gpu, kernels.mix(30)) == pytest.approx(5)
    assert cuda_guide.needed_warps(gpu, kernels.mix(30), refined=True) == pytest.approx(600 / (4 * 31) + 1)


def test_without_loads_it_is_arithmetic_latency():
    assert cuda_guide.needed_warps(load_gpu("gt200"), kernels.mix(math.inf)) == pytest.approx(24 / 4)
    assert cuda_guide.needed_warps(load_gpu("maxwell"), kernels.chain("alu")) == pytest.approx(24)


@pytest.mark.parametrize("name", TABLE_4_3)
def test_it_needs_about_half(name):
    gpu = load_gpu(name)
    alpha = TABLE_4_3[name][0]
    better = cuda_guide.needed_warps(gpu, kernels.mix(alpha)) + volkov.mix_parameters(gpu).alu_latency / TABLE_4_3[name][2]
    assert 1.7 < better / cuda_guide.needed_warps(gpu, kernels.mix(alpha)) < 2.2
    if name == "kepler":
        assert round(better) == 74  # V 4.8


def test_throughput_rises_to_the_peak_at_the_needed_warps():
    gpu = load_gpu("fermi")
    needed = cuda_guide.needed_warps(gpu, kernels.mix(32))
    ds = cuda_guide.throughput(gpu, kernels.mix(32), warps=[0, needed / 2, needed, 48])
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), [0, 16, 32, 32])
    assert cuda_guide.needed_warps(gpu, kernels.mix(32), fraction=0.5) == pytest.approx(needed / 2)
    times = cuda_guide.execution_time(gpu, kernels.mix(32), warps=[1, 48])
    np.testing.assert_allclose(times, [513, 48 * 32])
    refined = cuda_guide.throughput(gpu, kernels.mix(32), warps=[1, 48], refined=True)
    np.testing.assert_allclose(refined.execution_time, [513 + 33, 48 * 33])


def test_over_alpha():
    needed = models.over_alpha(cuda_guide.needed_warps, load_gpu("g80"), [4, 8, 16])
    np.testing.assert_allclose(needed, 444 / (4 * np.array([4, 8, 16])))


def test_what_is_not_covered():
    gpu = load_gpu("fermi")
    with pytest.raises(NotCoveredError, match="cuda_guide does not cover barrier"):
        cuda_guide.throughput(gpu, kernel(Loop(body=(LOAD, ADD, BARRIER), trips=None)), warps=8)
    with pytest.raises(NotCoveredError, match="only covers kernels with arithmetic"):
        cuda_guide.needed_warps(gpu, kernels.chain("load"))
    with pytest.raises(ValueError, match="fraction = 2"):
        cuda_guide.needed_warps(gpu, kernels.mix(4), fraction=2)

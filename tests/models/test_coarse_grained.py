"""Coarse-grained multithreading and prefetching against V 4.9."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, changed, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Loop
from warpsim.models import NotCoveredError, coarse_grained, cuda_guide

GPUS = ("g80", "gt200", "fermi", "kepler", "maxwell")


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("variant", ["agarwal", "saavedra_barrera"])
def test_without_switches_it_is_the_refined_guide(name, variant):
    gpu = load_gpu(name)
    needed = coarse_grained.needed_warps(gpu, kernels.mix(32), variant=variant)
    assert needed == pytest.approx(cuda_guide.needed_warps(gpu, kernels.mix(32), refined=True))


def test_the_cost_of_switches():
    gpu = load_gpu("gt200")
    run, wait, switch = 33 * 4, 434, 10
    agarwal, saavedra = (
        coarse_grained.needed_warps(gpu, kernels.mix(32), variant=v, switch_cycles=switch)
        for v in ("agarwal", "saavedra_barrera")
    )
    assert agarwal == pytest.approx((run + wait) / (run + switch))
    assert saavedra == pytest.approx(wait / (run + switch) + 1)


def test_two_loads_are_two_switches():
    gpu = load_gpu("gt200")
    once, twice = (kernel(Loop(body=body, trips=None)) for body in ((LOAD, ADD), (LOAD, ADD, LOAD, ADD)))
    assert coarse_grained.needed_warps(gpu, once, switch_cycles=5) == pytest.approx(
        coarse_grained.needed_warps(gpu, twice, switch_cycles=5)
    )


@pytest.mark.parametrize("name", GPUS)
def test_arithmetic_latency_makes_it_smaller(name):
    gpu = load_gpu(name)
    alu = gpu.ops["alu"].latency_cycles
    needed = coarse_grained.needed_warps(gpu, kernels.mix(32), arithmetic_latency=True)
    assert needed == pytest.approx(gpu.memory.latency_cycles / (32 * alu) + 1)
    assert needed < coarse_grained.needed_warps(gpu, kernels.mix(32))


def test_throughput():
    gpu = load_gpu("gt200")
    ds = coarse_grained.throughput(gpu, kernels.mix(32), warps=[1, 2, 1000], switch_cycles=10)
    np.testing.assert_allclose(ds.ipc.sel(op="load"), [1 / 576, 2 / 576, 1 / 142])
    times = coarse_grained.execution_time(gpu, kernels.mix(32), warps=[1, 1000], switch_cycles=10)
    np.testing.assert_allclose(times, [576, 142_000])
    half = coarse_grained.needed_warps(gpu, kernels.mix(32), fraction=0.5, switch_cycles=10)
    at_half = coarse_grained.throughput(gpu, kernels.mix(32), warps=half, switch_cycles=10)
    assert at_half.ipc.sel(op="load").item() == pytest.approx(0.5 / 142)


def test_prefetch_distance():
    gpu = changed("gt200", memory__latency_cycles=100)
    assert coarse_grained.prefetch_distance(gpu, kernels.mix(35)) == 3  # 100 / 36, rounded up
    assert coarse_grained.prefetch_distance(gpu, kernels.mix(24)) == 4
    assert coarse_grained.prefetch_distance(gpu, kernels.mix(24), instruction_cycles=4) == 1
    with pytest.raises(NotCoveredError, match="endless loop"):
        coarse_grained.prefetch_distance(gpu, kernels.mix(24, iterations=10))
    with pytest.raises(ValueError, match="instruction_cycles = 0"):
        coarse_grained.prefetch_distance(gpu, kernels.mix(24), instruction_cycles=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"variant": "mowry"}, "variant = 'mowry': must be one of saavedra_barrera, agarwal"),
        ({"switch_cycles": -1}, "switch_cycles = -1: must be at least 0"),
        ({"switch_cycles": math.nan}, "switch_cycles = nan"),
        ({"fraction": 0}, "fraction = 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        coarse_grained.needed_warps(load_gpu("fermi"), kernels.mix(4), **arguments)


def test_what_is_not_covered():
    gpu = load_gpu("fermi")
    with pytest.raises(NotCoveredError, match="covers kernels with loads"):
        coarse_grained.throughput(gpu, kernels.chain("alu"), warps=1)
    with pytest.raises(NotCoveredError, match="does not cover barrier"):
        coarse_grained.throughput(gpu, kernel(LOAD, BARRIER), warps=1)
    with pytest.raises(NotCoveredError, match="coarse_grained needs instructions to run"):
        coarse_grained.throughput(gpu, kernels.chain("load"), warps=1, arithmetic_latency=True)

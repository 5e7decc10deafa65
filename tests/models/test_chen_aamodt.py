"""The closed models of Chen and Aamodt against V 4.13."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.models import NotCoveredError, chen_aamodt, volkov


def test_the_three_formulas():
    gpu = load_gpu("fermi")  # two schedulers that issue every second cycle
    tau = 2 * 33 / (513 + 32 * 18)  # per issue interval
    n = np.array([0, 2, 8, 48])
    for model, expected in ((1, tau * (n > 0)), (2, n / 2 * tau), (3, 1 - (1 - tau) ** (n / 2))):
        ds = chen_aamodt.throughput(gpu, kernels.mix(32), warps=n, model=model)
        np.testing.assert_allclose(ds.ipc.sum("op"), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
def test_the_second_is_the_latency_bound(name):
    gpu = load_gpu(name)
    ds = chen_aamodt.throughput(gpu, kernels.mix(16), warps=[1, 2], model=2)
    np.testing.assert_allclose(ds.ipc, volkov.throughput(gpu, kernels.mix(16), warps=[1, 2]).ipc)


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
def test_the_third_saturates_at_issue(name):
    gpu = load_gpu(name)
    ipc = chen_aamodt.throughput(gpu, kernels.mix(math.inf), warps=np.arange(0, 2000, 10)).ipc.sum("op")
    assert (np.diff(ipc) >= -1e-12).all()
    assert ipc[-1].item() == pytest.approx(gpu.issue_ipc)
    one = chen_aamodt.throughput(gpu, kernels.mix(math.inf), warps=gpu.sm.schedulers)
    assert one.ipc.sum().item() == pytest.approx(gpu.sm.schedulers / gpu.ops["alu"].latency_cycles)


def test_no_memory_bandwidth():
    gpu = load_gpu("fermi")
    ds = chen_aamodt.throughput(gpu, kernels.mix(0), warps=48, model=2)
    assert ds.bandwidth.item() == pytest.approx(252, abs=0.5)  # as V 7.5 finds for the same formula; pin 177.4


def test_execution_time():
    times = chen_aamodt.execution_time(load_gpu("fermi"), kernels.mix(32), warps=[1, 2], model=2)
    np.testing.assert_allclose(times, 513 + 32 * 18)


def test_wrong_arguments():
    gpu = load_gpu("fermi")
    with pytest.raises(ValueError, match="model = 4: must be 1, 2 or 3"):
        chen_aamodt.throughput(gpu, kernels.mix(1), warps=1, model=4)
    with pytest.raises(NotCoveredError, match="chen_aamodt does not cover barrier"):
        chen_aamodt.throughput(gpu, kernel(ADD, BARRIER), warps=1)

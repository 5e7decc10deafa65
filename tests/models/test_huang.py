"""The model of Huang et al. against V 7.5 to 7.8."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, LOAD, changed, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, huang


@pytest.fixture
def synthetic():
    """The GPU of the paper (V 7.6, 7.7): 16 cores, 1 GHz, 192 GB/s, latencies of 300 and 25 cycles."""
    return changed(
        "fermi",
        sms=16,
        clock_ghz=1.0,
        memory__pin_bandwidth_gbs=192.0,
        memory__latency_cycles=300,
        ops__alu__latency_cycles=25,
    )


# Without the bandwidth term


@pytest.mark.parametrize(("name", "cores"), [("fermi", 1), ("kepler", 4), ("maxwell", 4)])
@pytest.mark.parametrize("alpha", [0, 1, 32, math.inf])
def test_round_robin_has_no_throughput_limits(name, cores, alpha):
    gpu = load_gpu(name)
    alu, mem = gpu.ops["alu"].latency_cycles, gpu.memory.latency_cycles
    total = (alu, 1) if math.isinf(alpha) else (mem + alpha * alu, 1 + alpha)
    n = np.array([1, cores, 32])
    ds = huang.throughput(gpu, kernels.mix(alpha), warps=n)
    np.testing.assert_allclose(ds.ipc.sum("op"), n * total[1] / total[0])


def test_numbers_of_7_5():
    fermi = huang.throughput(load_gpu("fermi"), kernels.mix(0), warps=48)
    assert fermi.ipc.sel(op="load").item() == pytest.approx(48 / 513)
    assert round(fermi.bandwidth.item()) in (251, 252)  # V: 252 GB/s
    maxwell = huang.throughput(load_gpu("maxwell"), kernels.mix(math.inf), warps=64)
    assert round(maxwell.throughput.sel(op="alu").item()) == 341
    for scheduler in ("lrr", "gto"):  # V 7.5, 7.6: the same here
        kepler = huang.throughput(load_gpu("kepler"), kernels.mix(32), warps=64, scheduler=scheduler)
        assert kepler.throughput.sel(op="alu").item() == pytest.approx(32 * 32 * 64 / (301 + 32 * 9))  # 111.3
        assert round(kepler.throughput.sum().item()) == 115  # V calls it adds; it is with the loads


@pytest.mark.parametrize("name", ["fermi", "maxwell"])
def test_greedy_exceeds_the_peak_of_issue(name):
    gpu = load_gpu(name)
    latency = gpu.ops["alu"].latency_cycles
    for n in (1, latency, latency + 2, 16 * latency):
        ds = huang.throughput(gpu, kernels.mix(math.inf), warps=n * gpu.issue_ipc, scheduler="gto")
        assert ds.ipc.sum().item() == pytest.approx(gpu.issue_ipc * n / max(latency, (n - 1) * (1 - 1 / latency) + 1))
    many = huang.throughput(gpu, kernels.mix(math.inf), warps=1e9, scheduler="gto")
    assert many.cpi.item() == pytest.approx(1 - 1 / latency)  # Maxwell: a fifth above the peak (V 7.6)


def test_greedy_between():
    gpu = load_gpu("fermi")
    n, alpha, alu, mem = 40, 8, 18, 513
    p = (1 + alpha) / (mem + alpha * alu)
    lost = [max(0, min(p * (latency - 1), 1) * (n - 1) - latency + 1) for latency in (mem, alu)]
    expected = n * (1 + alpha) / (mem + alpha * alu + lost[0] + alpha * lost[1])
    ds = huang.throughput(gpu, kernels.mix(alpha), warps=n, scheduler="gto")
    assert ds.ipc.sum().item() == pytest.approx(expected)


def test_intervals():
    # Three independent loads, then an add that waits for the first, then one that waits for the last.
    loads = tuple(Instruction("load", dst=f"r{k}") for k in (1, 2, 3))
    adds = (Instruction("alu", dst="r4", src=("r1",)), Instruction("alu", dst="r5", src=("r3", "r4")))
    gpu = changed("fermi", memory__latency_cycles=100)
    found = huang.intervals(gpu, kernel(*loads, *adds))
    # Issue at 0, 1, 2, 100, 118, exit at 119, results until 136.
    assert [(i.instructions, i.stall) for i in found.intervals] == [(3, 97), (1, 17), (2, 16)]
    assert [i.transactions for i in found.intervals] == pytest.approx([3, 0, 0])
    assert (found.total_cycles, found.instructions, found.repetitions) == (136, 6, 1)


def test_longer_intervals_wait_for_their_turn():
    body = (LOAD, Instruction("alu", dst="r3", src=("r2",)))  # the add does not wait for the load
    gpu = load_gpu("fermi")
    program = kernel(Loop(body=body, trips=None))
    found = huang.intervals(gpu, program)
    assert found.intervals == (huang.Interval(2, 511, pytest.approx(1)),)
    n = 10
    ds = huang.throughput(gpu, program, warps=n)
    assert ds.ipc.sum().item() == pytest.approx(2 * n / (513 + 2 / 513 * (n - 1)))


# With the bandwidth term


def test_utilization_exceeds_one(synthetic):
    ds = huang.throughput(synthetic, kernels.mix(16), warps=32, bandwidth=True, mshrs=32)
    assert round(ds.utilization.item(), 2) == 1.14
    assert ds.bandwidth_delay.item() < 0 < ds.cpi.item()


def test_the_delay_turns_negative(synthetic):
    with pytest.warns(RuntimeWarning, match=r"negative at 29 warps.*V 7\.7"):
        ds = huang.throughput(synthetic, kernels.mix(0), warps=29, bandwidth=True, mshrs=32)
    assert round(ds.utilization.item(), 2) == 1.03
    assert round(ds.bandwidth_delay.item()) == -11
    assert round(ds.cpi.item(), 1) == -0.7
    with pytest.warns(RuntimeWarning, match="negative"):
        assert huang.execution_time(synthetic, kernels.mix(0), warps=29, bandwidth=True).item() < 0


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
def test_it_is_singular_near_28_warps(synthetic, scheduler):
    singular = 300 * 192 / (16 * 128)
    assert round(singular, 1) == 28.1
    n = singular + np.array([-1e-6, 1e-6])
    with pytest.warns(RuntimeWarning, match="negative"):
        ds = huang.throughput(synthetic, kernels.mix(16), warps=n, scheduler=scheduler, bandwidth=True)
    below, above = ds.bandwidth_delay.values
    assert below == pytest.approx(128 / 192 * singular * 16 / 2)  # the other side of the minimum
    assert above < -1e6


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
def test_fermi_at_alpha_32(scheduler):
    with pytest.warns(RuntimeWarning, match="negative at 34 warps"):
        ds = huang.throughput(load_gpu("fermi"), kernels.mix(32), warps=[33, 34], scheduler=scheduler, bandwidth=True)
    assert round(ds.throughput.sel(op="alu", warps=34).item()) == -12
    assert ds.throughput.sel(op="alu", warps=33).item() > 0


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
def test_stride_2_on_fermi(scheduler):
    far = kernels.mix(0, pattern="stride", stride=2)
    gpu = changed("fermi", memory__transaction_latency_cycles=0.0)  # V 7.8 takes the same latency
    with pytest.warns(RuntimeWarning, match="negative at 17 warps"):
        ds = huang.throughput(gpu, far, warps=17, scheduler=scheduler, bandwidth=True)
    assert round(ds.bandwidth_delay.item(), -1) == -120
    assert round(ds.cpi.item()) == -89


def test_few_warps_have_no_warning(recwarn):
    ds = huang.throughput(load_gpu("kepler"), kernels.mix(32), warps=[0, 4, 16], bandwidth=True)
    assert not recwarn
    np.testing.assert_array_equal(ds.ipc[0], 0)
    assert (ds.cpi[1:] > 0).all()


# What is not covered


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (kernel(ADD, BARRIER, ADD), "huang does not cover barrier"),
        (kernel(Conditional(probability=0.5, then=(ADD,))), "huang does not cover conditionals"),
    ],
)
def test_kernels_that_are_not_covered(program, message):
    with pytest.raises(NotCoveredError, match=message):
        huang.throughput(load_gpu("fermi"), program, warps=8)


def test_chips_that_are_not_covered():
    with pytest.raises(NotCoveredError, match=r"gt200: huang only covers chips .* not 0\.5"):
        huang.throughput(load_gpu("gt200"), kernels.mix(1), warps=8)


def test_more_requests_than_registers():
    far = kernels.mix(1, pattern="stride", stride=2)
    with pytest.raises(NotCoveredError, match="at most mshrs = 64 requests per SM, not the 96 of 48 warps"):
        huang.throughput(load_gpu("fermi"), far, warps=[8, 48], bandwidth=True)


def test_unknown_policy():
    with pytest.raises(ValueError, match="scheduler = 'random': must be one of lrr, gto"):
        huang.throughput(load_gpu("fermi"), kernels.mix(1), warps=8, scheduler="random")

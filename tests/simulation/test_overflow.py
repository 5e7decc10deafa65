"""Limits on the parameters of a chip prevent overflow in the engine; decimal intervals are read as fractions."""

from fractions import Fraction

import pytest

import warpsim as ws
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.whatif import changed_gpu

MAXWELL = ws.load_gpu("maxwell")
SHORT = {"warps": 64, "sms": 1, "warmup": 1_000, "cycles": 6_000}


@pytest.mark.parametrize("interval", [1, 4 / 3, 1.5, 5 / 3, 2 / 3, 0.1, "7/5"])
def test_a_decimal_interval_is_read_as_a_fraction(interval):
    gpu = changed_gpu(MAXWELL, {"alu.interval_cycles": interval, "issue.width": 1})
    exact = Fraction(interval).limit_denominator(1000) if isinstance(interval, float) else Fraction(interval)
    assert gpu.ops["alu"].interval_cycles == exact
    ipc = ws.simulate(gpu, ws.kernels.chain("alu", ilp=4), **SHORT).ipc.sel(op="alu").item()
    assert ipc == pytest.approx(min(4.0, 4 / float(exact)), rel=2e-3)


@pytest.mark.parametrize("interval", [0.123456, 1e-4, 2e6, float("nan"), "1/1001"])
def test_an_interval_that_is_no_small_fraction_is_rejected(interval):
    with pytest.raises(ws.InvalidPoint, match=r"interval_cycles = .*: must be a number above 0 and up to 1000000, or an"):
        changed_gpu(MAXWELL, {"alu.interval_cycles": interval})


def test_too_many_different_denominators_are_refused_before_the_run():
    gpu = changed_gpu(MAXWELL, {"alu.interval_cycles": "1/997", "sfu.interval_cycles": "1/991", "smem.interval_cycles": "1/983"})
    with pytest.raises(ValueError, match=r"alu 1/997, sfu 1/991, smem 1/983, .* at most 1000000"):
        ws.simulate(gpu, ws.kernels.mix(8), **SHORT)


def extreme(data: dict) -> dict:
    """Returns the chip with the largest latencies, gaps and intervals that a file can have."""
    for op in data["ops"].values():
        op |= {"interval_cycles": "1000000", "gap_cycles": 10**6, "issue_slots": 10_000, "latency_to": {}}
        if op["pipe"] != "lg":
            op["latency_cycles"] = 10**6
    data["ops"]["smem"]["conflict_latency_cycles"] = 10**6
    data["issue"]["interval_cycles"] = 10**6
    data["memory"] |= {"latency_cycles": 10**6, "bandwidth_gbs": 1e-3, "transaction_latency_cycles": 1e6}
    data["memory"]["queue"] |= {"latency_offset_cycles": 1e6, "crossbar_gbs": 1e-3, "dram_gbs": 1e-3}
    return data


@pytest.mark.parametrize("memory", ["queue", "fixed"])
@pytest.mark.parametrize("kernel", [ws.kernels.vector_add(), ws.kernels.chain("smem", ways=32, iterations=3)])
def test_the_largest_allowed_numbers_do_not_wrap_around(kernel, memory):
    gpu = Gpu.from_dict(extreme(MAXWELL.to_dict()))
    launch = ws.Launch(blocks=4, block_warps=2, resident_blocks=2)
    ds = ws.simulate(gpu, kernel, launch=launch, memory=memory, sms=1)
    assert 10**6 < ds.cycles.item() < 10**12
    assert ds.warp_cycles.min() >= 0
    assert ds.scheduler_cycles.min() >= 0
    assert ds.warp_latency.item() > 0

"""The evaluation, with the simulator in place of hardware: it finds the parameters of the chip that was simulated."""

import numpy as np
import pytest

import warpsim as ws
from warpsim.measure.derive import derive
from warpsim.measure.record import Record, Table

KEPLER = ws.load_gpu("kepler")

CHAIN_UNITS = dict.fromkeys(("op", "ways", "schedulers", "ilp", "repeats", "warps", "trips", "cycles"), "")
STREAM_UNITS = dict.fromkeys(("point", "warps", "every", "steps", "step_cycles", "gbs", "gbs_elapsed", "clock_ghz"), "")


@pytest.fixture(scope="module")
def chains():
    rows = []
    for kernel, op, name in (("add_chain", "alu", "fadd"), ("sfu_chain", "sfu", "rsqrt"), ("smem_chain", "smem", "lds")):
        for warps in (1, 4, 64):
            found = ws.simulate(KEPLER, ws.load_kernel(kernel), warps=warps, sms=1, warmup=2000, cycles=20000)
            step = warps / float(found["ipc"].sel(op=op).mean())
            rows += [(name, 1, 4, 1, repeats, warps, 100, round(100 * (repeats * step + 7))) for repeats in (16, 32)]
    return derive(Record({}, {"chains": Table("x", CHAIN_UNITS, rows)}))


@pytest.mark.parametrize("name, op", [("fadd", "alu"), ("rsqrt", "sfu"), ("lds", "smem")])
def test_latencies_and_intervals_are_those_of_the_chip(chains, name, op):
    assert chains[f"ops.{name}.latency_cycles"].value == pytest.approx(KEPLER.ops[op].latency_cycles, rel=0.01)
    most = min(KEPLER.unit_ipc(op), KEPLER.issue_ipc)
    assert chains[f"ops.{name}.interval_sm_cycles"].value == pytest.approx(1 / most, rel=0.02)


def test_memory_latency_and_contention_are_those_of_the_chip():
    rows, loads = [], []
    for point, warps in enumerate((1, 4, 8, 16, 24, 32, 40, 48, 56, 64)):
        found = ws.simulate(KEPLER, ws.kernels.mix(alpha=0), warps=warps, warmup=4000, cycles=30000)
        gbs, latency = float(found["bandwidth"].mean()), float(found["memory_latency"].mean())
        loads.append((gbs, latency))
        rows.append((point, warps, 0, 1000, latency, gbs, gbs, KEPLER.clock_ghz))
    values = derive(Record({}, {"stream_chase": Table("x", STREAM_UNITS, rows)}))
    # 30,000 cycles of 8 SMs at one warp are some 800 loads, whose latencies differ by a few percent
    assert values["memory.latency_cycles"].value == pytest.approx(KEPLER.memory.latency_cycles, rel=0.02)
    a, b, c = values["memory.contention"].value
    x, y = np.array(loads).T
    assert a == pytest.approx(KEPLER.memory.contention.a_cycles, rel=0.04)
    below = x < 0.9 * x.max()
    assert np.max(np.abs((a + b * x[below] / (c - x[below])) / y[below] - 1)) < 0.05
    assert x.max() < c < 1.3 * KEPLER.memory.bandwidth_gbs

"""Variables of a result, computed from given counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from warpsim.engine.constants import COARSE_BINS, COARSE_WIDTH, FINE_BINS
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop
from warpsim.results import schema
from warpsim.simulation.api import simulate
from warpsim.simulation.counters import Counts, variables
from warpsim.simulation.point import make_point

KEPLER = load_gpu("kepler")  # 4 schedulers per SM
POINT = make_point(KEPLER, mix(alpha=6), warps=2, warmup=30)


def histogram(**loads: int) -> np.ndarray:
    """Returns a histogram of latencies, from bin{number} = loads."""
    counts = np.zeros(FINE_BINS + COARSE_BINS, np.int64)
    for name, number in loads.items():
        counts[int(name.removeprefix("bin"))] = number
    return counts


COUNTS = Counts(
    cycles=100,
    instructions={op: 0 for op in KEPLER.ops} | {"alu": 300, "load": 50},
    asked_bytes=6400.0,
    moved_bytes=6400.0,
    l2_use=0.0,
    unit_use=[0.25, 0.5],
    warp_cycles=np.arange(9) + 40,
    issue_cycles=300,
    busy_cycles=60,
    occupancy=np.array([0, 50, 150]),
    latency_sum=15_000,
    latencies=histogram(bin200=25, bin400=25),
    retired=4,
    lifetime_sum=1000,
)


def test_variables() -> None:
    """Two SMs in 100 cycles: 200 SM-cycles and 800 scheduler-cycles."""
    result = variables(COUNTS, POINT, 2)
    assert set(result) == {variable.name for variable in schema.VARIABLES}
    ops = list(schema.result_ops([KEPLER]))
    assert result["ipc"][ops.index("alu")] == 300 / 200
    assert result["throughput"][ops.index("load")] == 32 * 50 / 200
    assert result["memory_latency"] == 300
    assert result["warp_latency"] == 250
    assert result["occupancy"] == (1 * 50 + 2 * 150) / 200
    assert result["occupancy_max"] == 2
    assert result["warmup_cycles"] == 30
    assert result["warp_iterations"] == 350 / 7 / (np.sum(np.arange(9) + 40) / 100)  # groups of 7 by resident warps
    assert result["scheduler_cycles"].tolist() == [300, 60, 800 - 360]
    assert result["bandwidth"] == pytest.approx(64 * KEPLER.clock_ghz * KEPLER.sms / 2)
    peak = 64 * KEPLER.clock_ghz * KEPLER.sms / 2 / KEPLER.memory.bandwidth_gbs
    assert result["peak_fraction"] == pytest.approx(max(peak, 360 / 800, 0.5))


def test_peak_fraction_is_the_largest_use() -> None:
    busy = replace(COUNTS, unit_use=[0.25, 0.99], moved_bytes=0.0)
    assert variables(busy, POINT, 2)["peak_fraction"] == 0.99
    assert variables(replace(busy, l2_use=0.995), POINT, 2)["peak_fraction"] == 0.995


@pytest.mark.parametrize(
    ("latencies", "quantiles"),
    [
        (histogram(bin200=50), [200] * 7),
        (histogram(bin200=25, bin400=25), [200, 200, 200, 200, 400, 400, 400]),
        (histogram(bin1=1, bin2=1, bin3=1, bin4=1), [1, 1, 1, 2, 3, 4, 4]),
        (histogram(**{f"bin{FINE_BINS}": 1}), [FINE_BINS + COARSE_WIDTH / 2] * 7),
    ],
)
def test_quantiles_of_latency(latencies: np.ndarray, quantiles: list[float]) -> None:
    """The smallest latency with at least this fraction of the loads at or below it."""
    assert schema.QUANTILES == (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    result = variables(replace(COUNTS, latencies=latencies), POINT, 2)
    assert result["memory_latency_quantile"].tolist() == quantiles


def test_without_loads_and_retired_warps_there_are_no_latencies() -> None:
    empty = replace(COUNTS, latencies=histogram(), latency_sum=0, retired=0, lifetime_sum=0)
    result = variables(empty, POINT, 2)
    for name in ("memory_latency", "warp_latency", "memory_latency_quantile"):
        assert np.isnan(result[name]).all()


@pytest.mark.parametrize("warps", [range(8), range(8, 16)])
def test_iterations_know_which_warps_of_a_block_execute_a_side(warps: range) -> None:
    """All of them, or none. Each iteration has one branch."""
    one = Instruction("alu", dst="a", src=("a",))
    body = (Loop(body=(one, Conditional(then=(one,) * 50, warps=tuple(warps))), trips=None),)
    kernel = Kernel(name="some", inputs=("a",), block_warps=8, body=body)
    found = simulate("kepler", kernel, warps=8, sms=1, warmup=0, cycles=20_000)
    assert found.warp_iterations.item() == pytest.approx(found.instructions.sel(op="branch").item() / 8, rel=0.02)

"""Coverage of confidence intervals: the points at which it is measured, and its measurement.

`python -m tests.support.coverage [REPETITIONS [FIRST LAST]]` prints the table of docs/validity.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim import kernels
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.results.statistics import half_width
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import Point, make_point
from warpsim.sweeps.replicates import Replicates, replicated
from warpsim.sweeps.tile import replicate_runner

VARIABLES = ("ipc", "bandwidth", "memory_latency")
TRUTH_SEED, TRUTH_REPLICATES, TIMES_AS_LONG = 10**6, 16, 100
FIXED_NUMBER = Replicates(8, 8)


def bursts(loads: int) -> Kernel:
    """Returns a kernel that alternates between a chain of loads and a chain of four times as many adds."""
    load, add = (Instruction(op, dst="r1", src=("r1",)) for op in ("load", "alu"))
    body = (Loop(body=(load,), trips=loads), Loop(body=(add,), trips=4 * loads))
    return Kernel(name=f"bursts_{loads}", inputs=("r1",), body=(Loop(body=body, trips=None),))


@dataclass(frozen=True)
class CoveragePoint:
    """A point, and the rule for its replicates; everything else, with the warm-up, is the default of `simulate`.

    `too_short`: the window holds a few iterations only, so that users are warned of its interval.
    """

    gpu: str
    kernel: Kernel
    warps: int
    rule: Replicates = FIXED_NUMBER
    settings: Mapping[str, Any] = field(default_factory=dict)
    too_short: bool = False

    def point(self, seed: int, **settings: Any) -> Point:
        return make_point(self.gpu, self.kernel, warps=self.warps, seed=seed, **{"sms": 1, **self.settings, **settings})

    def cycles(self) -> int:
        return self.point(0).cycles


SHORT = {"cycles": 20_000}
UNTIL = Replicates(8, 64, rtol=0.002, of="bandwidth")
POINTS: dict[str, CoveragePoint] = {
    "loads, 8 warps": CoveragePoint("kepler", kernels.mix(0), 8, settings=SHORT),
    "loads, 64 warps, 2 SMs": CoveragePoint("kepler", kernels.mix(0), 64, settings={**SHORT, "sms": 2}),
    "alpha 8, 16 warps": CoveragePoint("kepler", kernels.mix(8), 16, settings=SHORT),
    "alpha 8, 40 warps, 2 SMs: cusp": CoveragePoint("kepler", kernels.mix(8), 40, settings={**SHORT, "sms": 2}),
    "alpha 32, 28 warps: cusp": CoveragePoint("kepler", kernels.mix(32), 28, settings=SHORT),
    "alpha 32, 48 warps, gto": CoveragePoint("kepler", kernels.mix(32), 48, settings={**SHORT, "scheduler": "gto"}),
    "alpha 128, 36 warps: cusp": CoveragePoint("kepler", kernels.mix(128), 36, settings=SHORT),
    "alpha 512, 4 warps": CoveragePoint("kepler", kernels.mix(512), 4),
    "alpha 512, 32 warps": CoveragePoint("kepler", kernels.mix(512), 32),
    "Maxwell, alpha 128, 8 warps": CoveragePoint("maxwell", kernels.mix(128), 8),
    "bursts of 100 loads, 16 warps": CoveragePoint("kepler", bursts(100), 16, too_short=True),
    "bursts of 200 loads, 16 warps": CoveragePoint("kepler", bursts(200), 16, too_short=True),
    "bursts of 400 loads, 32 warps": CoveragePoint("kepler", bursts(400), 32, too_short=True),
    "vector add, 32 warps": CoveragePoint("kepler", kernels.vector_add(), 32, settings=SHORT),
    "vector add, 32 warps, whole chip": CoveragePoint("kepler", kernels.vector_add(), 32, settings={**SHORT, "sms": None}),
    "until 0.2 %: alpha 8, 16 warps": CoveragePoint("kepler", kernels.mix(8), 16, UNTIL, SHORT),
    "until 0.2 %: alpha 512, 4 warps": CoveragePoint("kepler", kernels.mix(512), 4, UNTIL),
}


@dataclass(frozen=True)
class Coverage:
    """What was measured at a point, by variable.

    Attributes:
        covered: share of the intervals that hold the mean of the long runs.
        bias: mean of the estimates less that of the long runs, in standard deviations of an estimate.
        relative_bias: the same, relative to the mean.
        replicates: mean number of replicates.
        warmup: mean warm-up, in cycles.
        iterations: iterations of a warp in the window.
    """

    covered: dict[str, float]
    bias: dict[str, float]
    relative_bias: dict[str, float]
    replicates: float
    warmup: float
    iterations: float


def measure(place: CoveragePoint, repetitions: int) -> Coverage:
    """Measures the coverage of the nominal 95 % intervals of a point, with another root seed in each repetition."""
    truth = _values(simulate_point(_long(place)))
    means: dict[str, list[float]] = {name: [] for name in VARIABLES}
    halves: dict[str, list[float]] = {name: [] for name in VARIABLES}
    numbers, warmups, iterations = [], [], []
    for seed in range(repetitions):
        point = place.point(seed)
        results = replicated(replicate_runner(point, None), place.rule)
        for name, values in _values(results).items():
            means[name].append(float(values.mean()))
            halves[name].append(float(half_width(values)))
        numbers.append(len(results["cycles"]))
        warmups.append(float(results["warmup_cycles"][0]))
        iterations.append(float(results["warp_iterations"].mean()))
    covered, bias, relative = {}, {}, {}
    for name in VARIABLES:
        true, found = float(truth[name].mean()), np.array(means[name])
        covered[name] = float(np.mean(np.abs(found - true) <= np.array(halves[name])))
        with np.errstate(divide="ignore"):
            bias[name], relative[name] = float((found.mean() - true) / found.std()), float(found.mean() / true - 1)
    return Coverage(covered, bias, relative, float(np.mean(numbers)), float(np.mean(warmups)), float(np.mean(iterations)))


def _long(place: CoveragePoint) -> Point:
    point = place.point(TRUTH_SEED, replicates=TRUTH_REPLICATES)
    return replace(point, cycles=TIMES_AS_LONG * point.cycles, warmup=5 * point.cycles)


def _values(results: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {name: results[name] if results[name].ndim == 1 else results[name].sum(axis=1) for name in VARIABLES}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    first, last = (int(text) for text in sys.argv[2:4]) if len(sys.argv) > 3 else (0, len(POINTS))
    for name, place in list(POINTS.items())[first:last]:
        start = time.perf_counter()
        found = measure(place, repetitions)
        parts = [f"{100 * found.covered[v]:.1f} ({100 * found.relative_bias[v]:+.3f} %, {found.bias[v]:+.2f})" for v in VARIABLES]
        numbers = f"{found.iterations:.2g} | {found.warmup:.0f} | {found.replicates:.1f}"
        print(f"| {name} | {numbers} | {' | '.join(parts)} | {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()

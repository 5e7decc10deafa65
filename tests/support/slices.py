"""Slices of four SMs beside whole chips: the points at which they are compared, and the comparison.

`python -m tests.support.slices [FIRST LAST]` prints the table of docs/validity.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim import kernels
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop
from warpsim.results.schema import QUANTILES
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point

SMS = 4
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the memory latency that are compared."""


def bursts(loads: int, adds: tuple[int, int]) -> Kernel:
    """Returns a kernel that alternates between a chain of loads and one of a random number of adds, low..high."""
    load, add = (Instruction(op, dst="r1", src=("r1",)) for op in ("load", "alu"))
    body = (Loop(body=(load,), trips=loads), Loop(body=(add,), trips=adds))
    return Kernel(name=f"bursts_{loads}", inputs=("r1",), body=(Loop(body=body, trips=None),))


def independent(loads: int) -> Kernel:
    """Returns a kernel that loads several registers, one after another, and then uses them all."""
    body = [Instruction("load", dst=f"r{n}", src=("a",)) for n in range(loads)]
    body += [Instruction("alu", dst="x", src=("x", f"r{n}")) for n in range(loads)]
    return Kernel(name=f"independent_{loads}", inputs=("a", "x"), body=(Loop(body=tuple(body), trips=None),))


def by_chance(what: str) -> Kernel:
    """Returns a kernel in which chance decides which accesses a warp makes between two loads, and of which it waits for one."""
    first = Instruction("load", dst="r1", src=("r1",), access=Access(l1_hit=0.6 if what == "hits" else 0.0))
    add, store = Instruction("alu", dst="r1", src=("r1",)), Instruction("store", src=("r3", "r1"))
    second = Conditional(then=(Instruction("load", dst="r2", src=("r1",)),), probability=0.5)
    read = Instruction("alu", dst="r1", src=("r1", "r2"))
    between = {"hits": (add, store), "branch": (second, read, store), "trips": (Loop(body=(store,), trips=(1, 4)), add)}
    body = (Loop(body=(first, *between[what]), trips=None),)
    return Kernel(name=f"by_chance_{what}", inputs=("r1", "r2", "r3"), body=body)


@dataclass(frozen=True)
class SlicePoint:
    """A point on a chip of 16 SMs or more."""

    gpu: str
    kernel: Kernel
    warps: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, sms: int | None, replicates: int, seed: int) -> dict[str, NDArray[np.float64]]:
        """Returns the variables of a slice of so many SMs, or of the whole chip."""
        settings = {"warmup": 30_000, "cycles": 60_000, **self.settings}
        return simulate_point(
            make_point(self.gpu, self.kernel, warps=self.warps, sms=sms, replicates=replicates, seed=seed, **settings)
        )


LONG = {"warmup": 400_000, "cycles": 600_000}
POINTS: dict[str, SlicePoint] = {
    "Maxwell, loads, 32 warps": SlicePoint("maxwell", kernels.mix(0), 32),
    "Maxwell, alpha 8, 32 warps": SlicePoint("maxwell", kernels.mix(8), 32),
    "Maxwell, alpha 32, 16 warps": SlicePoint("maxwell", kernels.mix(32), 16),
    "Maxwell, alpha 32, 64 warps": SlicePoint("maxwell", kernels.mix(32), 64),
    "Maxwell, alpha 512, 32 warps": SlicePoint("maxwell", kernels.mix(512), 32, LONG),
    "Maxwell, vector add, 32 warps": SlicePoint("maxwell", kernels.vector_add(), 32),
    "Maxwell, 4 independent loads, 16 warps": SlicePoint("maxwell", independent(4), 16),
    "Maxwell, bursts of 100 loads, 16 warps": SlicePoint("maxwell", bursts(100, (1000, 3000)), 16, LONG),
    "GT200, loads, 24 warps": SlicePoint("gt200", kernels.mix(0), 24, {"warmup": 100_000, "cycles": 300_000}),
    "GT200, alpha 16, 16 warps": SlicePoint("gt200", kernels.mix(16), 16),
    "GT200, bursts of 200 loads, 8 warps": SlicePoint("gt200", bursts(200, (2000, 6000)), 8, LONG),
    "G80, alpha 4, 24 warps": SlicePoint("g80", kernels.mix(4), 24),
    "G80, alpha 32, 12 warps": SlicePoint("g80", kernels.mix(32), 12),
    "Maxwell, bursts of 400 loads, 32 warps": SlicePoint("maxwell", bursts(400, (4000, 12_000)), 32, LONG),
    "V100, alpha 16, 32 warps": SlicePoint("v100", kernels.mix(16), 32, {"warmup": 10_000, "cycles": 20_000}),
    "V100, loads, 32 warps": SlicePoint("v100", kernels.mix(0), 32),
    "H100, loads, 64 warps": SlicePoint("h100", kernels.mix(0), 64),
    "H100, alpha 32, 64 warps": SlicePoint("h100", kernels.mix(32), 64),
    "H100, vector add, 32 warps": SlicePoint("h100", kernels.vector_add(), 32),
    "RTX 4090, loads with hits in L1, stores, 24 warps": SlicePoint("rtx4090", by_chance("hits"), 24),
    "V100, a second load in every other trip, stores, 32 warps": SlicePoint("v100", by_chance("branch"), 32),
    "A100, 1 to 4 stores after each load, 32 warps": SlicePoint("a100", by_chance("trips"), 32),
}


@dataclass(frozen=True)
class Difference:
    """Relative differences of a slice from the whole chip, and their standard errors.

    Attributes:
        means: of the bandwidth and of the mean memory latency.
        errors: their standard errors.
        quantiles: of the quantiles of the memory latency, at LEVELS.
        quantile_errors: their standard errors.
        seconds: time of the runs of the whole chip, and of the slices, for each replicate.
    """

    means: NDArray[np.float64]
    errors: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    quantile_errors: NDArray[np.float64]
    seconds: tuple[float, float]


def compare(place: SlicePoint, whole: int = 6, slices: int = 16) -> Difference:
    """Compares slices of four SMs with the whole chip, with so many replicates of each."""
    runs, seconds = [], []
    for sms, number, seed in ((None, whole, 1), (SMS, slices, 2)):
        begin = time.perf_counter()
        runs.append(place.run(sms, number, seed))
        seconds.append((time.perf_counter() - begin) / number)
    chip, part = ({"means": np.stack([r["bandwidth"], r["memory_latency"]], axis=1), "quantiles": _quantiles(r)} for r in runs)
    means, errors = _difference(chip["means"], part["means"])
    return Difference(means, errors, *_difference(chip["quantiles"], part["quantiles"]), (seconds[0], seconds[1]))


def _quantiles(run: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return run["memory_latency_quantile"][:, [QUANTILES.index(level) for level in LEVELS]]


def _difference(chip: NDArray[np.float64], part: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    true = chip.mean(axis=0)
    error = np.sqrt(chip.var(axis=0, ddof=1) / len(chip) + part.var(axis=0, ddof=1) / len(part))
    return part.mean(axis=0) / true - 1, error / true


def main() -> None:
    first, last = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (0, len(POINTS))
    for name, place in list(POINTS.items())[first:last]:
        found = compare(place)
        pairs = [f"{100 * d:+.2f} ± {100 * e:.2f}" for d, e in zip(found.means, found.errors, strict=True)]
        quantiles = ", ".join(f"{100 * d:+.1f}" for d in found.quantiles)
        times = f"{found.seconds[0]:.2f} s, {found.seconds[1]:.2f} s"
        print(f"| {name} | {pairs[0]} | {pairs[1]} | {quantiles} | {times}; {100 * found.quantile_errors.max():.1f}", flush=True)


if __name__ == "__main__":
    main()

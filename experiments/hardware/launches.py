"""The launches of launches.toml: their measured times, and their simulation from machine code alone."""

from __future__ import annotations

import math
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from _tables import read_rows

import warpsim as ws
from warpsim.kernels import Access, Kernel
from warpsim.kernels.traversal import expected_instructions

HERE = Path(__file__).parent
CHIPS = ("h100", "h200")
ARCH = "sm_90"
POLICY = "gty"
"""Greedy, then youngest: as the order of issue in the records shows it."""

RESIDENT = (1, 2, 4)
"""Blocks per SM that are simulated beside as many as fit; `--full` simulates all that were measured."""

SLICE = 6
"""SMs that stand for all, with echoes for the others, where the whole launch is long."""

WORK = 1_500_000
"""Warp instructions up to which a launch is simulated on all SMs, and of the longer of two samples otherwise."""

ROUNDS = 6
"""Rounds of blocks of the longer of two samples, at least; the shorter one has half of them."""

GROUPS = {
    "streams": ("vector_add", "saxpy", "vabs", "copy"),
    "random accesses": ("permute", "gather"),
    "Black-Scholes": ("black_scholes",),
    "reductions": ("reduce",),
    "rows": ("softmax", "layer_norm"),
    "histogram": ("histogram",),
    "stencil": ("stencil",),
    "transpositions": ("transpose",),
    "matrix products": ("matmul",),
}
"""Group -> beginnings of the names of its launches."""


@dataclass(frozen=True)
class Point:
    """A launch at one number of resident blocks: measured and simulated time in us, with the cost of the events."""

    chip: str
    name: str
    resident: int
    most: bool
    measured_us: float
    simulated_us: float

    @property
    def error(self) -> float:
        """The relative error of the simulation in percent."""
        return 100 * (self.simulated_us / self.measured_us - 1)

    @property
    def group(self) -> str:
        """The group of the kernel."""
        return next(group for group, names in GROUPS.items() if self.name.startswith(names))


def launches() -> list[dict[str, Any]]:
    """Returns the launches of launches.toml."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "launches.toml").read_text(encoding="utf-8"))["launch"]
    return found


class Timed(NamedTuple):
    """A measurement: median time in us, and the dynamic shared memory of a block in bytes that let so many blocks be resident."""

    us: float
    shared: int


def measured(chip: str) -> dict[str, dict[int, Timed]]:
    """Returns the measurements: launch -> resident blocks -> measurement."""
    found: dict[str, dict[int, Timed]] = {}
    for row in read_rows(HERE / f"{chip}.csv"):
        found.setdefault(row["name"], {})[int(row["resident"])] = Timed(float(row["median_us"]), int(row["shared"]))
    return found


def events_us(chip: str) -> float:
    """Returns what the two events of a measurement cost in us.

    That is the median over short launches, with as many blocks as fit, of the measured time less that of the profiler.
    """
    rows, times = read_rows(HERE / "launch_cost.csv"), measured(chip)
    return median(times[row["name"]][max(times[row["name"]])].us - float(row["us"]) for row in rows if row["chip"] == chip)


def kernel_of(entry: dict[str, Any], chip: str, shared: int) -> tuple[Kernel, int]:
    """Returns the kernel of a launch, with the hits of the chip's caches, and the number of its blocks.

    `shared` is the dynamic shared memory of a block in bytes.
    """
    given = {key: entry[key] for key in ("function", "grid", "block", "args") if key in entry}
    if "l2_hit" in entry:
        given["patterns"] = {line: Access(pattern="random", l2_hit=share) for line, share in entry["l2_hit"].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what depends on data is stated in the kernel's file
        kernel = ws.load_kernel(f"cuda/{entry['kernel']}", arch=ARCH, caches=chip, shared=shared, **given)
    path = HERE.parents[1] / "params" / "kernels" / "cuda" / f"{entry['kernel']}.toml"
    arguments = {**tomllib.loads(path.read_text(encoding="utf-8"))["arguments"], **given}
    return kernel, math.prod(int(part) for part in str(arguments["grid"]).split("x"))


def of_launch(task: tuple[str, dict[str, Any], bool]) -> list[Point]:
    """Simulates a launch on a chip at several numbers of resident blocks."""
    chip, entry, full = task
    times, events = measured(chip)[entry["name"]], events_us(chip)
    most, points = max(times), []
    for count, timed in times.items():
        if full or count in (*RESIDENT, most):
            time = events + microseconds(chip, *kernel_of(entry, chip, timed.shared), count)
            points.append(Point(chip, entry["name"], count, count == most, timed.us, round(time, 3)))
    return points


def microseconds(chip: str, kernel: Kernel, blocks: int, resident: int) -> float:
    """Returns the simulated time of a launch in us, with its constant cost.

    A short launch is simulated whole. Of a long one, some SMs stand for all; where they still have many rounds of blocks, two
    samples of some rounds are simulated, and the time of the further rounds is that by which the samples differ.
    """
    gpu = ws.load_gpu(chip)
    work = expected_instructions(kernel.body) * (kernel.block_warps or 1)
    if work * blocks <= WORK:
        return _cycles(gpu, kernel, blocks, resident, None) / gpu.clock_ghz / 1000
    here = blocks * SLICE / gpu.sms
    a_round = resident * SLICE
    most = max(ROUNDS * a_round, int(WORK / work))
    if here <= 1.5 * most:
        return _cycles(gpu, kernel, math.ceil(here), resident, SLICE) / gpu.clock_ghz / 1000
    rest = round(here) % a_round  # the last round is as full as that of the launch
    longer = most // a_round * a_round + rest
    shorter = longer - (most // a_round + 1) // 2 * a_round
    short, long = (_cycles(gpu, kernel, count, resident, SLICE) for count in (shorter, longer))
    return (long + (long - short) * (here - longer) / (longer - shorter)) / gpu.clock_ghz / 1000


def _cycles(gpu: ws.Gpu, kernel: Kernel, blocks: int, resident: int, sms: int | None) -> float:
    launch = ws.Launch(block_warps=kernel.block_warps or 1, resident_blocks=resident, blocks=blocks)
    return float(ws.simulate(gpu, kernel, launch=launch, scheduler=POLICY, sms=sms, replicates=2).cycles.mean())

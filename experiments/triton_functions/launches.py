"""The launches of launches.toml: compiled by Triton, simulated, and what was measured."""

from __future__ import annotations

import math
import tomllib
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from _tables import read_rows

import warpsim as ws
from warpsim.frontends.sources.triton_functions import load_triton_function

HERE = Path(__file__).parent
CHIP, ARCH = "h200", "sm_90"
POLICY = "gty"
"""Greedy, then youngest: as the order of issue in the record of the H200 shows it (experiments/hardware)."""

EVENTS_US = 1.28
"""Cost of the two events of a measurement (experiments/hardware, H200)."""

GROUPS = {
    "streams": ("add", "gelu", "dropout"),
    "rows and sums": ("total", "softmax", "layer_norm", "cumulative_sum"),
    "transpositions": ("transpose",),
    "matrix products": ("matmul",),
    "attention": ("attention",),
}
"""Group -> functions."""


class Measured(NamedTuple):
    """A measurement: time in us without that of the events, and clock of the SMs in GHz."""

    us: float
    clock_ghz: float


@dataclass(frozen=True)
class Compared:
    """A launch: measured and simulated time in us.

    Attributes:
        name: of the launch.
        group: kind of function.
        clock_ghz: measured clock of the SMs.
        measured_us: measured time.
        blind_us: simulated at the chip file's clock, before anything was measured, with the policy of `launch_time`, `grr`.
        simulated_us: the same now, with `POLICY`.
        at_clock_us: the same at the measured clock.
    """

    name: str
    group: str
    clock_ghz: float
    measured_us: float
    blind_us: float
    simulated_us: float
    at_clock_us: float

    def error(self, of: str) -> float:
        """Returns the relative error of a simulated time in percent."""
        return 100 * (float(getattr(self, of)) / self.measured_us - 1)


def launches() -> list[dict[str, Any]]:
    """Returns the launches of launches.toml."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "launches.toml").read_text(encoding="utf-8"))["launch"]
    return found


@cache
def measured() -> dict[str, Measured]:
    """Returns the measurements by name."""
    clocks = {row["name"]: float(row["clock_ghz"]) for row in read_rows(HERE / "clocks.csv")}
    times = {row["name"]: float(row["median_us"]) - EVENTS_US for row in read_rows(HERE / "h200.csv")}
    return {name: Measured(us, clocks[name]) for name, us in times.items()}


def grid_of(entry: dict[str, Any]) -> tuple[int, ...]:
    """Returns the programs of a launch in each dimension."""
    return tuple(int(part) for part in entry["grid"].split("x"))


def compare(entry: dict[str, Any]) -> Compared:
    """Simulates a launch from the machine code that Triton makes for it."""
    name, grid = entry["name"], grid_of(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is to be assumed
        kernel = ws.kernels.from_triton(
            load_triton_function(HERE / "functions.py", entry["function"]), entry["types"], entry["constants"], grid,
            arch=ARCH, num_warps=entry["warps"], num_stages=entry["stages"], args=entry["args"], caches=CHIP,
        )  # fmt: skip
    found = measured()[name]
    blind = {row["name"]: float(row["simulated_us"]) for row in read_rows(HERE / "blind.csv")}
    group = next(group for group, functions in GROUPS.items() if entry["function"] in functions)
    times = (
        round(ws.launch_time(CHIP, kernel, math.prod(grid), clock_ghz=clock, scheduler=POLICY).microseconds.mean, 3)
        for clock in (None, found.clock_ghz)
    )
    return Compared(name, group, found.clock_ghz, round(found.us, 3), blind[name], *times)

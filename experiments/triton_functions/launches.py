"""The launches of launches.toml: compiled by Triton, simulated, and what was measured."""

from __future__ import annotations

import math
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warpsim as ws
from warpsim.frontends.triton_functions import load_triton_function

HERE = Path(__file__).parent
CHIP, ARCH = "h200", "sm_90"


@dataclass(frozen=True)
class Simulated:
    """The simulated time of a launch in us, and where a measurement is to be expected, for all errors of the model."""

    name: str
    blocks: int
    warps: int
    simulated_us: float
    low_us: float
    high_us: float


def launches() -> list[dict[str, Any]]:
    """Returns the launches of launches.toml."""
    found: list[dict[str, Any]] = tomllib.loads((HERE / "launches.toml").read_text(encoding="utf-8"))["launch"]
    return found


def grid_of(entry: dict[str, Any]) -> tuple[int, ...]:
    """Returns the programs of a launch in each dimension."""
    return tuple(int(part) for part in entry["grid"].split("x"))


def simulate(entry: dict[str, Any]) -> Simulated:
    """Simulates a launch from the machine code that Triton makes for it."""
    grid = grid_of(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is to be assumed
        kernel = ws.kernels.from_triton(
            load_triton_function(HERE / "functions.py", entry["function"]), entry["types"], entry["constants"], grid,
            arch=ARCH, num_warps=entry["warps"], num_stages=entry["stages"], args=entry["args"], caches=CHIP,
        )  # fmt: skip
    time = ws.launch_time(CHIP, kernel, math.prod(grid))
    low, high = (time.predicted.low, time.predicted.high) if time.predicted else (math.nan, math.nan)
    us = (round(one, 3) for one in (time.microseconds.mean, low, high))
    return Simulated(entry["name"], math.prod(grid), time.point.launch.block_warps, *us)

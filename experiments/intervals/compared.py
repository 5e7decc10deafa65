"""The kernels that were predicted and measured: what the results of other experiments say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _tables import read_rows

from warpsim.hardware.files import params_dir
from warpsim.simulation.predictions import SHORTEST_MICROSECONDS

PREDICTIONS = params_dir() / "predictions.csv"

Row = Mapping[str, str]

_SIZE = 4096
"""Rows and columns of all matrices of experiments/worklogs."""


@dataclass(frozen=True)
class Compared:
    """A kernel of a chip: the median of measured over simulated time of its launches."""

    origin: str
    set: str
    gpu: str
    kernel: str
    launches: int
    ratio: float


class Measured(NamedTuple):
    """A launch that was predicted and measured: its measured time in us, and measured over simulated time."""

    repository: str
    gpu: str
    kernel: str
    microseconds: float
    ratio: float


def of_replay(row: Row) -> Measured | None:
    """Returns what a row of replayed launches says; None: the replay failed."""
    if row.get("failure"):
        return None
    ratio = float(row["cycles"]) / float(row["cycles_simulated"])
    return Measured(row["repository"], row["gpu"], row["kernel"], float(row["microseconds"]), ratio)


def of_rate(row: Row) -> Measured:
    """Returns what a row of products of matrices says, whose rates in TFLOP/s are known."""
    published, simulated = float(row["published"]), float(row["simulated"])
    microseconds = 2.0 * _SIZE**3 / published / 1e6
    return Measured("", row["gpu"], row["kernel"], microseconds, simulated / published)


def of_time(row: Row) -> Measured:
    """Returns what a row of launches says, whose times are known."""
    measured = float(row["measured_us"])
    return Measured(row["repository"], row["gpu"], row["kernel"], measured, measured / float(row["simulated_us"]))


PUBLIC, LATER = (str(Path(__file__).parent / name) for name in ("public.csv", "later.csv"))

SETS: tuple[tuple[str, str, str, Callable[[Row], Measured | None]], ...] = (
    ("report", "first", "profiles/launches.csv", of_replay),
    ("report", "second", "profiles/later.csv", of_replay),
    ("report", "third", "profiles/third.csv", of_replay),
    ("source", "worklogs", "worklogs/worklogs.csv", of_rate),
    ("source", "public", PUBLIC, of_time),
    ("source", "later", LATER, of_time),
)
"""Origin, set, file of results, and what a row says, from the oldest set on."""


def compared_in(folder: Path) -> list[Compared]:
    """Returns the kernels of all sets; those whose results are not in a folder as `params/predictions.csv` has them."""
    old = [Compared(**{**row, "launches": int(row["launches"]), "ratio": float(row["ratio"])}) for row in read_rows(PREDICTIONS)]
    compared: list[Compared] = []
    for origin, name, file, say in SETS:
        if (folder / file).exists():
            compared += of_set(origin, name, map(say, read_rows(folder / file)))
        else:
            compared += [one for one in old if (one.origin, one.set) == (origin, name)]
    return compared


def of_set(origin: str, name: str, rows: Iterable[Measured | None]) -> list[Compared]:
    """Returns the kernels of a set; launches that are too short do not count."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row is not None and row.microseconds >= SHORTEST_MICROSECONDS:
            ratios.setdefault((row.repository, row.gpu, row.kernel), []).append(row.ratio)
    return [
        Compared(origin, name, gpu, kernel, len(each), round(float(np.median(each)), 4))
        for (_, gpu, kernel), each in ratios.items()
    ]

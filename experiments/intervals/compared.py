"""The kernels that were predicted and measured: what the results of other experiments say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _tables import read_rows

from warpsim.hardware.files import params_dir
from warpsim.simulation.predictions import SHORTEST_MICROSECONDS

PREDICTIONS = params_dir() / "predictions.csv"

Row = Mapping[str, str]


@dataclass(frozen=True)
class Compared:
    """A kernel of a chip: the median of measured over simulated time of its launches."""

    origin: str
    set: str
    gpu: str
    kernel: str
    launches: int
    ratio: float


def of_replay(row: Row) -> tuple[str, str, str, float, float] | None:
    """Returns repository, chip, kernel, measured us, and measured over simulated time of a replayed launch."""
    if row.get("failure"):
        return None
    us, ratio = float(row["microseconds"]), float(row["cycles"]) / float(row["cycles_simulated"])
    return row["repository"], row["gpu"], row["kernel"], us, ratio


def of_rate(row: Row) -> tuple[str, str, str, float, float]:
    """The same of a product of matrices, of which rates are known."""
    flops = 2.0 * 4096.0**3
    return "", row["gpu"], row["kernel"], flops / float(row["published"]) / 1e6, float(row["simulated"]) / float(row["published"])


def of_time(row: Row) -> tuple[str, str, str, float, float]:
    """The same of a launch of which times are known."""
    measured = float(row["measured_us"])
    return row["repository"], row["gpu"], row["kernel"], measured, measured / float(row["simulated_us"])


PUBLIC = str(Path(__file__).parent / "public.csv")

SETS: tuple[tuple[str, str, str, Callable[[Row], tuple[str, str, str, float, float] | None]], ...] = (
    ("report", "first", "profiles/launches.csv", of_replay),
    ("report", "second", "profiles/later.csv", of_replay),
    ("report", "third", "profiles/third.csv", of_replay),
    ("source", "worklogs", "worklogs/worklogs.csv", of_rate),
    ("source", "public", PUBLIC, of_time),
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


def of_set(origin: str, name: str, rows: Iterable[tuple[str, str, str, float, float] | None]) -> list[Compared]:
    """Returns the kernels of a set; launches that are too short do not count."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row is not None and row[3] >= SHORTEST_MICROSECONDS:
            ratios.setdefault(row[:3], []).append(row[4])
    return [
        Compared(origin, name, gpu, kernel, len(each), round(float(np.median(each)), 4))
        for (_, gpu, kernel), each in ratios.items()
    ]

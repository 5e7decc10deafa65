"""Published measurements of memory latency: quantiles of single loads, and the mean latency at a throughput.

V is Volkov, Understanding Latency Hiding on GPUs, 2016. This module contains no values fitted by this project.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpsim.hardware import file_errors
from warpsim.hardware import files as params

BINS = 4096
"""Default number of bins of a quantile table; the engine uses the same number."""

MAX_LATENCY = 10**6
"""Largest latency of a table, in cycles: that of a chip (`fields.Cycles`)."""

EXTREME_PROBABILITY = 1e-7
"""Probability assigned to the smallest and the largest of about 1e7 samples (V 6.6)."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LatencyDistribution:
    """Quantiles of the latency of single loads at several loads of the chip.

    Attributes:
        name: name of the file.
        loads_gbs: float64[rows], throughput of the chip in GB/s, ascending.
        levels: float64[levels], at least four probabilities from 0 to 1, ascending.
        cycles: float64[rows, levels], quantiles in cycles.
    """

    name: str
    loads_gbs: Floats
    levels: Floats
    cycles: Floats

    def quantile(self, probability: ArrayLike, row: int = 0) -> Floats:
        """Returns the quantiles of a row at probabilities from 0 to 1, in cycles.

        Quantiles between the second and the last but one level are interpolated linearly. The first and the last level are
        single samples out of many, and linear interpolation to them would give far too many extreme latencies. Therefore
        both tails are exponential and reach the extreme sample at `EXTREME_PROBABILITY`.

        Raises:
            ValueError: a probability is below 0 or above 1.
        """
        p = np.asarray(probability, dtype=np.float64)
        if not np.all((p >= 0) & (p <= 1)):
            raise ValueError(f"probability = {probability!r}: must be from 0 to 1")
        levels, cycles = self.levels, self.cycles[row]
        low, high = levels[1], 1 - levels[-2]
        below = np.log(low / np.clip(p, EXTREME_PROBABILITY, low)) / np.log(low / EXTREME_PROBABILITY)
        above = np.log(high / np.clip(1 - p, EXTREME_PROBABILITY, high)) / np.log(high / EXTREME_PROBABILITY)
        inner = np.interp(p, levels[1:-1], cycles[1:-1])
        return np.asarray(
            inner + below * (cycles[0] - cycles[1]) + above * (cycles[-1] - cycles[-2]), dtype=np.float64
        )

    def quantile_table(self, row: int = 0, bins: int = BINS) -> Floats:
        """Returns float64[bins + 1]: the quantiles in cycles at the probabilities 0, 1/bins, ..., 1.

        A draw interpolates linearly between two adjacent quantiles. In the first and the last bin this replaces the
        exponential tail, which changes the mean by less than 0.1 cycles (V Table 6.6, 4096 bins).
        """
        return self.quantile(np.linspace(0.0, 1.0, bins + 1), row)

    def mean(self, row: int = 0) -> float:
        """Returns the mean latency of draws from a row, in cycles."""
        return float(np.trapezoid(self.quantile_table(row), dx=1 / BINS))

    def shifted(self, by_cycles: float) -> Self:
        """Returns this distribution with a number of cycles added to all latencies; results below 1 cycle become 1 cycle."""
        return type(self)(self.name, self.loads_gbs, self.levels, np.maximum(self.cycles + by_cycles, 1.0))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the numbers of the table, without its name."""
        hashed = hashlib.sha256()
        for numbers in (self.loads_gbs, self.levels, self.cycles):
            hashed.update(f"{numbers.shape}".encode() + np.ascontiguousarray(numbers, "<f8").tobytes())
        return hashed.hexdigest()

    def scaled(self, to_mean: float) -> Self:
        """Returns this distribution with all latencies scaled so that row 0 has the mean `to_mean` cycles.

        Raises:
            ValueError: `to_mean` is not above 0.
        """
        if not to_mean > 0:
            raise ValueError(f"to_mean = {to_mean!r}: must be above 0 cycles")
        factor = to_mean / self.mean(0)
        return type(self)(self.name, self.loads_gbs, self.levels, self.cycles * factor)


_RESTORED: dict[str, LatencyDistribution] = {}
"""Tables from descriptions of results, by the name "sha256:DIGEST"."""


def table_by_value(name_or_path: str) -> dict[str, Any] | None:
    """Returns a table of latency quantiles in JSON types; None for one of the package, which its name describes."""
    if name_or_path.lower() in params.list_names("latency"):
        return None
    table = load_distribution(name_or_path)
    return {"loads_gbs": table.loads_gbs.tolist(), "levels": table.levels.tolist(), "cycles": table.cycles.tolist()}


def restored_table(values: Mapping[str, Any]) -> str:
    """Keeps a table that `table_by_value` has returned in memory, and returns its name for `load_distribution`.

    Raises:
        ValueError: it is not such a table.
    """
    loads, levels, cycles = (np.asarray(values[name], np.float64) for name in ("loads_gbs", "levels", "cycles"))
    fits = loads.ndim == levels.ndim == 1 and cycles.shape == (len(loads), len(levels)) and len(loads) > 0 and len(levels) >= 4
    if not fits or not (loads[0] > 0 and levels[0] == 0 and levels[-1] == 1 and np.all(cycles > 0) and np.isfinite(cycles).all()):
        raise ValueError("table of latencies: must have loads above 0, levels from 0 to 1, and latencies above 0")
    if not (np.all(np.diff(loads) > 0) and np.all(np.diff(levels) > 0) and np.all(np.diff(cycles, axis=1) >= 0)):
        raise ValueError("table of latencies: loads, levels and latencies must be in ascending order")
    table = LatencyDistribution("restored", loads, levels, cycles)
    name = f"sha256:{table.digest}"
    _RESTORED[name] = table
    return name


def is_restored(name_or_path: str) -> bool:
    """Returns whether a table is in the memory of this process only, put there by `restored_table`."""
    return name_or_path in _RESTORED


def load_distribution(name_or_path: str | os.PathLike[str]) -> LatencyDistribution:
    """Loads a table of latency quantiles by its name in params/latency, or from a file.

    Lines that start with # are comments. The header contains `load_gbs` and the levels from 0 to 1; each row
    contains a throughput in GB/s and the latencies in cycles.

    Raises:
        ValueError: the file does not exist or has errors; the message lists all of them.
    """
    if name_or_path in _RESTORED:
        return _RESTORED[str(name_or_path)]
    path = params.resolve("latency", name_or_path)
    status = path.stat()
    return _read_distribution(path, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=64)
def _read_distribution(path: Path, version: tuple[int, int]) -> LatencyDistribution:
    """Reads a table of latency quantiles; `version` distinguishes versions of the file."""
    (top, head), *rows = _read_csv(path)
    problems: list[file_errors.Problem] = []
    levels = _numbers(head[1:])
    if head[0] != "load_gbs" or len(levels) < 4 or levels[0] != 0 or levels[-1] != 1 or not _increases(levels):
        problems.append(_problem(top, head, "must be load_gbs and at least four levels that increase from 0 to 1"))
    table: list[list[float]] = []
    for line, row in rows:
        values = _numbers(row)
        in_range = len(row) == len(head) > 1 and 0 < values[1] and values[-1] <= MAX_LATENCY
        if not in_range or not _increases(values[1:], strictly=False):
            allowed = f"must be {len(head)} numbers, with latencies above 0 and up to {MAX_LATENCY} that do not decrease"
            problems.append(_problem(line, row, allowed))
        elif not values[0] > (table[-1][0] if table else 0):
            problems.append(_problem(line, row, "the load in GB/s must be above 0 and increase from row to row"))
        else:
            table.append(values)
    if problems:
        raise file_errors.ParamsFileError(str(path), problems)
    array = np.array(table)
    return LatencyDistribution(path.stem, array[:, 0], np.array(levels), array[:, 1:])


def _read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Returns the header and the rows with their line numbers, without comments and blank lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if row and not row[0].startswith("#")]
    except UnicodeDecodeError as error:
        raise file_errors.ParamsFileError(str(path), [((), f"not a text file: {error}")]) from error
    except csv.Error as error:
        raise file_errors.ParamsFileError(str(path), [((), f"not a table: {error}")]) from error
    if len(rows) < 2:
        raise file_errors.ParamsFileError(str(path), [((), "there must be a header and at least one row")])
    return rows


def _problem(line: int, row: list[str], allowed: str) -> file_errors.Problem:
    return (), f"line {line} = {file_errors.format_value(','.join(row))}: {allowed}"


def _numbers(words: list[str]) -> list[float]:
    """Converts words to numbers; any other word becomes NaN, which fails every comparison."""
    values = []
    for word in words:
        try:
            value = float(word)
        except ValueError:
            value = np.nan
        values.append(value if np.isfinite(value) else np.nan)
    return values


def _increases(values: list[float], strictly: bool = True) -> bool:
    steps = np.diff(values)
    return bool(np.all(steps > 0) if strictly else np.all(steps >= 0))

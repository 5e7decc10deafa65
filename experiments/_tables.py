"""Tables of the experiments: published numbers beside simulated ones, and the Markdown pages that show them.

An experiment imports this module as `_tables`: `warpsim experiment` puts this folder on the module search path.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from warpsim.arguments import choice
from warpsim.results.statistics import half_width

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

KINDS = ("input", "fit", "prediction")
"""What a published number is to the model: an input, the target of a fit, or neither."""

GRID_COLUMN = "finite grid"
"""Column of the numbers that finite grids give."""

GRID_DIFFERENCE = 0.01
"""Relative difference between steady state and finite grid up to which a row shows the former only."""

_BEGIN, _END = "<!-- made by the experiment: begin -->", "<!-- made by the experiment: end -->"
_EXACT = 1e-9


def comparison(
    source: str, chip: str, quantity: str, published: float | None, values: ArrayLike, kind: str
) -> dict[str, str]:
    """Returns one row of a table that compares a published number with the simulated one.

    Args:
        source: the table, figure or section that prints the number.
        chip: name of the chip.
        quantity: what is compared, with its unit.
        published: the published number; None if our copy of the source lacks it.
        values: simulated values, one per replicate; NaN: not attained. A single value counts as deterministic.
        kind: one of KINDS.

    Returns:
        Column -> text. The simulated mean has a 95 % confidence interval (Student's t) if the replicates differ.

    Raises:
        ValueError: `kind` is not one of KINDS.
    """
    choice("kind", kind, KINDS)
    simulated = np.atleast_1d(np.asarray(values, float))
    mean = float(simulated.mean())
    half = float(half_width(simulated)) if len(simulated) > 1 else 0.0
    interval = f" ± {half:.2g}" if half > _EXACT * abs(mean) else ""
    error = "" if published is None or math.isnan(mean) else f"{100 * (mean / published - 1):+.1f}"
    return {
        "source": source,
        "chip": chip,
        "quantity": quantity,
        "published": "not in our copy" if published is None else f"{published:g}",
        "simulated": "not attained" if math.isnan(mean) else f"{mean:.4g}{interval}",
        "error, %": error,
        "class": kind,
    }


def with_grid(row: dict[str, str], simulated: ArrayLike, on_grid: ArrayLike) -> dict[str, str]:
    """Adds to a row the number that a finite grid gives, as in the measurements, where it differs by more than 1 %.

    Args:
        row: a row of `comparison`, whose `simulated` is that of the steady state.
        simulated: the values of the steady state, one per replicate.
        on_grid: the values of the finite grid.

    Returns:
        The row with the column "finite grid", which is empty where the two agree.
    """
    steady, finite = float(np.mean(simulated)), float(np.mean(on_grid))
    differs = not abs(finite - steady) <= GRID_DIFFERENCE * abs(steady) and not math.isnan(steady)
    text = "not attained" if math.isnan(finite) else f"{finite:.4g}"
    return row | {GRID_COLUMN: text if differs else ""}


def read_rows(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file: column -> cell. Lines that begin with # are comments."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_rows(path: Path, rows: Sequence[DataclassInstance]) -> None:
    """Writes instances of a dataclass, at least one, as a CSV file with a column for each field."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*asdict(rows[0])], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def predicted_within(errors: ArrayLike) -> dict[str, str]:
    """Returns the columns of a table that say how large the errors of predictions are, given in percent with their signs."""
    signed = np.asarray(errors, float)
    size = np.abs(signed)
    return {
        "median of the errors, %": f"{np.median(signed):+.1f}",
        "median, %": f"{np.median(size):.1f}",
        "mean, %": f"{size.mean():.1f}",
        "90 % within, %": f"{np.quantile(size, 0.9):.1f}",
        "class": "prediction",
    }


def count_within(rows: list[dict[str, str]], kind: str, percent: float) -> tuple[int, int]:
    """Returns how many rows of a kind have an error of at most `percent`, and how many rows of that kind have an error."""
    errors = [abs(float(row["error, %"])) for row in rows if row["class"] == kind and row["error, %"]]
    return sum(error <= percent for error in errors), len(errors)


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns a Markdown table. The keys of the first row are the columns.

    Raises:
        ValueError: there are no rows, or their keys differ.
    """
    if not rows:
        raise ValueError("rows: must hold at least one row")
    columns = list(rows[0])
    if any(list(row) != columns for row in rows):
        raise ValueError(f"rows: must all have the keys {', '.join(columns)}")
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(str(value) for value in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def replace_tables(page: Path, text: str) -> bool:
    """Replaces the text between the two markers of a page. Returns False if the page is read-only, as in an installed package.

    Raises:
        ValueError: the page does not have each marker exactly once.
    """
    content = page.read_text(encoding="utf-8")
    if content.count(_BEGIN) != 1 or content.count(_END) != 1:
        raise ValueError(f"{page}: must hold {_BEGIN} and {_END} exactly once")
    before, rest = content.split(_BEGIN)
    _, after = rest.split(_END)
    try:
        page.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}", encoding="utf-8")
    except OSError:
        return False
    return True

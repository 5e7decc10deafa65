"""A published number beside ours: the rows of the experiments' tables."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from warpsim.results.statistics import half_width

KINDS = ("input", "fit", "prediction")
"""What a number is to the model: given to it, fitted to, or neither."""

_EXACT = 1e-9


def comparison(
    source: str, chip: str, quantity: str, published: float | None, values: ArrayLike, kind: str
) -> dict[str, str]:
    """One row of a table.

    Args:
        source: where the number stands.
        chip: the chip's name.
        quantity: what it is, with its unit.
        published: the number; None where the source at hand leaves it out.
        values: ours, one a replicate; NaN: not attained. A single one is deterministic.
        kind: one of KINDS.

    Returns:
        The columns in order: our mean has its 95 % interval (Student's t) where replicates differ.

    Raises:
        ValueError: `kind` is not one of KINDS.
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: one of {', '.join(KINDS)}")
    ours = np.atleast_1d(np.asarray(values, float))
    mean = float(ours.mean())
    half = float(half_width(ours)) if len(ours) > 1 else 0.0
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


def within(rows: list[dict[str, str]], kind: str, percent: float) -> tuple[int, int]:
    """How many numbers of a kind are within so many percent of the published ones, and of how many."""
    errors = [abs(float(row["error, %"])) for row in rows if row["class"] == kind and row["error, %"]]
    return sum(error <= percent for error in errors), len(errors)

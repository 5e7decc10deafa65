"""One point's results as a page of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.schema import QUANTILES, SLOTS, STATES, variable
from warpsim.results.statistics import half_width

_BY_OP = ("ipc", "throughput")
_SCALARS = (
    "bandwidth",
    "peak_fraction",
    "memory_latency",
    "warp_latency",
    "occupancy",
    "occupancy_max",
    "cycles",
)
_SHARES = {"warp_cycles": STATES, "scheduler_cycles": SLOTS}


def summary(arrays: Mapping[str, NDArray[Any]], ops: Sequence[str]) -> str:
    """A table of the means over replicates, with half-widths of their 95 % intervals where there are several.

    Args:
        arrays: what `simulate_point` returned.
        ops: labels of the operation classes; those that were never issued are left out.
    """
    rows: list[tuple[str, str, str]] = []
    issued = arrays["instructions"].sum(axis=0) > 0
    for name in _BY_OP:
        for op, values, used in zip(ops, arrays[name].T, issued, strict=True):
            if used:
                rows.append((f"{name} {op}", _number(values), variable(name).units))
    for name in _SCALARS:
        if not np.isnan(arrays[name]).all():
            rows.append((name, _number(arrays[name]), variable(name).units))
    quantiles = arrays["memory_latency_quantile"]
    if not np.isnan(quantiles).all():
        for level, values in zip(QUANTILES, quantiles.T, strict=True):
            rows.append((f"memory latency, {level:.0%} quantile", _number(values), "cycles"))
    for name, labels in _SHARES.items():
        shares = 100.0 * arrays[name] / arrays[name].sum(axis=1, keepdims=True)
        for label, values in zip(labels, shares.T, strict=True):
            if values.any():
                rows.append((f"{name} {label}", _number(values), "%"))
    return table(rows)


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Rows of text in columns as wide as their widest entry."""
    every = [tuple(header), *rows] if header else list(rows)
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    )


def _number(values: NDArray[Any]) -> str:
    mean = float(np.nanmean(values))
    if len(values) == 1:
        return f"{mean:.5g}"
    return f"{mean:.5g} ± {float(half_width(values)):.2g}"

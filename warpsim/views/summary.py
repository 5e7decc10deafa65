"""Summarizes the results of one point as a text table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.schema import QUANTILES, SLOTS, STATES, variable
from warpsim.results.statistics import half_width
from warpsim.views.text_table import plus_minus, significant, text_table

_BY_OP = ("ipc", "throughput")
_SCALARS = (
    "bandwidth",
    "peak_fraction",
    "memory_latency",
    "warp_latency",
    "occupancy",
    "occupancy_max",
    "cycles",
    "warp_iterations",
)
_SHARES = {"warp_cycles": STATES, "scheduler_cycles": SLOTS}


def summary(arrays: Mapping[str, NDArray[Any]], ops: Sequence[str]) -> str:
    """Returns a table of means over replicates, with half the width of their 95 % intervals if there are several replicates.

    Args:
        arrays: the arrays that `simulate_point` returns, replicates first.
        ops: labels of the operation classes. Classes of which no instruction was issued are left out.
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
    return text_table(rows)


def _number(values: NDArray[Any]) -> str:
    return f"{significant(float(np.nanmean(values)), 5)}{plus_minus(float(half_width(values)))}"

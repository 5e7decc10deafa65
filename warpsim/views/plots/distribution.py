"""Distributions of the memory latency of single loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.curves import combinations
from warpsim.views.plots.selection import hue_axis, need, only, x_axis
from warpsim.views.plots.style import COLOURS, HATCHES, finish, label, say, ticks, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOX = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}
"""Part of a box -> its quantile; the extremes stand alone."""


def latency_distribution(results: xr.Dataset, ax: Axes, *, x: str | None = None, hue: str | None = None) -> Axes:
    """Distribution of memory latency: boxes of quantiles against occupancy.

    A box reaches from the 25 % to the 75 % quantile and has a line at the median; its whiskers end at 5 % and 95 %; crosses are
    the least and the greatest latency. Each is the mean over replicates of that quantile.

    Args:
        results: `memory_latency_quantile` over `x` and `hue`; all other axes must have been reduced to one value.
        ax: where to draw.
        x: an axis; left out: occupancy. A single point is a single box.
        hue: an axis, one box beside the other for each of its values; left out: "scheduler", if it is an axis.

    Raises:
        ValueError: there is no such axis, or another is left over.
    """
    need(results, "memory_latency_quantile")
    data = mean(results["memory_latency_quantile"])
    x = x_axis(data, x, apart=["quantile", hue])
    hue = hue_axis(data, hue, x, apart=["quantile"])
    data = only(data, x, hue, "quantile")
    along = [x] if x else []
    groups = list(combinations(data, *along, "quantile"))
    width = 0.8 / len(groups)
    for number, (text, group) in enumerate(groups):
        shift = (number - (len(groups) - 1) / 2) * width
        _boxes(ax, group.transpose(*along, "quantile"), shift, 0.8 * width, number, text if len(groups) > 1 else "_nolegend_")
    if not data.notnull().any():
        say(ax, "no data")
    ticks(ax, "x", data[x] if x else None)
    ax.set_ylabel(wrapped(label(data, "latency of single loads")))
    finish(ax)
    ax.grid(False, axis="x")
    return ax


def _boxes(ax: Axes, group: xr.DataArray, shift: float, width: float, number: int, text: str) -> None:
    rows = np.atleast_2d(group.values)
    levels = group["quantile"].values
    at = {part: np.flatnonzero(np.isclose(levels, level)) for part, level in _BOX.items()}
    if not all(len(found) for found in at.values()):
        raise ValueError(f"quantile: must hold {', '.join(map(str, _BOX.values()))}; got {', '.join(map(str, levels))}")
    there = np.flatnonzero(np.isfinite(rows).all(axis=1))
    boxes: list[dict[str, Any]] = [
        {part: rows[i, found[0]] for part, found in at.items()} | {"fliers": [rows[i, 0], rows[i, -1]]} for i in there
    ]
    if not boxes:
        return
    line = {"linewidth": 0.8}
    drawn = ax.bxp(
        boxes, positions=(there + shift).tolist(), widths=width, patch_artist=True, manage_ticks=False,
        boxprops={**line, "facecolor": COLOURS[number] if number % 2 else "white", "hatch": HATCHES[number]},
        medianprops={"linewidth": 1.4, "color": "black"}, whiskerprops=line, capprops=line,
        flierprops={"marker": "x", "markersize": 2.5, "markeredgewidth": 0.6},
    )  # fmt: skip
    drawn["boxes"][0].set_label(text)

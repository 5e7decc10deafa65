"""Distributions of the memory latency of single loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.curves import combinations
from warpsim.views.plots.selection import choose_hue_axis, choose_x_axis, keep_axes, require_variables
from warpsim.views.plots.style import COLOURS, HATCHES, add_grid_and_legend, axis_label, centre_text, mark_values, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOX = {"whislo": 0.05, "q1": 0.25, "med": 0.5, "q3": 0.75, "whishi": 0.95}
"""Part of a box -> its quantile. The extremes are separate markers."""


def latency_distribution(results: xr.Dataset, ax: Axes, *, x: str | None = None, hue: str | None = None) -> Axes:
    """Draws the distribution of the memory latency: boxes of quantiles against occupancy.

    A box spans the 25 % to the 75 % quantile and has a line at the median. Its whiskers end at 5 % and 95 %; crosses mark the
    minimum and maximum. Each quantile is averaged over replicates.

    Args:
        results: `memory_latency_quantile` over `x` and `hue`; select one value of every other axis first.
        ax: where to draw.
        x: an axis; None: occupancy. A single point is a single box.
        hue: an axis that has adjacent boxes, one per value; None: "scheduler" if it has several values.

    Raises:
        ValueError: there is no such axis, or another axis has several values.
    """
    require_variables(results, "memory_latency_quantile")
    data = mean(results["memory_latency_quantile"])
    x = choose_x_axis(data, x, exclude=["quantile", hue])
    hue = choose_hue_axis(data, hue, x, exclude=["quantile"])
    data = keep_axes(data, x, hue, "quantile")
    along = [x] if x else []
    groups = list(combinations(data, *along, "quantile"))
    width = 0.8 / len(groups)
    for number, (text, group) in enumerate(groups):
        shift = (number - (len(groups) - 1) / 2) * width
        _boxes(ax, group.transpose(*along, "quantile"), shift, 0.8 * width, number, text if len(groups) > 1 else "_nolegend_")
    if not data.notnull().any():
        centre_text(ax, "no data")
    mark_values(ax, "x", data[x] if x else None)
    ax.set_ylabel(wrap_label(axis_label(data, "latency of single loads")))
    add_grid_and_legend(ax)
    ax.grid(False, axis="x")
    return ax


def _boxes(ax: Axes, group: xr.DataArray, shift: float, width: float, number: int, text: str) -> None:
    """Draws the boxes of one value of `hue`."""
    rows = np.atleast_2d(group.values)
    levels = group["quantile"].values
    columns = {part: np.flatnonzero(np.isclose(levels, level)) for part, level in _BOX.items()}
    if not all(len(column) for column in columns.values()):
        raise ValueError(f"quantile: must include {', '.join(map(str, _BOX.values()))}; got {', '.join(map(str, levels))}")
    complete = np.flatnonzero(np.isfinite(rows).all(axis=1))
    boxes: list[dict[str, Any]] = [
        {part: rows[i, column[0]] for part, column in columns.items()} | {"fliers": [rows[i, 0], rows[i, -1]]} for i in complete
    ]
    if not boxes:
        return
    line = {"linewidth": 0.8}
    drawn = ax.bxp(
        boxes, positions=(complete + shift).tolist(), widths=width, patch_artist=True, manage_ticks=False,
        boxprops={**line, "facecolor": COLOURS[number] if number % 2 else "white", "hatch": HATCHES[number]},
        medianprops={"linewidth": 1.4, "color": "black"}, whiskerprops=line, capprops=line,
        flierprops={"marker": "x", "markersize": 2.5, "markeredgewidth": 0.6},
    )  # fmt: skip
    drawn["boxes"][0].set_label(text)

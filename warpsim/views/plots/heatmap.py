"""Any variable over two axes, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.selection import hue_axis, need, only, x_axis
from warpsim.views.plots.style import label, say, ticks, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COLUMNS, _MOST_ROWS = 10, 14
"""Cells in which a number is readable, in a column of a paper."""


def heatmap(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, hue: str | None = None, y: str = "peak_fraction"
) -> Axes:
    """Any variable as a heat map over two axes, with numbers in the cells.

    The colours run from dark to light, so that they are read without colour too. Points that are not there are crossed out.

    Args:
        results: a result; all axes but the two must have been reduced to one value.
        ax: where to draw.
        x: the axis that runs to the right; left out: occupancy.
        hue: the axis that runs up; left out: the first other one.
        y: a variable; the mean over replicates is shown.

    Raises:
        ValueError: no such variable or axis, or another axis is left over.
    """
    need(results, y)
    data = mean(results[y])
    x = x_axis(data, x, apart=[hue])
    up = x_axis(data, hue, apart=[x], first=()) if hue is None else hue_axis(data, hue, x)
    if x is None or up is None or x == up:
        several = ", ".join(f"{dim}: {size}" for dim, size in data.sizes.items()) or "a single point"
        raise ValueError(f"results: {y} must have two axes with several values for a heat map; it has {several}")
    data = only(data, x, up).transpose(up, x)
    values = data.values.astype(float)
    cells = np.ma.masked_invalid(values)
    mesh = ax.pcolormesh(
        np.arange(values.shape[1]), np.arange(values.shape[0]), cells, cmap="cividis", edgecolors="white", linewidth=0.4
    )
    ax.patch.set(hatch="xxxx", edgecolor="#bbbbbb", facecolor="white")
    if cells.count() == 0:
        say(ax, "no data")
    else:
        ax.figure.colorbar(mesh, ax=ax, label=wrapped(label(results[y])), pad=0.02)
        if values.shape[1] <= _MOST_COLUMNS and values.shape[0] <= _MOST_ROWS:
            _numbers(ax, cells)
    ticks(ax, "x", data[x])
    ticks(ax, "y", data[up])
    return ax


def _numbers(ax: Axes, cells: np.ma.MaskedArray) -> None:
    """Write into each cell its value, with as many digits as fit."""
    middle = (cells.min() + cells.max()) / 2
    most = float(np.abs(cells).max())
    digits = 2 if most < 10 else 1 if most < 100 else 0
    if most >= 1e5:
        return
    for row, column in np.argwhere(~np.ma.getmaskarray(cells)):
        value = cells[row, column]
        colour = "white" if value < middle else "black"
        ax.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=5.5, color=colour)

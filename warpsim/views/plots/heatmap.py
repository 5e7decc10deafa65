"""Heat map of any variable over two axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.selection import choose_hue_axis, choose_x_axis, keep_axes, require_variables
from warpsim.views.plots.style import axis_label, centre_text, mark_values, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_COLUMNS, _MAX_ROWS = 10, 14
"""Upper limits on the number of cells in which numbers are readable."""

_X_TICKS_WIDTH = 30
"""Characters that fit along the x axis, beside the bar of colours."""


def heatmap(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, hue: str | None = None, y: str = "peak_fraction"
) -> Axes:
    """Draws any variable as a heat map over two axes, with numbers in the cells.

    The colours run from dark to light and are readable in black and white. Missing points are crossed out.

    Args:
        results: a result; select one value of every axis but the two first.
        ax: where to draw.
        x: the axis that runs to the right; None: occupancy.
        hue: the axis that runs upwards; None: the first other axis.
        y: a variable, which is averaged over replicates.

    Raises:
        ValueError: there is no such variable or axis, or another axis has several values.
    """
    require_variables(results, y)
    data = mean(results[y])
    x = choose_x_axis(data, x, exclude=[hue])
    up = choose_x_axis(data, hue, exclude=[x], preferred=()) if hue is None else choose_hue_axis(data, hue, x)
    if x is None or up is None or x == up:
        several = ", ".join(f"{dim}: {size}" for dim, size in data.sizes.items()) or "a single point"
        raise ValueError(f"results: {y} must have two axes with several values for a heat map; it has {several}")
    data = keep_axes(data, x, up).transpose(up, x)
    values = data.values.astype(float)
    cells = np.ma.masked_invalid(values)
    mesh = ax.pcolormesh(
        np.arange(values.shape[1]), np.arange(values.shape[0]), cells, cmap="cividis", edgecolors="white", linewidth=0.4
    )
    ax.patch.set(hatch="xxxx", edgecolor="#bbbbbb", facecolor="white")
    if cells.count() == 0:
        centre_text(ax, "no data")
    else:
        ax.figure.colorbar(mesh, ax=ax, label=wrap_label(axis_label(results[y])), pad=0.02)
        if values.shape[1] <= _MAX_COLUMNS and values.shape[0] <= _MAX_ROWS:
            _write_numbers(ax, cells)
    mark_values(ax, "x", data[x], _X_TICKS_WIDTH)
    mark_values(ax, "y", data[up])
    return ax


def _write_numbers(ax: Axes, cells: np.ma.MaskedArray) -> None:
    """Writes the value into each cell, with as many digits as fit."""
    middle = (cells.min() + cells.max()) / 2
    most = float(np.abs(cells).max())
    digits = 2 if most < 10 else 1 if most < 100 else 0
    if most >= 1e5:
        return
    for row, column in np.argwhere(~np.ma.getmaskarray(cells)):
        value = cells[row, column]
        colour = "white" if value < middle else "black"
        ax.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=5.5, color=colour)

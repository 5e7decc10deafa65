"""Curves of any variable against any axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES
from warpsim.units import NEEDED_FRACTION
from warpsim.views.plots.curves import draw_curves
from warpsim.views.plots.needed_warps import empty_note, gap_note, needed_label, needed_with_interval
from warpsim.views.plots.selection import choose_hue_axis, choose_x_axis, keep_axes, require_variables
from warpsim.views.plots.style import axis_label, whole_warps, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, y: str = "peak_fraction", hue: str | None = None
) -> Axes:
    """Draws any variable against any axis. The y axis starts at 0.

    Args:
        results: a result; select one value of every axis but `x` and `hue` first (`results.sel(...)`).
        ax: where to draw.
        x: an axis; None: occupancy, or "alpha" for needed warps, or the first axis.
        y: a variable, or "needed_warps".
        hue: a dimension that has one curve per value; None: "scheduler" if it has several values.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: there is no such variable or axis, or another axis has several values. The message lists those that exist.
    """
    require_variables(results)
    if y == "needed_warps":
        data: xr.Dataset | xr.DataArray = needed_with_interval(results, NEEDED_FRACTION)
    elif y in results.data_vars:
        data = results[y]
    else:
        raise ValueError(f"y = {y!r}: must be needed_warps or one of {', '.join(map(str, results.data_vars))}")
    x = choose_x_axis(data, x, exclude=[hue], preferred=["alpha", *OCCUPANCY_AXES] if y == "needed_warps" else OCCUPANCY_AXES)
    if x is None:
        raise ValueError("results: must have an axis with several values; `warpsim simulate` prints a single point as text")
    hue = choose_hue_axis(data, hue, x)
    note = empty = ""
    if isinstance(data, xr.Dataset):
        whole_warps(ax.yaxis)
        note, empty = gap_note(results, data, NEEDED_FRACTION), empty_note(results, data, NEEDED_FRACTION)
    draw_curves(ax, keep_axes(data, x, hue), x, note=note, empty=empty)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(wrap_label(needed_label(NEEDED_FRACTION) if y == "needed_warps" else axis_label(results[y])))
    return ax

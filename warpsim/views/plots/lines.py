"""Any variable against any axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES
from warpsim.views.plots.curves import draw_curves
from warpsim.views.plots.needed_warps import gaps, needed, needed_label
from warpsim.views.plots.selection import hue_axis, only, x_axis
from warpsim.views.plots.style import label, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, y: str = "peak_fraction", hue: str | None = None
) -> Axes:
    """Any variable against any axis.

    Args:
        results: a result; all axes but `x` and `hue` must have been reduced to one value
            (`results.sel(...)`).
        ax: where to draw.
        x: an axis; left out: occupancy, or "alpha" for needed warps, or the first axis.
        y: a variable, or "needed_warps".
        hue: a dimension, one curve for each of its values; left out: "scheduler", if it is an axis.

    Raises:
        ValueError: no such variable or axis, or an axis is left over; the message lists what there is.
    """
    if y == "needed_warps":
        data: xr.Dataset | xr.DataArray = needed(results, 0.9)
    elif y in results.data_vars:
        data = results[y]
    else:
        raise ValueError(f"y = {y!r}: must be needed_warps or one of {', '.join(map(str, results.data_vars))}")
    x = x_axis(data, x, apart=[hue], first=["alpha", *OCCUPANCY_AXES] if y == "needed_warps" else OCCUPANCY_AXES)
    if x is None:
        raise ValueError("x = None: there is a single point, which `warpsim simulate` shows as text")
    hue = hue_axis(data, hue, x)
    note = gaps(results, data, 0.9) if isinstance(data, xr.Dataset) else ""
    draw_curves(ax, only(data, x, hue), x, note=note)
    ax.set_ylabel(wrapped(needed_label(0.9) if y == "needed_warps" else label(results[y])))
    return ax

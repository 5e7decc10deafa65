"""Needed occupancy against arithmetic intensity: the cusp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from warpsim.results.statistics import needed_warps
from warpsim.units import NEEDED_FRACTION
from warpsim.views.plots.curves import Models, draw_curves
from warpsim.views.plots.selection import choose_x_axis, require_variables
from warpsim.views.plots.style import whole_warps, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def needed_warps_vs_alpha(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, fraction: float = NEEDED_FRACTION, models: Models | None = None
) -> Axes:
    """Draws the occupancy needed to attain a fraction of a throughput limit, for mixes against alpha (V Figures 4.5, 4.6).

    Any other axis can take the place of alpha, such as that of kernels. The axis of alpha is logarithmic to base 2, with
    alpha = 0 (no arithmetic) and infinity (only arithmetic) at its two ends.
    Curves have gaps where no occupancy attains the fraction; the legend mentions gaps, or the figure, where there is no curve.

    Args:
        results: `peak_fraction` over an axis of occupancies and other axes; one curve per combination of those except `x`.
        ax: where to draw.
        x: the axis that runs to the right; None: alpha, else the first other axis with several values; a single point without.
        fraction: fraction of the throughput limit.
        models: name -> results with `needed_warps` over `alpha`, or with `peak_fraction` as in `results`; drawn as lines.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: there is no axis of occupancies, no axis `x`, or there are too many curves.
    """
    lines = {name: needed_with_interval(model, fraction)["mean"] for name, model in (models or {}).items()}
    simulated = needed_with_interval(results, fraction)
    note = gap_note(results, simulated, fraction, *lines.values())
    x = choose_x_axis(simulated, x, preferred=["alpha"]) or next((str(dim) for dim in simulated.dims), "point")
    if x not in simulated.dims:
        simulated = simulated.expand_dims({x: [""]})
    lines = {name: line if x in line.dims else line.expand_dims({x: simulated[x].values}) for name, line in lines.items()}
    whole_warps(ax.yaxis)
    draw_curves(ax, simulated, x, models=lines, note=note, empty=empty_note(results, simulated, fraction))
    ax.set_ylim(bottom=0)
    ax.set_ylabel(wrap_label(needed_label(fraction)))
    return ax


def needed_with_interval(results: xr.Dataset, fraction: float) -> xr.Dataset:
    """Returns the needed warps as `mean`, `low` and `high`. They are computed unless the results hold `needed_warps`.

    Raises:
        ValueError: the results hold neither `needed_warps` nor `peak_fraction`.
    """
    require_variables(results)
    given = "needed_warps" in results.data_vars
    if not given:
        require_variables(results, "peak_fraction")
    needed = results[["needed_warps"]] if given else needed_warps(results, fraction)
    needed = needed.rename(needed_warps="mean")
    unknown = xr.full_like(needed["mean"], np.nan, dtype=float)
    return needed if "low" in needed else needed.assign(low=unknown, high=unknown)


def gap_note(results: xr.Dataset, needed: xr.Dataset, fraction: float, *models: xr.DataArray) -> str:
    """Returns a note on the gaps of curves at which no simulated point attains the fraction; "" if there are none."""
    missing = needed["mean"].isnull()
    if "peak_fraction" in results:
        attained = results["peak_fraction"].notnull()
        missing = missing & attained.any([dim for dim in attained.dims if dim not in missing.dims])
    if any(bool(gaps.any()) for gaps in (missing, *(model.isnull() for model in models))):
        return f"gap: nothing attains {percent(fraction)}"
    return ""


def empty_note(results: xr.Dataset, needed: xr.Dataset, fraction: float) -> str:
    """Returns the text of a figure in which no simulated point attains the fraction; "" if there are no simulated points."""
    return f"no simulated point attains {percent(fraction)}" if gap_note(results, needed, fraction) else ""


def percent(fraction: float) -> str:
    """Returns a fraction as text, such as "90%" or "97.5%"."""
    return f"{100 * fraction:.4g}%"


def needed_label(fraction: float) -> str:
    """Returns the label of the axis of needed warps."""
    return f"warps per SM needed for {percent(fraction)} of a peak"

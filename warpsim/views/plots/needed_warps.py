"""The cusp: needed occupancy against arithmetic intensity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import needed_warps
from warpsim.views.plots.curves import Models, draw_curves
from warpsim.views.plots.style import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def needed_warps_vs_alpha(
    results: xr.Dataset, ax: Axes, *, fraction: float = 0.9, models: Models | None = None
) -> Axes:
    """The cusp: occupancy needed for a fraction of a throughput limit against alpha (V Figures 4.5, 4.6).

    The axis of alpha is logarithmic to base 2; alpha = 0 (only the others) and infinity (only adds) stand at
    its two ends. Where no occupancy attains the fraction curves have gaps, and the legend says so.

    Args:
        results: `peak_fraction` over `alpha` and an axis of occupancies; one curve for each combination of
            its other axes.
        ax: where to draw.
        fraction: of the throughput limit.
        models: by name, results with `needed_warps` over `alpha`, or with `peak_fraction` as the simulator's;
            drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies or of alpha, or there are too many curves.
    """
    lines = {name: needed(model, fraction)["mean"] for name, model in (models or {}).items()}
    found = needed(results, fraction)
    draw_curves(ax, found, "alpha", models=lines, note=gaps(results, found, fraction, *lines.values()))
    ax.set_ylim(bottom=0)
    ax.set_ylabel(wrapped(needed_label(fraction)))
    return ax


def needed(results: xr.Dataset, fraction: float) -> xr.Dataset:
    """Needed warps as `mean`, with `low` and `high`; those that the result has already, or computed."""
    has = "needed_warps" in results.data_vars
    found = results[["needed_warps"]] if has else needed_warps(results, fraction)
    found = found.rename(needed_warps="mean")
    return found if "low" in found else found.assign(low=found["mean"], high=found["mean"])


def gaps(results: xr.Dataset, found: xr.Dataset, fraction: float, *models: xr.DataArray) -> str:
    """What the gaps of curves are, where there are any: points that are done, but none attains the fraction."""
    missing = found["mean"].isnull()
    if "peak_fraction" in results:
        attained = results["peak_fraction"].notnull()
        missing = missing & attained.any([dim for dim in attained.dims if dim not in missing.dims])
    if any(bool(part.any()) for part in (missing, *(model.isnull() for model in models))):
        return f"gap: nothing attains {fraction:.0%}"
    return ""


def needed_label(fraction: float) -> str:
    """What the axis of needed warps says."""
    return f"warps per SM needed for {fraction:.0%} of a peak"

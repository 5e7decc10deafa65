"""Memory latency against attained bandwidth, with the contention curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import mean, occupancy_axis
from warpsim.views.plots.curves import Models, combinations, draw_model, half_widths
from warpsim.views.plots.selection import require_variables
from warpsim.views.plots.style import add_grid_and_legend, axis_label, centre_text, curve_style, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def latency_vs_bandwidth(results: xr.Dataset, ax: Axes, *, models: Models | None = None) -> Axes:
    """Draws mean memory latency, in cycles, against attained bandwidth, in GB/s (V 6.4).

    Each curve connects the points in the order of occupancy.

    Args:
        results: `memory_latency` and `bandwidth` over an axis of occupancies.
        ax: where to draw.
        models: name -> results with the same two variables, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    require_variables(results, "bandwidth", "memory_latency")
    x = occupancy_axis(results)
    curves = list(combinations(results[["bandwidth", "memory_latency"]], x))
    for number, (text, curve) in enumerate(curves):
        bandwidth, latency = mean(curve["bandwidth"]), mean(curve["memory_latency"])
        bars = half_widths(curve["memory_latency"])
        ax.errorbar(bandwidth.values, latency.values, yerr=bars, **curve_style(number), label=text)
    top = ax.get_ylim()[1]
    for number, (name, model) in enumerate((models or {}).items()):
        lines = [
            (line["bandwidth"].values, line["memory_latency"].values, line)
            for _, line in combinations(model, str(model["memory_latency"].dims[-1]))
        ]
        draw_model(ax, number, name, lines, curves)
    if not mean(results["memory_latency"]).notnull().any():
        centre_text(ax, "no data")
    elif models:
        ax.set_ylim(top=1.1 * top)  # the contention curve has no upper end
    ax.set_xlabel(axis_label(results["bandwidth"]))
    ax.set_ylabel(wrap_label(axis_label(results["memory_latency"])))
    return add_grid_and_legend(ax, above=True)

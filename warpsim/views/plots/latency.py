"""Memory latency against the bandwidth attained, with the contention curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import mean, occupancy_axis
from warpsim.views.plots.curves import Models, combinations, draw_model, half_interval
from warpsim.views.plots.selection import need
from warpsim.views.plots.style import curve_style, finish, label, say, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def latency_vs_bandwidth(results: xr.Dataset, ax: Axes, *, models: Models | None = None) -> Axes:
    """Mean memory latency, in cycles, against the bandwidth attained, in GB/s (V 6.4).

    A curve follows rising occupancy.

    Args:
        results: `memory_latency` and `bandwidth` over an axis of occupancies.
        ax: where to draw.
        models: results with the same two variables by name, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    need(results, "bandwidth", "memory_latency")
    x = occupancy_axis(results)
    curves = list(combinations(results[["bandwidth", "memory_latency"]], x))
    for number, (text, curve) in enumerate(curves):
        bandwidth, latency = mean(curve["bandwidth"]), mean(curve["memory_latency"])
        bars = half_interval(curve["memory_latency"])
        ax.errorbar(bandwidth.values, latency.values, yerr=bars, **curve_style(number), label=text)
    top = ax.get_ylim()[1]
    for number, (name, model) in enumerate((models or {}).items()):
        lines = [
            (part["bandwidth"].values, part["memory_latency"].values, part)
            for _, part in combinations(model, str(model["memory_latency"].dims[-1]))
        ]
        draw_model(ax, number, name, lines, curves)
    if not mean(results["memory_latency"]).notnull().any():
        say(ax, "no data")
    elif models:
        ax.set_ylim(top=1.1 * top)  # the contention curve rises without end
    ax.set_xlabel(label(results["bandwidth"]))
    ax.set_ylabel(wrapped(label(results["memory_latency"])))
    return finish(ax)

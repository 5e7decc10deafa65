"""Throughput against occupancy, with intervals and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import occupancy_axis
from warpsim.views.plots.curves import Models, draw_curves
from warpsim.views.plots.selection import require_variables, throughput_of
from warpsim.views.plots.style import axis_label, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def throughput_vs_warps(results: xr.Dataset, ax: Axes, *, op: str = "load", models: Models | None = None) -> Axes:
    """Draws the throughput of one operation class, in operations per cycle and SM, against occupancy.

    Args:
        results: `throughput` over an axis of occupancies; one curve per combination of the other axes.
        ax: where to draw.
        op: the operation class.
        models: name -> results of a model, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    require_variables(results, "throughput")
    x = occupancy_axis(results)
    lines = {name: throughput_of(model, op) for name, model in (models or {}).items()}
    draw_curves(ax, throughput_of(results, op), x, models=lines)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(wrap_label(axis_label(results["throughput"], f"{op} throughput")))
    return ax

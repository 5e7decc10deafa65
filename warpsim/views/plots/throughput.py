"""Throughput against occupancy, with intervals and the bounds of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.statistics import occupancy_axis
from warpsim.views.plots.curves import Models, draw_curves
from warpsim.views.plots.selection import need, one_op
from warpsim.views.plots.style import label, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def throughput_vs_warps(results: xr.Dataset, ax: Axes, *, op: str = "load", models: Models | None = None) -> Axes:
    """Throughput of one operation class, in operations per cycle and SM, against occupancy.

    Args:
        results: `throughput` over an axis of occupancies; one curve for each combination of its other axes.
        ax: where to draw.
        op: the operation class.
        models: results of models by name, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    need(results, "throughput")
    x = occupancy_axis(results)
    lines = {name: one_op(model, op) for name, model in (models or {}).items()}
    draw_curves(ax, one_op(results, op), x, models=lines)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(wrapped(label(results["throughput"], f"{op} throughput")))
    return ax

"""Throughput of all models and of the simulation against occupancy."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.curves import half_widths
from warpsim.views.plots.selection import require_variables
from warpsim.views.plots.style import COLOURS, LINES, add_grid_and_legend, axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""Marks of the curves, in the order of the dimension `model`."""

_HEADROOM = 1.35  # top of the figure over the largest simulated throughput
_MARKS = 2  # letters on each curve
_BOX: dict[str, Any] = {"boxstyle": "round,pad=0.08", "facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.8}


def overlay(results: xr.Dataset, ax: Axes) -> Axes:
    """Draws the throughput of the models and of the simulation, with its 95 % interval, against occupancy.

    The curve of each model is marked with a letter. The figure ends above the simulation; the legend marks a model that lies
    entirely above the figure.

    Args:
        results: results of `compare`: `throughput(replicate, warps)` and `model_throughput(model, warps)`.
        ax: where to draw.

    Raises:
        ValueError: a variable is missing, or there are more models than letters.
    """
    require_variables(results, "throughput", "model_throughput")
    if results.sizes["model"] > len(LETTERS):
        raise ValueError(f"results: must have at most {len(LETTERS)} models, but have {results.sizes['model']}")
    x = results["warps"].values
    simulated = results["throughput"]
    ax.errorbar(
        x, mean(simulated).values, yerr=half_widths(simulated), color="#000000", marker="o", markersize=4,
        linewidth=2.2, capsize=3, zorder=4, label="simulation, 95 % interval",
    )  # fmt: skip
    top = _HEADROOM * float(np.nanmax(simulated.values))
    models = results["model"].values.tolist()
    for number, (name, letter) in enumerate(zip(models, LETTERS, strict=False)):
        values = results["model_throughput"].sel(model=name).values
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number % len(LINES)]}
        where = " (above)" if (values[np.isfinite(values)] > top).all() else ""
        ax.plot(x, values, **style, linewidth=0.9, label=f"{letter}  {name}{where}")
        for k in range(_MARKS):  # each model has its own positions, so that letters of coincident curves do not overlap
            position = x[0] + (x[-1] - x[0]) * ((number + 0.5) / len(models) + k) / _MARKS
            height = np.interp(position, x, values)
            if 0 <= height <= top:
                ax.text(position, height, letter, ha="center", va="center", zorder=5, bbox=_BOX)
    ax.set_ylim(0, top)
    ax.set_xlim(0, None)
    ax.set_xlabel(axis_label(results["warps"]))
    ax.set_ylabel(axis_label(simulated, f"{results.attrs.get('op', '')} throughput".strip()))
    add_grid_and_legend(ax)
    (*handles, simulation), (*labels, simulation_label) = ax.get_legend_handles_labels()  # matplotlib lists error bars last
    outside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False, "fontsize": "small"}
    ax.legend([simulation, *handles], [simulation_label, *labels], **outside)
    return ax

"""All models beside the simulation, over occupancy."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.curves import half_interval
from warpsim.views.plots.selection import need
from warpsim.views.plots.style import COLOURS, LINES, finish, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""What the curves of models are marked with, in the order of the dimension `model`."""

_HEADROOM = 1.35  # of the picture above the simulation
_MARKS = 2  # letters on each curve
_BOX: dict[str, Any] = {"boxstyle": "round,pad=0.08", "facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.8}


def overlay(results: xr.Dataset, ax: Axes) -> Axes:
    """Throughput of the models and of the simulation, with its 95 % interval, against occupancy.

    Each model's curve bears a letter, so that no colour is needed. What is far above the simulation leaves the picture, or
    is said to be above it.

    Args:
        results: as `compare` makes it: `throughput(replicate, warps)` and `model_throughput(model, warps)`.
        ax: where to draw.

    Raises:
        ValueError: one of the two is missing, or there are more models than letters.
    """
    need(results, "throughput")
    need(results, "model_throughput")
    if results.sizes["model"] > len(LETTERS):
        raise ValueError(f"results: at most {len(LETTERS)} models, not {results.sizes['model']}")
    x = results["warps"].values
    simulated = results["throughput"]
    ax.errorbar(
        x, mean(simulated).values, yerr=half_interval(simulated), color="#000000", marker="o", markersize=4,
        linewidth=2.2, capsize=3, zorder=4, label="simulation, 95 % interval",
    )  # fmt: skip
    top = _HEADROOM * float(np.nanmax(simulated.values))
    models = results["model"].values.tolist()
    for number, (name, letter) in enumerate(zip(models, LETTERS, strict=False)):
        values = results["model_throughput"].sel(model=name).values
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": LINES[number % len(LINES)]}
        where = " (above)" if (values[np.isfinite(values)] > top).all() else ""
        ax.plot(x, values, **style, linewidth=0.9, label=f"{letter}  {name}{where}")
        for k in range(_MARKS):  # each model has places of its own, so that letters of curves that coincide stand side by side
            place = x[0] + (x[-1] - x[0]) * ((number + 0.5) / len(models) + k) / _MARKS
            height = np.interp(place, x, values)
            if 0 <= height <= top:
                ax.text(place, height, letter, ha="center", va="center", zorder=5, bbox=_BOX)
    ax.set_ylim(0, top)
    ax.set_xlim(0, None)
    ax.set_xlabel(label(results["warps"]))
    ax.set_ylabel(label(simulated, f"{results.attrs.get('op', '')} throughput".strip()))
    finish(ax)
    (*handles, simulation), (*labels, own) = ax.get_legend_handles_labels()  # error bars come last
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False, "fontsize": "small"}
    ax.legend([simulation, *handles], [own, *labels], **beside)
    return ax

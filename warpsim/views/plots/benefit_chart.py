"""Benefit chart of Sim et al.: costs of computation and memory, and what optimizations could save (S Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.views.plots.selection import require_variables
from warpsim.views.plots.style import COLOURS, LINES, MARKERS, add_grid_and_legend, add_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COMPUTATION_BENEFITS = {"b_itilp": 0, "b_serial": 1, "b_fp": 2}
_LABELS = ("more ILP", "no serialization", "essential work only", "more MLP")
_VARIABLES = ("t_comp", "t_mem", "t_mem_exposed", "b_itilp", "b_serial", "b_fp", "b_memlp")


def benefit_chart(results: xr.Dataset, ax: Axes) -> Axes:
    """Draws the costs of memory (x) and computation (y), with arrows for upper bounds of the savings (S Figures 4, 14).

    An open marker shows the costs before computation and memory overlap, a filled marker those after. From the filled marker,
    arrows lead down by each benefit of computation in turn, and left by the benefit of memory. Memory binds below the diagonal.

    Args:
        results: what `models.gpuperf.benefits` returns, with at most one dimension; one pair of markers per value.
        ax: where to draw.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: `results` lacks a variable, or has more than one dimension.
    """
    require_variables(results)
    missing = [name for name in _VARIABLES if name not in results]
    if missing:
        raise ValueError(f"results: must have {', '.join(missing)}, as results of models.gpuperf.benefits do")
    if len(results.dims) > 1:
        raise ValueError(f"results: must have at most one dimension, but have {', '.join(map(str, results.dims))}")
    dim = next(iter(results.dims), None)
    points = [results] if dim is None else [results.isel({dim: i}) for i in range(results.sizes[dim])]
    used: set[int] = set()
    for number, point in enumerate(points):
        costs = {name: float(point[name]) for name in _VARIABLES}
        style: Any = {"marker": MARKERS[number % len(MARKERS)], "color": "black", "linestyle": "none", "clip_on": False}
        ax.plot(costs["t_mem"], costs["t_comp"], markerfacecolor="none", **style)
        text = None if dim is None else f"{dim} = {point[dim].item()}"
        ax.plot(costs["t_mem_exposed"], costs["t_comp"], label=text, **style)
        height = costs["t_comp"]
        for name, kind in _COMPUTATION_BENEFITS.items():
            if costs[name] > 0:
                _arrow(ax, (costs["t_mem_exposed"], height), (costs["t_mem_exposed"], height - costs[name]), kind)
                used.add(kind)
            height -= max(costs[name], 0.0)
        if costs["b_memlp"] > 0:
            _arrow(ax, (costs["t_mem_exposed"], costs["t_comp"]), (costs["t_mem_exposed"] - costs["b_memlp"], costs["t_comp"]), 3)
            used.add(3)
    for kind in sorted(used):
        ax.plot([], [], color=COLOURS[kind], linestyle=LINES[kind], label=_LABELS[kind])
    end = float(np.nanmax([results[name].max() for name in ("t_comp", "t_mem")])) * 1.05
    ax.plot([0, end], [0, end], color="#999999", linewidth=0.8, zorder=0)
    ax.set_xlim(0, end)
    ax.set_ylim(0, end)
    ax.set_xlabel("cost of memory operations (cycles)")
    ax.set_ylabel("cost of computation (cycles)")
    add_grid_and_legend(ax)
    if ax.get_legend():
        add_legend(ax, loc="upper right", frameon=True, edgecolor="none")
    return ax


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], kind: int) -> None:
    style = {"arrowstyle": "-|>", "color": COLOURS[kind], "linestyle": LINES[kind], "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)

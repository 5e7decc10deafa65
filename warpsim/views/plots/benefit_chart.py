"""The benefit chart of Sim et al.: costs of computation and memory, and what optimizations could save (S Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.views.plots.style import COLOURS, LINES, MARKERS, finish, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOWN = {"b_itilp": 0, "b_serial": 1, "b_fp": 2}
_LABELS = ("more ILP", "no serialization", "essential work only", "more MLP")
_NEEDED = ("t_comp", "t_mem", "t_mem_exposed", "b_itilp", "b_serial", "b_fp", "b_memlp")


def benefit_chart(results: xr.Dataset, ax: Axes) -> Axes:
    """Costs of memory (x) and computation (y), with arrows for what could be saved at most (S Figures 4, 14).

    An open marker is the cost before computation and memory overlap, a filled one after. Arrows go down from there by
    the benefits of computation, one after the other, and to the left by that of memory. Below the diagonal memory
    binds.

    Args:
        results: from `models.gpuperf.benefits`, over at most one dimension; a marker for each of its values.
        ax: where to draw.

    Raises:
        ValueError: `results` lacks a variable, or has more than one dimension.
    """
    missing = [name for name in _NEEDED if name not in results]
    if missing:
        raise ValueError(f"results: has no {', '.join(missing)}; models.gpuperf.benefits gives them")
    if len(results.dims) > 1:
        raise ValueError(f"results: at most one dimension, not {', '.join(map(str, results.dims))}; select one")
    dim = next(iter(results.dims), None)
    points = [results] if dim is None else [results.isel({dim: i}) for i in range(results.sizes[dim])]
    used: set[int] = set()
    for number, point in enumerate(points):
        at = {name: float(point[name]) for name in _NEEDED}
        style: Any = {"marker": MARKERS[number % len(MARKERS)], "color": "black", "linestyle": "none", "clip_on": False}
        ax.plot(at["t_mem"], at["t_comp"], markerfacecolor="none", **style)
        text = None if dim is None else f"{dim} = {point[dim].item()}"
        ax.plot(at["t_mem_exposed"], at["t_comp"], label=text, **style)
        height = at["t_comp"]
        for name, kind in _DOWN.items():
            if at[name] > 0:
                _arrow(ax, (at["t_mem_exposed"], height), (at["t_mem_exposed"], height - at[name]), kind)
                used.add(kind)
            height -= max(at[name], 0.0)
        if at["b_memlp"] > 0:
            _arrow(ax, (at["t_mem_exposed"], at["t_comp"]), (at["t_mem_exposed"] - at["b_memlp"], at["t_comp"]), 3)
            used.add(3)
    for kind in sorted(used):
        ax.plot([], [], color=COLOURS[kind], linestyle=LINES[kind], label=_LABELS[kind])
    end = float(np.nanmax([results[name].max() for name in ("t_comp", "t_mem")])) * 1.05
    ax.plot([0, end], [0, end], color="#999999", linewidth=0.8, zorder=0)
    ax.set_xlim(0, end)
    ax.set_ylim(0, end)
    ax.set_xlabel("cost of memory operations (cycles)")
    ax.set_ylabel("cost of computation (cycles)")
    finish(ax)
    if ax.get_legend():
        legend(ax, loc="upper right", frameon=True, edgecolor="none")
    return ax


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], kind: int) -> None:
    style = {"arrowstyle": "-|>", "color": COLOURS[kind], "linestyle": LINES[kind], "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)

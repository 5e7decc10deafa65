"""The benefit chart of Sim et al.: costs of computation and memory, and what optimizations could save (S Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from warpsim.results.plots.style import COLOURS, MARKERS, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOWN = (
    ("b_itilp", "more ILP", COLOURS[0]),
    ("b_serial", "no serialization", COLOURS[1]),
    ("b_fp", "essential work", COLOURS[2]),
)
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
    for number, point in enumerate(points):
        at = {name: float(point[name]) for name in _NEEDED}
        marker = MARKERS[number % len(MARKERS)]
        text = None if dim is None else f"{dim} = {point[dim].item()}"
        ax.plot(at["t_mem"], at["t_comp"], marker=marker, color="black", markerfacecolor="none", linestyle="none")
        ax.plot(at["t_mem_exposed"], at["t_comp"], marker=marker, color="black", linestyle="none", label=text)
        height = at["t_comp"]
        for name, label, colour in _DOWN:
            if at[name] > 0:
                _arrow(ax, (at["t_mem_exposed"], height), (at["t_mem_exposed"], height - at[name]), colour, label, number)
            height -= max(at[name], 0.0)
        if at["b_memlp"] > 0:
            to = (at["t_mem_exposed"] - at["b_memlp"], at["t_comp"])
            _arrow(ax, (at["t_mem_exposed"], at["t_comp"]), to, COLOURS[3], "more MLP", number)
    end = float(np.nanmax([results[name].max() for name in ("t_comp", "t_mem")])) * 1.05
    ax.plot([0, end], [0, end], color="#999999", linewidth=0.8, zorder=0)
    ax.set_xlim(0, end)
    ax.set_ylim(0, end)
    ax.set_xlabel("cost of memory operations (cycles)")
    ax.set_ylabel("cost of computation (cycles)")
    return finish(ax)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, label: str, number: int) -> None:
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0})
    ax.plot([], [], color=colour, label=label if number == 0 or not _has(ax, label) else None)


def _has(ax: Axes, label: str) -> bool:
    return label in ax.get_legend_handles_labels()[1]

"""Throughput of all models and of the simulation against occupancy."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.results.statistics import mean
from warpsim.views.plots.curves import draw_lonely, half_widths
from warpsim.views.plots.selection import require_variables
from warpsim.views.plots.style import COLOURS, LINES, add_grid_and_legend, axis_label, whole_warps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Named = tuple[str, str]
"""Letter and name of a model."""

LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""Marks of the curves, in the order of the dimension `model`."""

_HEADROOM = 1.35  # lowest top of the figure over the largest simulated throughput
_HIGHEST = 2.5  # highest top over it; higher parts of curves are cut off
_ROOM = 1.05  # top over the highest curve or interval
_ALIKE = 0.01  # relative difference up to which two curves look the same
_MARKS = 2  # letters on each curve
_BOX: dict[str, Any] = {"boxstyle": "round,pad=0.08", "facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.8}


def overlay(results: xr.Dataset, ax: Axes) -> Axes:
    """Draws the throughput of the models and of the simulation, with its 95 % interval, against occupancy.

    The curve of each model is marked with a letter. Models that differ by less than 1 % share a curve. Models that lie entirely
    above 1.35 times the largest simulated throughput do not apply to the kernel, and are only listed in the legend. The figure
    ends above all others; a curve that goes beyond 2.5 times that throughput leaves it, and has an arrow in the legend.

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
    widths = half_widths(simulated)
    ax.errorbar(
        x, mean(simulated).values, yerr=widths, color="#000000", marker="o", markersize=4,
        linewidth=2.2, capsize=3, zorder=4, label="simulation" if widths is None else "simulation, 95 % interval",
    )  # fmt: skip
    largest = float(np.nanmax(simulated.values))
    groups, above = _alike(results, _HEADROOM * largest)
    drawn = results["model_throughput"].sel(model=[group[0][1] for group in groups]).values
    ends = mean(simulated).values + (0.0 if widths is None else np.nan_to_num(widths))
    highest = float(np.nanmax([*ends, *drawn[np.isfinite(drawn)]]))
    top = min(max(_HEADROOM * largest, _ROOM * highest), _HIGHEST * largest)
    points = 0
    for number, group in enumerate(groups):
        letter, name = group[0]
        values = results["model_throughput"].sel(model=name).values
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linestyle": _line(number)}
        leaves = " ↑" if np.nanmax(values, initial=0.0) > top else ""
        ax.plot(x, values, **style, linewidth=0.9, label="\n".join(f"{letter}  {name}{leaves}" for letter, name in group))
        draw_lonely(ax, x, values, style)
        known = np.isfinite(values)
        if not (known[1:] & known[:-1]).any():
            _mark_point(ax, (x[known][-1], values[known][-1]), letter, points, x)
            points += 1
            continue
        for k in range(_MARKS):  # each curve has its own positions, so that letters do not overlap
            position = x[0] + (x[-1] - x[0]) * ((number + 0.5) / len(groups) + k) / _MARKS
            height = np.interp(position, x, values)
            if 0 <= height <= top:
                ax.text(position, height, letter, ha="center", va="center", zorder=5, bbox=_BOX)
    if any(str(label).endswith("↑") for label in ax.get_legend_handles_labels()[1]):
        ax.plot([], [], " ", label="↑ goes on above")
    if above:
        names = [f"{letter}  {name}" for letter, name in above]
        ax.plot([], [], " ", label="\n".join(["not drawn, since they lie above:", *names]))
    ax.set_ylim(0, top)
    ax.set_xlim(0, None)
    whole_warps(ax.xaxis)
    ax.set_xlabel(axis_label(results["warps"]))
    ax.set_ylabel(axis_label(simulated, f"{results.attrs.get('op', '')} throughput".strip()))
    add_grid_and_legend(ax)
    (*handles, simulation), (*labels, simulation_label) = ax.get_legend_handles_labels()  # matplotlib lists error bars last
    outside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False, "fontsize": "small"}
    ax.legend([simulation, *handles], [simulation_label, *labels], **outside)
    return ax


def _mark_point(ax: Axes, at: tuple[float, float], letter: str, number: int, occupancies: NDArray[np.int64]) -> None:
    """Writes the letter of a curve without lines beside its last point, towards the middle; the next one stands further away."""
    aside = (12 + 9 * number) * (-1 if at[0] > occupancies[-1] / 2 else 1)
    ax.annotate(letter, at, (aside, 0), textcoords="offset points", ha="center", va="center", annotation_clip=True, zorder=5)


def _line(number: int) -> Any:
    """Returns the line of a curve; once the colours are used up, they come again with other lines."""
    return LINES[(number + number // len(COLOURS)) % len(LINES)]


def _alike(results: xr.Dataset, top: float) -> tuple[list[list[Named]], list[Named]]:
    """Returns the models that share a curve, and those that lie entirely above `top`."""
    groups: list[list[Named]] = []
    above: list[Named] = []
    throughput = results["model_throughput"]
    for letter, name in zip(LETTERS, results["model"].values.tolist(), strict=False):
        values = throughput.sel(model=name).values
        if (values[np.isfinite(values)] > top).all():
            above.append((letter, name))
            continue
        same = [g for g in groups if np.allclose(throughput.sel(model=g[0][1]).values, values, rtol=_ALIKE, equal_nan=True)]
        if same:
            same[0].append((letter, name))
        else:
            groups.append([(letter, name)])
    return groups, above

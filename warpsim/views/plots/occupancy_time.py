"""Occupancy over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.views.plots.selection import select_replicate
from warpsim.views.plots.style import COLOURS, add_grid_and_legend, axis_label, centre_text, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


def occupancy_over_time(results: xr.Dataset, ax: Axes, *, replicate: int = 0, sm: int | None = None) -> Axes:
    """Draws the resident warps of an SM over time, or the mean, minimum and maximum over all SMs (V Figure 5.1).

    Args:
        results: a run with a trace of occupancy: `occupancy_change_cycle`, `occupancy_change_sm` and
            `occupancy_change_warps` over `change`, or the means `occupancy_over_time` over `sm` and `time`.
        ax: where to draw.
        replicate: index of the replicate.
        sm: number of the SM; None: all of them.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: there is no such trace, replicate or SM.
    """
    run = select_replicate(results, replicate)
    edges, levels, numbers, variable = _occupancy_steps(run)
    if sm is not None and sm not in numbers:
        raise ValueError(f"sm = {sm}: must be one of {', '.join(map(str, numbers)) or '(none: the trace is empty)'}")
    if sm is not None:
        levels, numbers = levels[[numbers.index(sm)]], [sm]
    if len(numbers):
        mean = levels.mean(axis=0)
        if len(numbers) > 1:
            lowest, highest = levels.min(axis=0), levels.max(axis=0)
            style: dict[str, Any] = {"color": "#d0d0d0", "linewidth": 0, "label": f"lowest to highest of {len(numbers)} SMs"}
            ax.fill_between(edges, np.append(lowest, lowest[-1]), np.append(highest, highest[-1]), step="post", **style)
        name = f"SM {numbers[0]}" if len(numbers) == 1 else "mean of the SMs"
        ax.stairs(mean, edges, baseline=None, color=COLOURS[0], linewidth=0.9, label=name)
        over_time = float(np.average(mean, weights=np.diff(edges)))
        ax.axhline(over_time, color="black", linestyle="--", linewidth=0.8, label=f"mean over time: {over_time:.3g}")
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0, 1.3 * levels.max())  # room for the legend
    else:
        centre_text(ax, "no data")
    ax.set_xlabel("time (cycles)")
    ax.set_ylabel(wrap_label(axis_label(variable, "resident warps")))
    add_grid_and_legend(ax)
    if ax.get_legend():
        ax.legend(loc="upper center", ncols=2, frameon=False, fontsize="small", columnspacing=1.0, handlelength=2.0)
    return ax


def _occupancy_steps(run: xr.Dataset) -> tuple[Floats, Floats, list[int], xr.DataArray]:
    """Returns the edges of time intervals, occupancy (SM, interval), the numbers of the SMs, and the variable with the units."""
    if "occupancy_change_cycle" in run:
        return *_steps_from_changes(run), run["occupancy_change_warps"]
    if "occupancy_over_time" in run:
        data = run["occupancy_over_time"].transpose("sm", "time")
        data = data.dropna("time", how="all")
        begins = data["time"].values.astype(float)
        width = float(begins[1] - begins[0]) if len(begins) > 1 else float(run["cycles"])
        end = min(begins[-1] + width, begins[0] + float(run["cycles"])) if len(begins) else 0.0
        return np.append(begins, end), data.values, [int(n) for n in data["sm"].values] if len(begins) else [], data
    existing = ", ".join(map(str, run.data_vars))
    raise ValueError(
        "results: must have a trace of occupancy, from simulate(..., trace=ws.Trace(occupancy=True)): occupancy_change_cycle or "
        f"occupancy_over_time; it has {existing}"
    )


def _steps_from_changes(run: xr.Dataset) -> tuple[Floats, Floats, list[int]]:
    """Returns the same, without the variable, from recorded changes; the edges are the changes of all SMs."""
    changes = run[["occupancy_change_cycle", "occupancy_change_sm", "occupancy_change_warps"]].dropna("change")
    cycle, sms, warps = (changes[f"occupancy_change_{name}"].values for name in ("cycle", "sm", "warps"))
    numbers = sorted({int(n) for n in sms})
    if not numbers:
        return np.zeros(1), np.zeros((0, 0)), []
    edges = np.unique(np.append(cycle.astype(float), cycle.min() + float(run["cycles"])))
    levels = np.zeros((len(numbers), len(edges) - 1))
    for row, number in enumerate(numbers):
        changes_of_sm = np.flatnonzero(sms == number)
        changes_of_sm = changes_of_sm[np.argsort(cycle[changes_of_sm], kind="stable")]
        last = np.searchsorted(cycle[changes_of_sm], edges[:-1], side="right") - 1  # the last change up to each edge
        levels[row] = np.where(last >= 0, warps[changes_of_sm][np.maximum(last, 0)], 0.0)
    return edges, levels, numbers

"""Where the warp-cycles go: stacked warp states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from warpsim.results.statistics import mean
from warpsim.views.plots.selection import need, only, x_axis
from warpsim.views.plots.style import HATCHES, LIGHT, label, say, ticks, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHADES = ("#ffffff", *LIGHT[:4], "#f0e442", "#e6e6e6", "#bbbbbb", "#999999")  # light, so that hatches show


def stacked_states(
    results: xr.Dataset,
    ax: Axes,
    *,
    x: str | None = None,
    per: Literal["occupancy", "instruction", "share"] = "occupancy",
) -> Axes:
    """Warp states, stacked, against occupancy.

    Args:
        results: `warp_cycles`, `occupancy` and `instructions` over `x`; all other axes must have been reduced to one value.
        ax: where to draw.
        x: an axis; left out: occupancy. Its values that are not there (a chip cannot hold them, or they are not done) have
            no place. A single point is a single bar. "time": of a trace with states over time, a bar for each
            bin.
        per: what a stack adds up to: "occupancy", the mean number of warps per SM in each state; "instruction",
            warp-cycles for each instruction issued, as profilers count stalls; "share", all warp-cycles being 1.

    Raises:
        ValueError: `per` is none of these, there is no such axis, or another is left over.
    """
    need(results, "warp_cycles", "occupancy", "instructions")
    if x == "time":
        results = _over_time(results)
    cycles = mean(results["warp_cycles"])
    total = cycles.sum("state")
    heights = {
        "occupancy": (cycles / total * mean(results["occupancy"]), label(results["occupancy"], "mean warps in a state")),
        "instruction": (cycles / mean(results["instructions"]).sum("op"), "warp cycles per instruction"),
        "share": (cycles / total, "share of warp-cycles"),
    }
    if per not in heights:
        raise ValueError(f"per = {per!r}: must be one of {', '.join(heights)}")
    height, text = heights[per]
    x = x_axis(height, x, apart=["state"])
    height = only(height, x, "state", drawn=["x"])
    if x not in (None, "time") and height.notnull().any():
        height = height.dropna(x, how="all")
    places = np.arange(height.sizes[x] if x else 1)
    base = np.zeros(len(places))
    for number, state in enumerate(height["state"].values.tolist()):
        values = np.atleast_1d(np.nan_to_num(height.sel(state=state).values))
        if values.any():
            ax.bar(
                places, values, 0.85, bottom=base, label=state.replace("_", " "), color=_SHADES[number % len(_SHADES)],
                hatch=HATCHES[number % len(HATCHES)], edgecolor="black", linewidth=0.4,
            )  # fmt: skip
        base += values
    if not base.any():
        say(ax, "no data")
    ticks(ax, "x", height[x] if x else None)
    ax.set_ylabel(wrapped(text))
    handles, names = ax.get_legend_handles_labels()
    if handles:
        above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
        ax.legend(handles[::-1], names[::-1], frameon=False, fontsize="small", columnspacing=1.0, handlelength=2.0, **above)
    return ax


def _over_time(results: xr.Dataset) -> xr.Dataset:
    """The same three variables, bin by bin."""
    need(results, "warp_cycles_over_time", "instructions_over_time", "cycles")
    run = results[["warp_cycles", "occupancy", "cycles"]].mean("replicate")
    sms = run["warp_cycles"].sum("state") / (run["occupancy"] * run["cycles"])
    cycles = mean(results["warp_cycles_over_time"])
    begins = cycles["time"].values
    width = xr.DataArray(np.diff(begins, append=begins[0] + float(run["cycles"])), dims="time")
    occupancy = (cycles.sum("state") / (sms * width)).assign_attrs(results["occupancy"].attrs)
    instructions = results["instructions_over_time"].expand_dims("op")
    return xr.Dataset({"warp_cycles": cycles, "occupancy": occupancy, "instructions": instructions})

"""Stacked warp states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from warpsim.arguments import choice
from warpsim.results.statistics import mean
from warpsim.views.plots.selection import choose_x_axis, keep_axes, require_all_states, require_variables
from warpsim.views.plots.style import HATCHES, LIGHT, axis_label, centre_text, mark_values, wrap_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ABOVE = 1.05  # height of the frame, over that of the highest bar
_FRAME = 0.4  # width of the frame of a bar
_SEPARATE = 40  # largest number of bars with gaps and frames, which would cover the shades of more
_SHADES = ("#ffffff", *LIGHT[:4], "#f0e442", "#e6e6e6", "#bbbbbb", "#999999")  # light, so that hatches are visible


def stacked_states(
    results: xr.Dataset,
    ax: Axes,
    *,
    x: str | None = None,
    per: Literal["occupancy", "instruction", "share"] = "occupancy",
) -> Axes:
    """Draws warp states as stacked bars against occupancy.

    Args:
        results: `warp_cycles`, `occupancy` and `instructions` over `x`; select one value of every other axis first.
        ax: where to draw.
        x: an axis; None: occupancy. Values without results have no bar: the chip cannot hold them, or they have not been
            simulated. A single point is a single bar. "time": one bar per time bin of a trace with states over time.
        per: what a bar adds up to: "occupancy": the mean number of warps per SM in each state; "instruction": warp-cycles per
            issued instruction, as profilers count stalls; "share": 1.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: `per` is not one of these, there is no such axis, another axis has several values, or states are missing.
    """
    require_variables(results, "warp_cycles", "occupancy", "instructions")
    require_all_states(results)
    if x == "time":
        results = _over_time(results)
    cycles = mean(results["warp_cycles"])
    total = cycles.sum("state")
    heights = {
        "occupancy": (cycles / total * mean(results["occupancy"]), axis_label(results["occupancy"], "mean warps in a state")),
        "instruction": (cycles / mean(results["instructions"]).sum("op"), "warp cycles per instruction"),
        "share": (cycles / total, "share of warp-cycles"),
    }
    height, text = heights[choice("per", per, heights)]
    x = choose_x_axis(height, x, exclude=["state"])
    height = keep_axes(height, x, "state", alternatives=["x"])
    if x not in (None, "time") and height.notnull().any():
        height = height.dropna(x, how="all")
    positions = np.arange(height.sizes[x] if x else 1)
    base = np.zeros(len(positions))
    width, frame = (0.85, _FRAME) if len(positions) <= _SEPARATE else (1.0, 0.0)
    for number, state in enumerate(height["state"].values.tolist()):
        values = np.atleast_1d(np.nan_to_num(height.sel(state=state).values))
        if values.any():
            ax.bar(
                positions, values, width, bottom=base, label=state.replace("_", " "), color=_shade(number),
                hatch=HATCHES[number % len(HATCHES)], edgecolor="black", linewidth=frame,
            )  # fmt: skip
        base += values
    if base.any():
        ax.set_ylim(0, _ABOVE * base.max())
    else:
        centre_text(ax, "no data")
    mark_values(ax, "x", height[x] if x else None)
    ax.set_ylabel(wrap_label(text))
    handles, names = ax.get_legend_handles_labels()
    if handles:
        above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3}
        style: Any = {"frameon": False, "fontsize": "small", "columnspacing": 1.0, "handlelength": 2.0, **above}
        for swatch in ax.legend(handles[::-1], names[::-1], **style).get_patches():
            swatch.set_linewidth(_FRAME)
    return ax


def _shade(number: int) -> str:
    """Returns the shade of the state with this number. Once all are used, they come again in another order."""
    return _SHADES[(number + number // len(_SHADES) * len(_SHADES) // 2) % len(_SHADES)]


def _over_time(results: xr.Dataset) -> xr.Dataset:
    """Returns the same three variables for each time bin of a trace."""
    require_variables(results, "warp_cycles_over_time", "instructions_over_time", "cycles")
    sms = float((results["warp_cycles"].sum("state") / (results["occupancy"] * results["cycles"])).mean())
    cycles = mean(results["warp_cycles_over_time"])
    since = cycles["time"] - cycles["time"][0]
    width = float(since[1]) if len(since) > 1 else np.inf
    rest = results["cycles"] - since
    counted = mean(rest.where(rest > 0).clip(max=width))  # the last bin of a replicate is shorter
    occupancy = (cycles.sum("state") / (sms * counted)).assign_attrs(results["occupancy"].attrs)
    instructions = results["instructions_over_time"].expand_dims("op")
    return xr.Dataset({"warp_cycles": cycles, "occupancy": occupancy, "instructions": instructions})

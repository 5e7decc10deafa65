"""Roofline with latency bounds at the attained occupancies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES, mean
from warpsim.views.plots.curves import combinations, half_widths
from warpsim.views.plots.selection import choose_hue_axis, how_to_select, keep_axes, require_variables, throughput_of
from warpsim.views.plots.style import (
    COLOURS,
    LINES,
    add_grid_and_legend,
    axis_label,
    centre_text,
    curve_style,
    value_text,
    wrap_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def roofline(results: xr.Dataset, ax: Axes, *, roofs: xr.Dataset, op: str = "alu", hue: str | None = None) -> Axes:
    """Draws arithmetic throughput against arithmetic intensity, with the roofs of memory, arithmetic and latency.

    The roofs of memory and arithmetic are those of Williams, Waterman & Patterson 2009. The dotted roof includes the other
    throughput limits of the hardware, such as issue (V 3.6). The roof of latency is the bound n / latency (V 3.5), where n is the
    mean occupancy that each point attained; every set of points has its own. Programs without memory accesses, or without
    operations of the class, are left out.

    Args:
        results: `throughput` and `occupancy` over the axis of programs of `roofs` and over `hue`.
        ax: where to draw.
        roofs: what `warpsim.analysis.at_points.roofs` returns. Over an axis of programs: `intensity` in operations per byte,
            `warp_roof` in operations per cycle and resident warp, and `throughput_bound` in operations per cycle and SM.
            Scalars: `arithmetic_roof` in operations per cycle and SM, and `memory_roof` in bytes per cycle and SM.
        op: the operation class.
        hue: an axis that has one set of points per value; None: occupancy.

    Raises:
        ValueError: `results` or `roofs` lack a variable, or another axis has several values.
    """
    require_variables(results, "throughput", "occupancy")
    require_variables(roofs, "intensity", "warp_roof", "throughput_bound", "arithmetic_roof", "memory_roof")
    if roofs["memory_roof"].ndim:
        (chips,) = roofs["memory_roof"].dims
        names = roofs[chips].values.tolist()
        how = how_to_select(chips, names[:1])
        raise ValueError(f"select one value of {chips} ({', '.join(map(str, names))}) for a roofline, {how}")
    x = next((str(dim) for dim in roofs["intensity"].dims), None)
    occupancies = next((name for name in OCCUPANCY_AXES if results.sizes.get(name, 1) > 1), None)
    hue = hue or occupancies or choose_hue_axis(results["occupancy"], None, x)
    data = keep_axes(results[["occupancy"]].assign(reached=throughput_of(results, op)), x, hue)
    bytes_per_cycle, arithmetic = float(roofs["memory_roof"]), float(roofs["arithmetic_roof"])
    intensity = roofs["intensity"].where(np.isfinite(roofs["intensity"]) & (roofs["intensity"] > 0))
    ridge = arithmetic / bytes_per_cycle
    ends = np.array([np.fmin(intensity.min(), ridge) / 2, ridge, np.fmax(intensity.max(), ridge) * 2])
    roof = np.minimum(ends * bytes_per_cycle, arithmetic)
    ax.plot(ends, roof, color="black", linewidth=1.6, label="roof of memory, arithmetic", zorder=1)
    bound = roofs["throughput_bound"].where(intensity.notnull())
    dotted: dict[str, Any] = {"color": "#777777", "linestyle": ":", "linewidth": 1.6, "zorder": 1}
    ax.plot(intensity.values, bound.values, **dotted, label="roof of all units and issue")
    drawn = 0
    for number, (text, points) in enumerate(combinations(data, *([x] if x else []))):
        attained, reached = mean(points["occupancy"]), mean(points["reached"])
        reached = reached.where((reached > 0) & intensity.notnull())
        if not reached.count():  # the chip cannot hold this occupancy, or it has not been simulated
            continue
        drawn += int(reached.count())
        name = f"{float(attained.mean()):.3g} warps per SM" if hue in OCCUPANCY_AXES else text
        style = {**curve_style(number), "linestyle": "none"}
        ax.errorbar(intensity.values, reached.values, yerr=half_widths(points["reached"]), **style, label=name)
        latency_roof = (roofs["warp_roof"] * attained).values
        line: dict[str, Any] = {"color": COLOURS[number], "linestyle": LINES[number], "marker": "" if x else "_"}
        ax.plot(intensity.values, latency_roof, **line, linewidth=0.9)
    if drawn:
        ax.plot([], [], color="#555555", linewidth=0.9, label="roof of latency at these warps")
        if x and not intensity.notnull().all():  # such as loads alone, whose intensity of 0 has no place on the axis
            without = ", ".join(value_text(value) for value in intensity[x].values[intensity.isnull().values].tolist())
            ax.plot([], [], " ", label=f"not shown: {x} {without}")
    else:
        centre_text(ax, "no data")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(axis_label(intensity.assign_attrs(roofs["intensity"].attrs)))
    ax.set_ylabel(wrap_label(axis_label(results["throughput"], f"{op} throughput")))
    return add_grid_and_legend(ax, above=True)

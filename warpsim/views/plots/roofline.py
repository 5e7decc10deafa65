"""The roofline, with roofs of latency at the occupancies attained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES, mean
from warpsim.views.plots.curves import combinations, half_interval
from warpsim.views.plots.selection import by_selecting, hue_axis, need, one_op, only
from warpsim.views.plots.style import COLOURS, LINES, curve_style, finish, label, legend, say, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def roofline(results: xr.Dataset, ax: Axes, *, roofs: xr.Dataset, op: str = "alu", hue: str | None = None) -> Axes:
    """Roofline: arithmetic throughput against arithmetic intensity, under the roofs of memory, arithmetic and latency.

    The roofs of memory and arithmetic are those of Williams, Waterman & Patterson 2009; the dotted one has the other limits of
    the hardware too, such as issue (V 3.6). That of latency is the bound n / latency (V 3.5) at the mean occupancy n that each
    point attained, one roof to each set of points. Programs without memory accesses or without such operations are left out.

    Args:
        results: `throughput` and `occupancy` over the axis of programs of `roofs` and over `hue`.
        ax: where to draw.
        roofs: over an axis of programs `intensity` in operations per byte, `warp_roof` in operations per cycle and resident warp,
            and `throughput_bound` in operations per cycle and SM; `arithmetic_roof` in operations per cycle and SM,
            `memory_roof` in bytes per cycle and SM. `warpsim.analysis.at_points.roofs` gives them.
        op: the operation class.
        hue: an axis, one set of points for each of its values; left out, occupancy.

    Raises:
        ValueError: `results` or `roofs` lack a variable, or an axis is left over.
    """
    need(results, "throughput", "occupancy")
    need(roofs, "intensity", "warp_roof", "throughput_bound", "arithmetic_roof", "memory_roof")
    if roofs["memory_roof"].ndim:
        (chips,) = roofs["memory_roof"].dims
        names = roofs[chips].values.tolist()
        how = by_selecting(chips, names[:1])
        raise ValueError(f"select one value of {chips} ({', '.join(map(str, names))}) for a roofline, {how}")
    x = next((str(dim) for dim in roofs["intensity"].dims), None)
    occupancies = next((name for name in OCCUPANCY_AXES if results.sizes.get(name, 1) > 1), None)
    hue = hue or occupancies or hue_axis(results["occupancy"], None, x)
    data = only(results[["occupancy"]].assign(reached=one_op(results, op)), x, hue)
    steep, flat = float(roofs["memory_roof"]), float(roofs["arithmetic_roof"])
    intensity = roofs["intensity"].where(np.isfinite(roofs["intensity"]) & (roofs["intensity"] > 0))
    ridge = flat / steep
    ends = np.array([np.fmin(intensity.min(), ridge) / 2, ridge, np.fmax(intensity.max(), ridge) * 2])
    ax.plot(ends, np.minimum(ends * steep, flat), color="black", linewidth=1.6, label="roof of memory, arithmetic", zorder=1)
    bound = roofs["throughput_bound"].where(intensity.notnull())
    dotted: dict[str, Any] = {"color": "#777777", "linestyle": ":", "linewidth": 1.6, "zorder": 1}
    ax.plot(intensity.values, bound.values, **dotted, label="roof of all units and issue")
    drawn = 0
    for number, (text, points) in enumerate(combinations(data, *([x] if x else []))):
        attained, reached = mean(points["occupancy"]), mean(points["reached"])
        reached = reached.where((reached > 0) & intensity.notnull())
        if not reached.count():  # an occupancy that the chip cannot hold, or that is not done
            continue
        drawn += int(reached.count())
        name = f"{float(attained.mean()):.3g} warps per SM" if hue in OCCUPANCY_AXES else text
        style = {**curve_style(number), "linestyle": "none"}
        ax.errorbar(intensity.values, reached.values, yerr=half_interval(points["reached"]), **style, label=name)
        roof = (roofs["warp_roof"] * attained).values
        line: dict[str, Any] = {"color": COLOURS[number], "linestyle": LINES[number], "marker": "" if x else "_"}
        ax.plot(intensity.values, roof, **line, linewidth=0.9)
    if drawn:
        ax.plot([], [], color="#555555", linewidth=0.9, label="roof of latency at these warps")
    else:
        say(ax, "no data")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(label(intensity.assign_attrs(roofs["intensity"].attrs)))
    ax.set_ylabel(wrapped(label(results["throughput"], f"{op} throughput")))
    finish(ax)
    legend(ax, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, columnspacing=1.0, handlelength=2.2)
    return ax

"""Any variable against any axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from warpsim.results.plots.curves import draw_curves
from warpsim.results.plots.needed_warps import needed, needed_label
from warpsim.results.plots.style import label
from warpsim.results.statistics import OCCUPANCY_AXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, y: str = "peak_fraction", hue: str | None = None
) -> Axes:
    """Any variable against any axis.

    Args:
        results: a result; all axes but `x` and `hue` must have been reduced to one value
            (`results.sel(...)`).
        ax: where to draw.
        x: an axis; left out: occupancy, or "alpha" for needed warps, or the first axis.
        y: a variable, or "needed_warps".
        hue: a dimension, one curve for each of its values; left out: "scheduler", if it is an axis.

    Raises:
        ValueError: no such variable or axis, or an axis is left over; the message lists what there is.
    """
    if y == "needed_warps":
        data: xr.Dataset | xr.DataArray = needed(results, 0.9)
    elif y in results.data_vars:
        data = results[y]
    else:
        raise ValueError(f"y = {y!r}: must be needed_warps or one of {', '.join(map(str, results.data_vars))}")
    own = [str(dim) for dim, size in data.sizes.items() if dim != "replicate" and (size > 1 or dim in (x, hue))]
    x = x or next(
        (
            name
            for name in ("alpha", *OCCUPANCY_AXES, *own)
            if name in own and (name != "alpha" or y == "needed_warps")
        ),
        None,
    )
    if x is None or x not in own:
        raise ValueError(f"x = {x!r}: must be one of {', '.join(own) or '(none: there is a single point)'}")
    hue = hue or ("scheduler" if "scheduler" in own and x != "scheduler" else None)
    if hue is not None and hue not in own:
        raise ValueError(f"hue = {hue!r}: must be one of {', '.join(own)}")
    left = [f"{dim} ({', '.join(map(str, data[dim].values.tolist()))})" for dim in own if dim not in (x, hue)]
    if left:
        raise ValueError(f"select one value of {'; '.join(left)}; or make it x or hue")
    single = [dim for dim, size in data.sizes.items() if size == 1 and dim not in ("replicate", x, hue)]
    draw_curves(ax, data.squeeze(single, drop=True), x)
    ax.set_ylabel(needed_label(0.9) if y == "needed_warps" else label(results[y]))
    return ax

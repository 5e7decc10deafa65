"""The kinds of pictures, by the name that the command line knows them by."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xarray as xr

from warpsim.views.plots.distribution import latency_distribution
from warpsim.views.plots.heatmap import heatmap
from warpsim.views.plots.latency import latency_vs_bandwidth
from warpsim.views.plots.lifelines import warp_lifelines
from warpsim.views.plots.lines import plot
from warpsim.views.plots.needed_warps import needed_warps_vs_alpha
from warpsim.views.plots.occupancy_time import occupancy_over_time
from warpsim.views.plots.roofline import roofline
from warpsim.views.plots.states import stacked_states
from warpsim.views.plots.style import COLUMN_INCHES
from warpsim.views.plots.throughput import throughput_vs_warps

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Kind:
    """One kind of picture.

    Attributes:
        draw: the function of (Dataset, ax) and options by keyword.
        height: of the figure, in inches; its width is a column of a paper.
    """

    draw: Callable[..., Axes]
    height: float = 2.6

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options."""
        return tuple(inspect.signature(self.draw).parameters)[2:]

    @property
    def text(self) -> str:
        """What it shows, in a line."""
        return (inspect.getdoc(self.draw) or "").partition("\n")[0]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return COLUMN_INCHES, self.height


KINDS = {
    "lines": Kind(plot),
    "throughput": Kind(throughput_vs_warps),
    "latency": Kind(latency_vs_bandwidth),
    "distribution": Kind(latency_distribution),
    "occupancy": Kind(occupancy_over_time, height=2.2),
    "lifelines": Kind(warp_lifelines, height=3.0),
    "states": Kind(stacked_states, height=2.9),
    "roofline": Kind(roofline, height=3.2),
    "heatmap": Kind(heatmap),
    "needed-warps": Kind(needed_warps_vs_alpha),
}


def draw(kind: str, results: xr.Dataset, ax: Axes, **options: Any) -> Axes:
    """Draw a picture of a kind.

    Raises:
        ValueError: there is no such kind, or it has no such option; the message lists what there is.
    """
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: must be one of {', '.join(KINDS)}")
    known = KINDS[kind].options
    for name in options:
        if name not in known:
            raise ValueError(f"{name}: is no option of kind {kind}; it has {', '.join(known) or 'none'}")
    return KINDS[kind].draw(results, ax, **options)

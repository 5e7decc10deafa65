"""The kinds of figures and their names on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xarray as xr

from warpsim.arguments import choice
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
    """One kind of figure.

    Attributes:
        draw: the function, which takes a Dataset, an `ax`, and options by keyword.
        height: height of the figure in inches; its width is a column of a paper.
    """

    draw: Callable[..., Axes]
    height: float = 2.9

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options."""
        return tuple(inspect.signature(self.draw).parameters)[2:]

    @property
    def text(self) -> str:
        """The first line of the docstring of `draw`."""
        return (inspect.getdoc(self.draw) or "").partition("\n")[0]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return COLUMN_INCHES, self.height


KINDS = {
    "lines": Kind(plot),
    "throughput": Kind(throughput_vs_warps),
    "latency": Kind(latency_vs_bandwidth),
    "distribution": Kind(latency_distribution, height=2.6),
    "occupancy": Kind(occupancy_over_time, height=2.2),
    "lifelines": Kind(warp_lifelines, height=3.0),
    "states": Kind(stacked_states),
    "roofline": Kind(roofline, height=3.2),
    "heatmap": Kind(heatmap, height=2.6),
    "needed-warps": Kind(needed_warps_vs_alpha),
}
"""Name on the command line -> kind; the first is the default."""


def draw(kind: str, results: xr.Dataset, ax: Axes, **options: Any) -> Axes:
    """Draws one kind of figure.

    Raises:
        ValueError: there is no such kind, or it has no such option. The message lists those that exist.
    """
    known = KINDS[choice("kind", kind, KINDS)].options
    for name in options:
        if name not in known:
            raise ValueError(f"{name}: is not an option of kind {kind}; it has {', '.join(known) or 'none'}")
    return KINDS[kind].draw(results, ax, **options)

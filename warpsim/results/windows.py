"""Whether a window is long enough for a confidence interval, and begins late enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.results.schema import FEW_ITERATIONS

if TYPE_CHECKING:
    import xarray as xr

SHORT_WINDOW = (
    f"the window holds fewer than {FEW_ITERATIONS} iterations of a warp, too few for a confidence interval; count more cycles"
)
"""What is wrong with the results of `short_windows`."""


def short_windows(results: xr.Dataset) -> xr.DataArray:
    """Returns at which points a window holds too few iterations of a warp for a confidence interval (`FEW_ITERATIONS`).

    Finite grids are counted as a whole, so that this does not apply to them.
    """
    held = results["warp_iterations"]
    return (held.mean("replicate") if "replicate" in held.dims else held) < FEW_ITERATIONS


MOST_OF_PEAK = 1.05
"""Share of the chip's peak that a settled run does not exceed, chance included."""

BEYOND_PEAK = (
    "the throughput exceeds the chip's peak: the window begins before the memory is under its full load, or holds too few "
    "iterations; have the warm-up derived, or count more cycles, and of a slice, compare with the whole chip"
)
"""What is wrong with results beyond `MOST_OF_PEAK`."""

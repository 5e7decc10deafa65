"""Warnings of windows that are too short or begin too early, of slices that stand badly for the chip, and of very long grids."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from warpsim.cli.common import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from warpsim.simulation.point import Point


def warn_of_short_windows(short: ArrayLike) -> None:
    """Warns of the points at which a window holds too few iterations (`results.windows.short_windows`)."""
    from warpsim.results.windows import SHORT_WINDOW

    _warn_of_points(short, SHORT_WINDOW)


def warn_beyond_peak(shares: ArrayLike) -> None:
    """Warns of the points at which the throughput, as a share of the chip's peak, exceeds `results.windows.MOST_OF_PEAK`."""
    import numpy as np

    from warpsim.results.windows import BEYOND_PEAK, MOST_OF_PEAK

    _warn_of_points(np.asarray(shares) > MOST_OF_PEAK, BEYOND_PEAK)


def _warn_of_points(concerned: ArrayLike, what: str) -> None:
    import numpy as np

    points = np.atleast_1d(concerned)
    number = int(points.sum())
    if number:
        where = "" if points.size == 1 else f"{counted(number, 'point')}: "
        logging.getLogger("warpsim").warning("%s%s", where, what)


LONG_GRID = 3 * 10**10
"""Warp instructions of all replicates from which on a finite grid is very long: at least five minutes."""


def warn_of_long_grids(point: Point) -> None:
    """Warns of a finite grid with very many instructions, before it runs."""
    from warpsim.simulation.limits import instructions_of_grid

    instructions = point.replicates * instructions_of_grid(point) if point.finite else 0
    if instructions >= LONG_GRID:
        logging.getLogger("warpsim").warning(
            "the grid executes at least %.2g warp instructions, of which a processor simulates 10 to 100 million a second; "
            "`warpsim time` takes samples of it, and fewer trips or blocks, or a window of an endless grid, take less time",
            instructions,
        )


def warn_of_free_stores(point: Point) -> None:
    """Warns of a slice with stores that no loads hold back."""
    from warpsim.simulation.point import free_stores

    if wrong := free_stores(point):
        logging.getLogger("warpsim").warning(wrong)


def warn_of_short_grids(point: Point) -> None:
    """Warns of a slice that runs few rounds of a grid's blocks."""
    from warpsim.simulation.point import FEW_ROUNDS

    if point.rounds_are_few:
        logging.getLogger("warpsim").warning(
            "the slice runs fewer than %d rounds of blocks: as its echoes begin late, and do not end, a vector add took up to a "
            "seventh less time than on the whole chip; leave out --sms",
            FEW_ROUNDS,
        )


def warn_of_small_grids(point: Point) -> None:
    """Warns of a grid that does not fill the chip, so that its blocks, and not the resources of an SM, limit the occupancy."""
    blocks, fit = point.launch.blocks, point.launch.resident_blocks
    if blocks is None or fit is None or point.launch.persistent or blocks > (fit - 1) * point.gpu.sms:
        return
    logging.getLogger("warpsim").warning(
        "a grid of %s puts at most %d on each of %s, where %d would fit: higher occupancies are not reached",
        counted(blocks, "block"), -(-blocks // point.gpu.sms), counted(point.gpu.sms, "SM"), fit,
    )  # fmt: skip

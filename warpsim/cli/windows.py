"""Warnings of windows that are too short for a confidence interval, and of grids that are too short for a slice."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from warpsim.cli.common import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from warpsim.simulation.point import Point


def warn_of_short_windows(short: ArrayLike) -> None:
    """Warns of the points at which a window holds too few iterations (`results.windows.short_windows`)."""
    import numpy as np

    from warpsim.results.windows import SHORT_WINDOW

    points = np.atleast_1d(short)
    few = int(points.sum())
    if few:
        where = "" if points.size == 1 else f"{counted(few, 'point')}: "
        logging.getLogger("warpsim").warning("%s%s", where, SHORT_WINDOW)


def warn_of_short_grids(point: Point) -> None:
    """Warns of a slice that runs few rounds of a grid's blocks."""
    from warpsim.simulation.point import FEW_ROUNDS

    if point.rounds_are_few:
        logging.getLogger("warpsim").warning(
            "the slice runs fewer than %d rounds of blocks: as its echoes begin late, and do not end, a vector add took up to a "
            "seventh less time than on the whole chip; leave out --sms",
            FEW_ROUNDS,
        )

"""The warning of windows that are too short for a confidence interval."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from warpsim.cli.common import counted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def warn_of_short_windows(short: ArrayLike) -> None:
    """Warns of the points at which a window holds too few iterations (`results.windows.short_windows`)."""
    import numpy as np

    from warpsim.results.windows import SHORT_WINDOW

    points = np.atleast_1d(short)
    few = int(points.sum())
    if few:
        where = "" if points.size == 1 else f"{counted(few, 'point')}: "
        logging.getLogger("warpsim").warning("%s%s", where, SHORT_WINDOW)

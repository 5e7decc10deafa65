"""Where the atomics of a launch meet: at few lines of memory that warps of all blocks update, or at ever new ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from warpsim.units import WARP_LANES

MOST_LINES = 128
"""Lines from above which on the updates of a launch are taken not to meet."""


@dataclass
class Contention:
    """The lines that one atomic instruction updates: one slice of L2 has a line, and updates it for one warp after another.

    Attributes:
        warps: line -> the first and the last of the sampled warps that update it; None: not all lines are known, or they are
            more than MOST_LINES.
    """

    warps: dict[int, tuple[int, int]] | None = field(default_factory=dict)

    def record(self, lines: NDArray[np.int64], active: NDArray[np.bool_]) -> None:
        """Notes one execution by several warps.

        Args:
            lines: int64[threads]; negative where the address is not known.
            active: bool[threads].
        """
        if self.warps is None:
            return
        here = np.broadcast_to(lines, active.shape)[active]
        warp = (np.arange(len(active)) // WARP_LANES)[active]
        pairs = np.unique(np.stack([here, warp]), axis=1) if len(here) else np.zeros((2, 0), np.int64)
        if (pairs[0] < 0).any() or len(np.unique(pairs[0])) > MOST_LINES:
            self.warps = None
            return
        for line, number in pairs.T.tolist():
            first, last = self.warps.get(line, (number, number))
            self.warps[line] = min(first, number), max(last, number)
        if len(self.warps) > MOST_LINES:
            self.warps = None

    def is_widened_by(self, other: Contention) -> bool:
        """Returns whether another execution updates lines that are new, so that each further one may."""
        return self.warps is not None and other.warps is not None and not other.warps.keys() <= self.warps.keys()

    def add(self, other: Contention, times: float) -> None:
        """Adds what another execution updates that stands for several; if that is new, the others of these updated more."""
        if self.warps is None or other.warps is None or (times != 1 and self.is_widened_by(other)):
            self.warps = None
            return
        for line, (first, last) in other.warps.items():
            old_first, old_last = self.warps.get(line, (first, last))
            self.warps[line] = min(first, old_first), max(last, old_last)

    def lines(self, block_warps: int, *, whole_grid: bool) -> int | None:
        """Returns how many lines all warps of the grid update; None: so many that they do not meet.

        Args:
            block_warps: warps of a block.
            whole_grid: whether all blocks have been sampled. Otherwise each line must be one that several blocks update.
        """
        if not self.warps:
            return None
        met = all(first // block_warps != last // block_warps for first, last in self.warps.values())
        return len(self.warps) if met or whole_grid else None

"""How long the pilots of a point are, from which its warm-up is derived, and how many there are. docs/model.md, section 7."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from warpsim.kernels.iteration import loaded_cycles

if TYPE_CHECKING:
    from warpsim.simulation.point import Point

PILOT = (1 << 64) - 1
"""Number of the replicate that is the pilot; further pilots have the numbers below."""

PILOT_SMS = 8
"""SMs that pilots simulate together, at least: a slice takes several pilots, since one shows slow transients less clearly."""

FEWEST_BATCHES, MOST_BATCHES = 20, 200
"""Batches of a pilot."""

PILOT_WINDOWS = 2
"""Length of the pilot in windows of the point, at most, if that leaves at least FEWEST_BATCHES."""

MOST_CYCLES = 10**9
"""Length of the pilot in cycles, at most."""

LEAST_BATCH = 256
"""Cycles of a batch, at least: the memory system answers more slowly than programs of a few instructions repeat."""

MARGIN = 3
"""Warm-up in units of what MSER-5 leaves out."""


def batch_cycles(point: Point) -> int:
    """Returns the length of a batch of the pilot: an iteration under load, within limits."""
    under_load = math.ceil(loaded_cycles(point.gpu, point.kernel, point.launch.resident_warps))
    return max(min(under_load, _most_cycles(point) // FEWEST_BATCHES), LEAST_BATCH)


def pilot_batches(point: Point) -> int:
    """Returns the number of batches of the pilot."""
    return min(max(_most_cycles(point) // batch_cycles(point), FEWEST_BATCHES), MOST_BATCHES)


def longest_spread(point: Point) -> int:
    """Returns the longest time within which the windows of a point's replicates begin, in cycles."""
    return _most_cycles(point)


def _most_cycles(point: Point) -> int:
    return min(PILOT_WINDOWS * point.cycles, MOST_CYCLES)


def pilots(point: Point) -> int:
    """Returns the number of pilots."""
    return -(-PILOT_SMS // point.simulated_sms)


def longest_warmup(point: Point) -> int:
    """Returns the longest warm-up that can be derived for a point, in cycles."""
    return (MARGIN * (pilot_batches(point) // 2) + 1) * batch_cycles(point)

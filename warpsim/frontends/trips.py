"""How registers and comparisons advance from one trip of a loop to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.integers import MASK, NOTHING, Values

Mask = NDArray[np.bool_]


@dataclass
class Trip:
    """The state at the start of a loop's last trip, and by how much each register had advanced since the trip before."""

    mask: Mask
    values: dict[str, Values]
    step: dict[str, Values] | None


def advance_of(before: dict[str, Values], after: dict[str, Values], mask: Mask) -> dict[str, Values] | None:
    """Returns by how much registers advanced, modulo 2^32, where threads are active; None where that says nothing."""
    steps = {}
    for name, value in after.items():
        old = before.get(name, NOTHING)
        if value is old:
            continue
        unknown = (value < 0) & mask
        if not np.array_equal(np.broadcast_to(unknown, mask.shape), np.broadcast_to((old < 0) & mask, mask.shape)):
            return None
        by = np.where((value < 0) | (old < 0) | ~mask, 0, (value - old) & MASK)
        if by.any():
            if name.lstrip("U").startswith("P"):
                return None
            steps[name] = by
    return steps


def advanced_evenly(before: list[Values], rates: list[Values], after: list[Values], trips: int, mask: Mask) -> bool:
    """Returns whether differences have advanced by their rates in some trips, and have not come to 0 or to its other side."""
    if len(before) != len(after):
        return False
    for old, rate, new in zip(before, rates, after, strict=True):
        if (((old + rate * trips != new) | (np.sign(old) != np.sign(new))) & mask).any():
            return False
    return True


def same_advance(a: dict[str, Values], b: dict[str, Values]) -> bool:
    """Returns whether the same registers have advanced, by the same amounts."""
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)

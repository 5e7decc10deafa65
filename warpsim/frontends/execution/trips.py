"""How registers and comparisons advance from one trip of a loop to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.operands import read
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import MASK, NOTHING, Values
from warpsim.units import WARP_LANES

Mask = NDArray[np.bool_]
Totals = dict[tuple[str, Any], NDArray[np.float64]]

_ZERO = np.zeros(())

_NONLINEAR = {"LOP3", "POPC", "FLO", "PRMT", "SGXT", "BMSK", "IABS", "BREV"}
"""Instructions whose results do not advance evenly with their operands, and may come back. So do the upper words of products and
shifts."""


def warps_of(mask: Mask) -> Mask:
    """Returns which warps have a thread: bool[warps]."""
    return np.asarray(mask.reshape(-1, WARP_LANES).any(axis=1))


@dataclass
class Trip:
    """The state at the start of a loop's last trip, and by how much each register had advanced since the trip before.

    `bases` are the registers that would hold other values if memory returned numbers that are made up.
    """

    mask: Mask
    values: dict[str, Values]
    step: dict[str, Values] | None
    bases: dict[str, Values]


@dataclass(frozen=True)
class Advance:
    """By how much registers advance in each group of so many trips; those that alternate come back to their values in it."""

    step: dict[str, Values]
    trips: int = 1


@dataclass(frozen=True)
class Executed:
    """What one trip of a loop did, or one group of trips.

    Attributes:
        differences: between the operands of its comparisons, in the order of their execution.
        totals: what was counted, by what it counts; 0 where it is absent.
    """

    differences: list[Values]
    totals: Totals


class Watch:
    """Follows in one trip which registers hold values that do not advance evenly, and whether a condition depends on them.

    Bits of a register that advances, such as its lowest four, come back to the same values after some trips. A condition on them
    can be the same in two trips and another one in between, so that trips must not be left out.

    Args:
        moving: the registers that advance.
    """

    def __init__(self, moving: Iterable[str]) -> None:
        self.moving, self.nonlinear = set(moving), set[str]()
        self.decides = False

    def follow(self, one: MachineInstruction, results: tuple[str, ...], known: Collection[str]) -> None:
        """Follows an instruction, which writes registers or predicates; of those that are not `known`, chance decides."""
        names = read(one)
        moves, is_nonlinear = not self.moving.isdisjoint(names), not self.nonlinear.isdisjoint(names)
        is_nonlinear |= moves and (one.base.removeprefix("U") in _NONLINEAR or ".HI" in one.opcode)
        for name in results:
            if name.lstrip("U").startswith("P"):
                self.decides |= is_nonlinear and name in known
                continue
            for members, belongs in ((self.moving, moves), (self.nonlinear, is_nonlinear)):
                (members.add if belongs and name in known else members.discard)(name)


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
        if (unknown & (value != old)).any():  # of a half that is known
            return None
        by = np.where((value < 0) | (old < 0) | ~mask, 0, (value - old) & MASK)
        if by.any():
            if name.lstrip("U").startswith("P"):
                return None
            steps[name] = by
    return steps


def advance_of_groups(earlier: Sequence[Trip], longest: int) -> Advance | None:
    """Returns by how much registers advanced in each of the last two groups of the same threads' trips; None: not by the same.

    Args:
        earlier: states at the start of trips, the latest last.
        longest: trips of a group, at most; the fewest are 2.
    """
    latest = earlier[-1]
    for trips in range(2, min(longest, (len(earlier) - 1) // 2) + 1):
        if not all(np.array_equal(each.mask, latest.mask) for each in earlier[-1 - 2 * trips :]):
            return None
        first, second = earlier[-1 - 2 * trips], earlier[-1 - trips]
        step = advance_of(second.values, latest.values, latest.mask)
        before = None if step is None else advance_of(first.values, second.values, latest.mask)
        if step is not None and before is not None and same_advance(step, before):
            return Advance(step, trips)
    return None


def growth_of(before: Executed, after: Executed) -> Executed:
    """Returns by how much comparisons and totals grew from one trip to the next."""
    differences = [new - old for old, new in zip(before.differences, after.differences, strict=True)]
    keys = before.totals.keys() | after.totals.keys()
    return Executed(differences, {key: after.totals.get(key, _ZERO) - before.totals.get(key, _ZERO) for key in keys})


def totals_after(last: Executed, growth: Executed, trips: int = 1) -> Totals:
    """Returns the totals of a trip that many trips after another, if they grow evenly."""
    return {key: last.totals.get(key, _ZERO) + by * trips for key, by in growth.totals.items()}


def grew_evenly(last: Executed, growth: Executed, met: Executed, trips: int, mask: Mask) -> bool:
    """Returns whether all grew evenly in some trips, and no difference came to 0 or to its other side."""
    if len(last.differences) != len(met.differences):
        return False
    for old, by, new in zip(last.differences, growth.differences, met.differences, strict=True):
        if (((old + by * trips != new) | (np.sign(old) != np.sign(new))) & mask).any():
            return False
    expected = totals_after(last, growth, trips)
    return expected.keys() >= met.totals.keys() and all(
        bool((value == met.totals.get(key, _ZERO)).all()) for key, value in expected.items()
    )


def trips_before_change(last: Executed, growth: Executed, mask: Mask) -> int | None:
    """Returns in how many further trips all comparisons come out as in the last one, if their operands go on as they did.

    None: no operands of a comparison come nearer to each other.
    """
    fewest: float | None = None
    for apart, by in zip(last.differences, growth.differences, strict=True):
        meets = mask & (by != 0) & (apart * np.sign(by) <= 0)
        if meets.any():
            size, per_trip = (np.abs(np.broadcast_to(each, mask.shape)[meets]) for each in (apart, by))
            trips = float(np.maximum(np.ceil(size / per_trip) - 1, 0).min())
            fewest = trips if fewest is None else min(fewest, trips)
    return None if fewest is None else int(fewest)


def same_advance(a: dict[str, Values], b: dict[str, Values]) -> bool:
    """Returns whether the same registers have advanced, by the same amounts."""
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)

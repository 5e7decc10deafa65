"""Trips of loops: what stands for them where warps, or entries, repeat a loop unequally often."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.program.conditions import Counts, total
from warpsim.kernels.statements import MAX_TRIPS, Conditional, Loop, Statement
from warpsim.kernels.traversal import has_op, walk

_UNEVEN = 0.1
"""Share of the mean trips of a loop by which those of two warps may differ before it is said that the mean stands for them."""

_LONG_LOOP = 50
"""Trips from which on a fraction of a trip is rounded."""


@dataclass
class _Fraction:
    """A loop with barriers, which all warps of a block repeat equally often, whose mean trips are no whole number.

    Attributes:
        loop: the statement, with whole trips.
        mean: its mean trips, at least 1.
        note: what is said where it has whole trips; empty: nothing.
        is_met: whether it has one trip more in some trips of the loop around it.
    """

    loop: Loop
    mean: float
    note: str
    is_met: bool = False


class Trips:
    """Repeats bodies of loops.

    Args:
        weights: what each warp stands for.
        tolerance: trips that are none.
        notes: takes what is said of trips that differ.
    """

    def __init__(self, weights: Counts, tolerance: float, notes: list[str]) -> None:
        self.weights, self.tolerance, self.notes = weights, tolerance, notes
        self.fractions: list[_Fraction] = []

    def repeat(self, where: str, runs: Counts, entries: Counts, body: list[Statement]) -> list[Statement]:
        """Returns a body, repeated as often as its warps did on average over warps and entries; `where` names the loop."""
        mean = total(runs, self.weights) / total(entries, self.weights)
        if not body or mean <= self.tolerance:
            return []
        each = _rounded(runs[entries > 0] / entries[entries > 0])
        low, high = math.floor(each.min()), math.ceil(each.max())
        if high > MAX_TRIPS:
            raise FrontEndError(f"the loop at {where}: {each.max():.6g} trips: must be at most {MAX_TRIPS}")
        has_barrier = has_op(body, "barrier")
        if low >= 1 and high > low and not has_barrier and _are_even(each, (self.weights * entries)[entries > 0], low, high):
            return [Loop(body=tuple(body), trips=(low, high))]
        for_all = max(1, round(mean)) if has_barrier else mean  # warps of a block must come to a barrier equally often
        trips = f"{each.min():g} to {each.max():g} trips, by warp" if each.max() > each.min() else f"{mean:g} trips"
        note = f"the loop at {where}: {trips}: {for_all:.4g} stand for all"
        differ = high - low > max(1.0, _UNEVEN * mean)
        note_if_whole = note if not differ and abs(mean - for_all) > _UNEVEN * mean else ""
        whole = math.floor(mean + 1e-9)
        part = mean - whole
        is_whole = (whole and part < max(0.02, 0.02 * whole)) or whole >= _LONG_LOOP
        if differ:
            self.notes.append(note)
        if has_barrier and whole and not is_whole and not self._fractions_in(body):
            loop = Loop(body=tuple(body), trips=round(for_all))
            self.fractions.append(_Fraction(loop, mean, note_if_whole))
            return [loop]
        if has_barrier:
            self.notes += [note_if_whole] if note_if_whole else []
            return self._in_parts(body, round(for_all))
        if is_whole:
            return _repeated(body, max(1, round(mean)))
        once = Conditional(then=tuple(body), probability=part)
        return [*_repeated(body, whole), once] if whole else [once]

    def _in_parts(self, body: list[Statement], trips: int) -> list[Statement]:
        """Returns a body that is repeated: in the last trips the loops with a fraction of a trip have one trip more.

        So loops over stages, such as those of a bitonic sort, execute as much as on average, and all warps the same.
        """
        inside = self._fractions_in(body)
        if trips == 1 or not inside:
            return _repeated(body, trips)
        more = {id(one.loop): trips - round(trips * (one.mean % 1)) for one in inside}  # from which trip on they have one more
        edges = sorted({0, *more.values(), trips})
        out: list[Statement] = []
        for begin, end in pairwise(edges):
            own = {id(one.loop): math.floor(one.mean) + (begin >= more[id(one.loop)]) for one in inside}
            out += _repeated(_with_trips(body, own), end - begin)
        for one in inside:
            one.is_met = True
        return out

    def _fractions_in(self, body: list[Statement]) -> list[_Fraction]:
        """Returns the loops of a body with a fraction of a trip."""
        known = {id(one.loop): one for one in self.fractions}
        return [known[id(one)] for _, one in walk(tuple(body)) if id(one) in known]

    def end(self) -> None:
        """Notes which loops have whole trips instead of a fraction, once the whole program is known."""
        self.notes += [one.note for one in self.fractions if one.note and not one.is_met]


def _with_trips(statements: Iterable[Statement], trips: Mapping[int, int]) -> list[Statement]:
    """Returns statements in which some loops, by their identity, have other numbers of trips."""
    out: list[Statement] = []
    for one in statements:
        if isinstance(one, Loop):
            out += _repeated(list(one.body), trips[id(one)]) if id(one) in trips else [one]
        elif isinstance(one, Conditional):
            sides = {"then": tuple(_with_trips(one.then, trips)), "orelse": tuple(_with_trips(one.orelse, trips))}
            out.append(one.model_copy(update=sides))
        else:
            out.append(one)
    return out


def _rounded(trips: Counts) -> Counts:
    """Returns mean numbers of trips without what calculations add to whole ones."""
    whole = trips.round()
    return np.where(np.isclose(trips, whole, rtol=1e-15, atol=5e-7), whole, trips.round(6))


def _are_even(numbers: Counts, weights: Counts, low: int, high: int) -> bool:
    """Whether numbers could be drawn from all integers of a range alike, by their mean and their variance.

    If the range is the two integers next to a mean, nothing is known of a variance.
    """
    mean = np.average(numbers, weights=weights)
    variance, expected = np.average((numbers - mean) ** 2, weights=weights), ((high - low + 1) ** 2 - 1) / 12
    is_spread = high - low == 1 or abs(variance - expected) < 0.2 * expected
    return bool(abs(mean - (low + high) / 2) < 0.02 * mean and is_spread)


def _repeated(body: list[Statement], trips: int) -> list[Statement]:
    return [Loop(body=tuple(body), trips=trips)] if trips > 1 else body

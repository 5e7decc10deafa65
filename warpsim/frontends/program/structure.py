"""Programs from counts: how often each warp executed each block decides what is a loop, and what stands under a condition.

Blocks come in an order that follows the flow, so no structure of the source is needed. Within a loop, trips are executions of its
header over entries. A block that only some warps execute stands in a conditional; neighbours that complement each other are its
two sides. Where chance decides at a conditional, other warps come to a side than those that were counted there, so that those
that come in the program (`come`) are followed beside the counts. Counts that are known in sum only take the same path: one
"warp" that holds the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.flow import Flow, place
from warpsim.kernels.instruction import Cost, Instruction
from warpsim.kernels.program import ends_with_exit
from warpsim.kernels.statements import MAX_TRIPS, Conditional, Loop, Statement
from warpsim.kernels.traversal import has_op, mapped, walk

Counts = NDArray[np.float64]

Tasks = tuple[tuple[int, ...], tuple[int, ...]]
"""The numbers of the warps that execute a side of a conditional, and of those that do not; none: not known."""

Emit = Callable[[int, Counts], list[Statement]]
"""Returns the instructions of a block, to which each warp comes in the program in proportion to a number."""

_UNEVEN = 0.1
"""Share of the mean trips of a loop by which those of two warps may differ before it is said that the mean stands for them."""

_LONG_LOOP = 50
"""Trips from which on a fraction of a trip is rounded."""

_MOSTLY = 0.5
"""Share of the executions by some warps alone from which on it is not left to chance which warps execute a side."""

_NEARLY = 0.05
"""Relative difference of the executions of a side in the program from those that were counted that is not corrected."""


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


@dataclass(frozen=True)
class _Item:
    """A block, or an inner loop as a whole, with how often each warp came to it."""

    block: int | None
    loop: int | None
    counts: Counts


class Structure:
    """Makes statements of a flow and its counts.

    Args:
        flow: blocks and loops.
        counts: block -> executions by each warp.
        entries: loop -> entries by each warp.
        weights: what each warp stands for.
        warp_in_block: number of each warp in its block; None: conditions are stated by probability only.
        emit: returns the instructions of a block.
        stated: block -> probability that a warp does not jump at its end, where it is known better than from the counts.
        tolerance: share of executions that may be missing where all warps are taken to come.
        specialised: warps of a block of which some have other tasks than others, by counts that are known in sum only; 0: they
            have none. Then a share of the executions, outside of loops, is that of so many warps, the first ones that come.
    """

    def __init__(
        self,
        flow: Flow,
        counts: Mapping[int, Counts],
        entries: Mapping[int, Counts],
        weights: Counts,
        warp_in_block: NDArray[np.int64] | None,
        emit: Emit,
        stated: Mapping[int, float] | None = None,
        tolerance: float = 1e-9,
        specialised: int = 0,
    ) -> None:
        self.flow, self.counts, self.entries, self.weights = flow, counts, entries, weights
        self.warp_in_block, self.emit, self.tolerance = warp_in_block, emit, tolerance
        self.stated, self.specialised = stated or {}, specialised
        self.last: int | None = None
        self.none = np.zeros_like(weights)
        self.innermost = flow.innermost()
        self.notes: list[str] = []
        self.fractions: list[_Fraction] = []

    def body(self) -> list[Statement]:
        """Returns the statements of the whole program."""
        loop = self.flow.loop_at().get(0)
        here = self.counts.get(0, self.none) if loop is None else self.entries.get(loop, self.none)
        statements = self._sequence(self._items(None), here, here, top=True, members=tuple(range(self.specialised)))
        while ends_with_exit(statements):
            statements.pop()
        self.notes += [one.note for one in self.fractions if one.note and not one.is_met]
        return statements

    def _items(self, loop: int | None) -> list[_Item]:
        """Returns the blocks and the inner loops that stand directly in a loop, in order; None: in the program."""
        items: list[_Item] = []
        seen: set[int] = set()
        inside = range(len(self.flow.blocks)) if loop is None else sorted(self.flow.loops[loop].blocks)
        for block in inside:
            inner = self.innermost[block]
            while inner is not None and inner != loop and self.flow.loops[inner].parent != loop:
                inner = self.flow.loops[inner].parent
            if inner is None or inner == loop:
                items.append(_Item(block, None, self.counts.get(block, self.none)))
            elif inner not in seen:
                seen.add(inner)
                items.append(_Item(None, inner, self.entries.get(inner, self.none)))
        return [item for item in items if self._sum(item.counts) > self.tolerance]

    def _sum(self, counts: Counts) -> float:
        return float((counts * self.weights).sum())

    def _sequence(
        self, items: list[_Item], here: Counts, come: Counts, *, top: bool = False, members: tuple[int, ...] = ()
    ) -> list[Statement]:
        """Returns the statements of items in a place to which the warps came `here` times, and these once if they have tasks.

        In the program they come in proportion to `come`.
        """
        out: list[Statement] = []
        at = 0
        while at < len(items):
            if top:
                here, come, members = self.ends_with_exit(out, items[at:], here, come, members)
            if self._covers(items[at].counts, here):
                out += self._inline(items[at], come)
                at += 1
                continue
            end = at + 1
            while end < len(items) and self._within(items[end].counts, items[at].counts):
                end += 1
            side, before = items[at:end], self.last
            taken = side[0].counts
            chosen, left = self._chosen(taken, here, members)
            if top and self._leaves(side[-1]) and self._makes(items[end:], here - taken):
                rule, inside, outside = self._split(taken, here, come)
                then = [*self._sequence(side, taken, inside, members=chosen), Instruction("exit")]
                self._conditional(out, taken, here, rule, then, [], (chosen, left))
                here, come, members = here - taken, outside, left
                at = end
                continue
            other_end = end
            if end < len(items) and self._complements(taken, items[end].counts, here):
                other_end = end + 1
                while other_end < len(items) and self._within(items[other_end].counts, items[end].counts):
                    other_end += 1
            other, stated = items[end:other_end], self._stated(before, side[0])
            rule, inside, outside = self._split(taken, here, come, stated)
            then = self._sequence(side, taken, inside, members=chosen)
            if not then and other:
                side, other, chosen, left, stated = other, [], left, chosen, None if stated is None else 1 - stated
                rule, inside, outside = self._split(here - taken, here, come, stated)
                then, taken = self._sequence(side, side[0].counts, inside, members=chosen), here - taken
            orelse = self._sequence(other, other[0].counts, outside, members=left) if other else []
            self._conditional(out, taken, here, rule, then, orelse, (chosen, left))
            at = other_end
        return out

    def _chosen(self, taken: Counts, here: Counts, members: tuple[int, ...]) -> Tasks:
        """Returns which warps execute a side, and which do not, if whole warps make up its share of those that come."""
        count = len(members) * self._sum(taken) / self._sum(here)
        first = round(count)
        return (members[:first], members[first:]) if abs(count - first) <= self.tolerance * len(members) else ((), ())

    def ends_with_exit(
        self, out: list[Statement], rest: list[_Item], here: Counts, come: Counts, members: tuple[int, ...]
    ) -> tuple[Counts, Counts, tuple[int, ...]]:
        """Lets those warps exit that come to nothing that is left; returns how many come on, also in the program, and which."""
        ahead = np.minimum(self._most(rest), here)
        if self._covers(ahead, here) or not (out and isinstance(out[-1], Instruction) and out[-1].op == "branch"):
            return here, come, members
        on, off = self._chosen(ahead, here, members)
        rule, _, outside = self._split(here - ahead, here, come)
        self._conditional(out, here - ahead, here, rule, [Instruction("exit")], [], (off, on))
        return ahead, outside, on

    def _split(
        self, taken: Counts, here: Counts, come: Counts, stated: float | None = None
    ) -> tuple[dict[str, Any], Counts, Counts]:
        """Returns the rule of a conditional, and how the warps come to both of its sides in the program."""
        rule: dict[str, Any] = {"probability": stated}
        if stated is None:
            rule = which_warps(taken, here, come, self.weights, self.warp_in_block)
        inside: Counts = come * rule.get("probability", 1.0)
        if self.warp_in_block is not None and "warps" in rule:
            inside = np.where(np.isin(self.warp_in_block, rule["warps"]), inside, 0.0)
        return rule, inside, come - inside

    def _most(self, items: list[_Item]) -> Counts:
        most = self.none
        for item in items:
            most = np.maximum(most, item.counts)
        return most

    def _leaves(self, item: _Item) -> bool:
        return item.block is not None and not self.flow.blocks[item.block].successors

    def _covers(self, counts: Counts, here: Counts) -> bool:
        return self._sum(np.maximum(here - counts, 0)) <= self.tolerance * self._sum(here)

    def _within(self, inner: Counts, outer: Counts) -> bool:
        return self._sum(np.maximum(inner - outer, 0)) <= self.tolerance * self._sum(outer)

    def _makes(self, items: list[_Item], runs: Counts) -> bool:
        """Whether items are executed as often as some runs, neither more rarely nor more often."""
        return self._covers(self._most(items), runs) and self._within(self._most(items), runs)

    def _complements(self, a: Counts, b: Counts, here: Counts) -> bool:
        return self._sum(np.abs(a + b - here)) <= max(self.tolerance, 1e-9) * self._sum(here)

    def _inline(self, item: _Item, come: Counts) -> list[Statement]:
        if item.block is not None:
            self.last = item.block
            return self.emit(item.block, come)
        assert item.loop is not None
        return self._loop(item.loop, come)

    def _stated(self, before: int | None, side: _Item) -> float | None:
        """Returns the probability of a side that follows a branch whose probability is stated."""
        if before is None or before not in self.stated or side.block is None:
            return None
        block, falls = self.flow.blocks[before], self.stated[before]
        return falls if side.block == block.following else 1 - falls if side.block in block.targets else None

    def _conditional(
        self,
        out: list[Statement],
        taken: Counts,
        here: Counts,
        rule: dict[str, Any],
        then: list[Statement],
        orelse: list[Statement],
        tasks: Tasks,
    ) -> None:
        """Adds a conditional, by `tasks` where the warps of its sides are known; the branch before it becomes its own."""
        last = out[-1] if out else None
        branch = last if isinstance(last, Instruction) and last.op == "branch" else None
        if branch is not None:
            out.pop()
        if not then:
            if branch is not None:
                out.append(branch)
            return
        share = min(1.0, self._sum(taken) / self._sum(here))
        own = {} if branch is None else {"src": branch.src, "cost": branch.cost}
        if tasks[0]:
            if has_op((*then, *orelse), "barrier"):
                self.notes.append("a barrier is of some warps of a block, which have a task of their own: nobody waits there")
                then, orelse = without_barriers(then), without_barriers(orelse)
            out.append(under({"warps": tasks[0]}, then, orelse, **own))
            return
        sides = _between_barriers(then), _between_barriers(orelse)
        if len(sides[0]) == len(sides[1]) > 1:  # warps of both meet at barriers, wherever these stand
            out += _around_barriers(rule, *sides, own)
            return
        most, rest = (then, orelse) if share >= 0.5 else (orelse, then)
        if has_op(most, "barrier") and not ends_with_exit(most):
            holds = f"a barrier stands under a condition, which holds in {max(share, 1 - share):.0%} of its executions"
            self.notes.append(f"{holds}: all warps of a block are taken to come to it each time")
            if has_op(rest, "barrier") or len(max(sides, key=len)) == 1:
                out += [*([branch] if branch is not None else []), *most]
            else:
                out += _around_barriers(rule, *sides, own)
            return
        if has_op((*then, *orelse), "barrier"):
            holds = f"a barrier stands under a condition, which holds in {min(share, 1 - share):.2g} of its executions"
            self.notes.append(f"{holds}: nobody waits there")
            then, orelse = without_barriers(then), without_barriers(orelse)
        out.append(under(rule, then, orelse, **own))

    def _loop(self, loop: int, come: Counts) -> list[Statement]:
        """Returns a loop. Where it is left in the middle, what stands before comes once more."""
        header = self.flow.loops[loop].header
        runs, entries = self.counts[header], self.entries[loop]
        items = self._items(loop)
        middle = next((k for k, item in enumerate(items) if not self._covers(item.counts, runs)), len(items))
        back = runs - entries
        rest = items[middle:]
        if rest and self._makes(rest, back):
            first = [statement for item in items[:middle] for statement in self._inline(item, come)]
            full = self._trips(header, back, entries, [*first, *self._sequence(rest, back, come)])
            return [*full, *first]
        return self._trips(header, runs, entries, self._sequence(items, runs, come))

    def _trips(self, header: int, runs: Counts, entries: Counts, body: list[Statement]) -> list[Statement]:
        """Returns a body that is repeated as often as its warps did, on average over warps and entries."""
        mean = self._sum(runs) / self._sum(entries)
        if not body or mean <= self.tolerance:
            return []
        each = _rounded(runs[entries > 0] / entries[entries > 0])
        low, high = math.floor(each.min()), math.ceil(each.max())
        where = place(self.flow.function, self.flow.blocks[header].code[0])
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


def which_warps(
    taken: Counts, here: Counts, come: Counts, weights: Counts, warp_in_block: NDArray[np.int64] | None
) -> dict[str, Any]:
    """Returns the rule of a conditional: the numbers of the warps that execute its side, or the share of the executions that do.

    The numbers of the warps in their blocks are the rule if they alone decide. Both are, if all others never execute the side,
    and these mostly do. Where too many or too few of these warps come in the program, the share is the rule.

    Args:
        taken: executions of the side by each warp.
        here: executions of the branch before it by each warp.
        come: how the executions of that branch in the program are spread over the warps.
        weights: what each warp stands for.
        warp_in_block: number of each warp in its block; None: only the share is asked for.
    """
    if warp_in_block is not None and come.any() and (numbers := _executing_numbers(taken, here, warp_in_block)):
        chosen = np.isin(warp_in_block, numbers)
        come = come * _share(here, come, weights)
        share = _share(taken[chosen], come[chosen], weights[chosen])
        sides = (taken * weights).sum(), ((here - taken) * weights).sum()
        wrong = abs(((taken - np.where(chosen, come, 0.0)) * weights).sum())
        if (taken >= here)[chosen].all() and wrong <= _NEARLY * min(sides):
            return {"warps": numbers}
        if _MOSTLY <= share < 1:
            return {"warps": numbers, "probability": share}
    return {"probability": min(1.0, _share(taken, here, weights))}


def _share(taken: Counts, here: Counts, weights: Counts) -> float:
    """Returns the executions of a side by those of the branch before it."""
    come = float((here * weights).sum())
    return float((taken * weights).sum()) / come if come else math.inf


def _executing_numbers(taken: Counts, here: Counts, warp_in_block: NDArray[np.int64]) -> tuple[int, ...]:
    """Returns the numbers of the warps that execute a side at times; none if these are all that come to it."""
    come, execute = (set(warp_in_block[each > 0].tolist()) for each in (here, taken))
    return tuple(sorted(execute)) if execute < come else ()


_Parts = list[tuple[list[Statement], list[Statement]]]
"""Parts of a side of a conditional, each with the barrier behind it, if there is one."""


def _between_barriers(statements: list[Statement]) -> _Parts:
    """Returns what stands between barriers; one part only where barriers stand deeper."""
    parts: _Parts = [([], [])]
    for one in statements:
        if isinstance(one, Instruction) and one.op == "barrier":
            parts[-1][1].append(one)
            parts.append(([], []))
        elif has_op((one,), "barrier"):
            return [(statements, [])]
        else:
            parts[-1][0].append(one)
    return parts


def _around_barriers(rule: dict[str, Any], then: _Parts, orelse: _Parts, own: Mapping[str, Any]) -> list[Statement]:
    """Returns a conditional for each part of its sides, and between them the barriers, at which all warps wait."""
    found: list[Statement] = []
    for (before, barrier), (otherwise, other_barrier) in zip_longest(then, orelse, fillvalue=([], [])):
        if before or otherwise:
            fields = own if not found else {"cost": Cost(gap_cycles=1)}
            found.append(under(rule, before or [Instruction("branch", cost=Cost(gap_cycles=1))], otherwise, **fields))
        found += barrier or other_barrier
    return found


def without_barriers(statements: list[Statement]) -> list[Statement]:
    """Returns statements in which no warp waits at a barrier."""

    def edit(one: Instruction) -> Instruction:
        return Instruction("branch", cost=Cost(gap_cycles=1), comment=one.comment) if one.op == "barrier" else one

    return list(mapped(statements, edit))


def under(rule: dict[str, Any], then: list[Statement], orelse: list[Statement], **fields: Any) -> Conditional:
    """Returns statements under the rule of a conditional; where it has two, chance decides within the warps of the first."""
    if len(rule) == 1:
        return Conditional(then=tuple(then), orelse=tuple(orelse), **rule, **fields)
    by_chance = Conditional(then=tuple(then), orelse=tuple(orelse), probability=rule["probability"], cost=Cost(gap_cycles=1))
    return Conditional(then=(by_chance,), orelse=tuple(orelse), warps=rule["warps"], **fields)

"""Programs from counts: how often each warp executed each block decides what is a loop, and what stands under a condition.

Blocks come in an order that follows the flow, so no structure of the source is needed. Within a loop, trips are executions of its
header over entries. A block that only some warps execute stands in a conditional; neighbours that complement each other are its
two sides. Where chance decides at a conditional, other warps come to a side than those that were counted there, so that those
that come in the program (`come`) are followed beside the counts. Counts that are known in sum only take the same path: one
"warp" that holds the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.flow import Flow, place
from warpsim.frontends.program.conditions import (
    Counts,
    around_barriers,
    between_barriers,
    total,
    under,
    which_warps,
    without_barriers,
)
from warpsim.frontends.program.trips import Trips
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import ends_with_exit
from warpsim.kernels.statements import Statement
from warpsim.kernels.traversal import has_op

Tasks = tuple[tuple[int, ...], tuple[int, ...]]
"""The numbers of the warps that execute a side of a conditional, and of those that do not; none: not known."""

Emit = Callable[[int, Counts], list[Statement]]
"""Returns the instructions of a block, to which each warp comes in the program in proportion to a number."""


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
        self.trips = Trips(weights, tolerance, self.notes)

    def body(self) -> list[Statement]:
        """Returns the statements of the whole program."""
        loop = self.flow.loop_at().get(0)
        here = self.counts.get(0, self.none) if loop is None else self.entries.get(loop, self.none)
        statements = self._sequence(self._items(None), here, here, top=True, members=tuple(range(self.specialised)))
        while ends_with_exit(statements):
            statements.pop()
        self.trips.end()
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
        return total(counts, self.weights)

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
        sides = between_barriers(then), between_barriers(orelse)
        if len(sides[0]) == len(sides[1]) > 1:  # warps of both meet at barriers, wherever these stand
            out += around_barriers(rule, *sides, own)
            return
        most, rest = (then, orelse) if share >= 0.5 else (orelse, then)
        if has_op(most, "barrier") and not ends_with_exit(most):
            holds = f"a barrier stands under a condition, which holds in {max(share, 1 - share):.0%} of its executions"
            self.notes.append(f"{holds}: all warps of a block are taken to come to it each time")
            if has_op(rest, "barrier") or len(max(sides, key=len)) == 1:
                out += [*([branch] if branch is not None else []), *most]
            else:
                out += around_barriers(rule, *sides, own)
            return
        if has_op((*then, *orelse), "barrier"):
            holds = f"a barrier stands under a condition, which holds in {min(share, 1 - share):.2g} of its executions"
            self.notes.append(f"{holds}: nobody waits there")
            then, orelse = without_barriers(then), without_barriers(orelse)
        out.append(under(rule, then, orelse, **own))

    def _loop(self, loop: int, come: Counts) -> list[Statement]:
        """Returns a loop. Where it is left in the middle, what stands before comes once more."""
        header = self.flow.loops[loop].header
        where = place(self.flow.function, self.flow.blocks[header].code[0])
        runs, entries = self.counts[header], self.entries[loop]
        items = self._items(loop)
        middle = next((k for k, item in enumerate(items) if not self._covers(item.counts, runs)), len(items))
        back = runs - entries
        rest = items[middle:]
        if rest and self._makes(rest, back):
            first = [statement for item in items[:middle] for statement in self._inline(item, come)]
            full = self.trips.repeat(where, back, entries, [*first, *self._sequence(rest, back, come)])
            return [*full, *first]
        return self.trips.repeat(where, runs, entries, self._sequence(items, runs, come))

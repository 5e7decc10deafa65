"""Conditions: which warps execute a side of a conditional, or what share of its executions; and barriers under one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.kernels.instruction import Cost, Instruction
from warpsim.kernels.statements import Conditional, Statement
from warpsim.kernels.traversal import has_op, mapped

Counts = NDArray[np.float64]
"""How often each warp executes something."""

_MOSTLY = 0.5
"""Share of the executions by some warps alone from which on it is not left to chance which warps execute a side."""

_NEARLY = 0.05
"""Relative difference of the executions of a side in the program from those that were counted that is not corrected."""


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
        sides = total(taken, weights), total(here - taken, weights)
        wrong = abs(total(taken - np.where(chosen, come, 0.0), weights))
        if (taken >= here)[chosen].all() and wrong <= _NEARLY * min(sides):
            return {"warps": numbers}
        if _MOSTLY <= share < 1:
            return {"warps": numbers, "probability": share}
    return {"probability": min(1.0, _share(taken, here, weights))}


def total(counts: Counts, weights: Counts) -> float:
    """Returns how often all warps execute something; `weights` says what each warp stands for."""
    return float((counts * weights).sum())


def _share(taken: Counts, here: Counts, weights: Counts) -> float:
    """Returns the executions of a side by those of the branch before it."""
    come = total(here, weights)
    return total(taken, weights) / come if come else math.inf


def _executing_numbers(taken: Counts, here: Counts, warp_in_block: NDArray[np.int64]) -> tuple[int, ...]:
    """Returns the numbers of the warps that execute a side at times; none if these are all that come to it."""
    come, execute = (set(warp_in_block[each > 0].tolist()) for each in (here, taken))
    return tuple(sorted(execute)) if execute < come else ()


Parts = list[tuple[list[Statement], list[Statement]]]
"""Parts of a side of a conditional, each with the barrier behind it, if there is one."""


def between_barriers(statements: list[Statement]) -> Parts:
    """Returns what stands between barriers; one part only where barriers stand deeper."""
    parts: Parts = [([], [])]
    for one in statements:
        if isinstance(one, Instruction) and one.op == "barrier":
            parts[-1][1].append(one)
            parts.append(([], []))
        elif has_op((one,), "barrier"):
            return [(statements, [])]
        else:
            parts[-1][0].append(one)
    return parts


def around_barriers(rule: dict[str, Any], then: Parts, orelse: Parts, own: Mapping[str, Any]) -> list[Statement]:
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

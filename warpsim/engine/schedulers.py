"""Scheduling policies: each picks one warp of a set that is not empty. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.bits import NONE, after, at, bit, first, rest, size
from warpsim.engine.jit import inline
from warpsim.engine.rng import mix, step, uniform
from warpsim.engine.state import WARPS, Policy

_LRR, _GTO, _OLDEST, _RANDOM = int(Policy.LRR), int(Policy.GTO), int(Policy.OLDEST), int(Policy.RANDOM)


@inline
def loose_round_robin(issuable, sm, s):
    """The first in circular slot order after the warp that issued last."""
    later = after(issuable, sm.last[at(s)])
    return first(later if later != NONE else issuable)


@inline
def oldest(issuable, sm, warps):
    """The warp that was launched first on this SM."""
    pick = first(issuable)
    if sm.reused == 0:  # slots were filled in order, so that slot order is age
        return pick
    others = rest(issuable)
    while others != NONE:
        slot = first(others)
        others = rest(others)
        if warps[at(sm.index * WARPS + slot)].age < warps[at(sm.index * WARPS + pick)].age:
            pick = slot
    return pick


@inline
def greedy_then_oldest(issuable, sm, s, warps):
    """The warp that issued last, if it can; otherwise the oldest (Rogers, O'Connor & Aamodt 2012)."""
    greedy = sm.greedy[at(s)]
    if greedy >= 0 and (issuable & bit(greedy)) != NONE:
        return np.int64(greedy)
    return oldest(issuable, sm, warps)


@inline
def random_warp(issuable, sm, s):
    """Any of them, equally likely; one draw from the scheduler's own stream."""
    sm.stream[at(s)] = step(sm.stream[at(s)])
    for _ in range(np.int64(uniform(mix(sm.stream[at(s)])) * size(issuable))):
        issuable = rest(issuable)
    return first(issuable)


@inline
def pick(policy, issuable, sm, s, warps):
    """The slot of the warp that scheduler s of an SM issues, out of a set that is not empty."""
    if policy == _LRR:
        return loose_round_robin(issuable, sm, s)
    if policy == _GTO:
        return greedy_then_oldest(issuable, sm, s, warps)
    if policy == _OLDEST:
        return oldest(issuable, sm, warps)
    if policy == _RANDOM:
        return random_warp(issuable, sm, s)
    raise ValueError("unknown scheduling policy")

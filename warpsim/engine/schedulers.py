"""Scheduling policies: each picks one warp of a set that is not empty. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.bits import NONE, after, bit, first, rest, size
from warpsim.engine.jit import inline
from warpsim.engine.rng import mix, step, uniform
from warpsim.engine.state import Policy

_LRR, _GTO, _OLDEST, _RANDOM = int(Policy.LRR), int(Policy.GTO), int(Policy.OLDEST), int(Policy.RANDOM)


@inline
def loose_round_robin(issuable, scheduler):
    """The first in circular slot order after the warp that issued last."""
    later = after(issuable, scheduler.last)
    return first(later) if later != NONE else first(issuable)


@inline
def oldest(issuable, sm, warps, base):
    """The warp that was launched first on this SM."""
    pick = first(issuable)
    if sm.reused == 0:  # slots were filled in order, so that slot order is age
        return pick
    others = rest(issuable)
    while others != NONE:
        slot = first(others)
        others = rest(others)
        if warps[base + slot].age < warps[base + pick].age:
            pick = slot
    return pick


@inline
def greedy_then_oldest(issuable, scheduler, sm, warps, base):
    """The warp that issued last, if it can; otherwise the oldest (Rogers, O'Connor & Aamodt 2012)."""
    if scheduler.greedy >= 0 and (issuable & bit(scheduler.greedy)) != NONE:
        return np.int64(scheduler.greedy)
    return oldest(issuable, sm, warps, base)


@inline
def random_warp(issuable, scheduler):
    """Any of them, equally likely; one draw from the scheduler's own stream."""
    scheduler.stream = step(scheduler.stream)
    for _ in range(np.int64(uniform(mix(scheduler.stream)) * size(issuable))):
        issuable = rest(issuable)
    return first(issuable)


@inline
def pick(policy, issuable, scheduler, sm, warps, base):
    """The slot of the warp that issues. `base` is the index in `warps` of the SM's slot 0."""
    if policy == _LRR:
        return loose_round_robin(issuable, scheduler)
    if policy == _GTO:
        return greedy_then_oldest(issuable, scheduler, sm, warps, base)
    if policy == _OLDEST:
        return oldest(issuable, sm, warps, base)
    if policy == _RANDOM:
        return random_warp(issuable, scheduler)
    raise ValueError("unknown scheduling policy")

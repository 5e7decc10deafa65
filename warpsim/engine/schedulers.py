"""Scheduling policies. docs/model.md, section 3.

A policy is a rule for the ranks of a scheduler's warps: of the warps that can issue in a cycle the one with the lowest rank goes
first. Only `random` draws instead.
"""

import numpy as np

from warpsim.engine.bits import at, first, rest, size
from warpsim.engine.jit import inline
from warpsim.engine.lanes import lanes_equal, load, one_more_below, replaced, rotated, store
from warpsim.engine.rng import advance, mix, uniform
from warpsim.engine.state import Policy

_LRR, _GTO, _OLDEST = int(Policy.LRR), int(Policy.GTO), int(Policy.OLDEST)


@inline
def loose_round_robin(ranks, rank):
    """Circular slot order, beginning after the warp that issued last, which had a rank."""
    return rotated(ranks, rank + np.int64(1))


@inline
def greedy_then_oldest(scheduler, lane):
    """The warp that issued last, in a lane, then the others by age (Rogers, O'Connor & Aamodt 2012)."""
    ages = load(scheduler.ages)
    return replaced(one_more_below(ages, np.int64(scheduler.ages[at(lane)])), lane, np.int64(0))


@inline
def ranks_after(policy, scheduler, ranks, lane, rank):
    """Returns the ranks of a scheduler's warps after the one in a lane, which had a rank, has issued."""
    if policy == _LRR:
        return loose_round_robin(ranks, rank)
    if policy == _GTO:
        return greedy_then_oldest(scheduler, lane)
    return ranks


@inline
def end_greed(policy, scheduler):
    """The warp that issued last has left."""
    if policy == _GTO:
        store(scheduler.ranks, load(scheduler.ages))


@inline
def drawn(scheduler, lanes):
    """Returns any lane of a set, equally likely; takes one draw from the scheduler's own stream."""
    scheduler.stream = advance(scheduler.stream)
    for _ in range(np.int64(uniform(mix(scheduler.stream)) * size(lanes))):
        lanes = rest(lanes)
    return first(lanes)


@inline
def make_youngest(policy, scheduler, lane):
    """A warp has been launched into a lane: it is younger than all others."""
    age = scheduler.ages[lane]
    for other in range(len(scheduler.ages)):
        if scheduler.ages[other] > age:
            scheduler.ages[other] -= 1
    scheduler.ages[lane] = len(scheduler.ages) - 1
    foremost = first(lanes_equal(load(scheduler.ranks), np.int64(0)))  # the greedy warp, or the oldest
    if policy == _GTO and foremost != lane:
        store(scheduler.ranks, greedy_then_oldest(scheduler, foremost))
    elif policy == _GTO or policy == _OLDEST:
        store(scheduler.ranks, load(scheduler.ages))

"""Scheduling policies. docs/model.md, section 3.

A policy is a rule for the ranks of a scheduler's warps: of the warps that can issue in a cycle the one with the lowest rank goes
first. Only `random` draws instead. Ranks change where a warp issues, is launched, or leaves: a policy that needs to know more of
the warps than their ranks has its state there, too, as `two_level` has.

Where the next ranks follow from ranks and ages alone, a scheduler runs ahead (ahead.py), and issues long runs of steps at once
(stretches.py). The latter takes every policy that is not circular for one that prefers a warp by its age to all that are waiting.
"""

import numpy as np

from warpsim.engine.bits import at, first, rest, size
from warpsim.engine.constants import RANKS, Life, Policy
from warpsim.engine.lanes import (
    filled,
    first_then_by_age,
    in_both,
    lanes_equal,
    load,
    minus,
    same,
    store,
)
from warpsim.engine.places import slot_in
from warpsim.engine.registers import waits_for_load
from warpsim.engine.rng import advance, mix, uniform
from warpsim.jit.decorators import inline


@inline
def ranks_alone_decide(policy):
    """Returns whether the next ranks follow from the present ranks and ages, so that a scheduler can run ahead."""
    return policy != Policy.RANDOM and policy != Policy.TWO_LEVEL


@inline
def order_of(chip, ages):
    """Returns what `next_ranks` needs to know of a policy, and of the ages of a scheduler's warps.

    That is whether it takes turns, by how many ranks these begin behind the warp that issued last, as a vector like the ages;
    whether it is greedy; and the ages.
    """
    return chip.circular != 0, filled(np.int64(chip.policy == Policy.LRR), ages), chip.greedy != 0, ages


@inline
def next_ranks(order, ranks, here, rank):
    """Returns the ranks of a scheduler's warps after the one in the lane of a mask has issued, which has a rank.

    A policy takes turns, or it is greedy: the same warp first, then the others by age (Rogers, O'Connor & Aamodt 2012); with
    `gty`, ages count from the youngest (Huerta et al. 2025). Or it leaves the ranks as they are. `order` is from `order_of`;
    `rank` is the same in each lane, and may have a time as well.
    """
    takes_turns, back, is_greedy, ages = order
    if takes_turns:
        return in_both(minus(minus(ranks, rank), back), filled(RANKS, ranks))
    if is_greedy:
        return first_then_by_age(here, ages)
    return ranks


@inline
def rank_after_issue(machine, state, sm, s, scheduler, lane, cycle):
    """Computes the ranks of the warps of scheduler s, of which the one in a lane has issued at a cycle."""
    chip = machine.chip[0]
    if chip.policy == Policy.TWO_LEVEL:
        rank_groups(machine, state, sm, s, scheduler, lane, cycle)
        return
    ranks = load(scheduler.ranks)
    rank = filled(scheduler.ranks[at(lane)], ranks)
    store(scheduler.ranks, next_ranks(order_of(chip, load(scheduler.ages)), ranks, same(ranks, rank), rank))
    scheduler.rank_0_issued = 1


@inline
def rank_groups(machine, state, sm, s, scheduler, lane, cycle):
    """The front passes the fetch groups that are stalled, up to that of the warp that issued, which is last of its group now.

    A rank is the place of a warp in its group, and above it that of its group, counted from the front (Narasiman et al. 2011).
    """
    chip, ranks = machine.chip[0], scheduler.ranks
    in_group = chip.group - 1
    rank = np.int64(ranks[at(lane)])
    group = rank & ~in_group
    front = group
    for other in range(len(ranks)):
        of_other = np.int64(ranks[at(other)]) & ~in_group
        if of_other < front and is_active(machine, state, sm, slot_in(chip, s, other), cycle):
            front = of_other
    for other in range(len(ranks)):
        of_other = np.int64(ranks[at(other)])
        place = (of_other - rank - 1 if of_other & ~in_group == group else of_other) & in_group
        ranks[at(other)] = ((of_other & ~in_group) - front & RANKS) | place


@inline
def is_active(machine, state, sm, slot, cycle):
    """Returns whether the warp in a slot can go on without a load that returns after a cycle."""
    if slot >= machine.chip[0].seats * machine.chip[0].block_warps:
        return False
    index = sm.first_index + slot
    warp = state.warps[at(index)]
    if warp.life == Life.EMPTY or warp.life == Life.DRAINING or warp.start > cycle:
        return False
    return not waits_for_load(machine, state, index, warp.step, cycle)


@inline
def end_greed(chip, scheduler):
    """The warp that issued last has left: a greedy policy prefers by age alone until the next issue."""
    if chip.greedy:
        store(scheduler.ranks, load(scheduler.ages))
        scheduler.rank_0_issued = 0


@inline
def drawn(scheduler, lanes):
    """Returns any lane of a set, equally likely; takes one draw from the scheduler's own stream."""
    scheduler.stream = advance(scheduler.stream)
    for _ in range(np.int64(uniform(mix(scheduler.stream)) * size(lanes))):
        lanes = rest(lanes)
    return first(lanes)


@inline
def make_youngest(chip, scheduler, lane):
    """A warp has been launched into a lane: it is younger than all others."""
    age, from_youngest = scheduler.ages[lane], chip.policy == Policy.GTY
    foremost = first(lanes_equal(load(scheduler.ranks), 0))  # the greedy warp, or the first by age
    for other in range(len(scheduler.ages)):
        if from_youngest and scheduler.ages[other] < age:
            scheduler.ages[other] += 1
        elif not from_youngest and scheduler.ages[other] > age:
            scheduler.ages[other] -= 1
    scheduler.ages[lane] = 0 if from_youngest else len(scheduler.ages) - 1
    if chip.greedy and scheduler.rank_0_issued and foremost != lane:
        ages = load(scheduler.ages)
        here = same(ages, filled(scheduler.ages[at(foremost)], ages))
        store(scheduler.ranks, first_then_by_age(here, ages))
    elif chip.greedy or chip.policy == Policy.OLDEST:
        store(scheduler.ranks, load(scheduler.ages))

"""A scheduler issues a stretch of plain instructions at once, many of each warp. docs/model.md, section 3.

Mostly the warps of a scheduler that compute take the same course again and again: each issues, its next step is eligible after
the same delay, and it issues again. While that is certain, nothing has to be picked cycle by cycle: each of these warps issues
once a *period*, always at the same place in it.

* Where warps take turns and more than one is eligible, each issues when it is its turn, by which it is eligible again. The period
  is the number of the warps.
* Otherwise each issues as soon as it is eligible. The period is the delay. Others may be eligible all the time, if in each cycle
  a warp issues that goes before them by its age, as with all policies that run ahead and are not circular.

A stretch ends before the first cycle in which something else can happen: a warp comes to a step that is not plain, or has another
delay; two that issue at once become eligible at the same time; or another warp wakes.
"""

import numpy as np

from warpsim.engine.attribution import issues_run
from warpsim.engine.bits import NONE, at, below, bit, end_of, first, known_wait_from, rest, size
from warpsim.engine.constants import FOREVER, MAX_WARPS, NEVER, RANK_BITS
from warpsim.engine.lanes import filled, foremost, lanes_at_most, later, load, number, plus, same, store
from warpsim.engine.places import count_place, warp_in
from warpsim.engine.schedulers import next_ranks, order_of
from warpsim.jit.decorators import apart, inline

# To look for a stretch takes as long as some twenty issues one by one
LONG_RUN = 40  # steps of the next warp from which on it is worth looking
TURNS_BETWEEN = 8  # issues one by one after which it is worth looking again
SHORTEST_STRETCH = 16  # cycles


@apart
def issue_stretch(machine, state, sm, scheduler, s, lane, begin, no_more):
    """Has scheduler s issue a stretch before a time, if there is one, from the issue of the warp in a lane at a time on.

    Every plain step occupies the scheduler for one cycle. Returns the time of the last issue; negative: there is no stretch.
    """
    wakes, delay = load(scheduler.wakes), np.int64(scheduler.delays[at(lane)])
    delay_cycles = delay >> RANK_BITS
    waiting = lanes_at_most(wakes, begin) & ~bit(lane)
    if delay_cycles > MAX_WARPS or (delay_cycles < 2 and waiting != NONE):  # a greedy warp that is eligible at once goes first
        return -1
    takes_turns = waiting != NONE and machine.chip[0].circular != 0
    horizon = min(begin + (((len(scheduler.wakes) - 1) << RANK_BITS) if takes_turns else delay), NEVER) - 1
    members = lanes_at_most(wakes, horizon) & (below(MAX_WARPS) if takes_turns else ~waiting)
    until = min(no_more, first_after(wakes, horizon))
    if waiting != NONE and size(members) < delay_cycles:  # there are cycles in which one that is waiting issues
        return -1
    if until < begin + (SHORTEST_STRETCH << RANK_BITS):
        return -1

    # Which of them issue in each period, and when the first of these does for the last time
    places, turn, end, youngest = NONE, 0, FOREVER, 0
    left, behind = in_turn(members, lane)
    while left != NONE:
        member, left = first(left), rest(left)
        if left == NONE:
            left, behind = behind, NONE
        wake = np.int64(scheduler.wakes[at(member)])
        place = turn if takes_turns else wake - begin >> RANK_BITS
        if wake > begin + (place << RANK_BITS) or (places & bit(place)) != NONE:
            until, members = min(until, wake), members & ~bit(member)
            continue
        places, turn, youngest = places | bit(place), turn + 1, max(youngest, np.int64(scheduler.ages[at(member)]))
        ins = machine.program[at(warp_in(machine.chip[0], state, sm, s, member).step)]
        end = min(end, (np.int64(ins.run) * MAX_WARPS if np.int64(ins.own_delay) == delay else 0) + place)
    period = turn if takes_turns else delay_cycles
    if period < delay_cycles or not (takes_turns or go_first(scheduler, size(places), waiting, youngest, period)):
        return -1
    cycles = min(until - begin >> RANK_BITS, end // MAX_WARPS * period + end % MAX_WARPS)
    if cycles < max(SHORTEST_STRETCH, period):
        return -1

    rounds = np.int64(np.uint32(cycles) // np.uint32(period))
    further, turn, last, last_lane = cycles - rounds * period, 0, -1, lane
    left, behind = in_turn(members, lane)
    while left != NONE:
        member, left = first(left), rest(left)
        if left == NONE:
            left, behind = behind, NONE
        place = turn if takes_turns else np.int64(scheduler.wakes[at(member)]) - begin >> RANK_BITS
        turn, times = turn + 1, rounds + (place < further)
        issue_run(machine, state, sm, scheduler, s, member, (begin >> RANK_BITS) + place, period, period - delay_cycles, times)
        latest = place + (times - 1) * period
        scheduler.wakes[at(member)] = begin + delay + (latest << RANK_BITS)
        last_lane, last = member if latest > last else last_lane, max(last, latest)
    ranks, wakes = load(scheduler.ranks), load(scheduler.wakes)
    rank = filled(scheduler.ranks[at(last_lane)], ranks)
    store(scheduler.ranks, next_ranks(order_of(machine.chip[0], load(scheduler.ages)), ranks, same(ranks, rank), rank))
    store(scheduler.wakes, later(wakes, filled(begin + ((last + 1) << RANK_BITS), wakes)))
    return begin + (last << RANK_BITS)


@inline
def first_after(wakes, time):
    """Returns the first of the times of lanes that is after a time; one that no lane can say, if there is none."""
    return number(foremost(plus(wakes, filled(-time - 1, wakes)))) + time + 1


@inline
def in_turn(lanes, lane):
    """Returns a set of lanes that has a lane as two: that one and those behind it, and those before it."""
    return lanes & ~below(lane), lanes & below(lane)


@inline
def go_first(scheduler, issues, waiting, youngest, period):
    """Returns whether a warp issues in each cycle of the period that goes before all that are waiting, if some are."""
    if waiting != NONE and issues < period:
        return False
    while waiting != NONE:
        if np.int64(scheduler.ages[at(first(waiting))]) < youngest:
            return False
        waiting = rest(waiting)
    return True


@inline
def issue_run(machine, state, sm, scheduler, s, lane, cycle, period, waited, times):
    """The warp in a lane issues its next steps, so many, from a cycle of the window on, one each period."""
    warp = warp_in(machine.chip[0], state, sm, s, lane)
    step, cycle = warp.step, sm.begin + cycle
    ins = machine.program[at(step + times - 1)]
    issues_run(state.counts, count_place(machine.program, s, step), times, end_of(warp.wait), cycle, waited)
    warp.step, warp.wait = ins.following, known_wait_from(cycle + (times - 1) * period, ins)
    scheduler.uses[at(lane)], scheduler.delays[at(lane)] = ins.next_uses, ins.next_delay

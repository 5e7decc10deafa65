"""Echoes of a slice: warps that stand for those of the SMs that are not simulated. docs/model.md, section 5.

An echo makes accesses to memory and waits for them. How its next access follows is drawn from the transitions between accesses
of the warp slots of the slice, which are noted here.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import (
    AT_THE_END,
    AWAITED,
    BY_REGISTER,
    COUNTED_BITS,
    EPOCH,
    EPOCHS,
    FOREVER,
    UNKNOWN,
    Kind,
)
from warpsim.engine.hints import has_hints
from warpsim.engine.memory import hits_l2
from warpsim.engine.order import add_outgoing, sort_outgoing
from warpsim.engine.places import slot_of, sm_of
from warpsim.engine.rng import advance, mix, skip, uniform
from warpsim.jit.decorators import inline


@inline
def make_accesses(machine, state, begin, end):
    """Has the echoes make their accesses in begin..end-1. False: there is no room for all of them."""
    if len(state.echoes) == 0:
        return True
    clock = state.clock[0]
    if not clock.noted:
        clock.noted = 1
        note_accesses(machine, state, begin, end)
    if clock.next_echo >= end:
        return True
    soonest = FOREVER
    for number in range(len(state.echoes)):
        while state.echo_due[at(number)] < end:
            echo, cycle = state.echoes[at(number)], state.echo_due[at(number)]
            if echo.next_step < 0:
                state.echo_due[at(number)] = find_transition(machine, state, echo, cycle)
            elif clock.outgoing == len(state.outgoing):
                return False
            else:
                state.echo_due[at(number)] = make_access(machine, state, echo, number, cycle)
        soonest = min(soonest, state.echo_due[at(number)])
    clock.next_echo = soonest
    return True


@inline
def note_accesses(machine, state, begin, end):
    """Notes the accesses of the slice in begin..end-1, in order of issue."""
    for place in range(sort_outgoing(state, begin, end)):
        note_access(machine, state, state.outgoing[at(state.order[at(place)])])


@inline
def note_access(machine, state, outgoing):
    """Notes an access of the slice: how it follows the one before of its warp slot. Its echoes begin with the first two."""
    cycle, step = outgoing.cycle, outgoing.step
    in_l2 = hits_l2(outgoing.stream, machine.details[at(step)])
    track = state.tracks[at(outgoing.warp)]
    outgoing.number = track.count
    phases = machine.chip[0].iteration > 0
    if track.count == 0 and not phases:
        begin_echoes(machine, state, outgoing.warp, cycle, step, in_l2)
    if track.count > 0:
        if track.count == 1 and phases:
            begin_echoes(machine, state, outgoing.warp, cycle + 2 * EPOCH, track.step, track.in_l2 != 0)
        note_transition(machine, state, track, cycle, step, in_l2, state.warps[at(outgoing.warp)].start > track.issue)
    track.in_l2 = in_l2
    add(track, cycle, step)


@inline
def note_transition(machine, state, track, cycle, step, in_l2, begins):
    """Notes how an access of a warp slot follows the one before; `begins`: it is the first one of its warp."""
    left = not_awaited(machine, track, step, begins)
    first = pass_back(track, cycle)
    gap = max(cycle - latest_awaited(machine, track, first, left, step, begins), 0)
    record(state, state.pools[at(track.step)], cycle, gap, step, in_l2, begins)


@inline
def not_awaited(machine, sequence, step, begins):
    """Returns the set of the latest accesses of a sequence (bit 0: the latest) for which an access of a step does not wait.

    `begins`: it is the first access of its warp. Those that were back when the latest one issued are left out, and those that a
    dependence counter counts, for which it depends on their returns.
    """
    found = 0
    for number in range(max(sequence.back, sequence.count - AWAITED), sequence.count):
        if is_left(machine, sequence, number, step, begins):
            found |= 1 << (sequence.count - 1 - number)
    return found


@inline
def is_left(machine, sequence, number, step, begins):
    """Returns whether an access of a step does not wait for an earlier one of its sequence, given by its number."""
    before = np.int64(sequence.steps[at(number & (AWAITED - 1))])
    detail = machine.details[at(before)]
    if machine.program[at(before)].kind == Kind.STORE:
        return not begins or detail.drain < 0.0
    if begins or detail.awaited_by != BY_REGISTER:
        return not begins and detail.awaited_by == AT_THE_END
    later = 0
    for after in range(number + 1, sequence.count):
        later += sequence.steps[at(after & (AWAITED - 1))] == before
    for entry in range(machine.details[at(step)].outstanding, machine.details[at(step)].outstanding_end):
        if machine.outstanding[at(entry), 0] == before:
            return later < machine.outstanding[at(entry), 1]
    return False


@inline
def is_left_by_counter(machine, sequence, first, number, step):
    """Returns whether a dependence counter counts an access, and may count it still when one of a step issues.

    Of those from number `first` on that it counts, it counts so many that return last; of equals, those that issued last.
    """
    counter = machine.details[at(sequence.steps[at(number & (AWAITED - 1))])].awaited_by
    if counter < 0:
        return False
    returns, later = sequence.returns[at(number & (AWAITED - 1))], 0
    for other in range(first, sequence.count):
        place = at(other & (AWAITED - 1))
        if machine.details[at(sequence.steps[place])].awaited_by == counter:
            later += sequence.returns[place] > returns or (sequence.returns[place] == returns and other > number)
    return later < (machine.details[at(step)].counted >> (counter * COUNTED_BITS)) & ((1 << COUNTED_BITS) - 1)


@inline
def pass_back(sequence, cycle):
    """Passes the oldest accesses that are back by a cycle; returns the number of the first that was not passed before."""
    first = max(sequence.back, sequence.count - AWAITED)
    sequence.back = first
    while sequence.back < sequence.count and sequence.returns[at(sequence.back & (AWAITED - 1))] <= cycle:
        sequence.back += 1
    return first


@inline
def latest_awaited(machine, sequence, first, left, step, begins):
    """Returns when all accesses from number `first` on are back for which one of a step waits, and the latest one has issued.

    `left` are those for which it does not wait, but for those that dependence counters count.
    """
    latest = sequence.issue
    for number in range(first, sequence.count):
        if (left >> (sequence.count - 1 - number)) & 1 == 0:
            if begins or not (has_hints(machine.hints) and is_left_by_counter(machine, sequence, first, number, step)):
                latest = max(latest, sequence.returns[at(number & (AWAITED - 1))])
    return latest


@inline
def begin_echoes(machine, state, index, cycle, step, in_l2):
    """Has the echoes of a warp slot begin with its first access in a cycle, or each so much later as its own phase."""
    chip, clock = machine.chip[0], state.clock[0]
    slots = chip.seats * chip.block_warps
    number = sm_of(chip, index) * slots + slot_of(chip, index)
    while number < len(state.echoes):
        echo = state.echoes[at(number)]
        echo.stream = advance(echo.stream)
        due = cycle + np.int64(uniform(mix(echo.stream)) * chip.iteration)
        state.echo_due[at(number)] = due
        echo.next_step, echo.in_l2 = step, in_l2
        clock.next_echo = min(clock.next_echo, due)
        number += len(state.sms) * slots


@inline
def record(state, pool, cycle, gap, step, in_l2, begins):
    """Adds a transition in a cycle to a pool, if that has room for it."""
    room, epoch = state.clock[0].pool_room, cycle // EPOCH
    if epoch > pool.epoch:
        for passed in range(max(pool.epoch + 1, epoch - EPOCHS + 1), epoch + 1):
            pool.by_epoch[at(passed & (EPOCHS - 1))] = pool.total
        pool.epoch = epoch
    if pool.total - pool.by_epoch[at((epoch - 1) & (EPOCHS - 1))] >= room * 5 // 32:  # in an epoch, at most
        return
    transition = state.transitions[at(pool.begin + (pool.total & (room - 1)))]
    transition.gap, transition.step, transition.in_l2, transition.begins = gap, step, in_l2, begins
    pool.total += 1
    pool.by_epoch[at(epoch & (EPOCHS - 1))] = pool.total


@inline
def find_transition(machine, state, echo, cycle):
    """Draws how the next access of an echo follows its latest one, of what is known in a cycle, or has it ask again later.

    Returns in which cycle it makes that access, or asks.
    """
    pool = state.pools[at(echo.step)]
    last = cycle // EPOCH - 2
    known = pool.total if last >= pool.epoch else pool.by_epoch[at(last & (EPOCHS - 1))]
    if known == 0:
        echo.next_step = -1
        return (cycle // EPOCH + 1) * EPOCH
    room = state.clock[0].pool_room
    echo.stream = advance(echo.stream)
    back = np.int64(uniform(mix(echo.stream)) * min((known + 1) // 2, room // 2))
    transition = state.transitions[at(pool.begin + ((known - 1 - back) & (room - 1)))]
    echo.gap, echo.next_step, echo.in_l2 = transition.gap, transition.step, transition.in_l2
    echo.not_awaited = not_awaited(machine, echo, transition.step, transition.begins != 0)
    echo.begins, echo.earliest = transition.begins, cycle
    return due_cycle(machine, echo)


@inline
def due_cycle(machine, echo):
    """Returns in which cycle an echo makes its next access; FOREVER: that is not known yet."""
    first, left = max(echo.back, echo.count - AWAITED), echo.not_awaited
    latest = latest_awaited(machine, echo, first, left, echo.next_step, echo.begins != 0)
    return max(echo.earliest, latest + echo.gap) if latest < UNKNOWN else FOREVER


@inline
def make_access(machine, state, echo, number, cycle):
    """Appends the next access of an echo to those of the window that go out; returns in which cycle it makes the one after it."""
    outgoing = add_outgoing(state, -1 - number, echo.stream, echo.next_step, cycle, 0)
    outgoing.number, outgoing.in_l2 = echo.count, echo.in_l2
    echo.stream = skip(echo.stream, 1 + machine.details[at(echo.next_step)].requests)
    pass_back(echo, cycle)
    add(echo, cycle, echo.next_step)
    return find_transition(machine, state, echo, cycle)


@inline
def add(sequence, cycle, step):
    """Adds an access to those of a warp slot or of an echo."""
    place = at(sequence.count & (AWAITED - 1))
    sequence.returns[place], sequence.steps[place] = UNKNOWN, step
    sequence.count += 1
    sequence.issue, sequence.step = cycle, step


@inline
def note_end(machine, state, index, number, returns):
    """Notes when an access is back, by its number among those of its warp slot, or of an echo (negative index)."""
    if len(state.echoes) == 0:
        return
    sequence = state.tracks[at(index)] if index >= 0 else state.echoes[at(-1 - index)]
    if sequence.count - number > AWAITED:
        return
    sequence.returns[at(number & (AWAITED - 1))] = returns
    if index < 0 and sequence.next_step >= 0:
        due = due_cycle(machine, sequence)
        state.echo_due[at(-1 - index)] = due
        state.clock[0].next_echo = min(state.clock[0].next_echo, due)

"""Hints: dependence counters of warps, where the program states when its instructions may issue. docs/model.md, section 3.

A counter keeps what it counts until that is done, in order of issue: few entries in `State.counted`, which is small enough for
the processor's caches, and the others in `State.crowded`. Nothing here runs where no instruction has hints (`has_hints`). What
others call returns at once if `hints` is None, because numba types a call even where it is never made.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, bit, cause_of, end_of, first, reason_of, rest, wait_until
from warpsim.engine.constants import MOST_COUNTED, NEAR_COUNTED, UNKNOWN, Kind
from warpsim.engine.places import sm_of
from warpsim.jit.decorators import apart, inline, seldom

_RESULT, _READ = 0, 1  # what a counter waits for
_LENGTH, _FIRST = 0, 2  # columns of `State.counted`


@inline
def has_hints(hints):
    """Returns whether the instructions of the program have hints."""
    if hints is None:
        return False
    return len(hints) > 0


@inline
def entry(state, row, i):
    """Returns entry i of a counter: a wait, which says when it is done."""
    if i < NEAR_COUNTED:
        return state.counted[at(row), at(_FIRST + 2 * i)]
    return state.crowded[at(row), at(2 * (i - NEAR_COUNTED))]


@inline
def issued_at(state, row, i):
    """Returns the cycle in which entry i of a counter issued."""
    if i < NEAR_COUNTED:
        return state.counted[at(row), at(_FIRST + 2 * i + 1)]
    return state.crowded[at(row), at(2 * (i - NEAR_COUNTED) + 1)]


@inline
def replace(state, row, i, until, issued):
    """Writes entry i of a counter."""
    if i < NEAR_COUNTED:
        state.counted[at(row), at(_FIRST + 2 * i)], state.counted[at(row), at(_FIRST + 2 * i + 1)] = until, issued
    else:
        place = 2 * (i - NEAR_COUNTED)
        state.crowded[at(row), at(place)], state.crowded[at(row), at(place + 1)] = until, issued


@inline
def forget_counted(machine, state, index):
    """A warp starts: its counters count nothing."""
    counters = machine.chip[0].counters
    for counter in range(counters):
        state.counted[at(index * counters + counter), at(_LENGTH)] = 0


@apart
def count_step(hints, machine, state, index, step, cycle, queued, ready):
    """A step of a warp issues, which waits in the queue of its unit: notes who writes its register, and counts it."""
    if hints is None:
        return
    chip, dst, hint = machine.chip[0], machine.program[at(step)].dst, hints[at(step)]
    first_row = index * chip.counters
    if dst >= 0:
        state.writers[at(index * chip.registers + dst)] = cycle
    most = 0
    if hint.write >= 0:
        returns = UNKNOWN + cycle if ready >= UNKNOWN else ready
        most = enter(state, first_row + hint.write, wait_until(returns, step, _RESULT), cycle)
    if hint.read >= 0:
        most = max(most, enter(state, first_row + hint.read, wait_until(cycle + queued + hint.operands, step, _READ), cycle))
    if most >= MOST_COUNTED:
        state.sms[at(sm_of(chip, index))].ever_full = 1


@apart
def enter(state, row, until, cycle):
    """Has a counter count something that issues at a cycle, and forget what is done by then; returns how many it counts."""
    kept = 0
    for i in range(state.counted[at(row), at(_LENGTH)]):
        other = entry(state, row, i)
        if end_of(other) > cycle:
            replace(state, row, kept, other, issued_at(state, row, i))
            kept += 1
    replace(state, row, kept, until, cycle)
    state.counted[at(row), at(_LENGTH)] = kept + 1
    return kept + 1


@apart
def learn_return(hints, machine, state, index, step, cycle, returns):
    """More is known about when a load is back that issued at a cycle: notes it for its register and its counter.

    Returns whether a wait for that counter may depend on it before the load is served (`is_final`).
    """
    if hints is None:
        return False
    chip, dst, hint = machine.chip[0], machine.program[at(step)].dst, hints[at(step)]
    if dst >= 0:
        place = at(index * chip.registers + dst)
        if state.writers[place] == cycle and cause_of(state.registers[place]) == step:
            state.registers[place] = wait_until(returns, step, 0)
    if hint.write < 0:
        return False
    row = index * chip.counters + hint.write
    for i in range(state.counted[at(row), at(_LENGTH)]):
        until = entry(state, row, i)
        if issued_at(state, row, i) == cycle and cause_of(until) == step and reason_of(until) == _RESULT:
            replace(state, row, i, wait_until(returns, step, _RESULT), cycle)
    return hint.partial != 0 or is_full(machine, state, index, hint.write)


@inline
def is_full(machine, state, index, counter):
    """Returns whether a counter of a warp counts as many as it can; a negative one does not."""
    chip = machine.chip[0]
    if state.sms[at(sm_of(chip, index))].ever_full == 0:
        return False
    return counter >= 0 and state.counted[at(index * chip.counters + counter), at(_LENGTH)] >= MOST_COUNTED


@inline
def finds_a_full_one(machine, state, index, hint):
    """Returns whether a counter of a warp is full that is to count a step, of which the HINT is given."""
    return is_full(machine, state, index, hint.write) or is_full(machine, state, index, hint.read)


@inline
def wait_of_counters(hints, machine, state, index, step, wait):
    """Returns the wait of a warp for the counters of a step: `wait`, or the first of those that end later."""
    if hints is None:
        return wait
    hint, first_row = hints[at(step)], index * machine.chip[0].counters
    if hint.waits == 0 and not finds_a_full_one(machine, state, index, hint):
        return wait
    return wait_of_these_counters(machine, state, hint, first_row, wait)


@seldom
def wait_of_these_counters(machine, state, hint, first_row, wait):
    """The same for a step that waits for some, or would be one too many for one; its HINT and the warp's first row are given."""
    waits = np.uint64(hint.waits)
    while waits != NONE:
        wait = wait_of_counter(machine, state, first_row + first(waits), hint.at_most, wait)
        waits = rest(waits)
    if hint.write >= 0:
        wait = wait_of_counter(machine, state, first_row + hint.write, MOST_COUNTED - 1, wait)
    if hint.read >= 0:
        wait = wait_of_counter(machine, state, first_row + hint.read, MOST_COUNTED - 1, wait)
    return wait


@apart
def wait_of_counter(machine, state, row, at_most, wait):
    """Returns the wait until a counter counts at most so many: `wait`, if that ends no sooner."""
    if state.counted[at(row), at(_LENGTH)] <= at_most:
        return wait
    for i in range(state.counted[at(row), at(_LENGTH)]):
        until = entry(state, row, i)
        if end_of(until) > end_of(wait) and longer(state, row, i) == at_most:
            op = machine.program[at(cause_of(until))].op
            return wait_until(end_of(until), cause_of(until), machine.classes[at(op)].dependency)
    return wait


@apart
def longer(state, row, i):
    """Returns how many entries of a counter end later than entry i, or at the same time and were issued later."""
    count, end = 0, end_of(entry(state, row, i))
    for other in range(state.counted[at(row), at(_LENGTH)]):
        ends = end_of(entry(state, row, other))
        count += ends > end or (ends == end and other > i)
    return count


@inline
def is_final(hints, machine, state, index, step, end):
    """Returns whether the wait of a warp for the counters of a step, which ends at a cycle that is known, cannot end sooner.

    It can where a counter may count some: what is not known may be done before something that is. A load does not return within
    a window's length after it is served.
    """
    if hints is None:
        return True
    if waits_for_all(hints, machine, state, index, step):
        return True
    return is_final_of_counters(machine, state, hints[at(step)], index * machine.chip[0].counters, end)


@inline
def waits_for_all(hints, machine, state, index, step):
    """Returns whether a step of a warp waits for all that its counters count: whatever is done last ends the wait."""
    if hints is None:
        return False
    hint = hints[at(step)]
    return hint.at_most == 0 and not finds_a_full_one(machine, state, index, hint)


@seldom
def is_final_of_counters(machine, state, hint, first_row, end):
    """The same for a step whose counters may count some, or are full; its HINT and the warp's first row are given."""
    chip = machine.chip[0]
    for counter in range(chip.counters):
        row, most = first_row + counter, MOST_COUNTED - 1
        waits = (np.uint64(hint.waits) & bit(counter)) != NONE
        if waits and may_end_sooner(state, row, hint.at_most, end, chip.window):
            return False
        if (hint.write == counter or hint.read == counter) and may_end_sooner(state, row, most, end, chip.window):
            return False
    return True


@apart
def may_end_sooner(state, row, at_most, end, window):
    """Returns whether a counter that counts at most so many from a cycle on may do so sooner."""
    if at_most == 0 or state.counted[at(row), at(_LENGTH)] <= at_most:
        return False
    decides, soonest = False, UNKNOWN
    for i in range(state.counted[at(row), at(_LENGTH)]):
        until = end_of(entry(state, row, i))
        decides |= until == end and longer(state, row, i) == at_most
        if until >= UNKNOWN:
            soonest = min(soonest, until - UNKNOWN)
    return decides and end > soonest + window


@apart
def waits_for_counted_load(hints, machine, state, index, step, cycle):
    """Returns whether a step of a warp waits for a counter that counts the result of a load that returns after a cycle."""
    if hints is None:
        return False
    counters, hint, waits = machine.chip[0].counters, hints[at(step)], False
    for counter in range(counters):
        if (np.uint64(hint.waits) & bit(counter)) != NONE:
            row, present, loads = index * counters + counter, 0, 0
            for i in range(state.counted[at(row), at(_LENGTH)]):
                until = entry(state, row, i)
                if end_of(until) > cycle:
                    present += 1
                    loads += reason_of(until) == _RESULT and machine.program[at(cause_of(until))].kind == Kind.LOAD
            waits |= present > hint.at_most and loads > 0
    return waits

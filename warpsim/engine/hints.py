"""Hints: dependence counters of warps, where the program states when its instructions may issue. docs/model.md, section 3.

A counter keeps what it counts until that is done, in order of issue. Nothing here runs where no instruction has hints.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, bit, cause_of, end_of, first, reason_of, rest, wait_until
from warpsim.engine.jit import apart
from warpsim.engine.state import COUNTERS, MOST_COUNTED, UNKNOWN, Kind

_LOAD = int(Kind.LOAD)
_RESULT, _READ = 0, 1  # what a counter waits for


@apart
def forget_counted(counted, index):
    """A warp starts: its counters count nothing."""
    for counter in range(COUNTERS):
        counted[at(index * COUNTERS + counter)].length = 0


@apart
def count_step(program, hints, writers, counted, index, first_register, step, cycle, queued, ready):
    """A step of a warp issues, which waits in the queue of its unit: notes who writes its register, and counts it."""
    dst, hint = np.int64(program[at(step)].dst), hints[at(step)]
    if dst >= 0:
        writers[at(first_register + dst)] = cycle
    if hint.write >= 0:
        returns = UNKNOWN + cycle if ready >= UNKNOWN else ready
        enter(counted[at(index * COUNTERS + hint.write)], wait_until(returns, step, _RESULT), cycle)
    if hint.read >= 0:
        enter(counted[at(index * COUNTERS + hint.read)], wait_until(cycle + queued + hint.operands, step, _READ), cycle)


@apart
def enter(counter, until, cycle):
    """Has a counter count something that issues at a cycle, and forget what is done by then."""
    kept = 0
    for i in range(counter.length):
        if end_of(counter.until[at(i)]) > cycle:
            counter.until[at(kept)], counter.issued[at(kept)] = counter.until[at(i)], counter.issued[at(i)]
            kept += 1
    counter.until[at(kept)], counter.issued[at(kept)] = until, cycle
    counter.length = kept + 1


@apart
def learn_return(program, hints, registers, writers, counted, index, first_register, step, cycle, returns):
    """More is known about when a load is back that issued at a cycle: notes it for its register and its counter."""
    dst, hint = np.int64(program[at(step)].dst), hints[at(step)]
    if dst >= 0:
        place = at(first_register + dst)
        if writers[place] == cycle and end_of(registers[place]) >= UNKNOWN:
            registers[place] = wait_until(returns, step, 0)
    if hint.write >= 0:
        counter = counted[at(index * COUNTERS + hint.write)]
        for i in range(counter.length):
            until = counter.until[at(i)]
            if counter.issued[at(i)] == cycle and cause_of(until) == step and reason_of(until) == _RESULT:
                counter.until[at(i)] = wait_until(returns, step, _RESULT)


@apart
def wait_of_counters(program, classes, hints, counted, index, step, wait):
    """Returns the wait of a warp for the counters of a step: `wait`, or the first of those that end later."""
    hint = hints[at(step)]
    waits = np.uint64(hint.waits)
    while waits != NONE:
        wait = wait_of_counter(program, classes, counted[at(index * COUNTERS + first(waits))], np.int64(hint.at_most), wait)
        waits = rest(waits)
    if hint.write >= 0:
        wait = wait_of_counter(program, classes, counted[at(index * COUNTERS + hint.write)], np.int64(MOST_COUNTED - 1), wait)
    if hint.read >= 0:
        wait = wait_of_counter(program, classes, counted[at(index * COUNTERS + hint.read)], np.int64(MOST_COUNTED - 1), wait)
    return wait


@apart
def wait_of_counter(program, classes, counter, at_most, wait):
    """Returns the wait until a counter counts at most so many: `wait`, if that ends no sooner."""
    if counter.length <= at_most:
        return wait
    for i in range(counter.length):
        until = counter.until[at(i)]
        if end_of(until) > end_of(wait) and longer(counter, i) == at_most:
            return wait_until(end_of(until), cause_of(until), classes[at(program[at(cause_of(until))].op)].dependency)
    return wait


@apart
def longer(counter, i):
    """Returns how many entries of a counter end later than entry i, or at the same time and were issued later."""
    count = 0
    for other in range(counter.length):
        ends, end = end_of(counter.until[at(other)]), end_of(counter.until[at(i)])
        count += ends > end or (ends == end and other > i)
    return count


@apart
def is_final(hints, counted, index, step, end, window):
    """Returns whether the wait of a warp for the counters of a step, which ends at a cycle that is known, cannot end sooner.

    It can where a counter may count some: what is not known may be done before something that is. A load does not return within
    a window's length after it is served.
    """
    hint = hints[at(step)]
    for counter in range(COUNTERS):
        row = counted[at(index * COUNTERS + counter)]
        if (np.uint64(hint.waits) & bit(counter)) != NONE and may_end_sooner(row, np.int64(hint.at_most), end, window):
            return False
        if (hint.write == counter or hint.read == counter) and may_end_sooner(row, np.int64(MOST_COUNTED - 1), end, window):
            return False
    return True


@apart
def may_end_sooner(counter, at_most, end, window):
    """Returns whether a counter that counts at most so many from a cycle on may do so sooner."""
    if at_most == 0 or counter.length <= at_most:
        return False
    decides, soonest = False, np.int64(UNKNOWN)
    for i in range(counter.length):
        until = end_of(counter.until[at(i)])
        decides |= until == end and longer(counter, i) == at_most
        if until >= UNKNOWN:
            soonest = min(soonest, until - UNKNOWN)
    return decides and end > soonest + window


@apart
def waits_for_counted_load(program, hints, counted, index, step, cycle):
    """Returns whether a step of a warp waits for a counter that counts the result of a load that returns after a cycle."""
    hint, waits = hints[at(step)], False
    for counter in range(COUNTERS):
        if (np.uint64(hint.waits) & bit(counter)) != NONE:
            row = counted[at(index * COUNTERS + counter)]
            size, loads = 0, 0
            for i in range(row.length):
                until = row.until[at(i)]
                if end_of(until) > cycle:
                    size += 1
                    loads += reason_of(until) == _RESULT and program[at(cause_of(until))].kind == _LOAD
            waits |= size > hint.at_most and loads > 0
    return waits

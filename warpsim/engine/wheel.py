"""When sleeping warps wake, and which SM has something to do when.

The wheel has one slot a cycle for the next WHEEL cycles. A slot holds, per SM, the set of warps that become eligible then,
and the set of SMs to look at. What lies further ahead is put into the last slot and moved on from there.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, bit, cycle_of, first, label_of, labelled, rest
from warpsim.engine.jit import inline
from warpsim.engine.state import WHEEL

_MASK = WHEEL - 1


@inline
def call_sm(state, sm, cycle):
    """Has an SM looked at in a cycle, at most WHEEL - 1 cycles ahead."""
    state.calls[at(sm.calls + (cycle & _MASK))] |= sm.me


@inline
def sleep_until(state, sm, slot, now, cycle, reason):
    """Lets a warp sleep from `now` until `cycle` > now."""
    sm.wake[at(slot)] = labelled(cycle, reason)
    if cycle - now >= WHEEL:
        cycle = now + WHEEL - 1
        sm.sleeping_long |= bit(slot)
    sm.wheel[at(cycle & _MASK)] |= bit(slot)
    call_sm(state, sm, cycle)


@inline
def wake(state, sm, now):
    """The set of warps of an SM that wake now; takes them off the wheel."""
    woken = sm.wheel[at(now & _MASK)]
    sm.wheel[at(now & _MASK)] = NONE
    long = woken & sm.sleeping_long
    while long != NONE:
        slot = first(long)
        long = rest(long)
        sm.sleeping_long &= ~bit(slot)
        due = sm.wake[at(slot)]
        if cycle_of(due) > now:
            woken &= ~bit(slot)
            sleep_until(state, sm, slot, now, cycle_of(due), label_of(due))
    return woken


@inline
def next_call(state, now, stop):
    """The first cycle in now..stop-1 in which an SM has something to do; `stop` if there is none; -1 if nothing is ahead."""
    for cycle in range(now, min(now + WHEEL, stop)):
        for word in range(0, len(state.calls), WHEEL):
            if state.calls[at(word + (cycle & _MASK))] != NONE:
                return np.int64(cycle)
    return np.int64(stop if stop <= now + WHEEL else -1)

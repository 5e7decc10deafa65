"""When sleeping warps wake, and which SM has something to do when.

The wheel has one slot a cycle for the next WHEEL cycles. A slot holds, per SM, the set of warps that become eligible then,
and the set of SMs to look at. What lies further ahead is put into the last slot and moved on from there.
"""

import numpy as np

from warpsim.engine.bits import NONE, bit, first, rest
from warpsim.engine.jit import inline
from warpsim.engine.state import WHEEL

_MASK = WHEEL - 1
_SIX, _LOW_SIX = 6, 63


@inline
def call_sm(state, sm, cycle):
    """Has an SM looked at in a cycle, at most WHEEL - 1 cycles ahead."""
    state.wake_sms[cycle & _MASK, sm >> _SIX] |= bit(sm & _LOW_SIX)


@inline
def sleep_until(state, sm, slot, now, cycle):
    """Lets a warp sleep from `now` until `cycle` > now."""
    if cycle - now >= WHEEL:
        cycle = now + WHEEL - 1
        state.sms[sm].sleeping_long |= bit(slot)
    state.wake_warps[cycle & _MASK, sm] |= bit(slot)
    call_sm(state, sm, cycle)


@inline
def wake(machine, state, sm, now):
    """The set of warps of an SM that wake now; takes them off the wheel."""
    woken = state.wake_warps[now & _MASK, sm]
    if woken == NONE:
        return woken
    state.wake_warps[now & _MASK, sm] = NONE
    long = woken & state.sms[sm].sleeping_long
    while long != NONE:
        slot = first(long)
        long = rest(long)
        state.sms[sm].sleeping_long &= ~bit(slot)
        due = state.warps[sm * machine.chip[0].seats * machine.chip[0].block_warps + slot].wake
        if due > now:
            woken &= ~bit(slot)
            sleep_until(state, sm, slot, now, due)
    return woken


@inline
def next_call(state, now, stop):
    """The first cycle in now..stop-1 in which an SM has something to do; `stop` if there is none; -1 if nothing is ahead at all."""
    for cycle in range(now, now + WHEEL):
        if cycle >= stop:
            return np.int64(stop)
        for word in range(state.wake_sms.shape[1]):
            if state.wake_sms[cycle & _MASK, word] != NONE:
                return np.int64(cycle)
    return np.int64(-1)

"""Where the warp-cycles of every program line go, by scheduler. docs/model.md, section 7.

Counted in detailed runs only, which the compiler knows by the type of `State.detail`. A stall is counted at once when it
begins, as in `accounting`. How long an eligible warp waited is known when it issues; for how much of that its unit refused all
warps of its class, two readings of a running count tell.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, cycle_of, first, rest
from warpsim.engine.jit import inline
from warpsim.engine.state import CLASSES, LABEL_BITS, SCHEDULERS, WARPS, WarpState

_SELECTED, _NOT_SELECTED = np.int64(WarpState.SELECTED), np.int64(WarpState.NOT_SELECTED)


@inline
def detailed(state):
    """Whether lines are counted, and issues kept; known when this is compiled."""
    return state.detail.ndim == 2


@inline
def _add(machine, state, s, step, cause, reason, cycles):
    """Adds warp-cycles under a WarpState: to a step at scheduler s, and to the step that caused them."""
    state.lines[at(((s * len(machine.program) + step) << LABEL_BITS) + reason)] += cycles
    state.caused[at((cause << LABEL_BITS) + reason)] += cycles


@inline
def stall(machine, state, sm, slot, cause, reason, cycles):
    """Counts the cycles of a stall that begins: of a warp at its next step, because of the step `cause`."""
    if detailed(state):
        state.causes[at(sm.index * WARPS + slot)] = cause
    count(machine, state, sm, slot, np.int64(sm.step[at(slot)]), cause, reason, cycles)


@inline
def count(machine, state, sm, slot, step, cause, reason, cycles):
    """Counts cycles of a warp under a WarpState: at a step, because of another."""
    state.tally[0].states[at(reason)] += cycles
    if detailed(state):
        _add(machine, state, slot % machine.chip[0].schedulers, step, cause, reason, cycles)


@inline
def refuse(state, sm, s, op, cycles):
    """The unit of a class refuses all eligible warps of a scheduler for some cycles."""
    if detailed(state):
        state.refused[_refusals(sm, s, op)] += cycles


@inline
def _refusals(sm, s, op):
    """The place in `State.refused` of a class at a scheduler of an SM."""
    return at((sm.index * SCHEDULERS + s) * CLASSES + op)


@inline
def begin_wait(machine, state, sm, slot):
    """A warp is eligible from now on."""
    refusals = _refusals(sm, slot % machine.chip[0].schedulers, sm.op[at(slot)])
    state.refused_before[at(sm.index * WARPS + slot)] = state.refused[refusals]


@inline
def begin_waits(machine, state, sm, woken):
    """Warps are eligible from now on."""
    while woken != NONE:
        begin_wait(machine, state, sm, first(woken))
        woken = rest(woken)


@inline
def end_wait(machine, state, sm, s, slot, now):
    """Counts the cycles up to `now`, exclusive, in which an eligible warp did not issue."""
    op, step = sm.op[at(slot)], np.int64(sm.step[at(slot)])
    refused = state.refused[_refusals(sm, s, op)] - state.refused_before[at(sm.index * WARPS + slot)]
    waited = now - cycle_of(sm.wake[at(slot)]) - refused
    _add(machine, state, s, step, step, machine.chip[0].throttle[at(op)], refused)
    _add(machine, state, s, step, step, _NOT_SELECTED, waited)


@inline
def select(machine, state, sm, s, slot, now):
    """Counts that a warp issues now, and that it waited for that."""
    end_wait(machine, state, sm, s, slot, now)
    step = np.int64(sm.step[at(slot)])
    _add(machine, state, s, step, step, _SELECTED, np.int64(1))

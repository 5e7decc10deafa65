"""Where the warp-cycles of every program line go, by scheduler. docs/model.md, section 7.

Counted in detailed runs only, which the compiler knows by the type of `State.detail`. A stall is counted at once when it
begins, as in `accounting`. How long an eligible warp waited is known when it issues; for how much of that its unit refused all
warps of its class, two readings of a running count tell.
"""

import numpy as np

from warpsim.engine.bits import NONE, at, first, rest
from warpsim.engine.jit import inline
from warpsim.engine.state import CLASSES, LABEL_BITS, SCHEDULERS, WARPS, WarpState

_SELECTED, _NOT_SELECTED = int(WarpState.SELECTED), int(WarpState.NOT_SELECTED)
_LABEL = (1 << LABEL_BITS) - 1


@inline
def detailed(state):
    """Whether lines are counted, and issues kept; known when this is compiled."""
    return state.detail.ndim == 2


@inline
def account(machine, s, step):
    """Where the counts of a step at scheduler s begin in `State.lines`."""
    return at(((s * len(machine.program)) + step) << LABEL_BITS)


@inline
def stall(machine, state, sm, slot, cause, reason, cycles):
    """Counts the cycles of a stall that begins: of a warp at its next step, because of the step `cause`."""
    if detailed(state):
        state.causes[at(sm.index * WARPS + slot)] = cause
    count(machine, state, sm, slot, sm.step[at(slot)], cause, reason, cycles)


@inline
def count(machine, state, sm, slot, step, cause, reason, cycles):
    """Counts cycles of a warp under a WarpState: at a step, because of another."""
    state.tally[0].states[at(reason)] += cycles
    if detailed(state):
        state.lines[account(machine, slot % machine.chip[0].schedulers, step) + at(reason)] += cycles
        state.caused[at((cause << LABEL_BITS) + reason)] += cycles


@inline
def cause_of(machine, state, index, step, cycle):
    """The step because of which a warp waits until a cycle for its registers; itself where it is the limit of loads."""
    if not detailed(state):
        return step
    chip, ins = machine.chip[0], machine.program[at(step)]
    for i in range(ins.operands, ins.operands_end):
        register = at(index * chip.registers + machine.operands[at(i)])
        held = state.registers[register]
        if (held >> LABEL_BITS) + chip.latency_to[at((held & _LABEL) * CLASSES + ins.op)] == cycle:
            return state.writers[register]
    return step


@inline
def refuse(state, sm, s, op, cycles):
    """The unit of a class refuses all eligible warps of a scheduler for some cycles."""
    if detailed(state):
        state.refused[_unit(sm, s, op)] += cycles


@inline
def _unit(sm, s, op):
    return at((sm.index * SCHEDULERS + s) * CLASSES + op)


@inline
def begin_wait(machine, state, sm, slot):
    """A warp is eligible from now on."""
    unit = _unit(sm, slot % machine.chip[0].schedulers, sm.op[at(slot)])
    state.refused_before[at(sm.index * WARPS + slot)] = state.refused[unit]


@inline
def begin_waits(machine, state, sm, woken):
    """Warps are eligible from now on."""
    while woken != NONE:
        begin_wait(machine, state, sm, first(woken))
        woken = rest(woken)


@inline
def end_wait(machine, state, sm, s, slot, now):
    """Counts the cycles up to `now`, exclusive, in which an eligible warp did not issue."""
    op, begin = sm.op[at(slot)], account(machine, s, sm.step[at(slot)])
    cause, throttle = np.int64(sm.step[at(slot)]) << LABEL_BITS, machine.chip[0].throttle[at(op)]
    refused = state.refused[_unit(sm, s, op)] - state.refused_before[at(sm.index * WARPS + slot)]
    waited = now - (sm.wake[at(slot)] >> LABEL_BITS) - refused
    state.lines[begin + at(throttle)] += refused
    state.caused[at(cause + throttle)] += refused
    state.lines[begin + at(_NOT_SELECTED)] += waited
    state.caused[at(cause + _NOT_SELECTED)] += waited


@inline
def select(machine, state, sm, s, slot, now):
    """Counts that a warp issues now, and that it waited for that."""
    end_wait(machine, state, sm, s, slot, now)
    state.lines[account(machine, s, sm.step[at(slot)]) + at(_SELECTED)] += 1
    state.caused[at((np.int64(sm.step[at(slot)]) << LABEL_BITS) + _SELECTED)] += 1

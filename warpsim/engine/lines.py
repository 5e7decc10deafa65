"""Where the warp-cycles of every program line go, by scheduler. docs/model.md, section 7.

Counted in detailed runs only, which the compiler knows by the type of `State.detail`. A stall is counted at once when it
begins, as in `accounting`. How long an eligible warp waited is known when it issues; for how much of that its unit refused all
warps of its class, two readings of a running count tell.
"""

from warpsim.engine.bits import NONE, at, first, rest
from warpsim.engine.jit import inline
from warpsim.engine.state import CLASSES, LABEL_BITS, SCHEDULERS, WARPS, WarpState

_SELECTED, _NOT_SELECTED = int(WarpState.SELECTED), int(WarpState.NOT_SELECTED)


@inline
def detailed(state):
    """Whether lines are counted, and issues kept; known when this is compiled."""
    return state.detail.ndim == 2


@inline
def account(machine, s, step):
    """Where the counts of a step at scheduler s begin in `State.lines`."""
    return at(((s * len(machine.program)) + step) << LABEL_BITS)


@inline
def count(machine, state, s, step, reason, cycles):
    """Counts cycles of one warp of scheduler s, whose next step this is, under a WarpState."""
    state.tally[0].states[at(reason)] += cycles
    if detailed(state):
        state.lines[account(machine, s, step) + at(reason)] += cycles


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
    refused = state.refused[_unit(sm, s, op)] - state.refused_before[at(sm.index * WARPS + slot)]
    state.lines[begin + at(machine.chip[0].throttle[at(op)])] += refused
    state.lines[begin + at(_NOT_SELECTED)] += now - (sm.wake[at(slot)] >> LABEL_BITS) - refused


@inline
def select(machine, state, sm, s, slot, now):
    """Counts that a warp issues now, and that it waited for that."""
    end_wait(machine, state, sm, s, slot, now)
    state.lines[account(machine, s, sm.step[at(slot)]) + at(_SELECTED)] += 1

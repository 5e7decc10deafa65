"""Where every warp-cycle and every scheduler-cycle goes. docs/model.md, section 7.

A stall is counted at once when it begins, since its end is known then; what of it lies beyond the edge of the window is
put right at the edge (`settle`). Warps that are eligible but do not issue are counted cycle by cycle, the cycles in which
an SM is not looked at all together at the next look (`catch_up`).
"""

import numpy as np

from warpsim.engine.bits import NONE, first, size
from warpsim.engine.jit import inline, jit
from warpsim.engine.state import Life, WarpState

_RUNNING, _AT_BARRIER, _DRAINING = int(Life.RUNNING), int(Life.AT_BARRIER), int(Life.DRAINING)
_NOT_SELECTED, _BARRIER, _LONG = int(WarpState.NOT_SELECTED), int(WarpState.BARRIER), int(WarpState.LONG_SCOREBOARD)


@inline
def catch_up(machine, state, sm, now):
    """Counts the eligible warps of an SM over the cycles before `now` in which nobody looked at it.

    In none of them could one issue: its scheduler was busy, or its unit.
    """
    chip, unit = machine.chip[0], state.sms[sm]
    cycles = now - 1 - unit.visited
    since = unit.visited + 1
    unit.visited = now - 1
    if cycles == 0 or unit.ready == NONE:
        return
    base = sm * chip.seats * chip.block_warps
    for s in range(chip.schedulers):
        scheduler = state.schedulers[sm * chip.schedulers + s]
        eligible = unit.ready & scheduler.warps
        if eligible == NONE:
            continue
        busy = min(max(scheduler.next_issue - since, 0), cycles)
        state.states[_NOT_SELECTED] += busy * size(eligible)
        while eligible != NONE:
            op = machine.program[state.warps[base + first(eligible)].step].op
            alike = eligible & state.next_op[sm, op]
            eligible &= ~alike
            state.states[machine.ops[op].throttle] += (cycles - busy) * size(alike)


@inline
def settle(machine, state, edge, sign):
    """Adds (+1) or takes off (-1) what of the stalls that have begun lies at or beyond an edge of the window."""
    for index in range(len(state.warps)):
        warp = state.warps[index]
        if warp.life == _RUNNING:
            state.states[warp.reason] += sign * max(warp.wake - edge, 0)
        elif warp.life == _DRAINING:
            state.states[_LONG] += sign * max(warp.wake + 1 - edge, 0)
        elif warp.life == _AT_BARRIER:
            if sign < 0:
                state.states[_BARRIER] += edge - 1 - warp.held
            warp.held = max(warp.held, edge - 1)
    for index in range(len(state.schedulers)):
        state.tally[0].busy_cycles += sign * max(state.schedulers[index].next_issue - edge, 0)


@jit
def begin_window(machine, state, now):
    """Counts from cycle `now` on, and forgets what was before."""
    for sm in range(len(state.sms)):
        catch_up(machine, state, sm, now)
        state.sms[sm].resident_since = now
    tally = state.tally[0]
    tally.issue_cycles, tally.busy_cycles, tally.latency_sum, tally.loads = 0, 0, 0, 0
    tally.asked_bytes, tally.moved_bytes, tally.retired, tally.lifetime_sum = 0.0, 0.0, 0, 0
    state.states[:] = 0
    state.issued[:] = 0
    state.occupied[:] = 0
    state.histogram[:] = 0
    state.occupancy[:] = 0
    settle(machine, state, now, 1)


@jit
def end_window(machine, state, now):
    """Counts up to cycle `now`, exclusive."""
    for sm in range(len(state.sms)):
        catch_up(machine, state, sm, now)
        unit = state.sms[sm]
        state.occupancy[unit.resident] += np.int64(max(now - unit.resident_since, 0))
        unit.resident_since = now
    settle(machine, state, now, -1)

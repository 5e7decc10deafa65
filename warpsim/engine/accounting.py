"""Where every warp-cycle and every scheduler-cycle goes. docs/model.md, section 7.

A stall is counted at once when it begins, since its end is known then; what of it lies beyond the edge of the window is
put right at the edge (`settle`). Warps that are eligible but do not issue are counted cycle by cycle, the cycles in which
an SM is not looked at all together at the next look (`catch_up`).
"""

import numpy as np

from warpsim.engine.bits import NONE, at, bit, cycle_of, first, label_of, labelled, size
from warpsim.engine.blocks import integrate_residents, note_change
from warpsim.engine.jit import inline, jit
from warpsim.engine.lines import begin_wait, count, detailed, end_wait, refuse
from warpsim.engine.state import WARPS, Life, WarpState

_RUNNING, _AT_BARRIER, _DRAINING = int(Life.RUNNING), int(Life.AT_BARRIER), int(Life.DRAINING)
_LESS, _MORE = np.int64(-1), np.int64(1)  # signs of one type, so that `settle` is compiled once
_NOT_SELECTED, _BARRIER = np.int64(WarpState.NOT_SELECTED), np.int64(WarpState.BARRIER)


@inline
def catch_up(machine, state, sm, now):
    """Counts the eligible warps of an SM over the cycles before `now` in which nobody looked at it.

    In none of them could one issue: its scheduler was busy, or its unit.
    """
    chip, states = machine.chip[0], state.tally[0].states
    since = sm.visited + 1
    sm.visited = now - 1
    cycles = now - since
    if cycles == 0 or sm.ready == NONE:
        return
    for s in range(chip.schedulers):
        eligible = sm.ready & sm.mine[at(s)]
        if eligible == NONE:
            continue
        busy = min(max(sm.next_issue[at(s)] - since, 0), cycles)
        states[_NOT_SELECTED] += busy * size(eligible)
        while eligible != NONE:
            op = sm.op[at(first(eligible))]
            alike = eligible & sm.next_op[at(op)]
            eligible ^= alike
            states[at(chip.throttle[at(op)])] += (cycles - busy) * size(alike)
            refuse(state, sm, s, op, cycles - busy)


@inline
def settle(machine, state, edge, sign):
    """Adds (+1) or takes off (-1) what of the stalls that have begun lies at or beyond an edge of the window."""
    chip, tally = machine.chip[0], state.tally[0]
    for sm in state.sms:
        for slot in range(chip.seats * chip.block_warps):
            warp, s = state.warps[sm.index * WARPS + slot], slot % chip.schedulers
            cycle, reason = cycle_of(sm.wake[slot]), label_of(sm.wake[slot])
            cause = state.causes[sm.index * WARPS + slot] if detailed(state) else np.int64(0)
            if warp.life == _RUNNING:
                count(machine, state, sm, slot, np.int64(sm.step[slot]), cause, reason, sign * max(cycle - edge, 0))
                if detailed(state) and (sm.ready & bit(slot)) != NONE:
                    end_wait(machine, state, sm, s, slot, edge)
                    sm.wake[slot] = labelled(edge, reason)
                    begin_wait(machine, state, sm, slot)
            elif warp.life == _DRAINING:
                count(machine, state, sm, slot, np.int64(sm.step[slot]), cause, reason, sign * max(cycle + 1 - edge, 0))
            elif warp.life == _AT_BARRIER:
                if sign < 0:
                    count(machine, state, sm, slot, warp.barrier, warp.barrier, _BARRIER, edge - 1 - warp.held)
                warp.held = max(warp.held, edge - 1)
        for s in range(chip.schedulers):
            tally.carried += sign * max(sm.next_issue[s] - edge, 0)


@jit
def begin_window(machine, state, now):
    """Counts from cycle `now` on, and forgets what was before."""
    tally = state.tally[0]
    tally.changes = 0
    for sm in state.sms:
        catch_up(machine, state, sm, now)
        integrate_residents(state, sm, now)
        sm.warp_cycles = 0
        note_change(state, sm, now)
    settle(machine, state, now, _LESS)
    tally.pairs, tally.pair_busy, tally.carried = 0, 0, 0
    tally.latency_sum, tally.moved_bytes, tally.retired, tally.lifetime_sum = 0, 0.0, 0, 0
    tally.states[:] = 0
    tally.histogram[:] = 0
    tally.occupancy[:] = 0
    state.issued[:] = 0
    state.lines[:] = 0
    state.caused[:] = 0
    settle(machine, state, now, _MORE)


@jit
def pause(machine, state, now):
    """Has the counters hold what was counted up to cycle `now`, exclusive."""
    for sm in state.sms:
        catch_up(machine, state, sm, now)
        integrate_residents(state, sm, now)
    settle(machine, state, now, _LESS)


@jit
def resume(machine, state, now):
    """Goes on counting after a `pause` at cycle `now`."""
    settle(machine, state, now, _MORE)

"""The whole chip: one cycle of an SM, then the run. docs/model.md, sections 1 and 3."""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.accounting import catch_up
from warpsim.engine.bits import NONE, bit, first, rest, size
from warpsim.engine.blocks import arrive, exit_warp, start_block, start_due_blocks, vacate_drained
from warpsim.engine.jit import inline, jit
from warpsim.engine.pipelines import FOREVER, execute, issuable_among, ready_cycle, unit_accepts
from warpsim.engine.schedulers import pick
from warpsim.engine.state import WHEEL, Kind, Outcome, WarpState
from warpsim.engine.wheel import call_sm, next_call, sleep_until, wake

_LOAD, _STORE, _BARRIER, _EXIT = int(Kind.LOAD), int(Kind.STORE), int(Kind.BARRIER), int(Kind.EXIT)
_WAIT, _SELECTED, _NOT_SELECTED = int(WarpState.WAIT), int(WarpState.SELECTED), int(WarpState.NOT_SELECTED)
_STOPPED, _FINISHED, _DEADLOCK = int(Outcome.STOPPED), int(Outcome.FINISHED), int(Outcome.DEADLOCK)


@inline
def pairs(machine, state, sm, scheduler, index, kind, now):
    """Whether the warp's next instruction can issue in the same cycle as the one of `kind` that just did."""
    if kind > _STORE:
        return False
    warp = state.warps[index]
    following = machine.program[warp.step]
    if kind == _LOAD and following.kind == _LOAD:
        return False
    cycle, _ = ready_cycle(machine, state, index, warp.step, now, _WAIT)
    if cycle > now or not unit_accepts(machine, state, sm, scheduler, following.op, now):
        return False
    return following.kind != _LOAD or memory.admits(machine, state, sm, now)


@inline
def issue(machine, state, sm, scheduler_in_sm, slot, now):
    """Issues one instruction of a warp, or two, and sends the warp to sleep until its next one. False: a deadlock."""
    chip = machine.chip[0]
    index = sm * chip.seats * chip.block_warps + slot
    warp = state.warps[index]
    step_index = warp.step
    kind, slots, gap = execute(machine, state, sm, scheduler_in_sm, slot, index, now)
    if chip.issue_width == 2 and pairs(machine, state, sm, scheduler_in_sm, index, kind, now):
        step_index = warp.step
        kind, more_slots, more_gap = execute(machine, state, sm, scheduler_in_sm, slot, index, now)
        slots, gap = max(slots, more_slots), max(gap, more_gap)

    scheduler = state.schedulers[sm * chip.schedulers + scheduler_in_sm]
    scheduler.last = slot
    scheduler.greedy = slot if kind != _EXIT else -1
    scheduler.next_issue = now + chip.issue_interval * slots
    state.tally[0].issue_cycles += 1
    state.tally[0].busy_cycles += chip.issue_interval * slots - 1
    state.states[_SELECTED] += 1

    if kind == _EXIT:
        return exit_warp(machine, state, sm, slot, index, now)
    if kind == _BARRIER:
        return arrive(machine, state, sm, slot, index, step_index, gap, now)
    cycle, reason = ready_cycle(machine, state, index, warp.step, now + gap, _WAIT)
    warp.wake, warp.reason = cycle, reason
    state.states[reason] += cycle - now - 1
    sleep_until(state, sm, slot, now, cycle)
    return True


@inline
def cycle_of_sm(machine, state, sm, now):
    """One cycle of one SM: wake, pick, issue, account. False: a deadlock."""
    chip, unit = machine.chip[0], state.sms[sm]
    catch_up(machine, state, sm, now)
    unit.visited = now
    if unit.due > 0:
        start_due_blocks(machine, state, sm, now)
    woken = wake(machine, state, sm, now)
    drained = woken & unit.draining
    if drained != NONE:
        vacate_drained(machine, state, sm, drained, now)
        woken &= ~drained
    unit.ready |= woken
    if unit.ready == NONE:
        return True

    again = np.int64(FOREVER)
    s = now % chip.schedulers
    for _ in range(chip.schedulers):
        scheduler = state.schedulers[sm * chip.schedulers + s]
        eligible = unit.ready & scheduler.warps
        if eligible != NONE:
            if now < scheduler.next_issue:
                state.states[_NOT_SELECTED] += size(eligible)
                again = min(again, scheduler.next_issue)
            else:
                issuable, retry = issuable_among(machine, state, sm, s, eligible, now)
                if issuable == NONE:
                    again = min(again, retry)
                else:
                    base = sm * chip.seats * chip.block_warps
                    slot = pick(chip.policy, issuable, scheduler, unit, state.warps, base)
                    state.states[_NOT_SELECTED] += size(issuable) - 1
                    unit.ready &= ~bit(slot)
                    if not issue(machine, state, sm, s, slot, now):
                        return False
                    if eligible & ~bit(slot) != NONE:
                        again = min(again, scheduler.next_issue)
        s += 1
        if s == chip.schedulers:
            s = 0
    if again < FOREVER:
        call_sm(state, sm, min(max(again, now + 1), now + WHEEL - 1))
    return True


@jit
def start(machine, state):
    """Deals blocks to the SMs in turn, seat by seat, at cycle 0."""
    chip = machine.chip[0]
    for seat in range(chip.seats):
        for sm in range(chip.sms):
            start_block(machine, state, sm, seat, 0)
    for sm in range(chip.sms):
        call_sm(state, sm, 0)


@jit
def run(machine, state, stop):
    """Runs the chip from `state.clock.cycle` up to cycle `stop`, exclusive; returns an Outcome."""
    clock = state.clock[0]
    now = clock.cycle
    while True:
        now = next_call(state, now, stop)
        if now < 0:
            clock.cycle = clock.last_retire + 1
            return _FINISHED
        if now >= stop:
            clock.cycle = stop
            return _STOPPED
        for word in range(state.wake_sms.shape[1]):
            called = state.wake_sms[now & (len(state.wake_sms) - 1), word]
            state.wake_sms[now & (len(state.wake_sms) - 1), word] = NONE
            while called != NONE:
                sm = 64 * word + first(called)
                called = rest(called)
                if not cycle_of_sm(machine, state, sm, now):
                    clock.cycle = now
                    return _DEADLOCK
        now += 1

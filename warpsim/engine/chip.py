"""The whole chip: one cycle of an SM, then the run. docs/model.md, sections 1 and 3."""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.accounting import catch_up
from warpsim.engine.bits import NONE, at, bit, first, rest, size
from warpsim.engine.blocks import arrive, exit_warp, start_block, start_due_blocks, vacate_drained
from warpsim.engine.jit import inline, jit
from warpsim.engine.lines import begin_waits, detailed, select, stall
from warpsim.engine.pipelines import FOREVER, begin, cause_of, execute, issuable_among, move_to, ready_cycle, unit_accepts, write
from warpsim.engine.rng import stream_of
from warpsim.engine.schedulers import pick
from warpsim.engine.state import WARPS, WHEEL, Kind, Outcome, WarpState
from warpsim.engine.wheel import call_sm, next_call, sleep_until, wake

_LOAD, _STORE, _BARRIER, _EXIT = int(Kind.LOAD), int(Kind.STORE), int(Kind.BARRIER), int(Kind.EXIT)
_WAIT, _NOT_SELECTED = np.int64(WarpState.WAIT), np.int64(WarpState.NOT_SELECTED)
_STOPPED, _FINISHED, _DEADLOCK = int(Outcome.STOPPED), int(Outcome.FINISHED), int(Outcome.DEADLOCK)


@inline
def pairs(machine, state, sm, s, following, kind, now):
    """Whether a warp's next instruction, ready now, can issue in the same cycle as the one of `kind` that just did."""
    if kind > _STORE or (kind == _LOAD and following.kind == _LOAD):
        return False
    if not unit_accepts(machine.chip[0], sm, s, following.op, now):
        return False
    accesses = following.kind == _LOAD or following.kind == _STORE
    return not accesses or memory.admits(machine, state, sm, np.int64(following.kind), now)


@inline
def issue(machine, state, sm, s, slot, now):
    """Issues one instruction of a warp, or two, and sends the warp to sleep until its next one. False: a deadlock."""
    if detailed(state):
        select(machine, state, sm, s, slot, now)
    sm.last[at(s)] = slot
    sm.greedy[at(s)] = slot
    step_index = np.int64(sm.step[at(slot)])
    ins = machine.program[at(step_index)]
    if ins.delay == 0:
        return issue_any(machine, state, sm, s, slot, now)
    begin(machine, state, sm, s, slot, ins, step_index, now)
    write(machine, state, sm, slot, ins, ins.foreseen_dst, now + ins.latency)
    move_to(machine, sm, slot, ins.op, step_index + 1)
    sm.next_issue[at(s)] = now + ins.busy
    stall(machine, state, sm, slot, step_index, np.int64(ins.reason), ins.delay - 1)
    sleep_until(state, sm, slot, now, now + ins.delay, np.int64(ins.reason))
    return True


@inline
def issue_any(machine, state, sm, s, slot, now):
    """The same where the wait is not known before: of one instruction, or two that pair."""
    chip, tally = machine.chip[0], state.tally[0]
    index = sm.index * WARPS + slot
    gap, busy, paired = np.int64(0), np.int64(0), False
    while True:
        issued = sm.step[at(slot)]
        ins = machine.program[at(issued)]
        gap = max(gap, execute(machine, state, sm, s, slot, now))
        busy = max(busy, ins.busy)
        following = machine.program[at(sm.step[at(slot)])]
        ready, reason = ready_cycle(machine, state, index, following, now, _WAIT)
        if paired or chip.issue_width == 1 or ready > now or not pairs(machine, state, sm, s, following, ins.kind, now):
            break
        paired = True
        tally.pairs += 1
        tally.pair_busy += min(ins.busy, following.busy)
    sm.next_issue[at(s)] = now + busy

    if ins.kind == _EXIT:
        sm.greedy[at(s)] = -1
        return exit_warp(machine, state, sm, slot, now)
    if ins.kind == _BARRIER:
        return arrive(machine, state, sm, slot, issued, gap, now)
    cause = issued
    if ready <= now + gap:
        ready, reason = now + gap, _WAIT
    else:
        cause = cause_of(machine, state, index, sm.step[at(slot)], ready)
    stall(machine, state, sm, slot, cause, reason, ready - now - 1)
    sleep_until(state, sm, slot, now, ready, reason)
    return True


@inline
def cycle_of_sm(machine, state, sm, now):
    """One cycle of one SM: wake, pick, issue, account. False: a deadlock."""
    chip, tally = machine.chip[0], state.tally[0]
    if (sm.ready != NONE) & (sm.visited + 1 != now):
        catch_up(machine, state, sm, now)
    sm.visited = now
    if sm.due > 0:
        start_due_blocks(machine, state, sm, now)
    woken = wake(state, sm, now)
    drained = woken & sm.draining
    if drained != NONE:
        vacate_drained(machine, state, sm, drained, now)
        woken ^= drained
    if detailed(state):
        begin_waits(machine, state, sm, woken)
    ready, issued = sm.ready | woken, NONE  # schedulers own different warps, so none waits for another one's choice
    again = np.int64(FOREVER)
    s = now % chip.schedulers
    for _ in range(chip.schedulers):
        eligible = ready & sm.mine[at(s)]
        if eligible != NONE:
            if now < sm.next_issue[at(s)]:
                tally.states[_NOT_SELECTED] += size(eligible)
                again = min(again, sm.next_issue[at(s)])
            else:
                issuable, retry = issuable_among(machine, state, sm, s, eligible, now)
                if issuable == NONE:
                    again = min(again, retry)
                else:
                    slot = pick(chip.policy, issuable, sm, s, state.warps)
                    tally.states[_NOT_SELECTED] += size(issuable) - 1
                    issued |= bit(slot)
                    if not issue(machine, state, sm, s, slot, now):
                        return False
                    again = min(again, sm.next_issue[at(s)] if eligible != bit(slot) else np.int64(FOREVER))
        s += 1
        if s == chip.schedulers:
            s = 0
    sm.ready = ready ^ issued
    entry = at(sm.calls + (min(max(again, now + 1), now + WHEEL - 1) & (WHEEL - 1)))
    state.calls[entry] |= sm.me if again < FOREVER else NONE
    return True


@jit
def start(machine, state):
    """Deals blocks to the SMs in turn, seat by seat, at cycle 0."""
    chip, cycle = machine.chip[0], np.int64(0)
    for sm in state.sms:
        for s in range(chip.schedulers):
            sm.last[s], sm.greedy[s] = -1, -1
            sm.stream[s] = stream_of(chip.seed, -2 - (sm.index * chip.schedulers + s))
        call_sm(state, sm, cycle)
    for seat in range(chip.seats):
        for sm in state.sms:
            start_block(machine, state, sm, seat, cycle)


@inline
def empty(machine, state):
    """Whether the supply is used up, and every warp has left."""
    chip = machine.chip[0]
    residents = 0
    for sm in state.sms:
        residents += sm.resident
    return chip.blocks >= 0 and state.clock[0].next_block >= chip.blocks and residents == 0


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
            if not empty(machine, state):
                return _STOPPED
            clock.cycle = clock.last_retire + 1
            return _FINISHED
        for word in range(0, len(state.calls), WHEEL):
            entry = at(word + (now & (WHEEL - 1)))
            called = state.calls[entry]
            state.calls[entry] = NONE
            while called != NONE:
                sm = state.sms[at(word // WHEEL * 64 + first(called))]
                called = rest(called)
                if not cycle_of_sm(machine, state, sm, now):
                    clock.cycle = now
                    return _DEADLOCK
        now += 1

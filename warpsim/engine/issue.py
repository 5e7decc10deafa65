"""One warp instruction issues, unless its scheduler runs ahead with it (ahead.py). docs/model.md, section 3.

It is executed, and then the warp's next step is compared with the registers that it names (`execute`, `complete`).
"""

import numpy as np

from warpsim.engine.attribution import is_busy
from warpsim.engine.bits import at, bit, end_of, known_wait_from, wait_until
from warpsim.engine.blocks import arrive, exit_warp
from warpsim.engine.constants import ACCESS_BITS, NEVER, UNIT_PART, Kind, WarpState
from warpsim.engine.control import follow
from warpsim.engine.exchange import access
from warpsim.engine.fetch import fetch_after, fetched_from
from warpsim.engine.hints import count_step, has_hints
from warpsim.engine.lanes import blocked, filled, later, load, replaced, store, time_of, using
from warpsim.engine.mbarriers import awaits_mbarrier, has_mbarriers, names_mbarrier, note_copy, pass_mbarrier
from warpsim.engine.places import scheduler_at
from warpsim.engine.ports import busy_with_ports, pass_ports
from warpsim.engine.registers import room_for_load, wait_of, write
from warpsim.engine.schedulers import end_greed, rank_after_issue
from warpsim.engine.timetable import alarm
from warpsim.engine.units import close_if_full, note_shared_issue, occupy, unit_open_from
from warpsim.engine.waiting import wait_for_step
from warpsim.jit.decorators import inline


@inline
def execute(machine, state, sm, s, slot, warp, step, cycle):
    """Has a step of a warp take effect: at its unit, in memory, in its register; moves the warp on. Returns the step's gap."""
    index = sm.first_index + slot
    ins = machine.program[at(step)]
    kind, op, gap = ins.kind, ins.op, np.int64(ins.gap)
    queued = occupy(machine, state, sm, s, ins, cycle)
    note_shared_issue(machine, sm, s, op)
    scheduler = scheduler_at(state, sm, s)
    pass_ports(machine.reads, machine.chip[0], scheduler, ins, slot, step, cycle)
    ready = cycle + queued + ins.latency
    if kind == Kind.LOAD or kind == Kind.STORE:
        ready = access(machine, state, sm, index, warp, step, cycle, queued)
        close_if_full(machine, state, sm, kind, cycle, cycle + 1)
    write(machine, state, index, ins.dst, ready, step)
    if has_mbarriers(machine.mbarriers):
        scheduler.ready = ready
        note_copy(machine.mbarriers, machine, state, index, step, ready)
    if has_hints(machine.hints):
        count_step(machine.hints, machine, state, index, step, cycle, queued, ready)
    if kind != Kind.EXIT:  # there is nothing after it
        following = ins.following
        if following < 0 or kind == Kind.BRANCH:
            warp_in_block = machine.chip[0].warp_of[at(slot)]
            following, gap = follow(machine, state, index, warp_in_block, step)
        warp.step = following
    fetch_after(machine.addresses, machine, state, sm, s, slot, step, warp.step, cycle)
    return gap


@inline
def may_pair(machine, state, sm, slot, warp, first, cycle):
    """Returns whether the next step of a warp is eligible in the cycle in which its step `first` has just issued."""
    kind, step = machine.program[at(first)].kind, warp.step
    if not machine.program[at(first)].may_pair or (kind == Kind.LOAD and machine.program[at(step)].kind == Kind.LOAD):
        return False
    index = sm.first_index + slot
    if fetched_from(machine.addresses, state, index) > cycle or names_mbarrier(machine.mbarriers, step):
        return False
    if end_of(wait_of(machine, state, index, step, wait_until(cycle, first, WarpState.WAIT))) > cycle:
        return False
    limited = machine.chip[0].loads_per_warp > 0 and machine.program[at(step)].kind == Kind.LOAD
    return not limited or room_for_load(machine, state, index) <= cycle


@inline
def complete(machine, state, sm, s, scheduler, lane, slot, warp, step, gap, busy, paired, cycle, end):
    """A warp has issued all that it issues in a cycle, last a step: it waits for its next one. False: a deadlock.

    `gap` and `busy` are the larger ones of a pair; `end` is the end of the window.
    """
    chip = machine.chip[0]
    index = sm.first_index + slot
    ins = machine.program[at(step)]
    kind = ins.kind
    busy = busy_with_ports(machine.reads, machine, state, sm, s, scheduler, cycle, busy)
    scheduler.next_issue = cycle + busy
    if busy > 1:
        is_busy(machine, state, sm, s, cycle + 1, cycle + busy)
    warp.since = cycle
    time = NEVER
    if kind != Kind.EXIT and kind != Kind.BARRIER:
        if ins.delay > 0 and not paired:
            warp.wait = known_wait_from(cycle, ins)
            time = alarm(sm, scheduler, slot, warp.wait)
        elif not awaits_mbarrier(machine.mbarriers, step):  # else it is held, or waits, below
            warp.wait = wait_until(cycle + gap, step, machine.classes[at(ins.op)].after)
            if ins.awaited:
                sm.pending |= bit(slot)
            elif wait_for_step(machine, state, sm, s, slot, index, warp):
                time = alarm(sm, scheduler, slot, warp.wait)
    following, facts = machine.program[at(warp.step)], machine.classes[at(ins.op)]
    uses = replaced(load(scheduler.uses), lane, following.uses)
    wakes = later(replaced(load(scheduler.wakes), lane, time), filled(time_of(sm, cycle + busy), uses))
    if facts.queue > 0:  # if that is full now, no warp that needs it issues before there is room
        room = min(unit_open_from(machine, sm, s, facts), end)
        wakes = blocked(wakes, using(uses, UNIT_PART, facts.unit << ACCESS_BITS), time_of(sm, room))
    store(scheduler.uses, uses)
    store(scheduler.delays, replaced(load(scheduler.delays), lane, following.own_delay))
    store(scheduler.wakes, wakes)
    rank_after_issue(machine, state, sm, s, scheduler, lane, cycle)
    if kind == Kind.EXIT:
        end_greed(chip, scheduler)
        return exit_warp(machine, state, sm, slot, warp, cycle, end)
    if kind == Kind.BARRIER:
        return arrive(machine, state, sm, slot, warp, step, gap, cycle)
    if names_mbarrier(machine.mbarriers, step):
        return pass_mbarrier(machine.mbarriers, machine, state, sm, slot, warp, step, gap, cycle, scheduler.ready)
    return True

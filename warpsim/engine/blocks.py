"""Thread blocks: launch, barriers, retirement. docs/model.md, section 4."""

import numpy as np

from warpsim.engine.attribution import count_barrier
from warpsim.engine.bits import NONE, at, bit, end_of, first, rest, wait_until
from warpsim.engine.constants import FOREVER, NEVER_WRITTEN, Life, WarpState
from warpsim.engine.control import entry_of, next_instruction
from warpsim.engine.fetch import begin_fetch
from warpsim.engine.hints import forget_counted, has_hints
from warpsim.engine.mbarriers import all_are_held, forget_phases, has_mbarriers, stuck
from warpsim.engine.places import scheduler_at, seat_number
from warpsim.engine.registers import state_after_exit
from warpsim.engine.rng import stream_of
from warpsim.engine.schedulers import make_youngest
from warpsim.engine.timetable import set_alarm
from warpsim.engine.waiting import count_wait, wait_for_next
from warpsim.jit.decorators import inline

_NO_BARRIER, _DIFFERENT = -1, -2  # of a seat: nobody waits; warps wait at different barriers
_NONE = -1  # of a seat: no block is to start


@inline
def seat_of(machine, state, sm, slot):
    """Returns the seat to which a warp slot belongs."""
    return state.seats[at(seat_number(machine.chip[0], sm, slot))]


# Occupancy


@inline
def change_population(state, sm, change, cycle):
    """The number of an SM's resident warps changes at a cycle of the latest window, or at the first one after it."""
    relative = cycle - state.clock[0].begin
    sm.population[at(relative)] += change
    sm.changed[at(relative >> 6)] |= bit(relative & 63)


@inline
def count_residents(state, sm, cycle):
    """Counts the resident warps of an SM up to a cycle, exclusive."""
    cycles = cycle - sm.resident_since
    state.tally[0].occupancy[at(sm.resident)] += cycles
    sm.warp_cycles += sm.resident * cycles
    sm.resident_since = cycle


@inline
def note_change(state, sm, cycle):
    """Keeps the number of an SM's resident warps from a cycle on, while there is room; counts the changes."""
    tally = state.tally[0]
    if tally.n_changes < len(state.changes):
        row = state.changes[tally.n_changes]
        row[0], row[1], row[2] = cycle, sm.index, sm.resident
    tally.n_changes += 1


@inline
def count_population(state, sm):
    """Counts the resident warps of an SM up to the last change of the latest window, of which all requests are served."""
    begin = state.clock[0].begin
    for word in range(len(sm.changed)):
        while sm.changed[at(word)] != NONE:
            relative = 64 * word + first(sm.changed[at(word)])
            sm.changed[at(word)] = rest(sm.changed[at(word)])
            change = np.int64(sm.population[at(relative)])
            if change != 0:
                sm.population[at(relative)] = 0
                count_residents(state, sm, begin + relative)
                sm.resident += change
                note_change(state, sm, begin + relative)


# Launch


@inline
def start_blocks(machine, state, sm, end):
    """Starts the blocks that are to start before the end of the window, by cycle, then number, since age is order of launch."""
    seats = machine.chip[0].seats
    while sm.next_start < end:
        sm.next_start, block, chosen = FOREVER, FOREVER, _NONE
        for number in range(seats):
            seat = state.seats[at(sm.index * seats + number)]
            start, is_tie = seat.next_start, seat.next_start == sm.next_start
            if 0 <= start and (start < sm.next_start or (is_tie and seat.next_block < block)):
                sm.next_start, block, chosen = start, seat.next_block, number
        if sm.next_start < end:
            start_block(machine, state, sm, state.seats[at(sm.index * seats + chosen)], chosen)


@inline
def start_block(machine, state, sm, seat, number_on_sm):
    """Starts the block that has been assigned to a seat; its warps issue one after another, unless phases.py has placed them.

    Those of the first blocks of an SM wait for constants.
    """
    chip, now = machine.chip[0], seat.next_start
    sm.constants = min(sm.constants, now + chip.cold_constants)
    seat.block = seat.next_block
    seat.next_start, seat.next_block = _NONE, _NONE
    seat.live, seat.unresolved, seat.waiting, seat.barrier, seat.retire = chip.block_warps, 0, 0, _NO_BARRIER, now
    change_population(state, sm, chip.block_warps, now)
    first_slot = number_on_sm * chip.block_warps
    if has_mbarriers(machine.mbarriers):
        forget_phases(machine, state, sm.index * chip.seats + number_on_sm, sm.first_index + first_slot)
    for warp_in_block in range(chip.block_warps):
        slot = first_slot + warp_in_block
        index = sm.first_index + slot
        warp = state.warps[at(index)]
        warp.life, warp.start, warp.requested = Life.RUNNING, now, 0
        warp.last_return, warp.last_access_issue, warp.last_access = now, now, 0
        state.latest[at(index)] = wait_until(now, 0, 0)
        for register in range(chip.registers):
            state.registers[at(index * chip.registers + register)] = wait_until(NEVER_WRITTEN, 0, 0)
        if has_hints(machine.hints):
            forget_counted(machine, state, index)
        for i in range(state.returns.shape[1]):
            state.returns[at(index), at(i)] = now
        if chip.iteration == 0 or now > 0:
            number = seat.block * chip.block_warps + warp_in_block
            warp.stream = stream_of(chip.seed, number)
            step = next_instruction(machine, state, index, entry_of(machine, number))
            warp.step = step
            warp.wait = wait_until(now + warp_in_block * chip.warp_launch, step, WarpState.WAIT)
            if end_of(warp.wait) < sm.constants:
                warp.wait = wait_until(sm.constants, step, WarpState.IMC_MISS)
        step = warp.step
        begin_fetch(machine.addresses, machine, state, sm, slot, step)
        s = chip.scheduler_of[at(slot)]
        warp.since = now - 1
        count_wait(machine, state, s, warp, warp.wait)
        scheduler = scheduler_at(state, sm, s)
        lane = at(chip.lane_of[at(slot)])
        scheduler.uses[lane], scheduler.delays[lane] = machine.program[at(step)].uses, machine.program[at(step)].own_delay
        make_youngest(chip, scheduler, lane)
        set_alarm(machine, state, sm, slot, warp.wait)


# Retirement


@inline
def exit_warp(machine, state, sm, slot, warp, now, end):
    """`exit` has issued: the warp leaves when its last access is back, the block with its last warp. False: a deadlock."""
    seat = seat_of(machine, state, sm, slot)
    seat.live -= 1
    seat.unresolved += 1
    warp.life, warp.since = Life.DRAINING, now
    if warp.requested > 0:
        sm.pending |= bit(slot)
    else:
        retire_warp(machine, state, sm, slot, warp, max(now, warp.last_return), end)
    return seat.live == 0 or release_if_complete(machine, state, sm, slot, now)


@inline
def retire_warp(machine, state, sm, slot, warp, last, end):
    """The last cycle of a warp that has issued `exit` is known; `end` is that of the window."""
    chip, clock, seat = machine.chip[0], state.clock[0], seat_of(machine, state, sm, slot)
    warp.wait = wait_until(last + 1, warp.last_access, state_after_exit(machine, warp.last_access))
    count_wait(machine, state, chip.scheduler_of[at(slot)], warp, warp.wait)
    seat.retire = max(seat.retire, last)
    seat.unresolved -= 1
    if last < end:
        vacate(machine, state, sm, slot, warp, seat.block, last)
    else:
        sm.draining |= bit(slot)
        sm.next_leave = min(sm.next_leave, last)
        sm.next_event = min(sm.next_event, last)
    if seat.live == 0 and seat.unresolved == 0:
        clock.last_retire = max(clock.last_retire, seat.retire)
        if chip.blocks < 0 or clock.next_block < chip.blocks:
            seat.next_start = max(seat.retire + chip.block_launch, seat.retire + 1)
            sm.next_start = min(sm.next_start, seat.next_start)
            sm.next_event = min(sm.next_event, seat.next_start)


@inline
def vacate(machine, state, sm, slot, warp, block, last):
    """Empties the slot of a warp after its last cycle, which lies in the window."""
    chip, tally = machine.chip[0], state.tally[0]
    if tally.retired < len(state.lives):
        row = state.lives[tally.retired]
        row[0], row[1] = block * chip.block_warps + chip.warp_of[at(slot)], sm.index
        row[2], row[3], row[4] = warp.start, last, slot
    tally.retired += 1
    tally.lifetime_sum += last - warp.start + 1
    warp.life = Life.EMPTY
    change_population(state, sm, -1, last + 1)


@inline
def vacate_drained(machine, state, sm, end):
    """Empties the slots of the warps whose last accesses return before the end of the window."""
    if sm.next_leave >= end:
        return
    draining = sm.draining
    sm.next_leave = FOREVER
    while draining != NONE:
        slot = first(draining)
        draining = rest(draining)
        warp = state.warps[at(sm.first_index + slot)]
        last = end_of(warp.wait) - 1
        if last < end:
            sm.draining &= ~bit(slot)
            vacate(machine, state, sm, slot, warp, seat_of(machine, state, sm, slot).block, last)
        else:
            sm.next_leave = min(sm.next_leave, last)


# Barriers


@inline
def arrive(machine, state, sm, slot, warp, barrier, gap, now):
    """A warp has issued a barrier instruction. False: a deadlock."""
    seat = seat_of(machine, state, sm, slot)
    warp.life, warp.since, warp.barrier = Life.AT_BARRIER, now, barrier
    warp.wait = wait_until(now + gap, barrier, machine.classes[at(machine.program[at(barrier)].op)].after)
    alike = seat.waiting == 0 or seat.barrier == barrier or len(machine.entries) > 1  # paths have copies of their barriers
    seat.barrier = barrier if alike else _DIFFERENT
    seat.waiting += 1
    return release_if_complete(machine, state, sm, slot, now)


@inline
def release_if_complete(machine, state, sm, slot, now):
    """Lets the warps of a slot's block go if all live ones wait at one barrier. False: at different ones, a deadlock."""
    chip, seat = machine.chip[0], seat_of(machine, state, sm, slot)
    if has_mbarriers(machine.mbarriers) and all_are_held(machine, state, sm, slot):
        return stuck(chip, state, sm, slot, now)
    if seat.waiting < seat.live:
        return True
    if seat.barrier == _DIFFERENT:
        return stuck(chip, state, sm, slot, now)
    end = now + max(machine.program[at(seat.barrier)].latency, 1)
    seat.waiting, seat.barrier = 0, _NO_BARRIER
    first_slot = slot - chip.warp_of[at(slot)]
    for held in range(first_slot, first_slot + chip.block_warps):
        index = sm.first_index + held
        warp = state.warps[at(index)]
        if warp.life != Life.AT_BARRIER:
            continue
        warp.life = Life.RUNNING
        count_barrier(machine, state, chip.scheduler_of[at(held)], warp, now)
        if end > end_of(warp.wait):
            warp.wait = wait_until(end, warp.barrier, WarpState.BARRIER)
        wait_for_next(machine, state, sm, held, index, warp)
    return True


@inline
def soonest_barrier(machine, state, sm, now, end):
    """Returns a cycle, `now` or later, before which no barrier of an SM is complete; `end` at the latest, that of the window.

    All that issues before cycle `now` has issued.
    """
    seats, soonest = machine.chip[0].seats, end
    for number in range(seats):
        if state.seats[at(sm.index * seats + number)].live > 0:
            soonest = complete_from(machine, state, sm, number, now, soonest)
    return soonest


@inline
def complete_from(machine, state, sm, number_on_sm, now, latest):
    """Returns a cycle, `now` or later, before which the next barrier of a seat's block is not complete; at most `latest`."""
    warps, cycle = machine.chip[0].block_warps, now
    slot = number_on_sm * warps
    last = slot + warps
    while slot < last and cycle < latest:
        warp = state.warps[at(sm.first_index + slot)]
        if warp.life == Life.RUNNING:
            issues_from = latest if (sm.pending & bit(slot)) != NONE else max(end_of(warp.wait), now)
            cycle = max(cycle, issues_from + machine.details[at(warp.step)].to_barrier)
        slot += 1
    return min(cycle, latest)

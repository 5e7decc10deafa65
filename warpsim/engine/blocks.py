"""Thread blocks: launch, barriers, retirement. docs/model.md, section 4."""

import numpy as np

from warpsim.engine.bits import NONE, bit, first, labelled, rest
from warpsim.engine.control import next_instruction
from warpsim.engine.jit import inline, rare
from warpsim.engine.lines import begin_wait, count, detailed, stall
from warpsim.engine.pipelines import cause_of, ready_cycle
from warpsim.engine.rng import stream_of
from warpsim.engine.state import NEVER_WRITTEN, WARPS, WHEEL, Life, WarpState
from warpsim.engine.wheel import call_sm, sleep_until

_EMPTY, _RUNNING, _AT_BARRIER, _DRAINING = int(Life.EMPTY), int(Life.RUNNING), int(Life.AT_BARRIER), int(Life.DRAINING)
_WAIT, _BARRIER, _LONG = np.int64(WarpState.WAIT), np.int64(WarpState.BARRIER), np.int64(WarpState.LONG_SCOREBOARD)
_NO_BARRIER, _DIFFERENT = -1, -2  # of a seat: nobody waits; warps wait at different barriers
_NOT_DUE = -1


@inline
def integrate_residents(state, sm, cycle):
    """Counts the resident warps of an SM up to a cycle, exclusive."""
    cycles = cycle - sm.resident_since
    state.tally[0].occupancy[sm.resident] += cycles
    sm.warp_cycles += sm.resident * cycles
    sm.resident_since = cycle


@inline
def note_change(state, sm, cycle):
    """Keeps the number of an SM's resident warps from a cycle on, while there is room; counts the changes."""
    tally = state.tally[0]
    if tally.changes < len(state.changes):
        row = state.changes[tally.changes]
        row[0], row[1], row[2] = cycle, sm.index, sm.resident
    tally.changes += 1


@inline
def set_residents(state, sm, change, cycle):
    """Changes the number of an SM's resident warps from a cycle on."""
    integrate_residents(state, sm, cycle)
    sm.resident += change
    note_change(state, sm, cycle)


@rare
def start_block(machine, state, sm, seat_in_sm, now):
    """Puts the next block of the supply, if there is one, into a seat; its warps can issue at once."""
    chip, clock = machine.chip[0], state.clock[0]
    seat = state.seats[sm.index * chip.seats + seat_in_sm]
    seat.due = _NOT_DUE
    if chip.blocks >= 0 and clock.next_block >= chip.blocks:
        return
    seat.block = clock.next_block
    clock.next_block += 1
    seat.live, seat.waiting, seat.barrier, seat.retire = chip.block_warps, 0, _NO_BARRIER, now
    set_residents(state, sm, chip.block_warps, now)
    if sm.launched >= chip.seats * chip.block_warps:
        sm.reused = 1
    for warp_in_block in range(chip.block_warps):
        slot = seat_in_sm * chip.block_warps + warp_in_block
        index = sm.index * WARPS + slot
        warp = state.warps[index]
        warp.life, warp.start, warp.last_return = _RUNNING, now, now
        warp.age = sm.launched
        sm.launched += 1
        warp.stream = stream_of(chip.seed, seat.block * chip.block_warps + warp_in_block)
        for register in range(chip.registers):
            state.registers[index * chip.registers + register] = NEVER_WRITTEN
        for i in range(state.returns.shape[1]):
            state.returns[index, i] = now
        sm.wake[slot] = labelled(now, _WAIT)
        sm.step[slot] = next_instruction(machine, state, index, np.int64(0))
        sm.op[slot] = machine.program[sm.step[slot]].op
        sm.next_op[sm.op[slot]] |= bit(slot)
        sm.ready |= bit(slot)
        if detailed(state):
            begin_wait(machine, state, sm, slot)


@rare
def start_due_blocks(machine, state, sm, now):
    """Starts the blocks whose launch ends now, in seat order; has the SM looked at again for those ahead."""
    chip = machine.chip[0]
    sm.due = 0
    for seat_in_sm in range(chip.seats):
        due = state.seats[sm.index * chip.seats + seat_in_sm].due
        if due == now:
            start_block(machine, state, sm, seat_in_sm, now)
        elif due > now:
            sm.due += 1
            call_sm(state, sm, min(due, now + WHEEL - 1))


@inline
def vacate(machine, state, sm, slot, now):
    """A warp's last resident cycle is now: empties its slot."""
    chip, tally, warp = machine.chip[0], state.tally[0], state.warps[sm.index * WARPS + slot]
    if tally.retired < len(state.lives):
        block = state.seats[sm.index * chip.seats + slot // chip.block_warps].block
        row = state.lives[tally.retired]
        row[0], row[1], row[2], row[3] = block * chip.block_warps + slot % chip.block_warps, sm.index, warp.start, now
        row[4] = slot
    tally.retired += 1
    tally.lifetime_sum += now - warp.start + 1
    warp.life = _EMPTY
    set_residents(state, sm, np.int64(-1), now + 1)
    sm.next_op[sm.op[slot]] &= ~bit(slot)


@rare
def vacate_drained(machine, state, sm, drained, now):
    """Empties the slots of the warps whose last loads are back."""
    sm.draining &= ~drained
    while drained != NONE:
        vacate(machine, state, sm, first(drained), now)
        drained = rest(drained)


@rare
def exit_warp(machine, state, sm, slot, now):
    """`exit` has issued: the warp leaves when its loads are back, the block with its last warp. False: a deadlock."""
    chip, clock, warp = machine.chip[0], state.clock[0], state.warps[sm.index * WARPS + slot]
    seat = state.seats[sm.index * chip.seats + slot // chip.block_warps]
    last = max(now, warp.last_return)
    seat.live -= 1
    seat.retire = max(seat.retire, last)
    if last == now:
        vacate(machine, state, sm, slot, now)
    else:
        warp.life = _DRAINING
        cause = state.last_loads[sm.index * WARPS + slot] if detailed(state) else np.int64(0)
        stall(machine, state, sm, slot, cause, _LONG, last - now)
        sm.draining |= bit(slot)
        sleep_until(state, sm, slot, now, last, _LONG)
    if seat.live > 0:
        return release_if_complete(machine, state, sm, slot // chip.block_warps, now)
    clock.last_retire = max(clock.last_retire, seat.retire)
    if chip.blocks < 0 or clock.next_block < chip.blocks:
        seat.due = max(seat.retire + chip.block_launch, seat.retire + 1)
        sm.due += 1
        call_sm(state, sm, min(seat.due, now + WHEEL - 1))
    return True


@rare
def arrive(machine, state, sm, slot, barrier, gap, now):
    """A warp has issued a barrier instruction. False: a deadlock."""
    chip, warp = machine.chip[0], state.warps[sm.index * WARPS + slot]
    seat = state.seats[sm.index * chip.seats + slot // chip.block_warps]
    warp.life, warp.held, warp.free_from, warp.barrier = _AT_BARRIER, now, now + gap, barrier
    seat.barrier = barrier if seat.waiting == 0 or seat.barrier == barrier else _DIFFERENT
    seat.waiting += 1
    return release_if_complete(machine, state, sm, slot // chip.block_warps, now)


@rare
def release_if_complete(machine, state, sm, seat_in_sm, now):
    """Lets a block's warps go if all live ones wait at one barrier. False: they wait at different ones, a deadlock."""
    chip = machine.chip[0]
    seat = state.seats[sm.index * chip.seats + seat_in_sm]
    if seat.waiting < seat.live:
        return True
    if seat.barrier == _DIFFERENT:
        state.clock[0].stuck_sm, state.clock[0].stuck_seat = sm.index, seat_in_sm
        return False
    released = now + max(machine.program[seat.barrier].latency, 1)
    seat.waiting, seat.barrier = 0, _NO_BARRIER
    for warp_in_block in range(chip.block_warps):
        slot = seat_in_sm * chip.block_warps + warp_in_block
        index = sm.index * WARPS + slot
        warp = state.warps[index]
        if warp.life != _AT_BARRIER:
            continue
        warp.life = _RUNNING
        count(machine, state, sm, slot, warp.barrier, warp.barrier, _BARRIER, now - warp.held)
        free, reason = warp.free_from, _WAIT
        if released > free:
            free, reason = released, np.int64(_BARRIER)
        cycle, reason = ready_cycle(machine, state, index, machine.program[sm.step[slot]], free, reason)
        cause = warp.barrier if cycle == free else cause_of(machine, state, index, sm.step[slot], cycle)
        stall(machine, state, sm, slot, cause, reason, cycle - now - 1)
        sleep_until(state, sm, slot, now, cycle, reason)
    return True

"""Thread blocks: launch, barriers, retirement. docs/model.md, section 4."""

from warpsim.engine.bits import NONE, bit, first, rest
from warpsim.engine.jit import inline
from warpsim.engine.pipelines import clear_registers, next_instruction, ready_cycle
from warpsim.engine.rng import stream_of
from warpsim.engine.state import WHEEL, Life, WarpState
from warpsim.engine.wheel import call_sm, sleep_until

_EMPTY, _RUNNING, _AT_BARRIER, _DRAINING = int(Life.EMPTY), int(Life.RUNNING), int(Life.AT_BARRIER), int(Life.DRAINING)
_WAIT, _BARRIER, _LONG = int(WarpState.WAIT), int(WarpState.BARRIER), int(WarpState.LONG_SCOREBOARD)
_NO_BARRIER, _DIFFERENT = -1, -2  # of a seat: nobody waits; warps wait at different barriers
NOT_DUE = -1


@inline
def set_residents(state, sm, change, cycle):
    """Changes the number of an SM's resident warps from a cycle on."""
    unit = state.sms[sm]
    state.occupancy[unit.resident] += cycle - unit.resident_since
    unit.resident += change
    unit.resident_since = cycle


@inline
def start_block(machine, state, sm, seat_in_sm, now):
    """Puts the next block of the supply, if there is one, into a seat; its warps can issue at once."""
    chip, clock = machine.chip[0], state.clock[0]
    seat = state.seats[sm * chip.seats + seat_in_sm]
    seat.due = NOT_DUE
    if chip.blocks >= 0 and clock.next_block >= chip.blocks:
        return
    seat.block = clock.next_block
    clock.next_block += 1
    clock.live_blocks += 1
    seat.live, seat.waiting, seat.barrier, seat.retire = chip.block_warps, 0, _NO_BARRIER, now
    set_residents(state, sm, chip.block_warps, now)
    unit = state.sms[sm]
    if unit.launched >= chip.seats * chip.block_warps:
        unit.reused = 1
    for warp_in_block in range(chip.block_warps):
        slot = seat_in_sm * chip.block_warps + warp_in_block
        index = sm * chip.seats * chip.block_warps + slot
        warp = state.warps[index]
        warp.life, warp.start, warp.wake, warp.last_return, warp.reason = _RUNNING, now, now, now, _WAIT
        warp.age = unit.launched
        unit.launched += 1
        warp.number = seat.block * chip.block_warps + warp_in_block
        warp.stream = stream_of(chip.seed, warp.number)
        clear_registers(state, index)
        for i in range(state.returns.shape[1]):
            state.returns[index, i] = now
        warp.step = next_instruction(machine, state, index, 0)
        state.next_op[sm, machine.program[warp.step].op] |= bit(slot)
        unit.ready |= bit(slot)


@inline
def start_due_blocks(machine, state, sm, now):
    """Starts the blocks whose launch ends now, in seat order; has the SM looked at again for those ahead."""
    chip = machine.chip[0]
    state.sms[sm].due = 0
    for seat_in_sm in range(chip.seats):
        due = state.seats[sm * chip.seats + seat_in_sm].due
        if due == now:
            start_block(machine, state, sm, seat_in_sm, now)
        elif due > now:
            state.sms[sm].due += 1
            call_sm(state, sm, min(due, now + WHEEL - 1))


@inline
def vacate(machine, state, sm, slot, index, now):
    """A warp's last resident cycle is now: empties its slot."""
    warp, tally = state.warps[index], state.tally[0]
    if tally.retired < len(state.lives):
        row = state.lives[tally.retired]
        row[0], row[1], row[2], row[3] = warp.number, sm, warp.start, now
    tally.retired += 1
    tally.lifetime_sum += now - warp.start + 1
    warp.life = _EMPTY
    set_residents(state, sm, -1, now + 1)
    state.next_op[sm, machine.program[warp.step].op] &= ~bit(slot)


@inline
def vacate_drained(machine, state, sm, drained, now):
    """Empties the slots of the warps whose last loads are back."""
    base = sm * machine.chip[0].seats * machine.chip[0].block_warps
    state.sms[sm].draining &= ~drained
    while drained != NONE:
        slot = first(drained)
        drained = rest(drained)
        vacate(machine, state, sm, slot, base + slot, now)


@inline
def exit_warp(machine, state, sm, slot, index, now):
    """`exit` has issued: the warp leaves when its loads are back, the block with its last warp. False: a deadlock."""
    chip, warp = machine.chip[0], state.warps[index]
    seat = state.seats[sm * chip.seats + slot // chip.block_warps]
    last = max(now, warp.last_return)
    seat.live -= 1
    seat.retire = max(seat.retire, last)
    if last == now:
        vacate(machine, state, sm, slot, index, now)
    else:
        warp.life, warp.wake = _DRAINING, last
        state.states[_LONG] += last - now
        state.sms[sm].draining |= bit(slot)
        sleep_until(state, sm, slot, now, last)
    if seat.live > 0:
        return release_if_complete(machine, state, sm, slot // chip.block_warps, now)
    clock = state.clock[0]
    clock.live_blocks -= 1
    clock.last_retire = max(clock.last_retire, seat.retire)
    if chip.blocks < 0 or clock.next_block < chip.blocks:
        seat.due = max(seat.retire + chip.block_launch, seat.retire + 1)
        state.sms[sm].due += 1
        call_sm(state, sm, min(seat.due, now + WHEEL - 1))
    return True


@inline
def arrive(machine, state, sm, slot, index, barrier, gap, now):
    """A warp has issued a barrier instruction. False: a deadlock."""
    chip, warp = machine.chip[0], state.warps[index]
    seat = state.seats[sm * chip.seats + slot // chip.block_warps]
    warp.life, warp.held, warp.wake = _AT_BARRIER, now, now + gap
    seat.barrier = barrier if seat.waiting == 0 or seat.barrier == barrier else _DIFFERENT
    seat.waiting += 1
    return release_if_complete(machine, state, sm, slot // chip.block_warps, now)


@inline
def release_if_complete(machine, state, sm, seat_in_sm, now):
    """Lets a block's warps go if all live ones wait at one barrier. False: they wait at different ones, a deadlock."""
    chip = machine.chip[0]
    seat = state.seats[sm * chip.seats + seat_in_sm]
    if seat.waiting < seat.live:
        return True
    if seat.barrier == _DIFFERENT:
        state.clock[0].stuck_sm, state.clock[0].stuck_seat = sm, seat_in_sm
        return False
    released = now + max(machine.program[seat.barrier].latency, 1)
    seat.waiting, seat.barrier = 0, _NO_BARRIER
    for warp_in_block in range(chip.block_warps):
        slot = seat_in_sm * chip.block_warps + warp_in_block
        index = sm * chip.seats * chip.block_warps + slot
        warp = state.warps[index]
        if warp.life != _AT_BARRIER:
            continue
        warp.life = _RUNNING
        state.states[_BARRIER] += now - warp.held
        cycle, reason = warp.wake, _WAIT
        if released > cycle:
            cycle, reason = released, _BARRIER
        warp.wake, warp.reason = ready_cycle(machine, state, index, warp.step, cycle, reason)
        state.states[warp.reason] += warp.wake - now - 1
        sleep_until(state, sm, slot, now, warp.wake)
    return True

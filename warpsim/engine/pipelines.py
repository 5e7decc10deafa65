"""Execution units and registers: when a unit accepts, and what an instruction has to wait for. docs/model.md, section 3."""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.bits import NONE, bit, first, size
from warpsim.engine.jit import inline
from warpsim.engine.rng import mix, step, uniform
from warpsim.engine.state import NEVER_WRITTEN, WRITER_BITS, Kind, WarpState

_LOAD, _STORE, _BRANCH, _EXIT = int(Kind.LOAD), int(Kind.STORE), int(Kind.BRANCH), int(Kind.EXIT)
_LOOP_BEGIN, _LOOP_END = int(Kind.LOOP_BEGIN), int(Kind.LOOP_END)
_WRITER = (1 << WRITER_BITS) - 1
_LG_THROTTLE = int(WarpState.LG_THROTTLE)
FOREVER = 1 << 60


@inline
def unit_row(machine, sm, scheduler, op):
    """The row of `state.free` that holds the unit which a scheduler uses for a class."""
    return sm * machine.chip[0].schedulers + (scheduler if machine.ops[op].per_scheduler else 0)


@inline
def unit_accepts(machine, state, sm, scheduler, op, now):
    """Whether a unit takes one more instruction in this cycle."""
    free = state.free[unit_row(machine, sm, scheduler, op), op]
    return free < (now + 1) * machine.chip[0].tick


@inline
def accepted_from(machine, state, sm, scheduler, op, now):
    """The first cycle, `now` or later, in which an instruction of a class can go to its unit, as things stand."""
    cycle = max(now, state.free[unit_row(machine, sm, scheduler, op), op] // machine.chip[0].tick)
    if machine.ops[op].is_load and not memory.admits(machine, state, sm, now):
        cycle = max(cycle, state.flights[sm, 0])
    return cycle


@inline
def issuable_among(machine, state, sm, scheduler, eligible, now):
    """The eligible warps whose unit accepts now; and, if there is none, the first cycle in which there may be one.

    Counts the others as throttled.
    """
    base = sm * machine.chip[0].seats * machine.chip[0].block_warps
    issuable, retry = NONE, np.int64(FOREVER)
    while eligible != NONE:
        op = machine.program[state.warps[base + first(eligible)].step].op
        alike = eligible & state.next_op[sm, op]
        eligible &= ~alike
        cycle = accepted_from(machine, state, sm, scheduler, op, now)
        if cycle <= now:
            issuable |= alike
        else:
            state.states[machine.ops[op].throttle] += size(alike)
            retry = min(retry, cycle)
    return issuable, retry


@inline
def ready_cycle(machine, state, index, step_index, cycle, reason):
    """From when on a warp is eligible for a step, given that it is not before `cycle` for `reason`; and the last reason."""
    ins = machine.program[step_index]
    for i in range(ins.operands):
        held = state.registers[index, machine.operands[step_index, i]]
        writer = held & _WRITER
        ready = (held >> WRITER_BITS) + machine.latency_to[writer, ins.op]
        if ready > cycle:
            cycle = ready
            reason = machine.ops[writer].dependency
    if ins.kind == _LOAD and machine.chip[0].loads_per_warp > 0:
        room = state.returns[index, soonest_return(state, index)]
        if room > cycle:
            cycle = room
            reason = np.int64(_LG_THROTTLE)
    return cycle, reason


@inline
def soonest_return(state, index):
    """Which of a warp's latest loads, as many as it may have in flight, returns first."""
    soonest = 0
    for i in range(1, state.returns.shape[1]):
        if state.returns[index, i] < state.returns[index, soonest]:
            soonest = i
    return soonest


@inline
def write_register(state, index, register, cycle, op):
    """Notes from when on a register can be read, and which class wrote it."""
    state.registers[index, register] = (cycle << WRITER_BITS) | op


@inline
def clear_registers(state, index):
    """All registers ready, nobody's."""
    for register in range(state.registers.shape[1]):
        state.registers[index, register] = NEVER_WRITTEN


@inline
def falls_through(warp, ins, warp_in_block):
    """Whether a warp executes the first body of a conditional; draws where chance decides."""
    if ins.by_index:
        return (ins.takers & bit(warp_in_block)) != NONE
    if not ins.draws:
        return True
    warp.stream = step(warp.stream)
    return uniform(mix(warp.stream)) < ins.probability


@inline
def next_instruction(machine, state, index, step_index):
    """The first instruction at or after a step: follows loops and jumps, which cost nothing."""
    while True:
        ins = machine.program[step_index]
        if ins.kind < _LOOP_BEGIN:
            return step_index
        if ins.kind == _LOOP_END:
            left = state.loops[index, ins.loop] - 1
            if left == 0:
                step_index += 1
            else:
                state.loops[index, ins.loop] = max(left, -1)
                step_index = ins.target
        elif ins.kind == _LOOP_BEGIN:
            trips = ins.low
            if ins.draws:
                warp = state.warps[index]
                warp.stream = step(warp.stream)
                trips += np.int64(uniform(mix(warp.stream)) * (ins.high - ins.low + 1))
            state.loops[index, ins.loop] = trips
            step_index += 1
        else:
            step_index = ins.target


@inline
def execute(machine, state, sm, scheduler, slot, index, now):
    """Issues a warp's present instruction: to its unit, to memory, to its register; moves the warp to its next one.

    Returns the kind issued, its issue slots and its gap.
    """
    warp, chip = state.warps[index], machine.chip[0]
    step_index = warp.step
    ins = machine.program[step_index]
    op = ins.op
    if state.clock[0].traced < len(state.trace):
        row = state.trace[state.clock[0].traced]
        row[0], row[1], row[2], row[3] = now, sm, slot, step_index
        state.clock[0].traced += 1

    unit = unit_row(machine, sm, scheduler, op)
    state.free[unit, op] = max(state.free[unit, op], now * chip.tick) + ins.occupancy
    state.occupied[sm, op] += ins.occupancy
    state.issued[op] += 1

    following, gap = step_index + 1, ins.gap
    if ins.kind == _EXIT:
        following = step_index  # there is nothing after it
    ready = now + ins.latency
    if ins.kind == _LOAD or ins.kind == _STORE:
        ready = memory.access(machine, state, warp, now, ins)
        state.tally[0].asked_bytes += ins.asked_bytes
        if ins.kind == _LOAD:
            note_load(machine, state, sm, index, now, ready)
    elif ins.kind == _BRANCH and not falls_through(warp, ins, slot % chip.block_warps):
        following, gap = ins.target, ins.taken_gap
    if ins.dst >= 0:
        write_register(state, index, ins.dst, ready, op)

    warp.step = next_instruction(machine, state, index, following)
    next_op = machine.program[warp.step].op
    if next_op != op:
        state.next_op[sm, op] &= ~bit(slot)
        state.next_op[sm, next_op] |= bit(slot)
    return ins.kind, ins.slots, gap


@inline
def note_load(machine, state, sm, index, now, returns):
    """Counts a load: in flight, and in the latency statistics."""
    warp = state.warps[index]
    warp.last_return = max(warp.last_return, returns)
    if machine.chip[0].loads_per_warp > 0:
        state.returns[index, soonest_return(state, index)] = returns
    memory.note_flight(machine, state, sm, returns)
    memory.count_latency(state, returns - now)

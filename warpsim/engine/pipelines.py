"""Execution units and registers: when a unit accepts, and what an instruction has to wait for. docs/model.md, section 3."""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.bits import NONE, at, bit, first, size
from warpsim.engine.jit import inline, rare
from warpsim.engine.lines import detailed, refuse
from warpsim.engine.rng import mix, step, uniform
from warpsim.engine.state import CLASSES, LABEL_BITS, SCHEDULERS, WARPS, Kind, WarpState

_COMPUTE, _LOAD, _STORE = int(Kind.COMPUTE), int(Kind.LOAD), int(Kind.STORE)
_BRANCH, _EXIT = int(Kind.BRANCH), int(Kind.EXIT)
_LOOP_BEGIN, _LOOP_END = int(Kind.LOOP_BEGIN), int(Kind.LOOP_END)
_LABEL = (1 << LABEL_BITS) - 1
_LG_THROTTLE = int(WarpState.LG_THROTTLE)
FOREVER = 1 << 60


@inline
def unit_of(chip, s, op):
    """The place in `sm.free` of the unit which scheduler s uses for a class."""
    return at(op * SCHEDULERS + (s & chip.own_unit[at(op)]))


@inline
def unit_accepts(chip, sm, s, op, now):
    """Whether a unit takes one more instruction in this cycle."""
    return sm.free[unit_of(chip, s, op)] < (now + 1) * chip.tick


@inline
def issuable_among(machine, state, sm, s, eligible, now):
    """The eligible warps whose unit accepts now; and, if there is none, the first cycle in which there may be one.

    Counts the others as throttled.
    """
    chip = machine.chip[0]
    issuable, retry = NONE, np.int64(FOREVER)
    while eligible != NONE:
        op = sm.op[at(first(eligible))]
        alike = eligible & sm.next_op[at(op)]
        eligible ^= alike
        free = sm.free[unit_of(chip, s, op)]
        if free >= (now + 1) * chip.tick:
            retry = min(retry, free // chip.tick)
        elif chip.flies[at(op)] and not memory.admits(machine, state, sm, chip.flies[at(op)], now):
            retry = min(retry, memory.soonest_landing(state, sm, chip.flies[at(op)]))
        else:
            issuable |= alike
            continue
        state.tally[0].states[at(chip.throttle[at(op)])] += size(alike)
        refuse(state, sm, s, op, 1)
    return issuable, retry


@inline
def ready_cycle(machine, state, index, ins, cycle, reason):
    """From when on a warp is eligible for a step, given that it is not before `cycle` for `reason`; and the last reason.

    `index` is the warp's place among all warps of the chip.
    """
    chip = machine.chip[0]
    registers = index * chip.registers
    i = ins.operands
    while i < ins.operands_end:
        held = state.registers[at(registers + machine.operands[at(i)])]
        writer = held & _LABEL
        ready = (held >> LABEL_BITS) + chip.latency_to[at(writer * CLASSES + ins.op)]
        if ready > cycle:
            cycle = ready
            reason = chip.dependency[at(writer)]
        i += np.int32(1)
    if ins.kind == _LOAD and chip.loads_per_warp > 0:
        room = state.returns[at(index), soonest_return(state, index)]
        if room > cycle:
            cycle = room
            reason = np.int64(_LG_THROTTLE)
    return cycle, reason


@inline
def soonest_return(state, index):
    """Which of a warp's latest loads, as many as it may have in flight, returns first."""
    soonest = 0
    for i in range(1, state.returns.shape[1]):
        if state.returns[at(index), at(i)] < state.returns[at(index), at(soonest)]:
            soonest = i
    return at(soonest)


@inline
def falls_through(warp, detail, warp_in_block):
    """Whether a warp executes the first body of a conditional; draws where chance decides."""
    if detail.by_index:
        return (detail.takers & bit(warp_in_block)) != NONE
    if not detail.draws:
        return True
    warp.stream = step(warp.stream)
    return uniform(mix(warp.stream)) < detail.probability


@inline
def next_instruction(machine, state, index, step_index):
    """The first instruction at or after a step: follows loops and jumps, which cost nothing."""
    while machine.program[at(step_index)].kind >= _LOOP_BEGIN:
        kind, detail = machine.program[at(step_index)].kind, machine.details[at(step_index)]
        if kind == _LOOP_END:
            left = state.loops[at(index), at(detail.loop)] - 1
            state.loops[at(index), at(detail.loop)] = max(left, -1)
            step_index = np.int64(step_index + 1) if left == 0 else detail.target
        elif kind == _LOOP_BEGIN:
            trips = detail.low
            if detail.draws:
                warp = state.warps[at(index)]
                warp.stream = step(warp.stream)
                trips += np.int64(uniform(mix(warp.stream)) * (detail.high - detail.low + 1))
            state.loops[at(index), at(detail.loop)] = trips
            step_index = np.int64(step_index + 1)
        else:
            step_index = detail.target
    return step_index


@inline
def begin(machine, state, sm, s, slot, ins, step_index, now):
    """Issues a warp's present instruction to its unit."""
    chip = machine.chip[0]
    if detailed(state) and state.tally[0].tracing:
        trace(state, sm, slot, step_index, now)
    unit = unit_of(chip, s, ins.op)
    sm.free[unit] = max(sm.free[unit], now * chip.tick) + ins.occupancy
    state.issued[at(step_index)] += 1


@inline
def write(machine, state, sm, slot, ins, dst, ready):
    """Notes when the register that an instruction writes, if any, can be read."""
    if dst >= 0:
        registers = (sm.index * WARPS + slot) * machine.chip[0].registers
        state.registers[at(registers + dst)] = (ready << LABEL_BITS) | ins.op
        if detailed(state):
            state.writers[at(registers + dst)] = sm.step[at(slot)]


@inline
def move_to(machine, sm, slot, op, following):
    """Makes a step the warp's next one, after an instruction of class `op`."""
    sm.step[at(slot)] = following
    next_op = machine.program[at(following)].op
    if next_op != op:
        sm.op[at(slot)] = next_op
        sm.next_op[at(op)] &= ~bit(slot)
        sm.next_op[at(next_op)] |= bit(slot)


@inline
def execute(machine, state, sm, s, slot, now):
    """Issues a warp's present instruction: to its unit, to memory, to its register; moves the warp to its next one.

    Returns its gap.
    """
    index = sm.index * WARPS + slot
    step_index = np.int64(sm.step[at(slot)])
    ins = machine.program[at(step_index)]
    kind, gap = ins.kind, np.int64(ins.gap)
    begin(machine, state, sm, s, slot, ins, step_index, now)
    following, ready = step_index + 1, now + ins.latency
    if kind != _COMPUTE:
        detail = machine.details[at(step_index)]
        if kind == _LOAD or kind == _STORE:
            ready = memory.access(machine, state, state.warps[at(index)], now, detail)
            memory.note_flight(machine, state, sm, kind, ready)
            if kind == _LOAD:
                note_load(machine, state, sm, index, now, ready)
        elif kind == _BRANCH:
            if not falls_through(state.warps[at(index)], detail, slot % machine.chip[0].block_warps):
                following, gap = detail.target, detail.taken_gap
        elif kind == _EXIT:
            following = step_index  # there is nothing after it
    write(machine, state, sm, slot, ins, ins.dst, ready)
    move_to(machine, sm, slot, ins.op, next_instruction(machine, state, index, following))
    return gap


@rare
def trace(state, sm, slot, step_index, now):
    """Keeps one issue, while there is room; counts it."""
    if state.tally[0].traced < len(state.trace):
        row = state.trace[state.tally[0].traced]
        row[0], row[1], row[2], row[3] = now, sm.index, slot, step_index
    state.tally[0].traced += 1


@inline
def note_load(machine, state, sm, index, now, returns):
    """Counts a load: among its warp's, and in the latency statistics."""
    warp = state.warps[at(index)]
    if detailed(state) and returns > warp.last_return:
        state.last_loads[at(index)] = sm.step[at(index - sm.index * WARPS)]
    warp.last_return = max(warp.last_return, returns)
    if machine.chip[0].loads_per_warp > 0:
        state.returns[at(index), soonest_return(state, index)] = returns
    memory.count_latency(state.tally[0], returns - now)

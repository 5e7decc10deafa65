"""Execution units and registers: when a unit accepts, and what an instruction has to wait for. docs/model.md, section 3."""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.bits import NONE, at, bit, cycle_of, first, label_of, labelled, size
from warpsim.engine.control import falls_through, next_instruction
from warpsim.engine.jit import inline, rare
from warpsim.engine.lines import detailed, refuse
from warpsim.engine.state import CLASSES, SCHEDULERS, WARPS, Kind, WarpState

_COMPUTE, _LOAD, _STORE = int(Kind.COMPUTE), int(Kind.LOAD), int(Kind.STORE)
_BRANCH, _EXIT = int(Kind.BRANCH), int(Kind.EXIT)
_LG_THROTTLE = np.int64(WarpState.LG_THROTTLE)
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
        elif chip.access[at(op)] and not memory.admits(machine, state, sm, chip.access[at(op)], now):
            retry = min(retry, memory.soonest_landing(state, sm, chip.access[at(op)]))
        else:
            issuable |= alike
            continue
        state.tally[0].states[at(chip.throttle[at(op)])] += size(alike)
        refuse(state, sm, s, op, np.int64(1))
    return issuable, retry


@inline
def readable(chip, held, op):
    """From when on an instruction of a class can use a register, of which `held` is what `State.registers` says."""
    return cycle_of(held) + chip.latency_to[at(label_of(held) * CLASSES + op)]


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
        ready = readable(chip, held, ins.op)
        if ready > cycle:
            cycle = ready
            reason = chip.dependency[at(label_of(held))]
        i += np.int32(1)
    if ins.kind == _LOAD and chip.loads_per_warp > 0:
        room = state.returns[at(index), soonest_return(state, index)]
        if room > cycle:
            cycle = room
            reason = _LG_THROTTLE
    return cycle, reason


@inline
def cause_of(machine, state, index, step, cycle):
    """The step because of which a warp waits until a cycle for its registers; itself where it is the limit of loads."""
    if not detailed(state):
        return step
    chip, ins = machine.chip[0], machine.program[at(step)]
    for i in range(ins.operands, ins.operands_end):
        register = at(index * chip.registers + machine.operands[at(i)])
        if readable(chip, state.registers[register], ins.op) == cycle:
            return state.writers[register]
    return step


@inline
def soonest_return(state, index):
    """Which of a warp's latest loads, as many as it may have in flight, returns first."""
    soonest = 0
    for i in range(1, state.returns.shape[1]):
        if state.returns[at(index), at(i)] < state.returns[at(index), at(soonest)]:
            soonest = i
    return at(soonest)


@inline
def begin(machine, state, sm, s, slot, ins, step_index, now):
    """Issues a warp's present instruction to its unit."""
    chip = machine.chip[0]
    if detailed(state) and state.tally[0].tracing:
        trace(state, sm, slot, step_index, now)
    unit = unit_of(chip, s, ins.op)
    sm.free[unit] = max(sm.free[unit], now * chip.tick) + ins.unit_ticks
    state.issued[at(step_index)] += 1


@inline
def write(machine, state, sm, slot, ins, dst, ready):
    """Notes when the register that an instruction writes, if any, can be read."""
    if dst >= 0:
        registers = (sm.index * WARPS + slot) * machine.chip[0].registers
        state.registers[at(registers + dst)] = labelled(ready, ins.op)
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

"""Registers: what a warp's next instruction has to wait for. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.bits import at, cause_of, end_of, wait_until
from warpsim.engine.jit import inline
from warpsim.engine.state import MAX_WARPS, UNKNOWN, Kind, WarpState

_LOAD, _LG_THROTTLE = int(Kind.LOAD), int(WarpState.LG_THROTTLE)


@inline
def write(machine, state, index, register, ready, step):
    """Notes the cycle from which a register of a warp can be read, and the step that writes it. Negative: no register."""
    if register >= 0:
        state.registers[at(index * machine.chip[0].registers + register)] = wait_until(ready, step, 0)


@inline
def wait_of(machine, state, index, step, wait):
    """Returns the wait of a warp for a step: `wait`, or the first of those that end later.

    `index` is the warp's place among all warp slots. The wait ends at UNKNOWN or later if a load has not been served yet.
    """
    chip, ins = machine.chip[0], machine.program[at(step)]
    until = end_of(wait)
    registers = index * chip.registers
    i = np.int64(ins.operands)
    while i < ins.operands_end:
        written = state.registers[at(registers + machine.operands[at(i)])]
        writer = cause_of(written)
        op = machine.program[at(writer)].op
        ready = end_of(written) + machine.latency_to[at(op * len(machine.classes) + ins.op)]
        if ready > until:
            until = ready
            wait = wait_until(ready, writer, machine.classes[at(op)].dependency)
        i += 1
    if ins.kind == _LOAD and chip.loads_per_warp > 0:
        room = room_for_load(machine, state, index)
        if room > until:
            wait = wait_until(room, step, _LG_THROTTLE)
    return wait


@inline
def room_for_load(machine, state, index):
    """Returns the cycle from which the warp's limit of loads in flight leaves room for one more.

    Loads that have not been served return after this window, and perhaps sooner than those of which the return is known.
    """
    room = state.returns[at(index), soonest_return(state, index)]
    this_window = state.sms[at(index // MAX_WARPS)].begin + machine.chip[0].window
    return room if room <= this_window or state.warps[at(index)].requested == 0 else np.int64(UNKNOWN)


@inline
def is_known(wait):
    """Returns whether the end of a wait is known."""
    return end_of(wait) < UNKNOWN


@inline
def soonest_return(state, index):
    """Returns which of a warp's latest loads, as many as it may have in flight, returns first."""
    soonest = 0
    for i in range(1, state.returns.shape[1]):
        if state.returns[at(index), at(i)] < state.returns[at(index), at(soonest)]:
            soonest = i
    return at(soonest)

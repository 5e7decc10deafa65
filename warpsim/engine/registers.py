"""Registers: what a warp's next instruction has to wait for. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.bits import at, cause_of, end_of, wait_until
from warpsim.engine.constants import FOREVER, UNKNOWN, Kind, Life, WarpState
from warpsim.engine.hints import has_hints, learn_return, wait_of_counters, waits_for_counted_load
from warpsim.jit.decorators import inline


@inline
def write(machine, state, index, register, ready, step):
    """Notes the cycle from which a register of a warp can be read, and the step that writes it. Negative: no register."""
    if register >= 0:
        state.registers[at(index * machine.chip[0].registers + register)] = wait_until(ready, step, 0)


@inline
def learn_ready(machine, state, index, step, cycle, ready):
    """Notes more about the cycle from which the result can be read of a load that issued at `cycle`.

    Returns whether the warp's wait may change by that before the load is served.
    """
    if not has_hints(machine.hints):
        write(machine, state, index, machine.program[at(step)].dst, ready, step)
        return False
    return learn_return(machine.hints, machine, state, index, step, cycle, ready)


@inline
def wait_of(machine, state, index, step, wait):
    """Returns the wait of a warp for a step: `wait`, or the first of those that end later.

    `index` is the warp's place among all warp slots. The wait ends at UNKNOWN or later if a load has not been served yet; of
    several such loads, it is for the one that is served last.
    """
    chip, ins = machine.chip[0], machine.program[at(step)]
    until, first_register = end_of(wait), index * chip.registers
    i = np.int64(ins.operands)
    while i < ins.operands_end:
        written = state.registers[at(first_register + machine.operands[at(i)])]
        if end_of(written) + chip.most_extra > until:
            writer = cause_of(written)
            op = machine.program[at(writer)].op
            ready = end_of(written) + machine.latency_to[at(op * len(machine.classes) + ins.op)]
            if ready > until:
                until = ready
                wait = wait_until(ready, writer, machine.classes[at(op)].dependency)
        i += 1
    return wait_of_counters(machine.hints, machine, state, index, step, wait) if has_hints(machine.hints) else wait


@inline
def waits_for_load(machine, state, index, step, cycle):
    """Returns whether a step of a warp names a register that a load writes that returns after a cycle."""
    ins = machine.program[at(step)]
    waits = False
    for i in range(ins.operands, ins.operands_end):
        written = state.registers[at(index * machine.chip[0].registers + machine.operands[at(i)])]
        waits |= end_of(written) > cycle and machine.program[at(cause_of(written))].kind == Kind.LOAD
    if has_hints(machine.hints):
        waits |= waits_for_counted_load(machine.hints, machine, state, index, step, cycle)
    return waits


@inline
def room_for_load(machine, state, index):
    """Returns the cycle from which the warp's limit of loads in flight leaves room for one more.

    UNKNOWN or more: a load that has not been served may return sooner than those of which the return is known. It does not
    return within a window's length after it is served.
    """
    room = state.returns[at(index), soonest_return(state, index)]
    unserved = FOREVER
    for i in range(state.returns.shape[1]):
        if state.returns[at(index), at(i)] >= UNKNOWN:
            unserved = min(unserved, state.returns[at(index), at(i)])
    return room if room <= unserved - UNKNOWN + machine.chip[0].window else UNKNOWN


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


@inline
def state_after_exit(machine, access):
    """Returns the WarpState of a warp that has issued `exit` and waits for an access, a step."""
    return WarpState.DRAIN if machine.program[at(access)].kind == Kind.STORE else WarpState.LONG_SCOREBOARD


@inline
def open_wait(machine, state, index, warp):
    """Returns the wait of a pending warp, without that for its limit of loads in flight."""
    if warp.life == Life.DRAINING:
        step = cause_of(state.latest[at(index)])
        return wait_until(UNKNOWN, step, state_after_exit(machine, step))
    return wait_of(machine, state, index, warp.step, warp.wait)

"""Execution units: whether an instruction is accepted now, and until when it is refused. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.attribution import is_busy, refuses
from warpsim.engine.bits import at
from warpsim.engine.flights import admits, soonest_landing
from warpsim.engine.jit import inline
from warpsim.engine.state import MAX_SCHEDULERS


@inline
def unit_of(chip, s, op):
    """Returns the place in `sm.free` of the unit that scheduler s uses for a class."""
    return at(op * MAX_SCHEDULERS + (s & chip.own_unit[at(op)]))


@inline
def accepts(machine, state, sm, s, op, cycle):
    """Returns whether the unit of a class, and the SM's limit of accesses in flight, take one more instruction."""
    chip = machine.chip[0]
    if not chip.refusable[at(op)]:
        return True
    if sm.free[unit_of(chip, s, op)] >= (cycle + 1) * chip.tick:
        return False
    return chip.access[at(op)] == 0 or admits(machine, state, sm, chip.access[at(op)], cycle)


@inline
def retry_cycle(machine, state, sm, s, op, cycle):
    """Returns the first cycle in which a class that is refused now may be accepted."""
    chip = machine.chip[0]
    free = sm.free[unit_of(chip, s, op)]
    if free >= (cycle + 1) * chip.tick:
        return free // chip.tick
    return soonest_landing(state, sm, chip.access[at(op)])


@inline
def occupy(machine, state, sm, s, ins, cycle):
    """Issues an instruction to its unit; of a unit that never refuses nothing has to be noted."""
    chip = machine.chip[0]
    if not chip.refusable[at(ins.op)]:
        return
    unit = unit_of(chip, s, ins.op)
    free = max(sm.free[unit], cycle * chip.tick) + ins.unit_ticks
    sm.free[unit] = free
    if free >= (cycle + 2) * chip.tick:
        whom = s if chip.own_unit[at(ins.op)] else np.int64(-1)
        refuses(state, sm, whom, ins.op, cycle + 1, free // chip.tick)


@inline
def close_if_full(machine, state, sm, kind, op, cycle, begin):
    """If the SM has as many loads, or stores, in flight at a cycle as it may have, has them refused from `begin` on."""
    if not admits(machine, state, sm, kind, cycle):
        refuses(state, sm, np.int64(-1), op, begin, soonest_landing(state, sm, kind))


@inline
def carry_over(machine, state, sm, begin):
    """Notes which units refuse, and which schedulers are busy, at the begin of a window."""
    chip = machine.chip[0]
    for i in range(chip.n_refusing_classes):
        op = chip.refusing_classes[at(i)]
        for s in range(chip.schedulers if chip.own_unit[at(op)] else 1):
            free = sm.free[unit_of(chip, s, op)]
            if free >= (begin + 1) * chip.tick:
                refuses(state, sm, np.int64(s) if chip.own_unit[at(op)] else np.int64(-1), op, begin, free // chip.tick)
        if chip.access[at(op)]:
            close_if_full(machine, state, sm, chip.access[at(op)], op, begin, begin)
    for s in range(chip.schedulers):
        next_issue = state.schedulers[at(sm.index * chip.schedulers + s)].next_issue
        if next_issue > begin:
            is_busy(machine, state, sm, s, begin, next_issue)


@inline
def note_shared_issue(machine, sm, s, op):
    """A scheduler has issued an instruction; of a shared class, the others come first from now on."""
    if machine.chip[0].shared[at(op)]:
        sm.shared_issues += 1
        sm.last_issue[at(op * MAX_SCHEDULERS + s)] = sm.shared_issues


@inline
def precedence(machine, sm, s, op):
    """Returns a number by which the picks of one cycle are ordered: by class, then by the scheduler's last issue in it."""
    if not machine.chip[0].shared[at(op)]:
        return np.int64(0)
    return (np.int64(op) + 1 << 50) + sm.last_issue[at(op * MAX_SCHEDULERS + s)]

"""Execution units: whether an instruction is accepted now, and until when it is refused. docs/model.md, section 3."""

import numpy as np

from warpsim.engine.attribution import is_busy, limit_gate, refuses
from warpsim.engine.bits import at
from warpsim.engine.flights import admits, soonest_landing
from warpsim.engine.jit import inline
from warpsim.engine.state import MAX_SCHEDULERS


@inline
def unit_of(facts, s):
    """Returns the place in `sm.free` of the unit that scheduler s uses for a class, of which the facts are given."""
    return at(facts.unit * MAX_SCHEDULERS + (s & facts.own_unit))


@inline
def accepts(machine, state, sm, s, op, cycle):
    """Returns whether the unit of a class, and the SM's limit of accesses in flight, take one more instruction."""
    facts = machine.classes[at(op)]
    if not facts.refusable:
        return True
    if sm.free[unit_of(facts, s)] >= (cycle + 1) * machine.chip[0].tick:
        return False
    return facts.access == 0 or admits(machine, state, sm, facts.access, cycle)


@inline
def retry_cycle(machine, state, sm, s, op, cycle):
    """Returns the first cycle in which a class that is refused now may be accepted."""
    facts, tick = machine.classes[at(op)], machine.chip[0].tick
    free = sm.free[unit_of(facts, s)]
    if free >= (cycle + 1) * tick:
        return free // tick
    return soonest_landing(state, sm, facts.access)


@inline
def occupy(machine, state, sm, s, ins, cycle):
    """Issues an instruction to its unit; of a unit that never refuses nothing has to be noted."""
    facts, tick = machine.classes[at(ins.op)], machine.chip[0].tick
    if not facts.refusable:
        return
    unit = unit_of(facts, s)
    free = max(sm.free[unit], cycle * tick) + ins.unit_ticks
    sm.free[unit] = free
    if free >= (cycle + 2) * tick:
        refuses(state, sm, user_of(facts, s), facts.unit, cycle + 1, free // tick)


@inline
def user_of(facts, s):
    """Returns scheduler s where each scheduler has a unit of a class, of which the facts are given; else -1, all of them."""
    return s if facts.own_unit else np.int64(-1)


@inline
def close_if_full(machine, state, sm, kind, cycle, begin):
    """If the SM has as many loads, or stores, in flight at a cycle as it may have, has them refused from `begin` on."""
    if not admits(machine, state, sm, kind, cycle):
        refuses(state, sm, np.int64(-1), limit_gate(kind), begin, soonest_landing(state, sm, kind))


@inline
def carry_over(machine, state, sm, begin):
    """Notes which units refuse, and which schedulers are busy, at the begin of a window."""
    chip = machine.chip[0]
    for i in range(len(machine.refusing)):
        facts = machine.classes[at(machine.refusing[at(i)])]
        for s in range(chip.schedulers if facts.own_unit else 1):
            free = sm.free[unit_of(facts, s)]
            if free >= (begin + 1) * chip.tick:
                refuses(state, sm, user_of(facts, np.int64(s)), facts.unit, begin, free // chip.tick)
        if facts.access:
            close_if_full(machine, state, sm, facts.access, begin, begin)
    for s in range(chip.schedulers):
        next_issue = state.schedulers[at(sm.index * chip.schedulers + s)].next_issue
        if next_issue > begin:
            is_busy(machine, state, sm, s, begin, next_issue)


@inline
def refused_now(machine, state, sm, s, op, cycle):
    """Notes that scheduler s cannot issue instructions of a class in this cycle, and which gate refuses them."""
    facts = machine.classes[at(op)]
    gate = facts.unit
    if sm.free[unit_of(facts, s)] < (cycle + 1) * machine.chip[0].tick:
        gate = limit_gate(facts.access)
    refuses(state, sm, s, gate, cycle, cycle + 1)


@inline
def note_shared_issue(machine, sm, s, op):
    """A scheduler has issued an instruction; at a shared unit, the others come first from now on."""
    facts = machine.classes[at(op)]
    if facts.shared:
        sm.shared_issues += 1
        sm.last_issue[at(facts.unit * MAX_SCHEDULERS + s)] = sm.shared_issues


@inline
def precedence(machine, sm, s, op):
    """Returns a number by which the picks of one cycle are ordered: by unit, then by the scheduler's last issue to it."""
    facts = machine.classes[at(op)]
    if not facts.shared:
        return np.int64(0)
    return (facts.unit + 1 << 50) + sm.last_issue[at(facts.unit * MAX_SCHEDULERS + s)]

"""Execution units: whether an instruction is accepted now, and until when it is refused. docs/model.md, section 3."""

import numpy as np

from warpsim.engine import lane_rules as rule
from warpsim.engine.attribution import is_busy, limit_gate, refuses
from warpsim.engine.bits import at
from warpsim.engine.constants import MAX_SCHEDULERS
from warpsim.engine.flights import admits, soonest_landing
from warpsim.engine.places import scheduler_at
from warpsim.engine.ports import hold_on
from warpsim.jit.decorators import compiled_as, inline

_OLDEST, _NEXT_ADDRESS, _FIRST = 0, 1, 2  # columns of `State.queues`


@compiled_as(rule.high_half)
def high_half(a, b):
    """Returns the high 64 bits of a product of two uint64."""
    return np.uint64(int(a) * int(b) >> 64)


@inline
def cycle_of(ticks, chip):
    """Returns the cycle in which a time in ticks lies, at least 0; a cycle has several, or just one.

    A processor divides slowly. The high half of a product, shifted, is the exact quotient of any number below 2**63 (Granlund &
    Montgomery 1994, Theorem 4.2).
    """
    return ticks if chip.tick == 1 else np.int64(high_half(np.uint64(ticks), chip.tick_factor) >> chip.tick_shift)


@inline
def place_of(facts, s):
    """Returns the place of scheduler s at the unit of a class, of which the facts are given, in the arrays of SM."""
    return at(facts.unit * MAX_SCHEDULERS + s)


@inline
def unit_of(facts, s):
    """Returns the place in `sm.free` of the unit that scheduler s uses for a class, of which the facts are given."""
    return place_of(facts, s & facts.own_unit)


@inline
def queue_of(state, sm, s, facts):
    """Returns the row of `State.queues` for scheduler s and a unit."""
    return at(facts.queue_row * len(state.schedulers) + sm.first_scheduler + s)


@inline
def unit_open_from(machine, sm, s, facts):
    """Returns the first cycle from which a unit, or its queue, takes one more instruction of scheduler s."""
    if facts.queue > 0:
        return sm.room[place_of(facts, s)]
    return cycle_of(sm.free[unit_of(facts, s)], machine.chip[0])


@inline
def unit_accepts(machine, sm, s, facts, cycle):
    """Returns whether a unit, or its queue, takes one more instruction of scheduler s; `unit_open_from` would have to divide."""
    if facts.queue > 0:
        return sm.room[place_of(facts, s)] <= cycle
    return sm.free[unit_of(facts, s)] < (cycle + 1) * machine.chip[0].tick


@inline
def accepts(machine, state, sm, s, op, cycle):
    """Returns whether the unit of a class, and the SM's limit of accesses in flight, take one more instruction."""
    facts = machine.classes[at(op)]
    if not facts.refusable:
        return True
    if not unit_accepts(machine, sm, s, facts, cycle):
        return False
    return facts.access == 0 or admits(machine, state, sm, facts.access, cycle)


@inline
def occupy(machine, state, sm, s, ins, cycle):
    """Issues an instruction to its unit, of which nothing has to be noted if it never refuses.

    Returns its wait in the queue, and for the data stage.
    """
    facts, chip = machine.classes[at(ins.op)], machine.chip[0]
    if not facts.refusable:
        return 0
    unit = unit_of(facts, s)
    arrival = cycle + facts.lead
    begin = max(sm.free[unit], arrival * chip.tick)
    passes = begin
    if ins.data_ticks > 0:
        passes = max(begin, sm.data_free[unit])
        sm.data_free[unit] = passes + ins.data_ticks
    free = max(begin + ins.unit_ticks, passes)
    sm.free[unit] = free
    if facts.queue > 0:
        leaves = enter_queue(state, sm, s, queue_of(state, sm, s, facts), facts, cycle, cycle_of(begin, chip))
        return max(leaves, cycle_of(passes, chip)) - arrival
    if free >= (cycle + 2) * chip.tick:
        refuses(state, sm, user_of(facts, s), facts.unit, cycle + 1, cycle_of(free, chip))
    return cycle_of(passes, chip) - arrival


@inline
def enter_queue(state, sm, s, queue, facts, cycle, begin):
    """An instruction enters the queue of a unit, which can serve it at cycle `begin`. Returns in which cycle it leaves."""
    arrival = cycle + facts.lead
    address, oldest = max(state.queues[queue, _NEXT_ADDRESS], arrival), state.queues[queue, _OLDEST]
    leaves = max(address, begin)
    state.queues[queue, _NEXT_ADDRESS] = address + facts.address
    state.queues[queue, at(_FIRST + oldest)] = leaves
    oldest = (oldest + 1) * np.int64(oldest + 1 < facts.queue)  # a branch would depend on chance
    room = state.queues[queue, at(_FIRST + oldest)]
    state.queues[queue, _OLDEST], sm.room[place_of(facts, s)] = oldest, room
    if room > cycle + 1:
        refuses(state, sm, s, facts.unit, cycle + 1, room)
    return leaves


@inline
def user_of(facts, s):
    """Returns scheduler s where each has a unit, or a queue, of a class, of which the facts are given; else -1, all of them."""
    return s if facts.own_unit or facts.queue > 0 else -1


@inline
def close_if_full(machine, state, sm, kind, cycle, begin):
    """If the SM has as many loads, or stores, in flight at a cycle as it may have, has them refused from `begin` on."""
    if not admits(machine, state, sm, kind, cycle):
        refuses(state, sm, -1, limit_gate(kind), begin, soonest_landing(state, sm, kind))


@inline
def carry_over(machine, state, sm, begin):
    """Notes which units refuse, and which schedulers are busy, at the start of a window."""
    chip = machine.chip[0]
    for i in range(len(machine.refusing)):
        facts = machine.classes[at(machine.refusing[at(i)])]
        for s in range(chip.schedulers if user_of(facts, 0) == 0 else 1):
            if not unit_accepts(machine, sm, s, facts, begin):
                until = unit_open_from(machine, sm, s, facts)
                refuses(state, sm, user_of(facts, s), facts.unit, begin, until)
        if facts.access:
            close_if_full(machine, state, sm, facts.access, begin, begin)
    for s in range(chip.schedulers):
        scheduler = scheduler_at(state, sm, s)
        if scheduler.next_issue > begin:
            is_busy(machine, state, sm, s, begin, scheduler.next_issue)
            hold_on(machine.reads, machine, state, sm, s, scheduler, begin)


@inline
def refused_now(machine, state, sm, s, op, cycle):
    """Notes that scheduler s cannot issue instructions of a class in this cycle, and which gate refuses them."""
    facts = machine.classes[at(op)]
    gate = facts.unit
    if unit_accepts(machine, sm, s, facts, cycle):
        gate = limit_gate(facts.access)
    refuses(state, sm, s, gate, cycle, cycle + 1)


@inline
def note_shared_issue(machine, sm, s, op):
    """A scheduler has issued an instruction; at a shared unit, the others come first from now on."""
    facts = machine.classes[at(op)]
    if facts.shared:
        sm.shared_issues += 1
        sm.last_issue[place_of(facts, s)] = sm.shared_issues


@inline
def precedence(machine, sm, s, op):
    """Returns a number by which the picks of one cycle are ordered: by unit, then by the scheduler's last issue to it."""
    facts = machine.classes[at(op)]
    if not facts.shared:
        return 0
    return (facts.unit + 1 << 50) + sm.last_issue[place_of(facts, s)]

"""Register ports: banks with one read port each, and the reuse cache. docs/model.md, section 3.

Of a bank only its *backlog* is kept: for how many cycles its port is not free after the one in which the latest instruction has
its ports. No later one has them sooner, so that a negative backlog is as good as none. None exceeds the operand slots of a step.
"""

import numpy as np

from warpsim.engine.attribution import holds
from warpsim.engine.bits import at
from warpsim.engine.constants import OPERAND_SLOTS, RANK_BITS, READING_CYCLES, REGISTER_BITS
from warpsim.engine.lanes import (
    beyond,
    everywhere,
    filled,
    in_both,
    largest_everywhere,
    later,
    load,
    number,
    plus,
    same,
    spread,
    store,
    sum_of_fours,
    where,
)
from warpsim.jit.decorators import inline

_STAGES = 2  # cycles from an issue to the ports, at least


@inline
def pass_ports(reads, chip, scheduler, ins, slot, step, cycle):
    """A step of the warp in a slot issues: notes when it has the ports that it passes, and until when its scheduler is held."""
    if reads is None:
        return
    if chip.banks == 0 or not ins.ports:
        return
    free, has, held_until = times_of_ports(scheduler, cycle)
    needs = needs_of(reads, scheduler, ins, slot, step)
    more = beyond(needs, filled(READING_CYCLES << RANK_BITS, needs))
    free, has, held_until = times_after(free, has, held_until, needs, more, filled(0, has))
    keep_times_of_ports(scheduler, cycle, free, has, held_until)


@inline
def needs_of(reads, scheduler, ins, slot, step):
    """Returns the reads of a step that need a port, by bank, as times of lanes."""
    return spread(reads_of_banks(reads, scheduler, slot, step) if ins.cached else np.int64(ins.needs))


@inline
def times_of_ports(scheduler, begin):
    """Returns from when on the port of each bank is free, when the latest instruction has its ports, and `held_until`.

    They are times of lanes (lanes.py), counted from a cycle, and at least 0: nothing that issues from that cycle on waits for
    what was before. They stay in vectors, so that a scheduler that runs ahead waits for nothing else.
    """
    backlog = load(scheduler.backlog)
    has = filled(max(scheduler.port_last - begin, 0) << RANK_BITS, backlog)
    passed = filled(min(max(begin - scheduler.port_last, 0), OPERAND_SLOTS) << RANK_BITS, backlog)
    free = plus(has, beyond(backlog, passed))
    return free, has, filled(max(scheduler.held_until - begin, 0) << RANK_BITS, backlog)


@inline
def keep_times_of_ports(scheduler, begin, free, has, held_until):
    """Keeps these times in the scheduler."""
    store(scheduler.backlog, beyond(free, has))
    scheduler.port_last, scheduler.held_until = begin + (number(has) >> RANK_BITS), begin + (number(held_until) >> RANK_BITS)


@inline
def times_after(free, has, held_until, needs, more, issued):
    """Returns the same three after a step that needs the ports, by bank, and issues at a time.

    `more` are its reads of a bank beyond those in the cycles in which it reads its last operands; None: there are none.
    """
    soonest = later(plus(everywhere(issued, has), filled(_STAGES << RANK_BITS, has)), plus(has, filled(1 << RANK_BITS, has)))
    done, last = plus(free, needs), needs  # `done`: without a wait for anything else
    reading = filled(READING_CYCLES << RANK_BITS, done)
    if more is not None:
        soonest, last = plus(soonest, largest_everywhere(more)), beyond(needs, more)
    has_next = later(soonest, beyond(largest_everywhere(done), reading))
    return later(done, plus(has_next, last)), has_next, later(held_until, has)


@inline
def reads_of_banks(reads, scheduler, slot, step):
    """Returns the reads of a step that need a port, as `needs` of STEP, and has the reuse cache hold what it marks."""
    read, held = reads[at(step)], load(scheduler.reused)
    keys = plus(load(read.registers), filled(slot << REGISTER_BITS, held))
    needs, nothing = load(read.needs), filled(0, held)
    store(scheduler.reused, where(same(needs, nothing), held, in_both(keys, load(read.kept))))
    return sum_of_fours(where(same(held, keys), nothing, needs))


@inline
def busy_with_ports(reads, machine, state, sm, s, scheduler, cycle, busy):
    """A scheduler has issued at a cycle and is busy for some: returns for how many, with those in which the ports hold it."""
    if reads is None:
        return busy
    if machine.chip[0].banks == 0:
        return busy
    scheduler.held_from = cycle + busy
    held = scheduler.held_until - scheduler.held_from
    if held <= 0:
        return busy
    state.tally[0].held += held
    holds(state.scratch[0], sm, s, scheduler.held_from, scheduler.held_until)
    return busy + held


@inline
def hold_on(reads, machine, state, sm, s, scheduler, begin):
    """The register ports may hold a scheduler beyond the start of a window."""
    if reads is None:
        return
    held_from = max(scheduler.held_from, begin)
    if machine.chip[0].banks > 0 and scheduler.next_issue > held_from:
        holds(state.scratch[0], sm, s, held_from, scheduler.next_issue)

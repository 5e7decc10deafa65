"""An SM runs alone for a window. docs/model.md, section 3.

Inside a window the schedulers of an SM affect each other only through shared classes, and through barriers. One that is complete
lets warps go no sooner than a *span* later, so that up to then each scheduler runs ahead by itself; what the vector of its lanes
holds says in which cycle it issues next, and which warp. A scheduler whose pick is of a shared class stops, and asks. Once no
other scheduler can do anything before that cycle, the shared classes of the cycle are granted.
"""


from warpsim.engine.ahead import run_ahead
from warpsim.engine.attribution import (
    close_window,
    issues,
    issues_after_refusals,
    issues_second,
    open_window,
)
from warpsim.engine.bits import NONE, at, below, bit, first, rest
from warpsim.engine.blocks import soonest_barrier, start_blocks, vacate_drained
from warpsim.engine.constants import (
    ACCESS_BITS,
    ACCESS_PART,
    FOREVER,
    MAX_SCHEDULERS,
    NEVER,
    RANK_BITS,
    RANKS,
    SCHEDULER_BITS,
    UNIT_PART,
    Policy,
)
from warpsim.engine.fetch import awaits_instruction
from warpsim.engine.flights import soonest_landing
from warpsim.engine.issue import complete, execute, may_pair
from warpsim.engine.lanes import (
    blocked,
    for_schedulers,
    foremost,
    lanes_at_most,
    lanes_equal,
    load,
    number,
    replaced,
    store,
    time_of,
    using,
)
from warpsim.engine.mbarriers import has_mbarriers
from warpsim.engine.places import scheduler_at, slot_in, warp_in
from warpsim.engine.schedulers import drawn, ranks_alone_decide
from warpsim.engine.timetable import move_on, next_event
from warpsim.engine.units import accepts, carry_over, precedence, refused_now, unit_open_from
from warpsim.jit.decorators import inline


@inline
def run_alone(machine, state, sm, begin, end):
    """Runs one SM from cycle `begin` up to cycle `end`, exclusive, a window. False: a deadlock."""
    chip = machine.chip[0]
    if sm.begin != begin:
        move_on(machine, state, sm, begin)
    open_window(state)
    carry_over(machine, state, sm, begin)
    vacate_drained(machine, state, sm, end)
    start_blocks(machine, state, sm, end)
    until, runs = begin, True
    while until < end and runs:
        if chip.span < end - until and not has_mbarriers(machine.mbarriers):
            until = soonest_barrier(machine, state, sm, until, end)
        until = min(until + chip.span, end)
        runs = take_turns(machine, state, sm, until, end)
    close_window(machine, state, sm, end)
    move_on(machine, state, sm, end)
    by_window = chip.banks > 0 or chip.buffer > 0  # waits for ports, and for fetch, are counted by window
    sm.next_event = end if by_window else next_event(machine, state, sm)
    return runs


@inline
def take_turns(machine, state, sm, until, end):
    """Has the schedulers of an SM issue all that they can before cycle `until`; the window ends at `end`. False: a deadlock.

    There are these sets of schedulers. Those that are `active` look for what to issue next. Those that are `contending` have
    picked a warp, `scheduler.lane`, to issue at `scheduler.cycle` what uses something shared, and go on when it has issued. Of
    these, those that have `agreed` chose their pick knowing all that issued before this cycle. Those in `second` have issued in
    this cycle, and may issue the second instruction of a pair. All others have nothing to do before `until`.

    `turns` holds for each scheduler that is contending the time of its pick, with its number as the rank.
    """
    chip = machine.chip[0]
    schedulers, at_random, begin = chip.schedulers, chip.policy == Policy.RANDOM, sm.begin
    no_more = time_of(sm, until)
    may_run = ranks_alone_decide(chip.policy) and not state.tally[0].tracing
    turns = for_schedulers(NEVER)
    active, contending, agreed, second = below(schedulers), NONE, NONE, NONE
    while True:
        s = 0
        if active != NONE:
            s = first(active)
            scheduler = scheduler_at(state, sm, s)
            pair = (second & bit(s)) != NONE
            if pair:
                time = time_of(sm, scheduler.cycle)
            else:
                key = run_ahead(machine, state, sm, scheduler, s, no_more, end, may_run)
                if key >= no_more:
                    active &= ~bit(s)
                    turns = replaced(turns, s, NEVER)
                    continue
                if awaits_instruction(machine.addresses, machine, state, sm, s, scheduler, begin + (key >> RANK_BITS), end):
                    continue
                scheduler.cycle, time = begin + (key >> RANK_BITS), key & ~RANKS
            picked = machine.program[at(scheduler.step)]
            if not pair and awaits_own_queue(machine, state, sm, s, picked.op, scheduler.cycle, end):
                continue
            if at_random or picked.ordered:
                turns = replaced(turns, s, time | s)
                active, contending = active & ~bit(s), contending | bit(s)
                continue
        elif contending == NONE:
            return True
        else:  # of those in the earliest cycle, the one whose turn it is
            earliest = number(foremost(turns))
            s = earliest & RANKS
            here = lanes_at_most(turns, earliest | RANKS)
            if rest(here) != NONE or at_random:
                unsure = here & ~(agreed | second)
                while unsure != NONE:
                    s = first(unsure)
                    unsure = rest(unsure)
                    if agrees(machine, state, sm, s, scheduler_at(state, sm, s).cycle, end):
                        agreed |= bit(s)
                    else:
                        active, contending = active | bit(s), contending & ~bit(s)
                if active != NONE:
                    continue
                s = next_in_turn(machine, state, sm, here & ~second if (here & ~second) != NONE else here)

        scheduler = scheduler_at(state, sm, s)
        lane, cycle = scheduler.lane, scheduler.cycle
        slot = slot_in(chip, s, lane)
        index = sm.first_index + slot
        warp = state.warps[at(index)]
        step = scheduler.step
        ins = machine.program[at(step)]
        pair = (second & bit(s)) != NONE
        gap, busy, last = 0, 0, step
        if accepts(machine, state, sm, s, ins.op, cycle):
            if pair:
                issues_second(machine, state, s, index, step, cycle, min(scheduler.busy, ins.busy))
            else:
                issues(machine, state, s, index, warp, step, cycle)
                issues_after_refusals(machine, state, sm, s, index, warp, step, cycle)
            gap, busy = execute(machine, state, sm, s, slot, warp, step, cycle), ins.busy
            if not pair and may_pair(machine, state, sm, slot, warp, step, cycle):
                scheduler.gap, scheduler.busy, scheduler.first, scheduler.step = gap, busy, step, warp.step
                active, contending, second = active | bit(s), contending & ~bit(s), second | bit(s)
                continue
            if pair:
                gap, busy = max(gap, scheduler.gap), max(busy, scheduler.busy)
        elif pair:
            gap, busy, last = scheduler.gap, scheduler.busy, scheduler.first
            pair = False
        else:
            if (agreed & bit(s)) != NONE:
                note_refusals(machine, state, sm, s, cycle)
            postpone(machine, state, sm, s, ins.op, cycle, end)
            active, contending, agreed = active | bit(s), contending & ~bit(s), agreed & ~bit(s)
            continue
        active, contending, agreed, second = active | bit(s), contending & ~bit(s), agreed & ~bit(s), second & ~bit(s)
        if not complete(machine, state, sm, s, scheduler, lane, slot, warp, last, gap, busy, pair, cycle, end):
            return False


@inline
def awaits_own_queue(machine, state, sm, s, op, cycle, end):
    """Returns whether a class has a queue of scheduler s that is full at a cycle, which no other scheduler can change.

    Then scheduler s picks no warp that needs this queue before there is room, or the window ends.
    """
    facts = machine.classes[at(op)]
    if facts.queue == 0:
        return False
    retry = unit_open_from(machine, sm, s, facts)
    if retry <= cycle:
        return False
    postpone_users(scheduler_at(state, sm, s), sm, UNIT_PART, facts.unit << ACCESS_BITS, min(retry, end))
    return True


@inline
def next_in_turn(machine, state, sm, asking):
    """Returns the scheduler whose pick issues next, of several that ask in the same cycle."""
    least = FOREVER
    while asking != NONE:
        s = first(asking)
        asking = rest(asking)
        turn = precedence(machine, sm, s, machine.program[at(scheduler_at(state, sm, s).step)].op)
        least = min(least, turn << SCHEDULER_BITS | s)  # no branch depends on chance
    return least & (MAX_SCHEDULERS - 1)


@inline
def agrees(machine, state, sm, s, cycle, end):
    """Returns whether the pick of scheduler s can issue, for all that issued before this cycle. If not, it has to pick again."""
    scheduler = scheduler_at(state, sm, s)
    if machine.chip[0].policy == Policy.RANDOM:
        return draw_pick(machine, state, sm, s, scheduler, cycle, end)
    op = machine.program[at(scheduler.step)].op
    if accepts(machine, state, sm, s, op, cycle):
        return True
    postpone(machine, state, sm, s, op, cycle, end)
    return False


@inline
def draw_pick(machine, state, sm, s, scheduler, cycle, end):
    """Draws one of the issuable warps of scheduler s. False: there is none."""
    lanes = lanes_at_most(load(scheduler.wakes), time_of(sm, cycle))
    looked_at = NONE
    while (lanes & ~looked_at) != NONE:
        lane = first(lanes & ~looked_at)
        alike = lanes & lanes_equal(load(scheduler.uses), scheduler.uses[at(lane)])
        looked_at |= alike
        op = machine.program[at(warp_in(machine.chip[0], state, sm, s, lane).step)].op
        if not accepts(machine, state, sm, s, op, cycle):
            postpone(machine, state, sm, s, op, cycle, end)
            lanes &= ~alike
    if lanes == NONE:
        return False
    scheduler.lane = drawn(scheduler, lanes)
    scheduler.step = warp_in(machine.chip[0], state, sm, s, scheduler.lane).step
    return True


@inline
def postpone(machine, state, sm, s, op, cycle, end):
    """A class is refused: before it may be accepted, or the window ends, scheduler s picks no warp that is refused as well.

    Either the unit refuses, whatever class is to use it, or the SM's limit of loads, or of stores, in flight.
    """
    facts = machine.classes[at(op)]
    retry, part, used = unit_open_from(machine, sm, s, facts), UNIT_PART, facts.unit << ACCESS_BITS
    if retry <= cycle:
        retry, part, used = soonest_landing(state, sm, facts.access), ACCESS_PART, facts.access
    postpone_users(scheduler_at(state, sm, s), sm, part, used, min(retry, end))


@inline
def postpone_users(scheduler, sm, part, used, until):
    """Warps of a scheduler whose next step uses a unit, or an access, do not issue before a cycle (`using`)."""
    refused = using(load(scheduler.uses), part, used)
    store(scheduler.wakes, blocked(load(scheduler.wakes), refused, time_of(sm, until)))


@inline
def note_refusals(machine, state, sm, s, cycle):
    """Scheduler s has to pick again, since others have taken what it picked: notes what is refused by now.

    Others cannot take its own units and queues. When these refuse is noted when it issues.
    """
    for i in range(machine.chip[0].contended):
        op = machine.refusing[at(i)]
        if not accepts(machine, state, sm, s, op, cycle):
            refused_now(machine, state, sm, s, op, cycle)

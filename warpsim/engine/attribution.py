"""Where every warp-cycle goes: states, program lines, causes, and the edges of what is counted. docs/model.md, section 7.

The timing code reports here that a warp waits (`waits`), that it issues (`issues`, and what stands beside it for the second one
of a pair, for plain steps and runs of these), and for which cycles a unit refuses (`refuses`), an issue occupies its scheduler
(`is_busy`), or the register ports hold it (`holds`). It needs nothing back.

A wait is counted as a whole when it begins, since its end is known then. What of it lies beyond an edge is put right at the edge
(`settle`). Waits that are known before the run are not even counted one by one: their sum follows from the number of issues.
How long an eligible warp waited is known when it issues. How much of that it was refused follows from two sets of cycles of the
window: those in which the unit refused, and those in which the scheduler could not issue anyway. So what an eligible warp waited
is counted up to the end of each window (`close_window`), wherever something can have kept it from issuing.
"""


from warpsim.engine.bits import NONE, at, bit, cause_of, end_of, first, reason_of, rest, size, unit_in, wait_until
from warpsim.engine.constants import (
    FEW_CYCLES,
    LIMITED,
    LONGEST_WINDOW,
    MAX_SCHEDULERS,
    STATES,
    UNITS,
    Life,
    WarpState,
)
from warpsim.engine.cycle_sets import (
    cycles_of_word,
    enter_cycles,
    enter_few_cycles,
    few_cycles,
    size_of_cycles,
    word_near,
)
from warpsim.engine.fetch import fetch_before, fetched_from
from warpsim.engine.lanes import lanes_at_most, load, time_of
from warpsim.engine.places import count_place, scheduler_at, slot_in, slot_of, sm_of
from warpsim.engine.registers import open_wait
from warpsim.jit.decorators import inline, seldom

# Events


@inline
def waits(machine, state, s, step, cause, reason, cycles):
    """A warp of scheduler s waits for a step: counts these warp-cycles under a WarpState, and to the step that causes them."""
    state.stalls[at(count_place(machine.program, s, step) * STATES + reason)] += cycles
    state.caused[at(cause * STATES + reason)] += cycles


@inline
def issues(machine, state, s, index, warp, step, cycle):
    """A warp issues a step, not as the second one of a pair; it has been eligible since the end of its wait."""
    counted = state.counts[at(count_place(machine.program, s, step))]
    counted.issued += 1
    counted.waited += cycle - end_of(warp.wait)
    if state.tally[0].tracing:
        trace(machine.chip[0], state.tally[0], state.trace, index, step, cycle)


@inline
def issues_plain(counted, eligible, cycle):
    """A warp issues a plain step, of which the COUNT is given, while issues are not kept; it was eligible from a cycle on."""
    counted.issued += 1
    counted.waited += cycle - eligible


@inline
def issues_run(counts, place, times, eligible, cycle, waited):
    """A warp issues so many steps in a row, of which the first COUNT is at a place; each other one waited for so many cycles."""
    counts[at(place)].waited += cycle - eligible
    counts[at(place)].issued_on += 1
    counts[at(place + times)].issued_on -= 1
    counts[at(place + 1)].waited_on += waited
    counts[at(place + times)].waited_on -= waited


@inline
def issues_after_refusals(machine, state, sm, s, index, warp, step, cycle):
    """Of the cycles that a warp waited before it issues a step now, counts those in which the step could not issue, and why."""
    op = machine.program[at(step)].op
    eligible = end_of(warp.wait)
    if state.scratch[0].some_held and eligible < cycle:
        cycles = held_cycles(state.scratch[0], s, max(eligible - sm.begin, 0), cycle - sm.begin)
        state.parts[at(count_place(machine.program, s, step))].held += cycles
    there = min(fetched_from(machine.addresses, state, index), cycle)
    if max(eligible, sm.begin) < there:
        cycles = free_cycles(state.scratch[0], s, max(eligible - sm.begin, 0), there - sm.begin)
        state.parts[at(count_place(machine.program, s, step))].unfetched += cycles
        eligible = there
    if state.scratch[0].gates != NONE and machine.classes[at(op)].refusable and eligible < cycle:
        gates = gates_of(machine, op)
        cycles = refused_cycles(state.scratch[0], s, gates, max(eligible - sm.begin, 0), cycle - sm.begin)
        state.parts[at(count_place(machine.program, s, step))].throttled += cycles


@inline
def plain_after_waiting(scratch, part, s, ins, has_ports, begin, there, end):
    """The same for a plain step, which waited from a cycle of the window on and before another one; its PART is given.

    `there` is the cycle from which its instruction could issue for all that fetch had to do, between the others. Nearly always
    that is the first one. Whether the step waited at all, and in which words of a set, depends on chance, so that no branch does.
    """
    cycles = end - begin
    if cycles > FEW_CYCLES or there > begin:
        plain_after_waiting_long(scratch, part, s, unit_in(ins.uses), begin, there, end)
        return
    held = word_near(scratch.held[at(s)], begin)
    if has_ports:
        part.held += size(few_cycles(held, begin, cycles))
    if ins.plain & LIMITED:
        refused = word_near(scratch.refused_one[at(s), at(unit_in(ins.uses))], begin)
        part.throttled += size(few_cycles(refused & ~(word_near(scratch.busy[at(s)], begin) | held), begin, cycles))


@seldom
def plain_after_waiting_long(scratch, part, s, unit, begin, there, end):
    """The same for many cycles, or where the instruction could not issue from the first one on."""
    part.held += size_of_cycles(scratch.held[at(s)], begin, end)
    part.unfetched += free_cycles(scratch, s, begin, there)
    part.throttled += refused_cycles(scratch, s, (unit, unit), there, end)


@inline
def issues_second(machine, state, s, index, step, cycle, busy):
    """A warp issues a step as the second one of a pair, of which the smaller `busy` is given."""
    place = at(count_place(machine.program, s, step))
    state.counts[place].issued += 1
    state.parts[place].second_issues += 1
    state.tally[0].pair_busy += busy
    if state.tally[0].tracing:
        trace(machine.chip[0], state.tally[0], state.trace, index, step, cycle)


@seldom
def trace(chip, tally, rows, index, step, cycle):
    """Keeps one issue, while there is room; counts it."""
    if tally.traced < len(rows):
        row = rows[tally.traced]
        row[0], row[1], row[2], row[3] = cycle, sm_of(chip, index), slot_of(chip, index), step
    tally.traced += 1


# Refusals, as sets of cycles of the present window


@inline
def gates_of(machine, op):
    """Returns what can refuse instructions of a class: its unit, and its limit of accesses in flight or the unit again."""
    facts = machine.classes[at(op)]
    return facts.unit, facts.unit if facts.access == 0 else limit_gate(facts.access)


@inline
def limit_gate(kind):
    """Returns the gate of the SM's limit of loads, or of stores, in flight."""
    return UNITS - 1 + kind


@inline
def refuses(state, sm, s, gate, begin, end):
    """A gate refuses scheduler s, or with s < 0 all schedulers of the SM, from `begin` on and before `end`."""
    scratch, cycles = state.scratch[0], end - begin
    if cycles <= FEW_CYCLES:
        refusals = scratch.refused[at(gate)] if s < 0 else scratch.refused_one[at(s), at(gate)]
        enter_few_cycles(refusals, begin - sm.begin, cycles)
        scratch.gates |= bit(gate)
    else:
        mark_refused(scratch, s, gate, begin - sm.begin, min(end - sm.begin, LONGEST_WINDOW))


@inline
def is_busy(machine, state, sm, s, begin, end):
    """The last issue of scheduler s occupies it from `begin` on and before `end`, apart from cycles of which `holds` says so."""
    if len(machine.refusing) > 0 or machine.chip[0].buffer > 0:
        enter_cycles(state.scratch[0].busy[at(s)], begin - sm.begin, min(end - sm.begin, LONGEST_WINDOW))
        state.scratch[0].some_busy = 1


@inline
def is_busy_after(scratch, s, relative, interval):
    """Scheduler s cannot issue again in less than so many cycles, 2..LONGEST_INTERVAL, after a cycle of the window."""
    scratch.some_busy = 1
    enter_few_cycles(scratch.busy[at(s)], relative + 1, interval - 1)


@seldom
def mark_refused(scratch, s, gate, begin, end):
    """Enters cycles in which a gate refuses; they count from the start of the window."""
    for word in range(begin >> 6, (end + 63) >> 6):
        if s < 0:
            scratch.refused[at(gate), at(word)] |= cycles_of_word(word, begin, end)
        else:
            scratch.refused_one[at(s), at(gate), at(word)] |= cycles_of_word(word, begin, end)
    scratch.gates |= bit(gate)


@inline
def own_unit_refuses(scratch, s, unit, begin, cycles):
    """A unit of scheduler s refuses for so many cycles, mostly one, from one of the window on; its gate is yet to be noted."""
    if cycles <= FEW_CYCLES:
        enter_few_cycles(scratch.refused_one[at(s), at(unit)], begin, cycles)
    else:
        mark_refused(scratch, s, unit, begin, min(begin + cycles, LONGEST_WINDOW))


@inline
def holds(scratch, sm, s, begin, end):
    """The register ports hold scheduler s from `begin` on and before `end`."""
    enter_cycles(scratch.held[at(s)], begin - sm.begin, min(end - sm.begin, LONGEST_WINDOW))
    scratch.some_held = 1


@inline
def held_cycles(scratch, s, begin, end):
    """Returns the number of cycles in begin..end-1, which has some, in which the register ports held scheduler s."""
    word = begin >> 6
    if word == end - 1 >> 6:
        return size(scratch.held[at(s), at(word)] & cycles_of_word(word, begin, end))
    return size_of_cycles(scratch.held[at(s)], begin, end)


@seldom
def free_cycles(scratch, s, begin, end):
    """Returns the number of cycles in begin..end-1 in which scheduler s could issue."""
    cycles = 0
    for word in range(begin >> 6, (end + 63) >> 6):
        cycles += size(~cannot_issue(scratch, s, at(word)) & cycles_of_word(word, begin, end))
    return cycles


@inline
def cannot_issue(scratch, s, word):
    """Returns the set of those of the 64 cycles of a word in which scheduler s cannot issue."""
    return scratch.busy[at(s), word] | scratch.held[at(s), word]


@inline
def refused_cycles(scratch, s, gates, begin, end):
    """Returns the number of cycles in begin..end-1 in which scheduler s could issue, but one of two gates refused."""
    if end - begin > FEW_CYCLES:
        return many_refused_cycles(scratch, s, gates, begin, end)
    unit, limit = at(gates[0]), at(gates[1])
    refused = word_near(scratch.refused[unit], begin) | word_near(scratch.refused_one[at(s), unit], begin)
    refused |= word_near(scratch.refused[limit], begin) | word_near(scratch.refused_one[at(s), limit], begin)
    cannot_issue_near = word_near(scratch.busy[at(s)], begin) | word_near(scratch.held[at(s)], begin)
    return size(few_cycles(refused & ~cannot_issue_near, begin, end - begin))


@seldom
def many_refused_cycles(scratch, s, gates, begin, end):
    """The same for any number of cycles."""
    cycles, unit, limit = 0, at(gates[0]), at(gates[1])
    for word in range(begin >> 6, (end + 63) >> 6):
        refused = scratch.refused[unit, at(word)] | scratch.refused_one[at(s), unit, at(word)]
        refused |= scratch.refused[limit, at(word)] | scratch.refused_one[at(s), limit, at(word)]
        cycles += size(refused & ~cannot_issue(scratch, s, at(word)) & cycles_of_word(word, begin, end))
    return cycles


@inline
def open_window(state):
    """Forgets the refusals of another window."""
    scratch = state.scratch[0]
    while scratch.gates != NONE:
        gate = at(first(scratch.gates))
        scratch.gates = rest(scratch.gates)
        scratch.refused[gate] = NONE
        for s in range(MAX_SCHEDULERS):
            scratch.refused_one[at(s), gate] = NONE
    if scratch.some_busy:
        scratch.busy[:] = NONE
        scratch.some_busy = 0
    if scratch.some_held:
        scratch.held[:] = NONE
        scratch.some_held = 0


@inline
def close_window(machine, state, sm, end):
    """Counts what eligible warps have waited up to the end of a window, exclusive.

    Warps are left out that neither a unit, nor a limit, nor the ports, nor fetch can have kept from issuing.
    """
    chip = machine.chip[0]
    if state.scratch[0].gates == NONE and not state.scratch[0].some_held and chip.buffer == 0:
        return
    for s in range(chip.schedulers):
        fetch_before(machine.addresses, machine, state, sm, s, end)
        scheduler = scheduler_at(state, sm, s)
        lanes = lanes_at_most(load(scheduler.wakes), time_of(sm, max(end, scheduler.next_issue)))
        while lanes != NONE:
            slot = slot_in(chip, s, first(lanes))
            lanes = rest(lanes)
            warp = state.warps[at(sm.first_index + slot)]
            op = machine.program[at(warp.step)].op
            refusable = machine.classes[at(op)].refusable or state.scratch[0].some_held or chip.buffer > 0
            if refusable and end_of(warp.wait) < end:
                count_eligible(machine, state, sm, slot, warp, end)


@inline
def count_eligible(machine, state, sm, slot, warp, now):
    """Counts what an eligible warp has waited up to `now`, exclusive; it is counted from there on."""
    s, step = machine.chip[0].scheduler_of[at(slot)], warp.step
    issues_after_refusals(machine, state, sm, s, sm.first_index + slot, warp, step, now)
    state.counts[at(count_place(machine.program, s, step))].waited += now - end_of(warp.wait)
    warp.wait = wait_until(now, cause_of(warp.wait), reason_of(warp.wait))


# Edges of what is counted


@inline
def settle(machine, state, edge, sign):
    """Adds (+1) or takes off (-1) what of the waits that have begun lies at or beyond an edge, at which all windows have ended.

    Of a wait whose end is not known, what lies before the edge is added, or taken off, as it is counted later.
    """
    chip, tally = machine.chip[0], state.tally[0]
    count_runs(state)
    for sm in state.sms:
        for slot in range(chip.seats * chip.block_warps):
            warp, s = state.warps[at(sm.first_index + slot)], chip.scheduler_of[at(slot)]
            until, step = end_of(warp.wait), warp.step
            cause, reason = cause_of(warp.wait), reason_of(warp.wait)
            if (sm.pending & bit(slot)) != NONE:
                wait = open_wait(machine, state, sm.first_index + slot, warp)
                if end_of(wait) <= edge:
                    wait = wait_until(edge, step, WarpState.LG_THROTTLE)
                waits(machine, state, s, step, cause_of(wait), reason_of(wait), sign * (warp.since + 1 - edge))
            elif warp.life == Life.RUNNING or warp.life == Life.DRAINING:
                if chip.loads_per_warp > 0 and until > edge and reason == WarpState.LG_THROTTLE:
                    wait = state.otherwise[at(sm.first_index + slot)]
                    beyond = max(end_of(wait) - edge, 0)
                    waits(machine, state, s, step, cause, reason, -sign * beyond)
                    waits(machine, state, s, step, cause_of(wait), reason_of(wait), sign * beyond)
                if until > edge:
                    waits(machine, state, s, step, cause, reason, sign * (until - edge))
                else:
                    state.counts[at(count_place(machine.program, s, step))].waited += edge - until
                    warp.wait = wait_until(edge, cause, reason)
            elif warp.life == Life.AT_BARRIER or warp.life == Life.AT_MBARRIER:
                count_barrier(machine, state, s, warp, edge - 1)
        for s in range(chip.schedulers):
            next_issue = scheduler_at(state, sm, s).next_issue
            tally.carried += sign * max(next_issue - edge, 0)


@inline
def count_runs(state):
    """Adds to each step what runs of steps have counted that begin before it, or with it."""
    issued, waited = 0, 0
    for counted in state.counts:
        issued, waited = issued + counted.issued_on, waited + counted.waited_on
        counted.issued, counted.waited = counted.issued + issued, counted.waited + waited
        counted.issued_on, counted.waited_on = 0, 0


@inline
def count_barrier(machine, state, s, warp, now):
    """Counts what a warp has waited at a barrier up to `now`, inclusive; it is counted from there on."""
    barrier = warp.barrier
    waits(machine, state, s, barrier, barrier, WarpState.BARRIER, now - warp.since)
    warp.since = now


@inline
def total(machine, state, states):
    """Writes the warp-cycles by WarpState; returns the number of instructions, and the bytes that their threads asked for."""
    steps = len(machine.program)
    issued, asked = 0, 0.0
    for state_number in range(STATES):
        states[state_number] = 0
    for place in range(len(state.counts)):
        counted, part, ins = state.counts[at(place)], state.parts[at(place)], machine.program[at(place % steps)]
        issued += counted.issued
        asked += counted.issued * machine.details[at(place % steps)].asked_bytes
        states[at(WarpState.SELECTED)] += counted.issued - part.second_issues
        states[at(WarpState.NOT_SELECTED)] += counted.waited - part.throttled - part.held - part.unfetched
        states[at(WarpState.DISPATCH_STALL)] += part.held
        states[at(WarpState.NO_INSTRUCTION)] += part.unfetched
        states[at(machine.classes[at(ins.op)].throttle)] += part.throttled
        if ins.delay > 0:
            states[at(ins.reason)] += (counted.issued - part.second_issues) * (ins.delay - 1)
        for state_number in range(STATES):
            states[state_number] += state.stalls[at(place * STATES + state_number)]
    return issued, asked

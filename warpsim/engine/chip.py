"""The whole chip: windows in which every SM runs alone, and what is exchanged between them. docs/model.md, section 1."""

import numpy as np

from warpsim.engine.attribution import settle, total
from warpsim.engine.bits import at
from warpsim.engine.blocks import count_population, count_residents, note_change
from warpsim.engine.constants import FOREVER, NOTE, RUN_WINDOW, STATES, Kind, Outcome
from warpsim.engine.exchange import assign_blocks, cycles_to_return, exchange, note_all
from warpsim.engine.flights import limit_of, room_for_stores
from warpsim.engine.threads import add_up, await_call, call_others, gather, report
from warpsim.engine.window import run_alone
from warpsim.jit.decorators import apart, inline, jit

_ADD, _TAKE_OFF = 1, -1
OTHERS = 2  # columns of `totals` behind the states: instructions, bytes asked for; one column for each SM follows


@jit
def run(machine, state, stop, edge, width, totals, thread):
    """Runs the chip from `state.clock.cycle` up to cycle `stop`, exclusive.

    Reads the counters at cycle `edge` and every `width` cycles from there, into the rows of `totals`; there may be none. Returns
    when the rows are used up, too, or when the state has to be enlarged; the run then goes on where it was. Returns the number of
    rows written, and the value of an Outcome: Python would have to run to make a member, which Ctrl-C can interrupt.

    Several threads can call it at the same time (threads.py). Thread 0 does what is said above; the others, each with its share
    of the state, do what it calls them for.
    """
    clock = state.clock[0]
    now, rows = clock.cycle, 0
    if thread > 0:
        while await_call(state):
            if clock.task == NOTE:
                note_all(machine, state, clock.first_sm, clock.last_sm, clock.end)
            else:
                run_window(machine, state)
            report(state)
        return rows, Outcome.STOPPED.value
    while True:
        if clock.outgoing > 0 or clock.next_arrival < now or clock.next_echo < now:
            if not exchange(machine, state, now):
                clock.cycle = now
                return rows, Outcome.FULL.value
            if len(state.echoes) == 0:  # with echoes, `exchange` has done so
                call_others(state, NOTE)
                note_all(machine, state, clock.first_sm, clock.last_sm, clock.end)
                gather(state)
        for sm in state.sms:
            count_population(state, sm)
        now = min(max(now, soonest_event(state)), stop if len(totals) == 0 else min(stop, edge))
        clock.cycle = now
        if is_finished(machine, state):
            clock.cycle = clock.last_retire + 1
            return rows, Outcome.FINISHED.value
        if len(totals) > 0 and now == edge:
            write_totals(machine, state, now, totals[rows])
            rows += 1
            edge += width
            if rows == len(totals):
                return rows, Outcome.STOPPED.value
        if now == stop:
            return rows, Outcome.STOPPED.value
        clock.begin = now
        clock.end = min(now + lookahead(machine, state, now), stop if len(totals) == 0 else min(stop, edge))
        assign_blocks(machine, state, now, clock.end)
        call_others(state, RUN_WINDOW)
        run_window(machine, state)
        gather(state)
        if clock.stuck_cycle < FOREVER:
            clock.cycle = clock.stuck_cycle
            return rows, Outcome.DEADLOCK.value
        now = clock.end


@inline
def lookahead(machine, state, now):
    """Returns for how many cycles from `now` on no SM can affect another one.

    Stores that drain may return sooner. That does not matter to an SM that cannot come to its limit of stores in flight, unless
    dependence counters count them.
    """
    chip, cycles = machine.chip[0], machine.chip[0].window
    if chip.store_latency < cycles and (chip.stores_counted or limit_of(chip, Kind.STORE) > 0):
        until_limit = 0 if chip.stores_counted else cycles_to_limit(machine, state, now)
        cycles = min(cycles, max(cycles_to_return(chip, state, now), until_limit))
    return cycles


@inline
def cycles_to_limit(machine, state, now):
    """Returns for how many cycles from `now` on no SM can come to its limit of stores in flight, even if none returns."""
    chip, least = machine.chip[0], FOREVER
    for sm in state.sms:
        least = min(least, room_for_stores(machine, state, sm, now))
    return np.int64(np.floor((least - chip.store_burst - 1) / chip.store_rate))


@apart
def run_window(machine, state):
    """Runs the SMs of a thread for a window. Where there is a deadlock, `clock` says where the earliest one is."""
    clock = state.clock[0]
    clock.served, clock.outgoing = clock.begin, clock.first_outgoing
    stuck, stuck_sm, stuck_seat = FOREVER, 0, 0
    for number in range(clock.first_sm, clock.last_sm + 1):
        sm = state.sms[at(number)]
        if sm.next_event < clock.end and not run_alone(machine, state, sm, clock.begin, clock.end) and clock.stuck_cycle < stuck:
            stuck, stuck_sm, stuck_seat = clock.stuck_cycle, clock.stuck_sm, clock.stuck_seat
    clock.stuck_cycle, clock.stuck_sm, clock.stuck_seat = stuck, stuck_sm, stuck_seat


@inline
def soonest_event(state):
    """Returns the cycle before which nothing happens on any SM, nor in memory. It may have passed: something happens at once."""
    soonest = min(state.clock[0].next_echo, state.clock[0].next_arrival)
    for sm in state.sms:
        soonest = min(soonest, sm.next_event)
    return soonest


@inline
def is_finished(machine, state):
    """Returns whether the supply is used up, and every warp has left."""
    chip, clock = machine.chip[0], state.clock[0]
    if clock.cycle == 0 or chip.blocks < 0 or clock.next_block < chip.blocks:
        return False
    for sm in state.sms:
        if sm.resident > 0:
            return False
    for seat in state.seats:
        if seat.next_start >= clock.cycle and seat.next_block >= 0:
            return False
    return True


@jit
def read(machine, state, now, totals):
    """Reads the counters between two runs, as `run` does at the edges."""
    write_totals(machine, state, now, totals)


@inline
def write_totals(machine, state, now, totals):
    """Writes what was counted up to cycle `now`: warp-cycles by WarpState, instructions, bytes, warp-cycles by SM."""
    settle_at(machine, state, now, _TAKE_OFF)
    totals[STATES], totals[STATES + 1] = total(machine, state, totals)
    for i in range(len(state.sms)):
        totals[STATES + OTHERS + i] = state.sms[at(i)].warp_cycles
    settle_at(machine, state, now, _ADD)


@apart
def settle_at(machine, state, now, sign):
    """Takes off (-1) what was counted of cycle `now` and of later ones, or adds it again (+1)."""
    for sm in state.sms:
        count_residents(state, sm, now)
    settle(machine, state, now, sign)


@jit
def begin_counting(machine, state, now):
    """Counts from cycle `now` on, and forgets what was before."""
    settle_at(machine, state, now, _TAKE_OFF)
    for tally in state.tally:
        tally.pair_busy, tally.carried, tally.held, tally.n_changes = 0, 0, 0, 0
        tally.latency_sum, tally.moved_bytes, tally.retired, tally.lifetime_sum = 0, 0.0, 0, 0
        tally.histogram[:] = 0
        tally.occupancy[:] = 0
    for counted in state.counts:
        counted.issued, counted.waited = 0, 0
    for part in state.parts:
        part.second_issues, part.throttled, part.held, part.unfetched = 0, 0, 0, 0
    state.stalls[:] = 0
    state.caused[:] = 0
    for sm in state.sms:
        sm.warp_cycles = 0
        note_change(state, sm, now)
    settle_at(machine, state, now, _ADD)


@jit
def end_counting(machine, state, now):
    """Has the counters, those of thread 0, hold what was counted up to cycle `now`, exclusive."""
    settle_at(machine, state, now, _TAKE_OFF)
    add_up(state)

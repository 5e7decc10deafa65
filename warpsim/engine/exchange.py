"""What the SMs exchange between windows: requests to memory, and blocks of the supply. docs/model.md, sections 4 and 5.

A load or a store that issues in a window and misses L1 goes out. At the end of the window these accesses are looked at, in
order of cycle, SM and issue, and send their requests on. Those whose last request arrives at its last server in the window are
served, and the warps that wait for them learn until when; the others stay until a later window.
"""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.bits import NONE, at, bit, cause_of, end_of, first, reason_of, rest, wait_until
from warpsim.engine.blocks import retire_warp
from warpsim.engine.constants import NOBODY, UNKNOWN, Kind, Life, MemoryModel
from warpsim.engine.echoes import make_accesses, note_end
from warpsim.engine.flights import note_flight
from warpsim.engine.hints import has_hints, waits_for_all
from warpsim.engine.mbarriers import copy_is_back, has_mbarriers
from warpsim.engine.order import add_outgoing, forget_outgoing, sort_outgoing
from warpsim.engine.places import slot_of, sm_of
from warpsim.engine.registers import learn_ready, soonest_return, wait_of
from warpsim.engine.rng import advance, choose_low, mix
from warpsim.engine.tandem import close_access, hand_over, open_access, send, take_due, takes
from warpsim.engine.timetable import set_alarm
from warpsim.engine.waiting import count_open_wait, count_wait, wait_for_next
from warpsim.jit.decorators import apart, inline

_ECHO_LATE = 0.5  # cycles after its issue at which the requests of an echo arrive


@inline
def access(machine, state, sm, index, warp, step, cycle, queued):
    """A warp issues a load or a store, which waits in the queue of its unit: it hits L1, or goes out.

    Returns when the data is back, perhaps UNKNOWN.
    """
    detail, kind = machine.details[at(step)], machine.program[at(step)].kind
    stream = warp.stream
    warp.stream = memory.after_access(stream, detail)
    if memory.hits_l1(stream, detail):
        returns = cycle + queued + memory.latency_in_l1(machine, detail)
        if is_awaited(kind, detail):
            note_return(machine, state, index, warp, step, cycle, returns)
        note_flight(machine, state, sm, kind, returns)
        return returns
    add_outgoing(state, index, stream, step, cycle, queued)
    sm.unserved[at(kind - Kind.LOAD)] += 1
    if is_awaited(kind, detail):
        warp.requested += 1
    if kind == Kind.LOAD and machine.chip[0].loads_per_warp > 0:
        state.returns[at(index), soonest_return(state, index)] = UNKNOWN + cycle
    return UNKNOWN


@inline
def is_awaited(kind, detail):
    """Returns whether a warp that has issued `exit` waits for an access: for every load, and for stores that drain."""
    return kind == Kind.LOAD or detail.drain >= 0.0


@inline
def note_return(machine, state, index, warp, step, cycle, returns):
    """Notes when an access that issued at `cycle` is back: for its warp, and of a load in the latency statistics."""
    is_load = machine.program[at(step)].kind == Kind.LOAD
    sooner = cycle < warp.last_access_issue
    if machine.program[at(warp.last_access)].kind != machine.program[at(step)].kind:
        sooner = is_load
    if returns > warp.last_return or (returns == warp.last_return and sooner):
        warp.last_return, warp.last_access_issue, warp.last_access = returns, cycle, step
    if not is_load:
        return
    if machine.chip[0].loads_per_warp > 0:
        state.returns[at(index), soonest_return(state, index)] = returns
    memory.count_latency(state.tally[0], returns - cycle)


@inline
def has_room(machine, state):
    """Returns whether there is room for all requests of the window between the stages of memory."""
    clock, asked = state.clock[0], 0
    if machine.chip[0].memory != MemoryModel.QUEUE or takes(state, clock.outgoing * machine.chip[0].most_requests):
        return True
    for number in range(clock.outgoing):
        asked += machine.details[at(state.outgoing[at(number)].step)].requests
    return takes(state, asked)


@inline
def exchange(machine, state, end):
    """Serves the requests of the window that ends at cycle `end`, those of echoes included. False: there is no room for them.

    Echoes notice at once when a store returns, so that a slice does it in steps, each with its notes. Without echoes, the
    threads call `note_all` afterwards.
    """
    chip, clock = machine.chip[0], state.clock[0]
    while clock.served < end:
        until = end
        if len(state.echoes) > 0:
            until = min(end, clock.served + cycles_to_return(chip, state, clock.served))
        if not (make_accesses(machine, state, clock.served, until) and has_room(machine, state)):
            return False
        serve(machine, state, clock.served, until, end)
        clock.served = until
    return True


@inline
def cycles_to_return(chip, state, now):
    """Returns for how many cycles from `now` on no store returns that issues in them, or that has not been served by then.

    Those that pass the data bus do so after all that have been served.
    """
    return chip.store_latency + (max(memory.bus_free_from(state) - now, 0) if chip.stores_pass_bus else 0)


@inline
def serve(machine, state, begin, end, now):
    """Serves the requests that arrive in begin..end-1 at the last of their servers, after a window that ends at cycle `now`."""
    clock = state.clock[0]
    if clock.outgoing > 0:
        count = sort_outgoing(state, begin, end)
        for place in range(count):
            accept(machine, state, state.outgoing[at(state.order[at(place)])], end)
        forget_outgoing(state, end, count)
    clock.noted = 0
    for number in range(take_due(state, begin, end)):
        serve_dram(machine, state, state.due[at(number)])
    if len(state.echoes) > 0:
        note_all(machine, state, 0, len(state.sms) - 1, now)


@inline
def accept(machine, state, outgoing, end):
    """Serves an access whose return is known at once; of any other, sends the requests on to stage 2.

    Those that arrive there before cycle `end` are served next.
    """
    step, cycle, of_echo = outgoing.step, outgoing.cycle, outgoing.warp < 0
    detail, kind = machine.details[at(step)], machine.program[at(step)].kind
    time = cycle + (_ECHO_LATE if of_echo else 0.0)
    stream = advance(outgoing.stream) if of_echo else memory.before_requests(outgoing.stream, detail)
    in_l2 = outgoing.in_l2 != 0 if of_echo else memory.hits_l2(outgoing.stream, detail)
    base = memory.unloaded(machine, state, outgoing.stream, cycle, detail, in_l2)
    if not (of_echo or in_l2):
        state.tally[0].moved_bytes += detail.requests * detail.request_bytes
    if in_l2 or machine.chip[0].memory != MemoryModel.QUEUE:
        wait = memory.wait_before_dram(machine, state, stream, time, detail, in_l2, kind == Kind.STORE)
        returns = cycle + outgoing.queued + memory.whole(base + wait)
        note_end(machine, state, outgoing.warp, outgoing.number, returns)
        if not of_echo:
            note_served(machine, state, outgoing.warp, step, cycle, cycle, returns)
        return
    place = open_access(state, outgoing.warp, step, cycle, base, memory.longest_delay(machine.chip[0], detail), detail.requests)
    access = state.accesses[at(place)]
    access.queued, access.number = outgoing.queued, outgoing.number
    send_all(machine, state, place, stream, time, detail)
    if of_echo or not is_awaited(kind, detail):
        return
    if not needs_the_return_alone(machine, state, outgoing.warp, access.served < end):
        note_sent(machine, state, outgoing.warp, step, cycle, access.served)


@inline
def send_all(machine, state, place, stream, time, detail):
    """Has the requests of an access pass stage 1, at which they arrive at a time, and sends them on to stage 2."""
    chip = machine.chip[0]
    for _ in range(detail.requests):
        stream = advance(stream)
        word = mix(stream)
        arrival = memory.pass_crossbar(state, time, word, detail)
        send(state, place, arrival, choose_low(word, chip.dram_servers))


@inline
def serve_dram(machine, state, arrival):
    """Serves a request in stage 2; with the last one of an access it is known when the access returns."""
    place = arrival.access
    access = state.accesses[at(place)]
    index, step = access.warp, access.step
    detail = machine.details[at(step)]
    is_write = machine.program[at(step)].kind == Kind.STORE
    begins = memory.pass_dram(machine.chip[0], state, arrival.time, arrival.server, detail, is_write)
    access.wait = max(access.wait, begins - access.cycle - (_ECHO_LATE if index < 0 else 0.0))
    access.unserved -= 1
    if access.unserved > 0:
        return
    close_access(state, place)
    note_end(machine, state, index, access.number, return_of(access))
    if index >= 0:
        hand_over(state, state.sms[at(sm_of(machine.chip[0], index))], place)


@inline
def return_of(access):
    """Returns when an access is back, of which all requests have been served."""
    return access.cycle + access.queued + memory.whole(access.unloaded + access.wait)


@apart
def note_all(machine, state, first_sm, last_sm, now):
    """Notes on some SMs what has become known of their accesses, after a window that ended at cycle `now`.

    It goes SM by SM, since the records of all SMs may not fit into the processor's caches.
    """
    for number in range(first_sm, last_sm + 1):
        sm = state.sms[at(number)]
        if sm.last_served != NOBODY:
            note_all_served(machine, state, sm)
        while sm.answered != NONE:
            slot = first(sm.answered)
            sm.answered = rest(sm.answered)
            if (sm.pending & bit(slot)) != NONE:
                sm.pending &= ~bit(slot)
                resolve(machine, state, sm, slot, now)


@inline
def note_all_served(machine, state, sm):
    """Notes when the accesses of an SM are back that have been served, in this order."""
    last = sm.last_served
    sm.last_served = NOBODY
    place, left = state.accesses[at(last)].following, True
    while left:
        access, left = state.accesses[at(place)], place != last
        note_served(machine, state, access.warp, access.step, access.cycle, access.served, return_of(access))
        place = access.following


@inline
def needs_the_return_alone(machine, state, index, served_next):
    """Returns whether it is of no use to a warp in which cycle its access is served, but only when that is back.

    It is the last one not known to the warp, and either its return is noted next, or the warp is pending: then it does nothing
    before the access is back. Only a counter may let it go as soon as it is known when the access is served.
    """
    chip = machine.chip[0]
    if not is_the_last(machine, state.warps[at(index)]):
        return False
    is_pending = (state.sms[at(sm_of(chip, index))].pending & bit(slot_of(chip, index))) != NONE
    return (is_pending and not has_hints(machine.hints)) or served_next


@inline
def note_sent(machine, state, index, step, cycle, served):
    """Notes in which cycle an access that issued at `cycle` will be served."""
    chip, program, latest = machine.chip[0], machine.program, state.latest[at(index)]
    may_change = learn_ready(machine, state, index, step, cycle, UNKNOWN + served)
    if program[at(step)].kind == Kind.LOAD:
        replace_return(machine, state, index, UNKNOWN + cycle, UNKNOWN + served)
    prior = program[at(step)].kind == Kind.LOAD and program[at(cause_of(latest))].kind == Kind.STORE
    later = served > cycle and (served > end_of(latest) or (served == end_of(latest) and prior))
    state.latest[at(index)] = wait_until(served, step, 0) if later else latest
    if chip.loads_per_warp > 0 or may_change:
        state.sms[at(sm_of(chip, index))].answered |= bit(slot_of(chip, index))


@apart
def note_served(machine, state, index, step, cycle, served, returns):
    """Notes when an access is back that issued at `cycle` and is served in cycle `served`."""
    sm, kind = state.sms[at(sm_of(machine.chip[0], index))], machine.program[at(step)].kind
    sm.unserved[at(kind - Kind.LOAD)] -= 1
    note_flight(machine, state, sm, kind, returns)
    if has_mbarriers(machine.mbarriers):
        copy_is_back(machine.mbarriers, machine, state, sm, index, step, cycle, served, returns)
    if not is_awaited(kind, machine.details[at(step)]):
        return
    slot, warp = slot_of(machine.chip[0], index), state.warps[at(index)]
    is_pending = (sm.pending & bit(slot)) != NONE
    if is_pending and kind == Kind.LOAD and is_the_last(machine, warp):
        note_return(machine, state, index, warp, step, cycle, returns)
        warp.requested = 0
        sm.pending &= ~bit(slot)
        go_on(machine, state, sm, slot, index, warp, step, cycle, served, returns)
        return
    if is_pending and served - 1 > warp.since:
        count_open_wait(machine, state, machine.chip[0].scheduler_of[at(slot)], index, warp, served)
    if kind == Kind.LOAD:
        replace_return(machine, state, index, UNKNOWN + max(served, cycle), 0)  # the place is kept for this return
    note_return(machine, state, index, warp, step, cycle, returns)
    warp.requested -= 1
    learn_ready(machine, state, index, step, cycle, returns)
    sm.answered |= bit(slot)


@inline
def is_the_last(machine, warp):
    """Returns whether a warp knows all that it waits for once the return of an access is known: it is the last one unknown."""
    return warp.requested == 1 and warp.life == Life.RUNNING and machine.chip[0].loads_per_warp == 0


@inline
def go_on(machine, state, sm, slot, index, warp, load, cycle, served, returns):
    """Has a pending warp wait for its next step. The last of its loads, a step, is served in cycle `served`.

    Before, this load is what the warp waits for, except at a counter that may count some, where one that is served can be.
    """
    learn_ready(machine, state, index, load, cycle, returns)
    s, dependency = machine.chip[0].scheduler_of[at(slot)], machine.classes[at(machine.program[at(load)].op)].dependency
    wait = wait_of(machine, state, index, warp.step, warp.wait)
    named_alike = cause_of(wait) == load and reason_of(wait) == dependency
    if named_alike and has_hints(machine.hints):
        named_alike = waits_for_all(machine.hints, machine, state, index, warp.step)
    if not named_alike and served - 1 > warp.since:
        learn_ready(machine, state, index, load, cycle, UNKNOWN + served)
        count_open_wait(machine, state, s, index, warp, served)
        learn_ready(machine, state, index, load, cycle, returns)
    count_wait(machine, state, s, warp, wait)
    warp.wait = wait
    set_alarm(machine, state, sm, slot, wait)


@inline
def replace_return(machine, state, index, known, returns):
    """Writes what has become known about the return of one of a warp's loads, if they are limited."""
    if machine.chip[0].loads_per_warp > 0:
        for i in range(state.returns.shape[1]):
            if state.returns[at(index), at(i)] == known:
                state.returns[at(index), at(i)] = returns
                break


@inline
def resolve(machine, state, sm, slot, now):
    """More is known about the requests for which a warp waits, of those served by cycle `now`: says until when it waits."""
    index = sm.first_index + slot
    warp = state.warps[at(index)]
    if warp.life != Life.DRAINING:
        wait_for_next(machine, state, sm, slot, index, warp)
    elif warp.requested == 0:
        retire_warp(machine, state, sm, slot, warp, max(warp.since, warp.last_return), now)
    else:
        sm.pending |= bit(slot)


@inline
def assign_blocks(machine, state, begin, end):
    """Assigns blocks of the supply to the seats that are due in begin..end-1, by cycle, SM and seat. They start one by one."""
    chip, clock = machine.chip[0], state.clock[0]
    for place in range(len(state.sms) - 1, -1, -1):
        if state.sms[at(place)].next_start < end:
            list_due_seats(chip, state, place, begin, end)
    for relative in range(end - begin):
        number = state.first_seat[at(relative)]
        state.first_seat[at(relative)] = -1
        while number >= 0:
            seat = state.seats[at(number)]
            number = seat.next_seat
            if chip.blocks >= 0 and clock.next_block >= chip.blocks:
                seat.next_start = -1
            else:
                seat.next_block = clock.next_block
                clock.next_block += 1
                start_one(chip, clock, seat)


@inline
def list_due_seats(chip, state, sm, begin, end):
    """Puts the seats of an SM that are due in begin..end-1, and have no block yet, before those of later SMs in their cycles."""
    for number in range((sm + 1) * chip.seats - 1, sm * chip.seats - 1, -1):
        seat = state.seats[at(number)]
        if begin <= seat.next_start < end and seat.next_block < 0:
            relative = at(seat.next_start - begin)
            seat.next_seat = state.first_seat[relative]
            state.first_seat[relative] = number


@inline
def start_one(chip, clock, seat):
    """A seat that has got a block starts it when it is due, and not before those that were due earlier allow it."""
    if chip.launch_interval > 0.0:
        due = seat.next_start
        seat.next_start = max(due, np.int64(np.ceil(clock.launch_free)))
        clock.launch_free = max(clock.launch_free, np.float64(due)) + chip.launch_interval

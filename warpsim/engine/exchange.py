"""What the SMs exchange between windows: requests to memory, and blocks of the supply. docs/model.md, sections 4 and 5.

A load or a store that issues in a window leaves a request. At the end of the window all requests are served, in order of cycle,
SM and issue, and the warps that wait for them learn until when.
"""

import numpy as np

from warpsim.engine import memory
from warpsim.engine.attribution import waits
from warpsim.engine.bits import NONE, at, first, rest
from warpsim.engine.blocks import retire_warp
from warpsim.engine.flights import note_flight
from warpsim.engine.jit import inline
from warpsim.engine.registers import soonest_return, wait_of, write
from warpsim.engine.state import MAX_WARPS, UNKNOWN, Kind, Life
from warpsim.engine.timetable import set_alarm

_LOAD, _STORE = int(Kind.LOAD), int(Kind.STORE)
_DRAINING = int(Life.DRAINING)


@inline
def access(machine, state, sm, index, warp, step, cycle, queued):
    """A warp issues a load or a store, which waits in the queue of its unit: it hits L1, or leaves a request.

    Returns when the data is back, perhaps UNKNOWN.
    """
    detail, kind = machine.details[at(step)], np.int64(machine.program[at(step)].kind)
    stream = warp.stream
    warp.stream = memory.after_access(stream, detail)
    if memory.hits_l1(stream, detail):
        returns = cycle + queued + memory.latency_in_l1(machine, detail)
        if is_awaited(kind, detail):
            note_return(machine, state, index, warp, step, cycle, returns)
        note_flight(machine, state, sm, kind, returns)
        return returns
    leave_request(state, sm, index, stream, step, cycle, queued)
    sm.sent[at(kind - _LOAD)] += 1
    if is_awaited(kind, detail):
        warp.requested += 1
    if kind == _LOAD and machine.chip[0].loads_per_warp > 0:
        state.returns[at(index), soonest_return(state, index)] = UNKNOWN
    return np.int64(UNKNOWN)


@inline
def is_awaited(kind, detail):
    """Returns whether a warp that has issued `exit` waits for an access: for every load, and for stores that drain."""
    return kind == _LOAD or detail.drain >= 0.0


@inline
def leave_request(state, sm, index, stream, step, cycle, queued):
    """Appends a request to those of the window."""
    clock = state.clock[0]
    request = state.requests[at(clock.requests)]
    clock.requests += 1
    request.cycle, request.stream, request.warp, request.step, request.queued = cycle, stream, index, step, queued
    state.in_cycle[at(cycle - sm.begin)] += 1


@inline
def sort_requests(state, begin, end):
    """Writes the numbers of the requests to `state.order`, by cycle; those of one cycle stay in the order of SM and issue."""
    place = 0
    for relative in range(end - begin):
        here = state.in_cycle[at(relative)]
        state.in_cycle[at(relative)] = place
        place += here
    for number in range(state.clock[0].requests):
        relative = at(state.requests[at(number)].cycle - begin)
        state.order[at(state.in_cycle[relative])] = number
        state.in_cycle[relative] += 1
    for relative in range(end - begin):
        state.in_cycle[at(relative)] = 0


@inline
def note_return(machine, state, index, warp, step, cycle, returns):
    """Notes when an access that issued at `cycle` is back: for its warp, and of a load in the latency statistics."""
    is_load = np.int64(machine.program[at(step)].kind) == _LOAD
    sooner = cycle < warp.last_access_issue
    if np.int64(machine.program[at(warp.last_access)].kind) != np.int64(machine.program[at(step)].kind):
        sooner = is_load
    if returns > warp.last_return or (returns == warp.last_return and sooner):
        warp.last_return, warp.last_access_issue, warp.last_access = returns, cycle, step
    if not is_load:
        return
    if machine.chip[0].loads_per_warp > 0:
        state.returns[at(index), soonest_return(state, index)] = returns
    memory.count_latency(state.tally[0], returns - cycle)


@inline
def note_served(machine, state, index, warp, step, cycle, returns):
    """Notes when an access is back that left a request at `cycle`."""
    if np.int64(machine.program[at(step)].kind) == _LOAD and machine.chip[0].loads_per_warp > 0:
        for i in range(state.returns.shape[1]):
            if state.returns[at(index), at(i)] == UNKNOWN:
                state.returns[at(index), at(i)] = np.int64(0)  # the place is kept for this return
                break
    note_return(machine, state, index, warp, step, cycle, returns)
    warp.requested -= 1
    write(machine, state, index, np.int64(machine.program[at(step)].dst), returns, step)


@inline
def serve(machine, state, begin, end):
    """Serves the requests of a window."""
    if state.clock[0].requests == 0:
        return
    sort_requests(state, begin, end)
    for place in range(state.clock[0].requests):
        request = state.requests[at(state.order[at(place)])]
        index, step, cycle = request.warp, np.int64(request.step), request.cycle
        kind = np.int64(machine.program[at(step)].kind)
        detail = machine.details[at(step)]
        returns = cycle + request.queued + memory.latency(machine, state, request.stream, cycle, detail)
        if is_awaited(kind, detail):
            note_served(machine, state, index, state.warps[at(index)], step, cycle, returns)
        note_flight(machine, state, state.sms[at(index // MAX_WARPS)], kind, returns)
    state.clock[0].requests = 0
    for sm in state.sms:
        sm.sent[at(0)], sm.sent[at(1)] = 0, 0
        while sm.pending != NONE:
            slot = first(sm.pending)
            sm.pending = rest(sm.pending)
            resolve(machine, state, sm, slot, end)


@inline
def resolve(machine, state, sm, slot, now):
    """A warp has waited for requests, and they have been served by cycle `now`: says until when it waits."""
    index = sm.index * MAX_WARPS + slot
    warp, s = state.warps[at(index)], machine.chip[0].scheduler_of[at(slot)]
    if warp.life == _DRAINING:
        retire_warp(machine, state, sm, slot, warp, max(warp.since, warp.last_return), now)
        return
    step = np.int64(warp.step)
    wait = wait_of(machine, state, index, step, warp.wait)
    waits(machine, state, s, step, warp.since, wait)
    warp.wait = wait
    set_alarm(machine, state, sm, slot, wait)


@inline
def assign_blocks(machine, state, begin, end):
    """Assigns blocks of the supply to the seats in which one is to start in begin..end-1, by cycle, SM and seat."""
    chip, clock = machine.chip[0], state.clock[0]
    for number in range(len(state.seats) - 1, -1, -1):
        seat = state.seats[at(number)]
        if begin <= seat.next_start < end and seat.next_block < 0:
            relative = at(seat.next_start - begin)
            seat.next_seat = state.first_seat[relative]
            state.first_seat[relative] = number
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

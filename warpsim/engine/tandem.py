"""Between the two stages of the memory model `queue`: requests that wait for the time at which they arrive at stage 2.

They wait in the order in which they were sent. Those that arrive after the next few windows wait apart, so that a window looks at
few. At its end those are taken out that have arrived, and sorted: into parts of a cycle, so many that there are few in one, and
there by time. An access keeps its place in `State.accesses` until all of its requests have been served. docs/model.md, section 5.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import FOREVER, MOST_PARTS, NEAR_WINDOWS, NOBODY
from warpsim.jit.decorators import inline


@inline
def takes(state, requests):
    """Returns whether there is room for so many more requests."""
    return state.clock[0].near + state.clock[0].far + requests <= len(state.arrivals)


@inline
def open_access(state, index, step, cycle, base, delay, requests):
    """Keeps an access until its requests have been served; returns its place."""
    clock = state.clock[0]
    place = np.int64(state.free_accesses[at(clock.accesses)])
    clock.accesses += 1
    access = state.accesses[at(place)]
    access.cycle, access.warp, access.step, access.unloaded, access.wait = cycle, index, step, base, delay
    access.unserved, access.served = requests, cycle
    return place


@inline
def close_access(state, place):
    """Forgets an access; its record is left as it is until another one is opened."""
    clock = state.clock[0]
    clock.accesses -= 1
    state.free_accesses[at(clock.accesses)] = place


@inline
def send(state, place, time, server):
    """Sends a request of an access to a server of stage 2, at which it arrives at a time; there must be room for it."""
    clock, access = state.clock[0], state.accesses[at(place)]
    cycle = np.int64(time)
    access.served = max(access.served, cycle)
    clock.next_arrival = min(clock.next_arrival, cycle)
    if cycle < clock.far_from:
        put(state.arrivals, clock.near, time, place, server)
        clock.near += 1
    else:
        put(state.far_arrivals, clock.far, time, place, server)
        clock.far += 1


@inline
def put(arrivals, number, time, place, server):
    """Writes a request of an access; numba would copy a record byte by byte."""
    arrival = arrivals[at(number)]
    arrival.time, arrival.access, arrival.server = time, place, server


@inline
def hand_over(state, sm, place):
    """Adds an access that has been served, as the last one, to the ring of those that its SM has to note."""
    access, last = state.accesses[at(place)], sm.last_served
    if last == NOBODY:
        access.following = place
    else:
        access.following = state.accesses[at(last)].following
        state.accesses[at(last)].following = place
    sm.last_served = place


@inline
def take_due(state, begin, end):
    """Takes the requests that arrive at stage 2 before cycle `end`, none before `begin`, to `state.due`; returns how many.

    They are sorted by time; those of one time stay in the order in which they were sent.
    """
    if state.clock[0].next_arrival >= end:
        return 0
    if state.clock[0].far_from < end:
        bring_near(state, end + NEAR_WINDOWS * (end - begin))
    count = take(state, end)
    parts = parts_of_cycle(end - begin, count)
    sort_by_part(state, begin, (end - begin) * parts, parts, count)
    sort_within_parts(state, count)
    return count


@inline
def bring_near(state, until):
    """Has the requests that arrive before a cycle wait with those that are near."""
    clock = state.clock[0]
    clock.near, clock.far = move(state.far_arrivals, clock.far, until, state.arrivals, clock.near)
    clock.far_from = until


@inline
def take(state, end):
    """Takes the requests that arrive before a cycle to `state.taken`, and returns how many."""
    clock, soonest = state.clock[0], np.float64(FOREVER)
    count, kept = move(state.arrivals, clock.near, end, state.taken, 0)
    for number in range(kept):
        soonest = min(soonest, state.arrivals[at(number)].time)
    if kept == 0 and clock.far > 0:
        soonest = clock.far_from
    clock.near, clock.next_arrival = kept, np.int64(soonest)
    return count


@inline
def move(arrivals, waiting, end, others, count):
    """Moves the requests that arrive before a cycle, of so many that wait, behind so many others; those that stay move up.

    Returns how many the others are then, and how many stay. Which they are depends on chance. So both are written, and no
    branch depends on it.
    """
    kept = 0
    for number in range(waiting):
        arrival = arrivals[at(number)]
        time, place, server, is_sooner = arrival.time, arrival.access, arrival.server, arrival.time < end
        put(others, count, time, place, server)
        put(arrivals, kept, time, place, server)
        count += is_sooner
        kept += not is_sooner
    return count, kept


@inline
def parts_of_cycle(cycles, requests):
    """Returns into how many parts a cycle is divided, so that so many requests in so many cycles are about one in a part."""
    parts = 1
    while cycles * parts < min(requests, MOST_PARTS // 2):
        parts *= 2
    return parts


@inline
def part_of(time, first, parts):
    """Returns in which part a time lies, from a first time on, of which each cycle has so many; an unsigned integer.

    A processor turns a float into a signed integer in one instruction.
    """
    return at(np.int64((time - first) * parts))


@inline
def sort_by_part(state, begin, all_parts, parts, count):
    """Writes so many requests that have been taken to `state.due`, by part of a cycle since cycle `begin`."""
    first, scale = np.float64(begin), np.float64(parts)
    for number in range(count):
        state.in_part[part_of(state.taken[at(number)].time, first, scale)] += 1
    place = np.int32(0)
    for part in range(all_parts):
        here = state.in_part[at(part)]
        state.in_part[at(part)] = place
        place += here
    for number in range(count):
        request = state.taken[at(number)]
        part = part_of(request.time, first, scale)
        put(state.due, state.in_part[part], request.time, request.access, request.server)
        state.in_part[part] += 1
    state.in_part[:all_parts] = 0


@inline
def sort_within_parts(state, count):
    """Sorts requests by time that are sorted by part of a cycle."""
    for number in range(1, count):
        time = state.due[at(number)].time
        if state.due[at(number - 1)].time > time:
            access, server, place = state.due[at(number)].access, state.due[at(number)].server, number
            while place > 0 and state.due[at(place - 1)].time > time:
                before = state.due[at(place - 1)]
                put(state.due, place, before.time, before.access, before.server)
                place -= 1
            put(state.due, place, time, access, server)

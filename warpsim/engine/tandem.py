"""Between the two stages of the memory model `queue`: requests that wait for the time at which they arrive at stage 2.

They are kept by arrival, then by issue, in a calendar (Brown 1988): a list for each cycle, and the cycles that are CALENDAR apart
share one. An access keeps its place in `State.accesses` until the last of its requests is served. docs/model.md, section 5.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.jit import inline
from warpsim.engine.state import CALENDAR, FOREVER, NOBODY

_NOBODY = int(NOBODY)


@inline
def day_of(cycle):
    """Returns which list of the calendar holds the requests that arrive in a cycle."""
    return at(cycle & (CALENDAR - 1))


@inline
def takes(state, requests):
    """Returns whether there is room for so many more requests."""
    return state.clock[0].waiting + requests <= len(state.arrivals)


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
    """Forgets an access."""
    clock = state.clock[0]
    clock.accesses -= 1
    state.free_accesses[at(clock.accesses)] = place


@inline
def send(state, place, time, server):
    """Sends a request of an access to a server of stage 2, at which it arrives at a time; there must be room for it."""
    clock, access = state.clock[0], state.accesses[at(place)]
    number = np.int64(state.free_arrivals[at(clock.waiting)])
    clock.waiting += 1
    cycle = np.int64(time)
    access.served = max(access.served, cycle)
    clock.next_arrival = min(clock.next_arrival, cycle)
    arrival = state.arrivals[at(number)]
    arrival.time, arrival.access, arrival.server = time, place, server
    insert(state, day_of(cycle), number, time)


@inline
def insert(state, day, number, time):
    """Enters a request into a list of the calendar, behind those that arrive no later."""
    lists = state.calendar[day]
    before = np.int64(_NOBODY)
    if lists.last >= 0 and state.arrivals[at(lists.last)].time <= time:
        before = np.int64(lists.last)
    else:
        here = np.int64(lists.first)
        while here >= 0 and state.arrivals[at(here)].time <= time:
            before = here
            here = np.int64(state.arrivals[at(here)].following)
    following = np.int64(lists.first) if before < 0 else np.int64(state.arrivals[at(before)].following)
    state.arrivals[at(number)].following = following
    if before < 0:
        lists.first = number
    else:
        state.arrivals[at(before)].following = number
    if following < 0:
        lists.last = number


@inline
def next_of(state, cycle):
    """Takes the next request that arrives in a cycle, or earlier, out of the calendar; returns it, or a negative number."""
    lists = state.calendar[day_of(cycle)]
    number = np.int64(lists.first)
    if number < 0 or state.arrivals[at(number)].time >= cycle + 1:
        return np.int64(_NOBODY)
    clock = state.clock[0]
    lists.first = state.arrivals[at(number)].following
    if lists.first < 0:
        lists.last = _NOBODY
    clock.waiting -= 1
    state.free_arrivals[at(clock.waiting)] = number
    return number


@inline
def find_next_arrival(state):
    """Finds in which cycle the next request arrives at stage 2, where there is one."""
    clock, soonest = state.clock[0], np.inf
    for lists in state.calendar:
        if lists.first >= 0:
            soonest = min(soonest, state.arrivals[at(lists.first)].time)
    clock.next_arrival = np.int64(soonest)


@inline
def close_calendar(state, end):
    """All requests that arrive before cycle `end` have been served."""
    clock = state.clock[0]
    clock.next_arrival = np.int64(FOREVER) if clock.waiting == 0 else max(clock.next_arrival, np.int64(end))

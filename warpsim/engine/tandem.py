"""Between the two stages of the memory model `queue`: requests that wait for the time at which they arrive at stage 2.

A timing wheel (Varghese & Lauck 1987) keeps them in one list for each eighth of a cycle, modulo its length, by time and then by
issue. Requests that found their first server free arrive at the begin of a cycle, and others in between: with one list for all of
a cycle, each of the former would be searched a place for, before the latter. An access keeps its place in `State.accesses` until
all of its requests have been served. docs/model.md, section 5.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import FOREVER, NOBODY, PARTS, WHEEL
from warpsim.engine.jit import inline


@inline
def takes(state, requests):
    """Returns whether there is room for so many more requests."""
    return state.clock[0].waiting + requests <= len(state.free_arrivals)


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
    number = np.int64(state.free_arrivals[at(clock.waiting)])
    clock.waiting += 1
    cycle = np.int64(time)
    access.served = max(access.served, cycle)
    clock.next_arrival = min(clock.next_arrival, cycle)
    arrival = state.arrivals[at(number)]
    arrival.time, arrival.access, arrival.server = time, place, server
    enter(state, spoke_of(state, np.int64(time * PARTS)), number, time)


@inline
def hand_over(state, sm, place):
    """Adds an access that has been served, as the last one, to the ring of those that its SM has to note."""
    access, last = state.accesses[at(place)], np.int64(sm.last_served)
    if last == NOBODY:
        access.following = place
    else:
        access.following = state.accesses[at(last)].following
        state.accesses[at(last)].following = place
    sm.last_served = place


@inline
def spoke_of(state, part):
    """Returns the list of the wheel that a part of a cycle belongs to, of which the number since cycle 0 is given."""
    return state.wheel[at(part & (WHEEL - 1))]


@inline
def enter(state, spoke, number, time):
    """Enters a request into a list of the wheel, behind all that arrive no later."""
    before = np.int64(spoke.last)
    if before != NOBODY and state.arrivals[at(before)].time > time:
        before, following = np.int64(NOBODY), np.int64(spoke.first)
        while state.arrivals[at(following)].time <= time:
            before, following = following, np.int64(state.arrivals[at(following)].following)
    else:
        following = np.int64(NOBODY)
    state.arrivals[at(number)].following = following
    if before == NOBODY:
        spoke.first = number
    else:
        state.arrivals[at(before)].following = number
    if following == NOBODY:
        spoke.last = number


@inline
def take_due(state, part):
    """Takes the next request that arrives in a part of a cycle off the wheel; returns its place, or NOBODY.

    All that arrive in earlier parts must have been taken. Its record is left as it is until another request is sent.
    """
    clock, spoke = state.clock[0], spoke_of(state, part)
    number = np.int64(spoke.first)
    if number == NOBODY or np.int64(state.arrivals[at(number)].time * PARTS) > part:
        return np.int64(NOBODY)
    spoke.first = state.arrivals[at(number)].following
    if spoke.first == NOBODY:
        spoke.last = NOBODY
    clock.waiting -= 1
    state.free_arrivals[at(clock.waiting)] = number
    return number


@inline
def note_taken(state, end):
    """All requests that arrive before cycle `end` have been taken."""
    clock = state.clock[0]
    clock.next_arrival = np.int64(FOREVER) if clock.waiting == 0 else max(clock.next_arrival, np.int64(end))


@inline
def find_next_arrival(state):
    """Finds in which cycle the next request arrives at stage 2, where there is one."""
    clock, soonest, cycle = state.clock[0], np.int64(FOREVER), state.clock[0].next_arrival
    for passed in range(WHEEL):
        if soonest <= cycle + passed // PARTS:
            break
        first = np.int64(spoke_of(state, cycle * PARTS + passed).first)
        if first != NOBODY:
            soonest = min(soonest, np.int64(state.arrivals[at(first)].time))
    clock.next_arrival = soonest

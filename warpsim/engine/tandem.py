"""Between the two stages of the memory model `queue`: requests that wait for the time at which they arrive at stage 2.

A calendar (Brown 1988) keeps them in lists by the day of their arrival, in order of issue. A day is as long as the longest
window. The days that a window touches are emptied into one row, and what arrives in the window is sorted by time. So nothing is
searched for, and few branches depend on chance. An access keeps its place in `State.accesses` until the last of its requests is
served. docs/model.md, section 5.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import CALENDAR, DAY_BITS, FOREVER
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
    """Forgets an access."""
    clock = state.clock[0]
    clock.accesses -= 1
    state.free_accesses[at(clock.accesses)] = place


@inline
def send(state, place, time, server):
    """Sends a request of an access to a server of stage 2, at which it arrives at a time; there must be room for it.

    A list begins with an entry of `State.arrivals` that stands for its day, so that the first request of a day is entered as the
    others are.
    """
    clock, access = state.clock[0], state.accesses[at(place)]
    number = np.int64(state.free_arrivals[at(clock.waiting)])
    clock.waiting += 1
    cycle = np.int64(time)
    access.served = max(access.served, cycle)
    clock.next_arrival = min(clock.next_arrival, cycle)
    arrival = state.arrivals[at(number)]
    arrival.time, arrival.access, arrival.server = time, place, server
    day = at(cycle >> DAY_BITS & (CALENDAR - 1))
    state.arrivals[at(state.latest_of_day[day])].following = number
    state.latest_of_day[day] = number


@inline
def empty_days(state, end):
    """Moves the requests of the days before cycle `end` from their lists to the row of those that are near."""
    clock = state.clock[0]
    for number in range(clock.day, ((end - 1) >> DAY_BITS) + 1 if clock.waiting > clock.near else clock.day):
        day = at(number & (CALENDAR - 1))
        last, here = np.int64(state.latest_of_day[day]), np.int64(day)
        state.latest_of_day[day] = day
        while here != last:
            here = np.int64(state.arrivals[at(here)].following)
            state.near[at(clock.near)] = here
            clock.near += 1
    clock.day = end >> DAY_BITS


@inline
def take_due(state, begin, end):
    """Writes the requests that arrive in begin..end-1 to `State.due`, by time, then by issue; forgets them. Returns how many."""
    clock, due, kept = state.clock[0], 0, 0
    empty_days(state, end)
    for i in range(clock.near):
        number = state.near[at(i)]
        state.near[at(kept)], state.unsorted[at(due)] = number, number
        cycle = np.int64(state.arrivals[at(number)].time)
        is_due = np.int64(cycle < end)
        state.in_cycle[at(min(cycle, end - 1) - begin)] += is_due
        due += is_due
        kept += 1 - is_due
    clock.near = kept
    sort_by_cycle(state, begin, end, due)
    sort_by_time(state, due)
    clock.waiting -= due
    for i in range(due):
        state.free_arrivals[at(clock.waiting + i)] = state.due[at(i)]
    clock.next_arrival = np.int64(FOREVER) if clock.waiting == 0 else max(clock.next_arrival, np.int64(end))
    return due


@inline
def sort_by_cycle(state, begin, end, count):
    """Copies so many requests from `State.unsorted` to `State.due` by cycle; those of one cycle stay in their order."""
    place = 0
    for relative in range(end - begin):
        here = state.in_cycle[at(relative)]
        state.in_cycle[at(relative)] = place
        place += here
    for i in range(count):
        number = state.unsorted[at(i)]
        relative = at(np.int64(state.arrivals[at(number)].time) - begin)
        state.due[at(state.in_cycle[relative])] = number
        state.in_cycle[relative] += 1
    for relative in range(end - begin):
        state.in_cycle[at(relative)] = 0


@inline
def sort_by_time(state, count):
    """Sorts requests that are sorted by cycle, by time; of equal ones the first stays the first."""
    latest = -np.inf
    for i in range(count):
        number = state.due[at(i)]
        time = state.arrivals[at(number)].time
        if time >= latest:
            latest = time
            continue
        place = np.int64(i)
        while place > 0 and state.arrivals[at(state.due[at(place - 1)])].time > time:
            state.due[at(place)] = state.due[at(place - 1)]
            place -= 1
        state.due[at(place)] = number


@inline
def find_next_arrival(state):
    """Finds in which cycle the next request arrives at stage 2, where there is one."""
    clock, soonest, day = state.clock[0], np.inf, state.clock[0].day
    for i in range(clock.near):
        soonest = min(soonest, state.arrivals[at(state.near[at(i)])].time)
    if clock.waiting > clock.near:
        searched = 0
        while searched < CALENDAR and np.float64(day << DAY_BITS) <= soonest:
            listed = at(day & (CALENDAR - 1))
            last, here = np.int64(state.latest_of_day[listed]), np.int64(listed)
            while here != last:
                here = np.int64(state.arrivals[at(here)].following)
                soonest = min(soonest, state.arrivals[at(here)].time)
            day += 1
            searched += 1
    clock.next_arrival = np.int64(soonest)

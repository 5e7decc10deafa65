"""The requests of a window, and their order."""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.jit import inline


@inline
def add_request(state, warp, stream, step, cycle, queued):
    """Appends a request to those of the window, and returns it."""
    clock = state.clock[0]
    request = state.requests[at(clock.requests)]
    clock.requests += 1
    request.cycle, request.stream, request.warp, request.step, request.queued = cycle, stream, warp, step, queued
    return request


@inline
def sort_requests(state, begin, end):
    """Writes the numbers of the requests that issue before cycle `end`, none before `begin`, to `state.order`; returns how many.

    They are sorted by cycle; those of one cycle stay in the order of SM and issue.
    """
    for number in range(state.clock[0].requests):
        relative = state.requests[at(number)].cycle - begin
        if relative < end - begin:
            state.in_cycle[at(relative)] += 1
    place = np.int64(0)
    for relative in range(end - begin):
        here = state.in_cycle[at(relative)]
        state.in_cycle[at(relative)] = place
        place += here
    for number in range(state.clock[0].requests):
        relative = state.requests[at(number)].cycle - begin
        if relative < end - begin:
            state.order[at(state.in_cycle[at(relative)])] = number
            state.in_cycle[at(relative)] += 1
    for relative in range(end - begin):
        state.in_cycle[at(relative)] = 0
    return place


@inline
def forget_requests(state, end, count):
    """Forgets the requests that issue before cycle `end`, of which the number is given; the others keep their order."""
    clock = state.clock[0]
    kept = 0
    if count < clock.requests:
        for number in range(clock.requests):
            if state.requests[at(number)].cycle >= end:
                state.requests[at(kept)] = state.requests[at(number)]
                kept += 1
    clock.requests = kept

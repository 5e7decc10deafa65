"""The accesses that go out to the memory system in a window, and their order."""


from warpsim.engine.bits import at
from warpsim.jit.decorators import inline


@inline
def add_outgoing(state, warp, stream, step, cycle, queued):
    """Appends an access to those of the window that go out, and returns it."""
    clock = state.clock[0]
    access = state.outgoing[at(clock.outgoing)]
    clock.outgoing += 1
    access.cycle, access.stream, access.warp, access.step, access.queued = cycle, stream, warp, step, queued
    return access


@inline
def sort_outgoing(state, begin, end):
    """Writes the numbers of the accesses that issue before cycle `end`, none before `begin`, to `state.order`; returns how many.

    They are sorted by cycle; those of one cycle stay in the order of SM and issue.
    """
    for number in range(state.clock[0].outgoing):
        relative = state.outgoing[at(number)].cycle - begin
        if relative < end - begin:
            state.in_cycle[at(relative)] += 1
    place = 0
    for relative in range(end - begin):
        here = state.in_cycle[at(relative)]
        state.in_cycle[at(relative)] = place
        place += here
    for number in range(state.clock[0].outgoing):
        relative = state.outgoing[at(number)].cycle - begin
        if relative < end - begin:
            state.order[at(state.in_cycle[at(relative)])] = number
            state.in_cycle[at(relative)] += 1
    for relative in range(end - begin):
        state.in_cycle[at(relative)] = 0
    return place


@inline
def forget_outgoing(state, end, count):
    """Forgets the accesses that issue before cycle `end`, of which the number is given; the others keep their order."""
    clock = state.clock[0]
    kept = 0
    if count < clock.outgoing:
        for number in range(clock.outgoing):
            if state.outgoing[at(number)].cycle >= end:
                state.outgoing[at(kept)] = state.outgoing[at(number)]
                kept += 1
    clock.outgoing = kept

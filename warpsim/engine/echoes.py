"""Echoes of a slice: the requests of the SMs that are not simulated. docs/model.md, section 5.

Every request that leaves an SM of the slice is noted. Each echo repeats all of them, by its own distance in time.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.jit import inline
from warpsim.engine.rng import advance, mix, skip, uniform
from warpsim.engine.state import FOREVER, NOBODY

_NOBODY = int(NOBODY)


@inline
def noted_at(state, number):
    """Returns the place in `State.noted` of a request, by its number."""
    return at(number & (len(state.noted) - 1))


@inline
def has_notes_left(state):
    """Returns whether all requests of the window can be noted. The last echo is the latest one."""
    clock, echoes = state.clock[0], len(state.echoes)
    return echoes == 0 or clock.noted - state.echoes[at(echoes - 1)].following + clock.requests <= len(state.noted)


@inline
def note_access(state, cycle, step, in_l2):
    """Notes an access of the slice, in order of issue."""
    if len(state.echoes) == 0:
        return
    noted = state.noted[noted_at(state, state.clock[0].noted)]
    noted.cycle, noted.step, noted.in_l2 = cycle, step, in_l2
    state.clock[0].noted += 1


@inline
def soonest_echo(state):
    """Returns the cycle in which the next access is repeated."""
    soonest = np.int64(FOREVER)
    for echo in state.echoes:
        if echo.following < state.clock[0].noted:
            soonest = min(soonest, state.noted[noted_at(state, echo.following)].cycle + echo.lag)
    return soonest


@inline
def repeat(machine, state, begin, end):
    """Appends the accesses that are repeated in a window to its requests."""
    for echo in state.echoes:
        while echo.following < state.clock[0].noted:
            noted = state.noted[noted_at(state, echo.following)]
            if noted.cycle + echo.lag >= end:
                break
            echo.following += 1
            if echo.share < 1.0:
                echo.stream = advance(echo.stream)
                if uniform(mix(echo.stream)) >= echo.share:
                    continue
            leave_echo(machine, state, echo, noted, begin)


@inline
def leave_echo(machine, state, echo, noted, begin):
    """Appends a repeated access to the requests of a window."""
    clock = state.clock[0]
    request = state.requests[at(clock.requests)]
    clock.requests += 1
    request.cycle, request.stream, request.warp = noted.cycle + echo.lag, echo.stream, _NOBODY
    request.step, request.in_l2 = noted.step, noted.in_l2
    state.in_cycle[at(request.cycle - begin)] += 1
    echo.stream = skip(echo.stream, machine.details[at(noted.step)].requests)

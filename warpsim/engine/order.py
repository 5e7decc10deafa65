"""The order of the requests of a window."""

from warpsim.engine.bits import at
from warpsim.engine.jit import inline


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

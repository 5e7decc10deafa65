"""Accesses in flight of an SM: heaps of the cycles at which loads and stores return. docs/model.md, section 5.

An access that has not been served yet counts as in flight; it returns in a later window.
"""

import numpy as np

from warpsim.engine.bits import at
from warpsim.engine.constants import UNKNOWN, Kind
from warpsim.jit.decorators import inline


@inline
def _heap_of(sm, kind):
    """Returns the place in `State.flights` of the heap of an SM's loads, or of its stores."""
    return at(2 * sm.index + kind - Kind.LOAD)


@inline
def limit_of(chip, kind):
    """Returns how many loads, or stores, of an SM can be in flight at a time; 0: any number."""
    return chip.per_sm[at(kind - Kind.LOAD)]


@inline
def admits(machine, state, sm, kind, cycle):
    """Returns whether the SM's limit of loads, or of stores, leaves room for one more; forgets those that are back."""
    which = at(kind - Kind.LOAD)
    limit = limit_of(machine.chip[0], kind)
    if limit == 0:
        return True
    if sm.in_flight[which] + sm.unserved[which] < limit:
        return True
    forget_returned(state, sm, kind, cycle)
    return sm.in_flight[which] + sm.unserved[which] < limit


@inline
def forget_returned(state, sm, kind, cycle):
    """Forgets those of an SM's loads, or of its stores, that are back at a cycle."""
    which, heap = at(kind - Kind.LOAD), state.flights[_heap_of(sm, kind)]
    while sm.in_flight[which] > 0 and heap[0] <= cycle:
        _pop(heap, sm.in_flight, which)


@inline
def room_for_stores(machine, state, sm, cycle):
    """Returns how many stores an SM can issue from a cycle on before it is at its limit, even if none returns."""
    which = at(Kind.STORE - Kind.LOAD)
    forget_returned(state, sm, Kind.STORE, cycle)
    return limit_of(machine.chip[0], Kind.STORE) - sm.in_flight[which] - sm.unserved[which]


@inline
def soonest_landing(state, sm, kind):
    """Returns the cycle at which the first of an SM's loads, or of its stores, returns; UNKNOWN if none has been served."""
    return state.flights[_heap_of(sm, kind), 0] if sm.in_flight[at(kind - Kind.LOAD)] > 0 else UNKNOWN


@inline
def note_flight(machine, state, sm, kind, returns):
    """Counts a load, or a store, as in flight until it returns."""
    if limit_of(machine.chip[0], kind) > 0:
        _push(state.flights[_heap_of(sm, kind)], sm.in_flight, at(kind - Kind.LOAD), returns)


@inline
def _push(heap, sizes, which, value):
    i = sizes[which]
    sizes[which] += 1
    while i > 0 and heap[at(i - 1 >> 1)] > value:
        heap[at(i)] = heap[at(i - 1 >> 1)]
        i = i - 1 >> 1
    heap[at(i)] = value


@inline
def _pop(heap, sizes, which):
    sizes[which] -= 1
    n = sizes[which]
    i, last = 0, heap[at(n)]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        child += np.int64((child + 1 < n) & (heap[at(child + 1)] < heap[at(child)]))  # a branch would depend on chance
        if last <= heap[at(child)]:
            break
        heap[at(i)] = heap[at(child)]
        i = child
    heap[at(i)] = last

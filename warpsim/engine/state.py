"""What changes: the SMs, the memory system and the counters of a run (State), as a few arrays of records.

allocation.py makes it. A record has one field a line, with its unit and range, as in machine.py.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from warpsim.engine.constants import (
    AWAITED,
    COARSE_BINS,
    EPOCHS,
    FINE_BINS,
    GATES,
    LONGEST_WINDOW,
    MAX_SCHEDULERS,
    MAX_WARPS,
    MOST_BANKS,
    OPERAND_SLOTS,
    UNITS,
    Array,
    Records,
)
from warpsim.engine.machine import in_whole_lines
from warpsim.jit.handles import handed_on_as_pointer

BITMAP = LONGEST_WINDOW // 64  # words of a set of cycles of a window


FETCHER = np.dtype(  # of a scheduler
    [
        # While some warp is hungry, and out of date while none is:
        ("next", "i8"),  # the first cycle whose fetch has not been made
        ("last", "i8"),  # lane of the warp that it issued last; negative: it has left, or there is none
        ("hungry", "u8"),  # lanes of the warps that have room for another instruction
        ("starting", "u8"),  # of these, lanes of warps that may start after `next`
        ("full", "u8"),  # lanes of the warps whose buffers stay full (fetch.py)
        ("held", "i8"),  # lines in L0, or on their way
        ("uses", "i8"),  # fetches and requests so far, by which the lines are ordered
        ("lines_there", "i8"),  # cycle from which all lines of the program are in L0 for good; FOREVER: not known, or never
    ]
)

WARP = np.dtype(
    [
        # A wait in one word (bits.py): the first cycle in which the warp is eligible, and why not before. While it is pending, or
        # at a barrier, this is the part that is known, such as the gap; while it drains, it ends with its last cycle. An eligible
        # warp whose warp-cycles have been counted up to an edge, or to the end of a window, has that cycle here.
        ("wait", "i8"),
        ("stream", "u8"),  # random stream
        ("since", "i8"),  # cycle: the present wait is counted from the cycle after it, where it is not counted yet
        ("start", "i8"),  # first cycle
        ("last_return", "i8"),  # cycle at which its last access is back, of those that it waits for whose return is known
        ("last_access_issue", "i8"),  # cycle in which that access issued
        ("last_access", "i4"),  # step of that access
        ("step", "i4"),  # its next step
        ("barrier", "i4"),  # step of the barrier that held it last
        ("life", "i2"),  # Life
        ("requested", "i2"),  # accesses that it waits for whose return is not known yet
    ]
)

SM = in_whole_lines(
    [
        ("index", "i8"),
        ("first_index", "i8"),  # place of its slot 0 among the warp slots of the chip (places.py)
        ("first_scheduler", "i8"),  # place of its scheduler 0 among those of the chip
        ("begin", "i8"),  # cycle from which its lanes count: the start of its window
        ("next_event", "i8"),  # cycle before which nothing happens on it
        ("next_start", "i8"),  # cycle before which no block starts on it; FOREVER: none is to start
        ("next_leave", "i8"),  # cycle in which the first of the draining warps leaves; FOREVER: there is none
        ("constants", "i8"),  # cycle from which its warps have the constants that they read first; FOREVER: no block has started
        ("free", "i8", UNITS * MAX_SCHEDULERS),  # tick from which a unit is free; a unit of the SM stands at scheduler 0
        ("data_free", "i8", UNITS * MAX_SCHEDULERS),  # tick from which its data stage is free, in the same places
        ("room", "i8", UNITS * MAX_SCHEDULERS),  # cycle from which the queue of a scheduler takes one more, by unit, scheduler
        ("last_issue", "i8", UNITS * MAX_SCHEDULERS),  # by unit, scheduler: value of `shared_issues` at its last issue
        ("shared_issues", "i8"),  # instructions of shared units that have issued
        # Sets of warps, by slot
        ("pending", "u8"),  # they wait for requests that have not been served
        ("answered", "u8"),  # something has become known about their requests
        ("far", "u8"),  # they wake later than a lane can hold
        ("draining", "u8"),  # `exit` has issued; the return of the last access is known
        ("ever_full", "i8"),  # 1: a dependence counter of one of its warps has counted as many as it can
        # Memory
        ("in_flight", "i8", 2),  # loads, and stores, whose returns are in `State.flights`
        ("unserved", "i8", 2),  # loads, and stores, that have not been served
        # Occupancy
        ("changed", "u8", BITMAP + 1),  # cycles of the latest window with a change of `population`
        ("resident", "i8"),  # resident warps
        ("resident_since", "i8"),  # cycle up to which they have been counted
        ("warp_cycles", "i8"),  # resident warps, summed over cycles
        ("population", "i2", LONGEST_WINDOW + 1),  # by cycle of the latest window: warps that start, less those that have left
        ("last_served", "i4"),  # the last one of the ring of accesses that have been served and not been noted; NOBODY: none
    ]
)

SEAT = np.dtype(
    [
        ("block", "i8"),  # number of the block
        ("live", "i8"),  # warps that have not issued `exit`
        ("unresolved", "i8"),  # warps that have, and whose retirement is not known yet
        ("waiting", "i8"),  # warps at a barrier
        ("barrier", "i8"),  # its step; -1: none waits; -2: they wait at different ones
        ("retire", "i8"),  # cycle: latest retirement so far
        ("next_start", "i8"),  # cycle in which the next block is to start; negative: none is
        ("next_block", "i8"),  # its number; negative: not assigned yet
        ("next_seat", "i8"),  # of a list of seats in which a block starts in the same cycle; negative: the end
    ]
)

OUTGOING = np.dtype(  # an access of a warp, or of an echo, that leaves its SM
    [
        ("cycle", "i8"),  # of its issue
        ("stream", "u8"),  # the warp's stream at that issue, or that of the echo
        ("warp", "i8"),  # its place among the warp slots of the chip; of echo e: -1 - e
        ("queued", "i8"),  # cycles that it waited in the queue of its unit
        ("number", "i8"),  # among the accesses of its warp slot, or of the echo, of a slice
        ("step", "i4"),
        ("in_l2", "i4"),  # of an echo: 1 if it hits L2, which is drawn of all others once they are looked at
    ]
)

SEQUENCE = np.dtype(  # of the accesses of a warp slot of a slice, or of an echo
    [
        ("issue", "i8"),  # cycle of the latest access
        ("count", "i8"),  # accesses
        ("returns", "i8", AWAITED),  # cycles at which the latest accesses are back, by number modulo AWAITED, or UNKNOWN
        ("back", "i8"),  # accesses, from the first one on, that were back when the latest one issued; or a few less
        ("steps", "i4", AWAITED),  # of the latest accesses, by number modulo AWAITED
        ("step", "i4"),  # of the latest access
        # Of an echo: how the next access follows
        ("not_awaited", "i4"),  # set of the latest accesses (bit 0: the latest) for which it does not wait
        ("begins", "i4"),  # 1: it is the first one of its warp
        ("next_step", "i4"),  # its step; negative: no transition has been found yet
        ("in_l2", "i4"),  # 1 if it hits L2; of a warp slot: if its latest access did
        ("gap", "i8"),  # cycles from what it waits for
        ("earliest", "i8"),  # cycle before which it does not issue
        ("stream", "u8"),  # random stream
    ]
)

TRANSITION = np.dtype(  # from an access of a warp slot of a slice to its next one
    [
        ("gap", "i8"),  # cycles from what it waited for
        ("step", "i4"),  # of the next one
        ("in_l2", "i2"),  # 1 if it hit L2
        ("begins", "i2"),  # 1 if it is the first one of its warp
    ]
)

POOL = np.dtype(  # of the transitions from a step
    [
        ("begin", "i8"),  # its place in `State.transitions`
        ("total", "i8"),  # transitions
        ("epoch", "i8"),  # of the latest one
        ("by_epoch", "i8", EPOCHS),  # transitions up to the end of an epoch, by its number modulo EPOCHS
    ]
)

ACCESS = np.dtype(
    [
        ("cycle", "i8"),  # of its issue
        ("served", "i8"),  # cycle in which the last of its requests arrives at stage 2
        ("unloaded", "f8"),  # cycles: its latency in an idle memory
        ("wait", "f8"),  # cycles: the longest wait, or delay, of its requests that is known
        ("queued", "i8"),  # cycles that it waited in the queue of its unit
        ("number", "i8"),  # among the accesses of its warp slot, or of the echo, of a slice
        ("warp", "i4"),  # its place among the warp slots of the chip; of echo e: -1 - e
        ("step", "i4"),
        ("unserved", "i4"),  # requests
        ("following", "i4"),  # the next one of the ring of those of an SM that have been served
    ]
)

ARRIVAL = np.dtype(
    [
        ("time", "f8"),  # cycles: its arrival at stage 2
        ("access", "i4"),  # its place in `State.accesses`
        ("server", "i4"),  # of stage 2
    ]
)

CLOCK = in_whole_lines(
    [
        ("cycle", "i8"),  # the first cycle that has not been simulated
        ("next_block", "i8"),  # of the supply
        ("last_retire", "i8"),  # cycle: latest retirement of all blocks
        ("stuck_sm", "i8"),  # of a deadlock in the latest window
        ("stuck_seat", "i8"),
        ("stuck_cycle", "i8"),  # FOREVER: there is none
        ("outgoing", "i8"),  # place of the next one in `State.outgoing`: with those of thread 0, accesses not looked at yet
        ("begin", "i8"),  # cycle: of the latest window
        ("end", "i8"),  # cycle: of that window
        ("served", "i8"),  # cycle before which all requests of that window have been served
        ("accesses", "i8"),  # between the stages of memory
        ("near", "i8"),  # requests between the stages that arrive at stage 2 soon
        ("far", "i8"),  # and those that do not
        ("far_from", "i8"),  # cycle before which near ones arrive at stage 2, and no others
        ("next_arrival", "i8"),  # cycle before which no request arrives there; FOREVER: there is none
        ("noted", "i8"),  # 1: the accesses of the slice in this window have been noted for its echoes
        ("next_echo", "i8"),  # cycle before which no echo has anything to do
        ("pool_room", "i8"),  # transitions for which a pool has room, a power of 2
        ("write_share", "f8"),  # share of stores in the latest requests of the data bus
        ("launch_free", "f8"),  # time from which the next block can start
        ("threads", "i8"),  # that run the chip
        # The part of a thread. Each thread also has a begin, an end, next_block, last_retire, a deadlock and requests of its own;
        # the rest belongs to thread 0 alone
        ("first_sm", "i8"),  # the first one of its SMs
        ("last_sm", "i8"),
        ("first_outgoing", "i8"),  # where its accesses of a window begin
        ("task", "i8"),  # what it is called for: RUN_WINDOW, or NOTE when accesses are back
    ]
)

COUNT = np.dtype(
    [
        ("issued", "i8"),  # warp instructions
        ("waited", "i8"),  # warp-cycles from eligible to issue, or to now
        ("issued_on", "i8"),  # what has to be added to `issued` of this step and of all behind it
        ("waited_on", "i8"),  # and to `waited`
    ]
)

PART = np.dtype(  # of a COUNT
    [
        ("second_issues", "i8"),  # of the warp instructions, the second ones of pairs
        ("throttled", "i8"),  # of the warp-cycles, those in which the unit refused
        ("held", "i8"),  # of the warp-cycles, those in which the register ports held the scheduler
        ("unfetched", "i8"),  # of the warp-cycles, those in which the instruction had not been fetched, though it could issue
    ]
)

TALLY = in_whole_lines(
    [
        ("pair_busy", "i8"),  # scheduler-cycles: the smaller `busy` of each pair
        ("held", "i8"),  # scheduler-cycles in which the register ports held a scheduler after its issues
        ("carried", "i8"),  # scheduler-cycles busy because of issues before the window, less those after it
        ("latency_sum", "i8"),  # cycles, over loads
        ("moved_bytes", "f8"),
        ("retired", "i8"),  # warps
        ("lifetime_sum", "i8"),  # cycles, over retired warps
        ("tracing", "i8"),  # 1: issues are kept
        ("traced", "i8"),  # issues kept, or for which there was no room
        ("n_changes", "i8"),  # changes of occupancy kept, or for which there was no room
        ("histogram", "i8", FINE_BINS + COARSE_BINS),  # loads by latency
        ("occupancy", "i8", MAX_WARPS + 1),  # SM-cycles with so many resident warps
    ]
)

SCRATCH = in_whole_lines(
    [
        ("refused", "u8", (GATES, BITMAP + 2)),  # by gate: cycles in which it refuses every scheduler
        ("refused_one", "u8", (MAX_SCHEDULERS, GATES, BITMAP + 2)),  # by scheduler and gate: the same for one of them
        ("gates", "u8"),  # set of the gates for which one of these sets is not empty
        ("busy", "u8", (MAX_SCHEDULERS, BITMAP + 2)),  # by scheduler: cycles in which an issue occupies it, also after the window
        ("some_busy", "i8"),  # 1: one of these is not empty
        ("held", "u8", (MAX_SCHEDULERS, BITMAP + 2)),  # by scheduler: cycles in which the register ports hold it
        ("some_held", "i8"),  # 1: one of these is not empty
    ]
)


PHASE = np.dtype(  # of an mbarrier
    [
        ("number", "i8"),  # NO_PHASE: none
        ("missing", "i8"),  # arrivals that it lacks
        ("copies", "i8"),  # that have not been served, each counted with each arrival that waits for it
        ("end", "i8"),  # cycle of the latest arrival of those that are known
        ("known", "i8"),  # cycle in which that has become known
    ]
)


def lanes_for(slots: int, schedulers: int) -> int:
    """Returns how many lanes the schedulers of an SM with so many warp slots have: 16, 32 or 64."""
    return next(lanes for lanes in (16, 32, 64) if lanes * schedulers >= slots)


@cache
def scheduler_record(lanes: int) -> np.dtype[Any]:
    """The record of a scheduler with so many lanes.

    Lane i stands for the warp in slot i * schedulers + s. The engine is compiled for each number of lanes that is used.
    """
    fields: list[tuple[Any, ...]] = [
        # By lane; lanes.py explains the format of times and ranks
        ("wakes", "u2", lanes),  # time before which the warp does not issue, and NEVER where that is not known
        ("ranks", "u2", lanes),  # the lowest one goes first, of warps that can issue in the same cycle
        ("ages", "u2", lanes),  # 0: the oldest; with the policy `gty` the youngest
        ("uses", "u2", lanes),  # `uses` of the warp's next step
        ("delays", "u2", lanes),  # `own_delay` of that step
        ("next_issue", "i8"),  # first cycle in which it can issue again
        ("stream", "u8"),  # random stream, for the policy `random`
        ("rank_0_issued", "i8"),  # with a greedy policy, 1: the warp of rank 0 issued last
        # Register ports
        ("held_from", "i8"),  # first cycle after its last issue in which only the ports hold it
        ("held_until", "i8"),  # first cycle in which they do not
        ("port_last", "i8"),  # cycle in which the last instruction has its ports
        ("backlog", "u2", 8),  # by bank, as a time of a lane: cycles from then until its port is free, at most OPERAND_SLOTS
        ("reused", "u2", OPERAND_SLOTS * MOST_BANKS),  # the reuse cache, as READS: register + 1 and warp slot; 0: empty
        # Of the warp that is picked
        ("lane", "i8"),
        ("step", "i8"),  # its next one
        ("cycle", "i8"),  # in which it is to issue
        # Of one that has issued the first instruction of a cycle and may issue a second one
        ("gap", "i8"),  # cycles, of the first instruction
        ("busy", "i8"),  # cycles, of the first instruction
        ("first", "i8"),  # step of the first instruction
        ("ready", "i8"),  # cycle of the result of what issued last, perhaps UNKNOWN, in programs with mbarriers
    ]
    return in_whole_lines(fields)


@handed_on_as_pointer(constant=False)
class State(NamedTuple):
    """All that changes. Shapes: M SMs, K schedulers of each, S steps, B = M * seats, W warp slots (places.py), T threads."""

    # The machine
    clock: Records  # CLOCK[T]
    calls: Array  # int64[T * WORDS_OF_THREAD]: for each thread, the number of its latest call, and of the latest one that is done
    sms: Records  # SM[M]
    schedulers: Records  # scheduler_record[M * K]
    seats: Records  # SEAT[B]
    warps: Records  # WARP[W]
    registers: Array  # int64[W * registers]: when a register can be read, and the step that wrote it, in one word
    writers: Array  # int64[W * registers, or 0 without hints]: the cycle in which the step issued that wrote a register last
    counted: Array  # int64[W * counters, 2 + 2 * NEAR_COUNTED]: by warp slot and counter: how many entries, nothing, and the
    # first ones: a wait (when it is done, or UNKNOWN + when it is served; its step; 1: a read), and the cycle of its issue
    crowded: Array  # int64[W * counters, ...]: the other entries
    phases: Records  # PHASE[B * mbarriers * MOST_PHASES, or 0]: those of a seat's mbarriers that are open
    lacking: Array  # int64[B, or 0 without mbarriers]: warps of a seat that are held for phases that lack arrivals
    passed: Array  # int64[W * mbarriers, 2]: how often a warp has arrived at an mbarrier, and awaited it
    arrivals_in: Array  # int64[W * mbarriers, MOST_PHASES]: the cycles in which its latest arrivals issued, by phase
    copies: Array  # int64[W * mbarriers, 2]: a warp's copies that report to an mbarrier: not served; latest return of the others
    fetchers: Records  # FETCHER[M * K, or 0]
    lines: Array  # int64[M * K, lines of the program, 2]: when a line is in L0, and its last use; the use 0: it is not
    buffers: Array  # int64[W or 0, 3 + buffer]: next address to fetch, oldest entry, entries, when each can issue
    loops: Array  # int64[W, loops]: trips left; negative: endless
    returns: Array  # int64[W, loads_per_warp]: cycles at which the warp's latest loads return, or UNKNOWN + when they are served
    latest: Array  # int64[W]: of the warp's accesses that waited for stage 2, when the last one is served, and its step
    otherwise: Array  # int64[W]: of a warp that waits for its limit of loads in flight, the wait for all else, which ends sooner
    queues: Array  # int64[queues * M * K, 2 + most entries]: oldest entry, next address, when entries leave (units.py)
    flights: Array  # int64[2 * M, most of per_sm]: for each SM a heap of return times of loads, and one of stores
    first_seat: Array  # int64[LONGEST_WINDOW]: by cycle of the window, a seat in which a block starts; negative: none
    # The memory system
    outgoing: Records  # OUTGOING[n]: accesses that go out in this window; each thread has its own from `clock.first_outgoing` on
    in_cycle: Array  # int64[LONGEST_WINDOW]: accesses by cycle, while they are sorted
    order: Array  # int64[n]: those of these that are served next, in the order in which they issued
    accesses: Records  # ACCESS[q]: those between the stages
    arrivals: Records  # ARRIVAL[q]: their requests that are near, in the order in which they were sent
    far_arrivals: Records  # ARRIVAL[q]: the others, likewise
    taken: Records  # ARRIVAL[q]: those that arrive in a window, in that order
    due: Records  # ARRIVAL[q]: the same by time
    in_part: Array  # int32[MOST_PARTS]: requests by part of a cycle, while they are sorted
    free_accesses: Array  # int32[q]: places in `accesses`; from `clock.accesses` on those that are free
    tracks: Records  # SEQUENCE[W], or none without echoes: the accesses of the warp slots
    echoes: Records  # SEQUENCE[e]: a multiple of the warp slots that are used
    echo_due: Array  # int64[e]: cycle in which an echo makes its next access, or looks for a transition; FOREVER: not known
    pools: Records  # POOL[S], or none
    transitions: Records  # TRANSITION[loads and stores of the program * a power of 2], or none
    servers: Array  # float64[5, most servers]: when a server of crossbar, DRAM, bus is free; stores collected; latest request
    recent_bytes: Array  # float64[WINDOW_BUCKETS + 1]: bytes requested; then the number of the newest bucket
    # Counters, for each thread
    tally: Records  # TALLY[T]
    counts: Records  # COUNT[T * K * S]: by scheduler and step
    parts: Records  # PART[T * K * S]: of these counts
    stalls: Array  # int64[T * K * S * STATES]: warp-cycles by scheduler, step and WarpState, without known waits
    caused: Array  # int64[T * S * STATES]: the same by the step that caused them
    scratch: Records  # SCRATCH[T]: what belongs to the window of the SM that runs
    # What is kept of a run's course
    trace: Array  # int64[n, 4]: cycle, SM, slot, step of the first n issues that are kept
    lives: Array  # int64[n, 5]: launch number, SM, start, last cycle, slot of the first n warps that retired
    changes: Array  # int64[n, 3]: cycle, SM, resident warps from then on: the first n changes of occupancy

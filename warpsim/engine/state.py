"""The data of the engine: what is configured (Machine) and what changes (State), as a few arrays of records.

`warpsim.simulation.encode` fills a Machine; allocation.py makes the State that belongs to it. A record has one field a line, with
its unit and range. An array inside a record has a fixed place in it, so that an access is one machine instruction.
"""

from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from warpsim.engine.handles import handed_on_as_pointer


class Policy(IntEnum):
    """Which issuable warp a scheduler picks."""

    LRR = 0
    GTO = 1
    OLDEST = 2
    RANDOM = 3
    GTY = 4
    GRR = 5
    TWO_LEVEL = 6


class MemoryModel(IntEnum):
    """Where the latency of a load comes from."""

    FIXED = 0
    MEASURED = 1
    QUEUE = 2


class Kind(IntEnum):
    """What a step of a program does. The last three only steer, and cost nothing."""

    COMPUTE = 0
    LOAD = 1
    STORE = 2
    BARRIER = 3
    BRANCH = 4
    EXIT = 5
    LOOP_BEGIN = 6
    LOOP_END = 7
    JUMP = 8


class WarpState(IntEnum):
    """Names of warp-cycles, in the words of the vendor's profiler (docs/model.md, section 7)."""

    SELECTED = 0
    NOT_SELECTED = 1
    WAIT = 2
    SHORT_SCOREBOARD = 3
    LONG_SCOREBOARD = 4
    BARRIER = 5
    MATH_PIPE_THROTTLE = 6
    MIO_THROTTLE = 7
    LG_THROTTLE = 8
    DISPATCH_STALL = 9
    DRAIN = 10
    BRANCH_RESOLVING = 11
    NO_INSTRUCTION = 12
    IMC_MISS = 13
    MEMBAR = 14
    SLEEPING = 15
    TEX_THROTTLE = 16  # never the reason of a wait, which has REASON_BITS


class Life(IntEnum):
    """What the warp in a slot does."""

    EMPTY = 0  # there is none
    RUNNING = 1
    AT_BARRIER = 2
    DRAINING = 3  # `exit` has issued, loads are not back yet


class Outcome(IntEnum):
    """Why a run returned."""

    STOPPED = 0  # the cycle asked for is reached, or there is no row left for counters
    FINISHED = 1  # every block of the grid has retired
    DEADLOCK = 2
    FULL = 3  # `enlarged` has to make room for requests between the stages of memory


Records = np.recarray[Any, Any]
Array = np.ndarray[Any, Any]

CACHE_LINE = 64  # bytes

MAX_WARPS = 64  # warp slots of an SM, at most: a set of warps is one uint64
MAX_SCHEDULERS = 8  # of an SM, at most
UNITS = 32  # kinds of execution units of a chip, at most
BANK_BITS = 2  # of a read of a register
MOST_BANKS = 1 << BANK_BITS  # register banks of a scheduler, at most
OPERAND_SLOTS = 4  # of a machine instruction, at most
LINE_BITS = 40  # behind the binary point of the lines of addresses, so that they are exact up to MOST_STEPS
MOST_COUNTED, NEAR_COUNTED = 63, 7  # instructions that a dependence counter counts, at most; of these, in `State.counted`
GATES = UNITS + 2  # what can refuse an instruction: a unit, the limit of loads in flight, that of stores
STATES = len(WarpState)

LANE_BITS, RANK_BITS = 16, 6  # of a lane: a rank takes the lowest bits, a time the others (lanes.py)
NEVER = 0xFFFF >> RANK_BITS << RANK_BITS  # the time of a lane that is not known, or later than a lane can say

LONGEST_WINDOW = 512  # cycles that an SM runs alone, at most
LONGEST_INTERVAL = 64  # cycles between two plain issues of a scheduler, at most
LONGEST_KNOWN_WAIT = 448  # cycles: a longer delay is not encoded as known; added to the longest window, it fits a lane

CAUSE_BITS, REASON_BITS = 17, 4  # of a wait in one word (bits.py); the other 43 hold the cycle
MOST_STEPS = 1 << CAUSE_BITS  # of a program
UNKNOWN = 1 << 41  # cycle: not known yet; UNKNOWN + t: known once cycle t has been served (docs/model.md, section 5)
FOREVER = 1 << 60  # cycle
LIMITED, RESOLVED = 2, 4  # bits of `plain`
NEVER_WRITTEN = -(1 << 40)  # cycle at which a register was ready that the warp has not written

BINS = 4096  # bins of equal probability in a table of quantiles
FINE_BINS, COARSE_BINS, COARSE_WIDTH = 4096, 4096, 64  # of the latency histogram, in cycles
CALENDAR = 1024  # lists of requests between the stages of memory, a power of 2; a list holds days that are so far apart
DAY_BITS = LONGEST_WINDOW.bit_length() - 1  # a day has 2 ** DAY_BITS cycles, as many as the longest window
FEWEST_WAITING = 1024  # requests between the stages for which there is room at first
NOBODY = -1  # no step
AWAITED = 16  # latest accesses of a warp slot or an echo for which the next one can have waited, a power of 2
ECHO_ROOM = 1  # accesses of an echo in a window for which there is room at first
EPOCH = 256  # cycles; a transition is known to the echoes from the second epoch after its own on
EPOCHS = 8  # for which a pool holds how many transitions it had, a power of 2; a window touches three, and echoes look two back
MOST_TRANSITIONS, LEAST_TRANSITIONS, TRANSITIONS = 1 << 15, 1 << 8, 1 << 24  # room of a pool; of all pools
LATEST = 1024  # requests of the data bus over which the share of stores is taken
WINDOW_BUCKETS, BUCKET_CYCLES = 8, 512  # of the sliding window in which the present load is measured

CHIP = np.dtype(
    [
        # Size
        ("sms", "i8"),  # SMs that are simulated
        ("of_sms", "i8"),  # SMs of the chip
        ("schedulers", "i8"),  # of an SM, 1..MAX_SCHEDULERS
        ("seats", "i8"),  # resident blocks of an SM
        ("block_warps", "i8"),  # warps of a block
        ("registers", "i8"),  # registers that the program names
        ("most_extra", "i8"),  # the largest entry of `Machine.latency_to`
        # Places of a warp slot
        ("scheduler_of", "i8", MAX_WARPS),  # its scheduler
        ("lane_of", "i8", MAX_WARPS),  # its lane at that scheduler
        ("seat_of", "i8", MAX_WARPS),  # its seat
        # Issue
        ("issue_width", "i8"),  # instructions that a warp can issue in one cycle, 1 or 2
        ("interval", "i8"),  # cycles for which a plain step occupies its scheduler
        ("limits", "i8"),  # 1: some plain steps are limited, or there are register ports
        ("banks", "i8"),  # register banks with a read port each, 1..MOST_BANKS; 0: reads never wait
        ("counters", "i8"),  # dependence counters of a warp that the program names, from the first one on
        ("tick", "i8"),  # ticks per cycle, such that every interval is a whole number of them
        ("policy", "i8"),  # Policy
        ("circular", "i8"),  # 1: of its warps, those behind the one that issued last go first
        ("greedy", "i8"),  # 1: the one that issued last goes first, then the others by age
        ("group", "i8"),  # warps of a fetch group of the policy `two_level`, a power of 2 up to MAX_WARPS
        # Fetch
        ("buffer", "i8"),  # instructions that the buffer of a warp holds; 0: every instruction is there in time
        ("stages", "i8"),  # cycles from the fetch of an instruction until it can issue
        ("lines", "i8"),  # of the L0 instruction cache of a scheduler
        ("line_share", "i8"),  # line of an instruction over its address, in units of 2 ** -LINE_BITS, rounded up
        ("miss", "i8"),  # cycles from the request of a line until it is there
        ("prefetch_lines", "i8"),  # lines requested with it
        ("program_lines", "i8"),  # lines of the program, and as many behind it as can be requested
        ("prefetch_cycles", "i8"),  # between two of them
        ("program_end", "i8"),  # the address after the program
        # Blocks
        ("block_launch", "i8"),  # cycles from the retirement of a block to the start of the next one
        ("warp_launch", "i8"),  # cycles by which the warps of a block can issue one after another
        ("blocks", "i8"),  # blocks of the grid; negative: an endless supply
        ("launch_interval", "f8"),  # cycles between the starts of two blocks of the slice
        ("first_start", "i8"),  # cycle at which the blocks of the deal are due
        # Phases of the warps of the deal
        ("iteration", "i8"),  # cycles of one iteration of a warp alone; 0: all warps begin at the start of their programs
        ("before_iteration", "i8"),  # cycles that a warp alone takes to its first iteration
        ("by_block", "i8"),  # 1: all warps of a block have the same phase
        ("barriers", "i8"),  # 1: the program has barriers
        # Lookahead, from `known_waits`
        ("window", "i8"),  # cycles for which no SM can affect another, 1..LONGEST_WINDOW
        ("store_latency", "i8"),  # cycles in which no store that issues in them can return, 1..window
        ("stores_counted", "i8"),  # 1: dependence counters of the program count stores that drain
        ("stores_pass_bus", "i8"),  # 1: all of these pass the data bus, and return so many cycles later, at least
        ("store_burst", "i8"),  # an SM issues at most so many stores in any time,
        ("store_rate", "f8"),  # and so many more in each of its cycles
        ("span", "i8"),  # cycles for which schedulers of an SM affect each other through shared classes only, 1..window
        # Memory
        ("memory", "i8"),  # MemoryModel
        ("most_requests", "i8"),  # of an access of the program
        ("loads_per_warp", "i8"),  # loads of a warp in flight, at most; 0: any number
        ("per_sm", "i8", 2),  # loads, and stores, of an SM in flight, at most; 0: any number
        ("latency", "f8"),  # cycles, of the model `fixed`
        ("l1_latency", "f8"),  # cycles
        ("l2_latency", "f8"),  # cycles
        ("l2_far_latency", "f8"),  # cycles, of the far half
        ("transaction_latency", "f8"),  # cycles by which each extra transaction of an access delays it
        ("crossbar_servers", "i8"),
        ("dram_servers", "i8"),
        ("dram_rate", "f8"),  # bytes per cycle of one server
        ("peak_rate", "f8"),  # bytes per cycle of the chip, the sustained rate
        ("write_cost", "f8"),  # service of a store on the data bus over that of a load
        ("write_batch", "i8"),  # stores that a server of stage 2 collects, and writes together
        ("turnaround", "f8"),  # further service with as many stores as loads, over that of a load
        ("read_delay", "f8"),  # cycles by which a load waits longer with as many stores as loads
        # Chance
        ("seed", "u8"),  # of the replicate
    ]
)

CLASS = np.dtype(
    [
        ("unit", "i8"),  # its unit, 0..UNITS-1
        ("own_unit", "i8"),  # -1 (a mask): each scheduler has such a unit; 0: the SM has one
        ("shared", "i8"),  # 1: the unit belongs to the SM, or one of its classes accesses memory
        ("access", "i8"),  # Kind.LOAD or Kind.STORE; else 0
        ("refusable", "i8"),  # 1: the unit, or a limit of the SM, can refuse an instruction of the program
        ("dependency", "i8"),  # WarpState of a wait for a result
        ("throttle", "i8"),  # WarpState of a wait for the unit
        ("after", "i8"),  # WarpState of the gap after an instruction
        ("ports", "i8"),  # 1: its instructions pass the register ports
        # The queue of each scheduler in front of the unit
        ("queue", "i8"),  # its entries; 0: there is none
        ("lead", "i8"),  # cycles from issue until an instruction can leave it
        ("address", "i8"),  # cycles between two instructions that leave it
        ("queue_row", "i8"),  # its number among the queues of a scheduler
    ]
)

STEP = np.dtype(
    [
        ("kind", "i4"),  # Kind
        ("op", "i4"),  # operation class
        ("dst", "i4"),  # register that is written; negative: none
        ("operands", "i4"),  # where the step's registers begin in `Machine.operands`
        ("operands_end", "i4"),  # and where they end
        ("gap", "i4"),  # cycles to the warp's next issue, at least
        ("latency", "i8"),  # cycles from issue to result
        ("unit_ticks", "i8"),  # ticks for which the unit is occupied
        ("busy", "i8"),  # cycles for which the scheduler is occupied, at least 1
        # Known waits: where the next instruction is certain and waits for this one alone
        ("delay", "i8"),  # cycles from this issue until the next step is eligible; 0: not known
        ("known_wait", "i8"),  # what turns the cycle of an issue, shifted, into that wait (bits.py)
        ("following", "i4"),  # the next step that issues, if it is certain; else negative
        ("next_op", "i4"),  # operation class of the next step
        ("known_dst", "i4"),  # as dst; negative, too, if the next step overwrites the register before anyone else reads it
        ("own_delay", "u2"),  # `delay`, as a time of a lane, of a plain step; else 0
        ("next_delay", "u2"),  # the same of the next step
        ("reason", "i1"),  # WarpState of that wait
        # What the step needs
        ("may_pair", "i1"),  # 1: the next step may issue in the same cycle
        ("awaited", "i1"),  # 1: the next step waits for what this one asks of the memory
        ("ordered", "i1"),  # 1: it uses something that the schedulers of an SM share, a barrier or the block supply
        # 1: its wait is known, it is not ordered, its unit has no queue, and `busy` is the chip's `interval`. RESOLVED: the same,
        # except that its wait is not known before it issues, or that it is a branch; only where there are options of the core.
        # With either, LIMITED: its unit, one of each scheduler, can refuse it.
        ("plain", "i1"),
        ("ports", "i1"),  # 1: it passes the register ports
        ("unit", "i1"),  # its unit
        ("cached", "i1"),  # 1: the reuse cache can hold, or is to hold, what it reads
        ("needs", "u8"),  # its reads by bank, as times of lanes, if it passes the ports and `cached` is 0
    ]
)

DETAIL = np.dtype(
    [
        ("alone", "i8"),  # cycles from its issue to the next issue of a warp that runs alone
        ("straight_alone", "i8"),  # the same from its issue to the end of the straight code that it belongs to
        ("straight_end", "i4"),  # the last step of that code, which has no barrier and no branch; of these, the step itself
        ("unused", "i4"),
        # Of a load or a store
        ("requests", "i8"),
        ("extra", "i8"),  # transactions beyond those of a coalesced access
        ("request_bytes", "f8"),
        ("asked_bytes", "f8"),  # bytes that the threads asked for
        ("slices", "i8"),  # servers of stage 1 among which a request chooses
        ("slice_cycles", "f8"),  # cycles for which a request occupies its server of stage 1
        ("l1_hit", "f8"),  # probability of a hit in L1
        ("l2_hit", "f8"),  # probability of a hit in L1 or L2
        ("drain", "f8"),  # cycles: unloaded latency of a store for which its warp waits; negative: none
        # Of a branch, of a loop's end, of a jump
        ("taken_gap", "i8"),  # cycles
        ("target", "i8"),  # step
        ("probability", "f8"),  # of falling through
        ("draws", "i8"),  # 1: chance decides
        ("by_index", "i8"),  # 1: the warp's number in its block decides
        ("takers", "u8"),  # set of the warps in a block that fall through
        # Of a loop
        ("loop", "i8"),  # its number
        ("low", "i8"),  # trips, at least; negative: endless
        ("high", "i8"),  # trips, at most
    ]
)

HINT = np.dtype(  # of a step: when it may issue
    [
        ("waits", "i4"),  # set of the counters that must be at most `at_most`
        ("at_most", "i4"),
        ("write", "i4"),  # the counter that counts it until its result can be used; negative: none
        ("read", "i4"),  # the counter that counts it until its operands have been read; negative: none
        ("operands", "i4"),  # cycles until then
        ("partial", "i4"),  # 1: some step waits until the counter `write` counts no more than one or several
    ]
)

FETCHER = np.dtype(  # of a scheduler
    [
        ("next", "i8"),  # the first cycle whose fetch has not been made
        ("last", "i8"),  # lane of the warp that it issued last; negative: it has left, or there is none
        ("hungry", "u8"),  # lanes of the warps that have room for another instruction
        ("starting", "u8"),  # of these, lanes of warps that may start after `next`
        ("full", "u8"),  # lanes of the warps whose buffers stay full (fetch.py)
        ("held", "i8"),  # lines in L0, or on their way
        ("uses", "i8"),  # fetches and requests so far, by which the lines are ordered
        ("there", "i8"),  # cycle from which all lines of the program are in L0 for good; FOREVER: not known, or never
    ]
)

WARP = np.dtype(
    [
        ("wait", "i8"),  # a wait in one word (bits.py): until when the warp is not eligible, and why
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

SM = np.dtype(
    [
        ("index", "i8"),
        ("begin", "i8"),  # cycle from which its lanes count: the begin of its window
        ("next_event", "i8"),  # cycle before which nothing happens on it
        ("free", "i8", UNITS * MAX_SCHEDULERS),  # tick from which a unit is free; a unit of the SM stands at scheduler 0
        ("last_issue", "i8", UNITS * MAX_SCHEDULERS),  # by unit, scheduler: value of `shared_issues` at its last issue
        ("shared_issues", "i8"),  # instructions of shared units that have issued
        # Sets of warps, by slot
        ("pending", "u8"),  # they wait for requests that have not been served
        ("answered", "u8"),  # something has become known about their requests
        ("far", "u8"),  # they wake later than a lane can hold
        ("draining", "u8"),  # `exit` has issued; the return of the last load is known
        # Memory
        ("in_flight", "i8", 2),  # loads, and stores, whose returns are in `State.flights`
        ("sent", "i8", 2),  # loads, and stores, that have not been served
        # Occupancy
        ("resident", "i8"),  # resident warps
        ("resident_since", "i8"),  # cycle up to which they have been counted
        ("warp_cycles", "i8"),  # resident warps, summed over cycles
        ("population", "i2", LONGEST_WINDOW + 1),  # by cycle of the latest window: warps that start, less those that have left
        ("populated", "i2"),  # 1: some of these are not 0
        ("unused", "i4"),  # a record fills whole lines of the cache
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

REQUEST = np.dtype(
    [
        ("cycle", "i8"),  # of its issue
        ("stream", "u8"),  # the warp's stream at that issue, or that of the echo
        ("warp", "i8"),  # its place among the warp slots of the chip; of echo e: -1 - e
        ("queued", "i8"),  # cycles that it waited in the queue of its unit
        ("number", "i8"),  # among the accesses of its warp slot, or of the echo, of a slice
        ("step", "i4"),
        ("in_l2", "i4"),  # of an echo: 1 if it hits L2
    ]
)

SEQUENCE = np.dtype(  # of the accesses of a warp slot of a slice, or of an echo
    [
        ("issue", "i8"),  # cycle of the latest access
        ("count", "i8"),  # accesses
        ("returns", "i8", AWAITED),  # cycles at which the latest accesses are back, by number modulo AWAITED, or UNKNOWN
        ("back", "i8"),  # accesses, from the first one on, that were back when the latest one issued; or a few less
        ("step", "i4"),  # of the latest access
        ("under_way", "i4"),  # set of accesses (bit 0: the latest) for which the latest did not wait; of an echo, the next one
        # Of an echo: how the next access follows
        ("next_step", "i4"),  # its step; negative: no transition has been found yet
        ("in_l2", "i4"),  # 1 if it hits L2; of a warp slot: if its latest access did
        ("gap", "i8"),  # cycles from what it waits for
        ("earliest", "i8"),  # cycle before which it does not issue
        ("due", "i8"),  # cycle in which it issues, or in which the echo looks for a transition; FOREVER: not known
        ("stream", "u8"),  # random stream
    ]
)

TRANSITION = np.dtype(  # from an access of a warp slot of a slice to its next one
    [
        ("gap", "i8"),  # cycles from what it waited for
        ("step", "i4"),  # of the next one
        ("in_l2", "i2"),  # 1 if it hit L2
        ("under_way", "u2"),  # set of the latest accesses (bit 0: the latest) for which it did not wait
    ]
)

POOL = np.dtype(  # of the transitions from a step
    [
        ("begin", "i8"),  # its place in `State.transitions`
        ("total", "i8"),  # transitions
        ("epoch", "i8"),  # of the latest one
        ("seen", "i8", AWAITED),  # by the size of the first access's `under_way`: those ever seen under way at the second one
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
        ("unused", "i4"),  # a record fills a line of the cache
    ]
)

ARRIVAL = np.dtype(
    [
        ("time", "f8"),  # cycles: its arrival at stage 2
        ("access", "i4"),  # its place in `State.accesses`
        ("server", "i4"),  # of stage 2
        ("following", "i4"),  # the next one of a list of the calendar
        ("unused", "i4"),
    ]
)

CLOCK = np.dtype(
    [
        ("cycle", "i8"),  # the first cycle that has not been simulated
        ("next_block", "i8"),  # of the supply
        ("last_retire", "i8"),  # cycle: latest retirement of all blocks
        ("stuck_sm", "i8"),  # of a deadlock
        ("stuck_seat", "i8"),
        ("stuck_cycle", "i8"),
        ("requests", "i8"),  # accesses of this window that have not been looked at
        ("begin", "i8"),  # cycle: of the window that ended last
        ("served", "i8"),  # cycle before which all requests of that window have been served
        ("accesses", "i8"),  # between the stages of memory
        ("waiting", "i8"),  # requests between the stages
        ("near", "i8"),  # of these, those that are in no list of the calendar
        ("day", "i8"),  # the first day whose list may have requests
        ("next_arrival", "i8"),  # cycle before which none of them arrives at stage 2
        ("noted", "i8"),  # 1: the accesses of the slice in this window have been noted for its echoes
        ("next_echo", "i8"),  # cycle before which no echo has anything to do
        ("pool_room", "i8"),  # transitions for which a pool has room, a power of 2
        ("write_share", "f8"),  # share of stores in the latest requests of the data bus
        ("launch_free", "f8"),  # time from which the next block can start
    ]
)

COUNT = np.dtype(
    [
        ("issued", "i8"),  # warp instructions
        ("waited", "i8"),  # warp-cycles from eligible to issue, or to now
    ]
)

PART = np.dtype(  # of a COUNT
    [
        ("seconds", "i8"),  # of the warp instructions, the second ones of pairs
        ("throttled", "i8"),  # of the warp-cycles, those in which the unit refused
        ("held", "i8"),  # of the warp-cycles, those in which the register ports held the scheduler
        ("unfetched", "i8"),  # of the warp-cycles, those in which the instruction had not been fetched, though it could issue
    ]
)

TALLY = np.dtype(
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

BITMAP = LONGEST_WINDOW // 64  # words of a set of cycles of a window

SCRATCH = np.dtype(
    [
        ("refused", "u8", (GATES, BITMAP)),  # by gate: cycles in which it refuses every scheduler
        ("refused_one", "u8", (MAX_SCHEDULERS, GATES, BITMAP + 2)),  # by scheduler and gate: the same for one of them
        ("gates", "u8"),  # set of the gates for which one of these sets is not empty
        ("busy", "u8", (MAX_SCHEDULERS, BITMAP + 2)),  # by scheduler: cycles in which it cannot issue, also after the window
        ("some_busy", "i8"),  # 1: one of these is not empty
        ("held", "u8", (MAX_SCHEDULERS, BITMAP + 2)),  # by scheduler: cycles in which the register ports hold it
        ("some_held", "i8"),  # 1: one of these is not empty
    ]
)


@cache
def scheduler_record(lanes: int) -> np.dtype[Any]:
    """The record of a scheduler of up to so many warps: 16, 32 or 64.

    Lane i stands for the warp in slot i * schedulers + s. The engine is compiled for each number of lanes that is used.
    A record fills whole lines of the cache, so that no vector of lanes lies on two of them.
    """
    fields = [
        # By lane; lanes.py explains the format of times and ranks
        ("wakes", "u2", lanes),  # time before which the warp does not issue, and NEVER where that is not known
        ("ranks", "u2", lanes),  # the lowest one goes first, of warps that can issue in the same cycle
        ("ages", "u2", lanes),  # 0: the oldest; with the policy `gty` the youngest
        ("ops", "u2", lanes),  # class of the warp's next step
        ("delays", "u2", lanes),  # `own_delay` of that step
        ("next_issue", "i8"),  # first cycle in which it can issue again
        ("stream", "u8"),  # random stream, for the policy `random`
        ("greedy", "i8"),  # 1: the warp of rank 0 issued last
        # Register ports
        ("held_from", "i8"),  # first cycle after its last issue in which only the ports hold it
        ("held_until", "i8"),  # first cycle in which they do not
        ("port_last", "i8"),  # cycle in which the last instruction has its ports
        ("backlog", "u2", 8),  # by bank: cycles after that one until its port is free, at most OPERAND_SLOTS
        ("reused", "i8", MOST_BANKS * OPERAND_SLOTS),  # the reuse cache: warp slot and register + 1; 0: empty
        # Of the warp that is picked
        ("lane", "i8"),
        ("cycle", "i8"),  # in which it is to issue
        # Of one that has issued the first instruction of a cycle and may issue a second one
        ("gap", "i8"),  # cycles, of the first instruction
        ("busy", "i8"),  # cycles, of the first instruction
        ("first", "i8"),  # step of the first instruction
    ]
    used = np.dtype(fields).itemsize
    return np.dtype([*fields, ("unused", "u1", -used % CACHE_LINE)])


@handed_on_as_pointer
class Machine(NamedTuple):
    """One chip with one program loaded. Shapes: S steps, C classes, R rows of quantiles.

    `reads`, `hints` and `addresses` are None, all three, where nothing of what they serve is needed: register ports, hints,
    fetch, and units of a scheduler that refuse. Numba leaves all of that out then.
    """

    chip: Records  # CHIP[1]
    program: Records  # STEP[S]: what every issue needs
    details: Records  # DETAIL[S]: what accesses, branches and loops need
    operands: Array  # int32[n]: for each step the registers that it reads, then the one it writes
    classes: Records  # CLASS[C]: operation classes
    latency_to: Array  # int64[C * C]: by writer and consumer, the cycles that the consumer sees more than the writer's latency
    refusing: Array  # int64[n]: the classes that are refusable
    reads: Any  # int32[S or 0, OPERAND_SLOTS]: from the lowest bit on bank, whether to reuse it, machine register + 1; 0: none
    hints: Any  # HINT[S or 0]
    addresses: Any  # int32[S, or 0 without fetch]: of a step that issues
    quantiles: Array  # float64[R, BINS + 1], cycles
    loads: Array  # float64[R], bytes per cycle at which the rows were measured
    entries: Array  # int32[n]: the step at which a launched warp starts, by launch number modulo n
    loops: int


@handed_on_as_pointer
class State(NamedTuple):
    """All that changes. Shapes: M SMs, K schedulers of each, S steps, B = M * seats, W = M * MAX_WARPS warp slots."""

    # The machine
    clock: Records  # CLOCK[1]
    sms: Records  # SM[M]
    schedulers: Records  # scheduler_record[M * K]
    seats: Records  # SEAT[B]
    warps: Records  # WARP[W]
    registers: Array  # int64[W * registers]: when a register can be read, and the step that wrote it, in one word
    writers: Array  # int64[W * registers, or 0 without hints]: the cycle in which the step issued that wrote a register last
    counted: Array  # int64[W * counters, 2 + 2 * NEAR_COUNTED]: by warp slot and counter: how many entries, and the first ones: a
    # wait (when it is done, or UNKNOWN + when it is served; its step; 1: a read), and the cycle of its issue
    crowded: Array  # int64[W * counters, ...]: the other entries
    fetchers: Records  # FETCHER[M * K, or 0]
    lines: Array  # int64[M * K, lines of the program, 2]: when a line is in L0, and its last use; the use 0: it is not
    buffers: Array  # int64[W or 0, 3 + buffer]: next address to fetch, oldest entry, entries, when each can issue
    loops: Array  # int64[W, loops]: trips left; negative: endless
    returns: Array  # int64[W, loads_per_warp]: cycles at which the warp's latest loads return, or UNKNOWN + when they are served
    latest: Array  # int64[W]: of the warp's accesses that waited for stage 2, when the last one is served, and its step
    otherwise: Array  # int64[W]: the wait of a warp before that for its limit of loads in flight, where it waits for this, too
    queues: Array  # int64[queues * M * K, 2 + most entries]: the oldest entry, next address, when entries leave (units.py)
    flights: Array  # int64[2 * M, most of per_sm]: for each SM a heap of return times of loads, and one of stores
    first_seat: Array  # int64[LONGEST_WINDOW]: by cycle of the window, a seat in which a block starts; negative: none
    # The memory system
    requests: Records  # REQUEST[n]: of this window
    in_cycle: Array  # int64[LONGEST_WINDOW]: requests by cycle, while they are sorted
    order: Array  # int64[n]: those of these that are served next, in the order in which they issued
    accesses: Records  # ACCESS[q]: those between the stages
    arrivals: Records  # ARRIVAL[CALENDAR + q]: one for each list of the calendar, from which it begins; then their requests
    free_accesses: Array  # int32[q]: places in `accesses`; from `clock.accesses` on those that are free
    free_arrivals: Array  # int32[q]: places in `arrivals`; from `clock.waiting` on those that are free
    latest_of_day: Array  # int32[CALENDAR]: the last entry of each list of the calendar
    near: Array  # int32[q]: requests between the stages that are in no list, in order of issue
    due: Array  # int32[q]: requests that are served in this window, by time
    unsorted: Array  # int32[q]: the same before they are sorted
    tracks: Records  # SEQUENCE[W], or none without echoes: the accesses of the warp slots
    echoes: Records  # SEQUENCE[e]: a multiple of the warp slots that are used
    pools: Records  # POOL[S], or none
    transitions: Records  # TRANSITION[loads and stores of the program * a power of 2], or none
    servers: Array  # float64[4, most servers]: when a server of the crossbar, of DRAM, or the bus is free; stores collected
    window: Array  # float64[WINDOW_BUCKETS + 1]: bytes requested; then the number of the newest bucket
    # Counters
    tally: Records  # TALLY[1]
    counts: Records  # COUNT[K * S]: by scheduler and step
    parts: Records  # PART[K * S]: of these counts
    stalls: Array  # int64[K * S * STATES]: warp-cycles by scheduler, step and WarpState, without known waits
    caused: Array  # int64[S * STATES]: the same by the step that caused them
    scratch: Records  # SCRATCH[1]: what belongs to the window of the SM that runs
    # What is kept of a run's course
    trace: Array  # int64[n, 4]: cycle, SM, slot, step of the first n issues that are kept
    lives: Array  # int64[n, 5]: launch number, SM, start, last cycle, slot of the first n warps that retired
    changes: Array  # int64[n, 3]: cycle, SM, resident warps from then on: the first n changes of occupancy

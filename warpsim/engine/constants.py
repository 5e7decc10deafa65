"""The words and numbers of the engine: its enumerations, how much it holds, and the formats of its numbers."""

from enum import IntEnum
from typing import Any

import numpy as np


class Policy(IntEnum):
    """Which issuable warp a scheduler picks."""

    LRR = 0
    GTO = 1
    OLDEST = 2
    RANDOM = 3
    GTY = 4
    GRR = 5
    TWO_LEVEL = 6


CIRCULAR = frozenset({Policy.LRR, Policy.GRR})  # of a scheduler's warps, those behind the one that issued last go first
GREEDY = frozenset({Policy.GTO, Policy.GTY})  # the one that issued last goes first, then the others by age


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
    DRAINING = 3  # `exit` has issued, accesses that it waits for are not back yet
    AT_MBARRIER = 4  # held until it is known when a phase is complete


class Outcome(IntEnum):
    """Why a run returned."""

    STOPPED = 0  # the cycle asked for is reached, or there is no row left for counters
    FINISHED = 1  # every block of the grid has retired
    DEADLOCK = 2
    FULL = 3  # `enlarged` has to make room for requests between the stages of memory


Records = np.recarray[Any, Any]
Array = np.ndarray[Any, Any]

CACHE_LINE = 64  # bytes
WORDS_OF_THREAD = 2 * CACHE_LINE // 8  # int64, of which two are used, on different lines
RUN_WINDOW, NOTE = 0, 1  # what thread 0 calls the others for

MAX_WARPS = 64  # warp slots of an SM, at most: a set of warps is one uint64
SCHEDULER_BITS = 3
MAX_SCHEDULERS = 1 << SCHEDULER_BITS  # of an SM, at most
UNITS = 32  # kinds of execution units of a chip, at most
ACCESS_BITS = 2  # of what a step uses: the Kind of its access, or 0, takes the lowest bits, its unit the others
ACCESS_PART, UNIT_PART = (1 << ACCESS_BITS) - 1, 0xFFFF >> ACCESS_BITS << ACCESS_BITS  # masks of the two
MOST_BANKS = 4  # register banks of a scheduler, at most
OPERAND_SLOTS = 4  # of a machine instruction, at most
REGISTER_BITS = 10  # of a lane: a machine register + 1, up to R999, takes the lowest bits, a warp slot the others
SEVERAL_REGISTERS = (1 << REGISTER_BITS) - 1  # in place of a register + 1: an operand of several, which no reuse cache holds
READING_CYCLES = 3  # from the one in which an instruction has its ports, in which it reads its last operands
LINE_BITS = 40  # behind the binary point of the lines of addresses, so that they are exact up to MOST_STEPS
MOST_COUNTED, NEAR_COUNTED = 63, 7  # instructions that a dependence counter counts, at most; of these, in `State.counted`
MOST_PHASES = 32  # of an mbarrier that can be open at a time
NO_PHASE = -1  # number of a phase that has not begun
GATES = UNITS + 2  # what can refuse an instruction: a unit, the limit of loads in flight, that of stores
STATES = len(WarpState)

LANE_BITS, RANK_BITS = 16, 6  # of a lane: a rank takes the lowest bits, a time the others (lanes.py)
RANKS = (1 << RANK_BITS) - 1  # a mask, and the largest rank
NEVER = 0xFFFF >> RANK_BITS << RANK_BITS  # the time of a lane that is not known, or later than a lane can say
FARTHEST = (NEVER >> RANK_BITS) - 1  # the largest cycle of a window that a time can say

LONGEST_WINDOW = 512  # cycles that an SM runs alone, at most
FEW_CYCLES = 49  # of a set, that are read or written at once, at most (cycle_sets.py)
LONGEST_INTERVAL = FEW_CYCLES + 1  # cycles between two plain issues of a scheduler, at most
LONGEST_KNOWN_WAIT = 448  # cycles: a longer delay is not encoded as known; added to the longest window, it fits a lane

CAUSE_BITS, REASON_BITS = 17, 4  # of a wait in one word (bits.py); the other 43 hold the cycle
MOST_STEPS = 1 << CAUSE_BITS  # of a program
UNKNOWN = 1 << 41  # cycle: not known yet; UNKNOWN + t: known once cycle t has been served (docs/model.md, section 5)
FOREVER = 1 << 60  # cycle
LIMITED, RESOLVED = 2, 4  # bits of `plain`
NEVER_WRITTEN = -(1 << 40)  # cycle at which a register was ready that the warp has not written

BINS = 4096  # bins of equal probability in a table of quantiles
FINE_BINS, COARSE_BINS, COARSE_WIDTH = 4096, 4096, 64  # of the latency histogram, in cycles
MOST_PARTS = 8192  # of the cycles of a window, into which requests between the stages of memory are sorted
NEAR_WINDOWS = 8  # as long as the latest one, in which requests between the stages arrive that are near
WAITING_OF_SM = 128  # requests between the stages for which there is room at first, for each SM of the chip
NOBODY = -1  # no step, no lane, no access, no request
BY_REGISTER, AT_THE_END = -1, -2  # what has a warp wait for a load: an instruction that names its register, or its end
COUNTED_BITS = 5  # of what a dependence counter may count, up to AWAITED
AWAITED = 16  # latest accesses of a warp slot or an echo for which the next one can have waited, a power of 2
ECHO_ROOM = 1  # accesses of an echo in a window for which there is room at first
EPOCH = 256  # cycles; a transition is known to the echoes from the second epoch after its own on
EPOCHS = 8  # for which a pool keeps how many transitions it had, a power of 2; a window touches three, echoes look two back
MOST_TRANSITIONS, LEAST_TRANSITIONS, TRANSITIONS = 1 << 15, 1 << 8, 1 << 24  # room of a pool; of all pools
CROSSBAR, DRAM, BUS, COLLECTED, ASKED = 0, 1, 2, 3, 4  # rows of `State.servers`
LATEST = 64  # requests of the data bus, for each channel of DRAM, over which the share of stores is taken
WINDOW_BUCKETS, BUCKET_CYCLES = 8, 512  # of the sliding window in which the present load is measured

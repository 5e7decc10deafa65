"""What is configured (Machine, never changes in a run) and what changes (State), as a few record arrays.

`warpsim.encode` fills a Machine; `allocate` makes the State that belongs to it.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from warpsim.engine.rng import stream_of


class Policy(IntEnum):
    """Which issuable warp a scheduler picks."""

    LRR = 0
    GTO = 1
    OLDEST = 2
    RANDOM = 3


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


class Life(IntEnum):
    """Where a warp slot stands."""

    EMPTY = 0
    RUNNING = 1
    AT_BARRIER = 2
    DRAINING = 3  # `exit` has issued, loads are not back yet


class Outcome(IntEnum):
    """Why a run returned."""

    STOPPED = 0  # the cycle asked for is reached
    FINISHED = 1  # every block of the grid has retired
    DEADLOCK = 2


WHEEL = 1024  # cycles that the timing wheel spans; a power of two
BINS = 4096  # bins of equal probability in a table of quantiles
FINE_BINS, COARSE_BINS, COARSE_WIDTH = 4096, 4096, 64  # of the latency histogram, in cycles
WINDOW_BUCKETS, BUCKET_CYCLES = 8, 512  # of the sliding window in which the present load is measured
NEVER_WRITTEN = -(1 << 50)  # a register at the start of a warp: ready long ago
WRITER_BITS = 8  # a register holds (ready cycle << WRITER_BITS) | operation class of its last writer

CHIP = np.dtype(
    [
        ("sms", "i8"), ("schedulers", "i8"), ("seats", "i8"), ("block_warps", "i8"),
        ("issue_interval", "i8"), ("issue_width", "i8"), ("tick", "i8"),  # ticks per cycle, for exact fractions
        ("policy", "i8"), ("memory", "i8"), ("block_launch", "i8"), ("blocks", "i8"),  # blocks < 0: endless supply
        ("loads_per_warp", "i8"), ("loads_per_sm", "i8"),  # 0: no limit
        ("latency", "f8"), ("l1_latency", "f8"), ("l2_latency", "f8"), ("transaction_latency", "f8"),  # cycles
        ("crossbar_servers", "i8"), ("dram_servers", "i8"),
        ("crossbar_rate", "f8"), ("dram_rate", "f8"), ("peak_rate", "f8"),  # bytes per cycle: of one server, one server, the chip
        ("seed", "u8"),
    ]
)  # fmt: skip

STEP = np.dtype(
    [
        ("kind", "i8"), ("op", "i8"), ("dst", "i8"), ("operands", "i8"),  # dst < 0: none; how many operands
        ("latency", "i8"), ("occupancy", "i8"), ("slots", "i8"), ("gap", "i8"), ("taken_gap", "i8"),  # occupancy in ticks
        ("requests", "i8"), ("extra", "i8"), ("request_bytes", "f8"), ("asked_bytes", "f8"), ("l1_hit", "f8"), ("l2_hit", "f8"),  # l2_hit: in L1 or L2
        ("loop", "i8"), ("low", "i8"), ("high", "i8"), ("target", "i8"),  # low < 0: endless
        ("probability", "f8"), ("draws", "i8"), ("by_index", "i8"), ("takers", "u8"),  # of falling through; or who does
    ]
)  # fmt: skip

OP = np.dtype([("dependency", "i8"), ("throttle", "i8"), ("per_scheduler", "i8"), ("is_load", "i8")])

WARP = np.dtype(
    [
        ("life", "i8"), ("step", "i8"), ("wake", "i8"), ("reason", "i8"),  # eligible from cycle `wake`; why not before
        ("age", "i8"), ("number", "i8"), ("start", "i8"), ("last_return", "i8"), ("held", "i8"),  # at a barrier since
        ("stream", "u8"),
    ]
)  # fmt: skip

SM = np.dtype(
    [
        ("ready", "u8"), ("sleeping_long", "u8"), ("draining", "u8"),  # sets of warps: eligible; beyond the wheel's span; exited
        ("visited", "i8"), ("due", "i8"), ("launched", "i8"), ("reused", "i8"),  # last cycle looked at; seats with a launch ahead
        ("resident", "i8"), ("resident_since", "i8"), ("in_flight", "i8"),
    ]
)  # fmt: skip

SEAT = np.dtype([("live", "i8"), ("waiting", "i8"), ("barrier", "i8"), ("retire", "i8"), ("due", "i8"), ("block", "i8")])
SCHEDULER = np.dtype(
    [("warps", "u8"), ("next_issue", "i8"), ("last", "i8"), ("greedy", "i8"), ("stream", "u8")]
)  # last: slot that issued last; greedy: the same until its warp exits
CLOCK = np.dtype([("cycle", "i8"), ("next_block", "i8"), ("live_blocks", "i8"), ("last_retire", "i8"), ("traced", "i8"),
                  ("stuck_sm", "i8"), ("stuck_seat", "i8")])  # fmt: skip
TALLY = np.dtype([("issue_cycles", "i8"), ("busy_cycles", "i8"), ("latency_sum", "i8"), ("loads", "i8"), ("asked_bytes", "f8"), ("moved_bytes", "f8"),
                  ("retired", "i8"), ("lifetime_sum", "i8")])  # fmt: skip


class Machine(NamedTuple):
    """One chip with one program loaded. Shapes: S steps, C operation classes, R rows of quantiles."""

    chip: np.ndarray  # CHIP[1]
    program: np.ndarray  # STEP[S]
    operands: np.ndarray  # int64[S, most operands]: registers that a step reads, then the one it writes
    ops: np.ndarray  # OP[C]
    latency_to: np.ndarray  # int64[C, C]: what a consumer of a class sees more or less than the writer's latency
    quantiles: np.ndarray  # float64[R, BINS + 1], cycles
    loads: np.ndarray  # float64[R], bytes per cycle at which the rows were measured
    registers: int
    loops: int


class State(NamedTuple):
    """All that changes. Shapes: M SMs, T schedulers in all, B seats in all, W warp slots in all."""

    clock: np.ndarray  # CLOCK[1]
    sms: np.ndarray  # SM[M]
    schedulers: np.ndarray  # SCHEDULER[T]
    seats: np.ndarray  # SEAT[B]
    warps: np.ndarray  # WARP[W]
    registers: np.ndarray  # int64[W, registers]
    loops: np.ndarray  # int64[W, loops]: trips left; negative: endless
    returns: np.ndarray  # int64[W, loads_per_warp]: when the warp's latest loads return
    flights: np.ndarray  # int64[M, loads_per_sm]: a heap of return times
    next_op: np.ndarray  # uint64[M, C]: the warps whose next instruction is of a class
    free: np.ndarray  # int64[T, C]: from which tick on a unit is free; an SM's own unit stands at its first scheduler
    wake_warps: np.ndarray  # uint64[WHEEL, M]: the warps that wake at a cycle
    wake_sms: np.ndarray  # uint64[WHEEL, M / 64]: the SMs that have something to do at a cycle
    servers: np.ndarray  # float64[2, most servers]: when a server of the crossbar, of DRAM, is free
    window: np.ndarray  # float64[WINDOW_BUCKETS + 1]: bytes requested; then the number of the newest bucket
    tally: np.ndarray  # TALLY[1]
    states: np.ndarray  # int64[len(WarpState)]: warp-cycles
    issued: np.ndarray  # int64[C]: warp instructions
    occupied: np.ndarray  # int64[M, C]: ticks of use of an SM's units
    histogram: np.ndarray  # int64[FINE_BINS + COARSE_BINS]: loads by latency
    occupancy: np.ndarray  # int64[slots of an SM + 1]: SM-cycles with so many resident warps
    trace: np.ndarray  # int64[n, 4]: cycle, SM, slot, step of the first n issues
    lives: np.ndarray  # int64[n, 4]: launch number, SM, start, last cycle of the first n warps that retired


def allocate(machine: Machine, *, trace: int = 0) -> State:
    """An idle machine at cycle 0; `trace` rows are kept for single issues and retired warps."""
    chip = machine.chip[0]
    sms, schedulers, classes = int(chip.sms), int(chip.schedulers), len(machine.ops)
    slots = int(chip.seats * chip.block_warps)
    words = (sms + 63) // 64

    def records(count: int, dtype: np.dtype) -> np.ndarray:
        return np.zeros(count, dtype).view(np.recarray)

    state = State(
        clock=records(1, CLOCK),
        sms=records(sms, SM),
        schedulers=records(sms * schedulers, SCHEDULER),
        seats=records(sms * int(chip.seats), SEAT),
        warps=records(sms * slots, WARP),
        registers=np.zeros((sms * slots, max(1, machine.registers)), np.int64),
        loops=np.zeros((sms * slots, max(1, machine.loops)), np.int64),
        returns=np.zeros((sms * slots, max(1, int(chip.loads_per_warp))), np.int64),
        flights=np.zeros((sms, max(1, int(chip.loads_per_sm))), np.int64),
        next_op=np.zeros((sms, classes), np.uint64),
        free=np.zeros((sms * schedulers, classes), np.int64),
        wake_warps=np.zeros((WHEEL, sms), np.uint64),
        wake_sms=np.zeros((WHEEL, words), np.uint64),
        servers=np.zeros((2, max(1, int(chip.crossbar_servers), int(chip.dram_servers))), np.float64),
        window=np.zeros(WINDOW_BUCKETS + 1, np.float64),
        tally=records(1, TALLY),
        states=np.zeros(len(WarpState), np.int64),
        issued=np.zeros(classes, np.int64),
        occupied=np.zeros((sms, classes), np.int64),
        histogram=np.zeros(FINE_BINS + COARSE_BINS, np.int64),
        occupancy=np.zeros(slots + 1, np.int64),
        trace=np.zeros((trace, 4), np.int64),
        lives=np.zeros((trace, 4), np.int64),
    )
    state.sms.visited[:] = -1
    for index in range(sms * schedulers):
        sm, scheduler = divmod(index, schedulers)
        record = state.schedulers[index]
        record.warps = sum(1 << slot for slot in range(scheduler, slots, schedulers))
        record.last = record.greedy = -1
        with np.errstate(over="ignore"):
            record.stream = stream_of(chip.seed, np.int64(-2 - (sm * schedulers + scheduler)))
    return state

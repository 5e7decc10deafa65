"""What is configured (Machine, never changes in a run) and what changes (State), as a few record arrays.

`warpsim.simulation.encode` fills a Machine; `allocate` makes the State that belongs to it.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np


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


Records = np.recarray[Any, Any]
Array = np.ndarray[Any, Any]

WARPS = 64  # slots of an SM, at most: a set of warps is one uint64
SCHEDULERS = 8  # of an SM, at most
CLASSES = 16  # operation classes of a chip, at most
WHEEL = 1024  # cycles that the timing wheel spans; a power of two
BINS = 4096  # bins of equal probability in a table of quantiles
FINE_BINS, COARSE_BINS, COARSE_WIDTH = 4096, 4096, 64  # of the latency histogram, in cycles
WINDOW_BUCKETS, BUCKET_CYCLES = 8, 512  # of the sliding window in which the present load is measured
NEVER_WRITTEN = -(1 << 50)  # a register at the start of a warp: ready long ago
LABEL_BITS = 4  # a cycle and a label share a word: a register's writer (its class), a sleeper's reason (its WarpState)

# Arrays inside a record have a fixed place in it, so that an access is one machine instruction.

CHIP = np.dtype(
    [
        ("sms", "i8"), ("schedulers", "i8"), ("seats", "i8"), ("block_warps", "i8"),
        ("issue_width", "i8"), ("tick", "i8"),  # tick: ticks per cycle, for exact fractions
        ("policy", "i8"), ("memory", "i8"), ("block_launch", "i8"), ("blocks", "i8"),  # blocks < 0: endless supply
        ("loads_per_warp", "i8"), ("per_sm", "i8", 2),  # limits of loads and of stores in flight; 0: none
        ("latency", "f8"), ("l1_latency", "f8"), ("l2_latency", "f8"), ("transaction_latency", "f8"),  # cycles
        ("crossbar_servers", "i8"), ("dram_servers", "i8"),
        ("crossbar_rate", "f8"), ("dram_rate", "f8"), ("peak_rate", "f8"),  # bytes per cycle: of one server, one server, the chip
        ("seed", "u8"), ("registers", "i8"),  # registers that the program names
        # by operation class: names of its stalls (WarpState); a unit for each scheduler (-1, a mask) or one for the SM
        # (0); LOAD or STORE (Kind) where it accesses memory, else 0
        ("dependency", "i8", CLASSES), ("throttle", "i8", CLASSES), ("own_unit", "i8", CLASSES), ("access", "i8", CLASSES),
        ("latency_to", "i8", CLASSES * CLASSES),  # what a consumer of a class sees more or less than the writer's latency
    ]
)  # fmt: skip

STEP = np.dtype(
    [
        ("kind", "i4"), ("op", "i4"), ("dst", "i4"),  # dst < 0: none
        ("operands", "i4"), ("operands_end", "i4"),  # where the step's registers stand in `Machine.operands`
        ("gap", "i4"), ("latency", "i8"),
        ("unit_ticks", "i8"), ("busy", "i8"),  # time of the unit, ticks; of the scheduler, cycles
        # where the next instruction is known and waits for this one alone: for how long, and why (WarpState); else 0
        ("delay", "i8"), ("reason", "i4"),
        ("foreseen_dst", "i4"),  # then: the register written, unless the next instruction writes it before anyone else reads it
    ]
)  # fmt: skip

DETAIL = np.dtype(
    [
        ("requests", "i8"), ("extra", "i8"), ("request_bytes", "f8"), ("asked_bytes", "f8"),
        ("l1_hit", "f8"), ("l2_hit", "f8"),  # probabilities; l2_hit: in L1 or L2
        ("taken_gap", "i8"), ("target", "i8"),  # of a branch; of a loop's end or a jump, too
        ("probability", "f8"), ("draws", "i8"), ("by_index", "i8"), ("takers", "u8"),  # of falling through; or who does
        ("loop", "i8"), ("low", "i8"), ("high", "i8"),  # trips; low < 0: endless
    ]
)  # fmt: skip

WARP = np.dtype(
    [
        ("stream", "u8"), ("life", "i8"), ("age", "i8"), ("start", "i8"),
        ("last_return", "i8"), ("held", "i8"), ("free_from", "i8"),  # at a barrier since; not before, by its own gap
        ("barrier", "i8"),  # the step of the barrier that held it last
    ]
)  # fmt: skip

SM = np.dtype(
    [
        ("index", "i8"), ("calls", "i8"), ("me", "u8"),  # where in `State.calls` its word begins, and its bit there
        ("ready", "u8"), ("sleeping_long", "u8"), ("draining", "u8"),  # sets of warps: eligible; beyond the wheel's span; exited
        ("visited", "i8"), ("due", "i8"),  # last cycle looked at; seats with a launch ahead
        ("launched", "i8"), ("reused", "i8"),  # warps so far; whether a slot has had a second one
        ("resident", "i8"), ("resident_since", "i8"), ("in_flight", "i8", 2), ("warp_cycles", "i8"),  # resident warps, integrated
        # by scheduler: its warps, when it can issue again, the slot that issued last, the same until its warp exits, its stream
        ("mine", "u8", SCHEDULERS), ("next_issue", "i8", SCHEDULERS), ("last", "i8", SCHEDULERS), ("greedy", "i8", SCHEDULERS),
        ("stream", "u8", SCHEDULERS),
        ("next_op", "u8", CLASSES),  # the warps whose next instruction is of a class
        ("free", "i8", CLASSES * SCHEDULERS),  # from which tick on a unit is free; one for the SM stands at scheduler 0
        # by warp slot: its next step, the class of that, (from when on it is eligible << LABEL_BITS) | why not before
        ("step", "i4", WARPS), ("op", "i4", WARPS), ("wake", "i8", WARPS),
        ("wheel", "u8", WHEEL),  # the warps that wake at a cycle
    ]
)  # fmt: skip

SEAT = np.dtype(
    [
        ("block", "i8"), ("live", "i8"),  # warps that have not issued `exit`
        ("waiting", "i8"), ("barrier", "i8"),  # warps at a barrier, and its step
        ("retire", "i8"), ("due", "i8"),  # last return of the warps that have issued `exit`; when the next block starts
    ]
)  # fmt: skip

CLOCK = np.dtype(
    [
        ("cycle", "i8"), ("next_block", "i8"), ("last_retire", "i8"),  # of all blocks
        ("stuck_sm", "i8"), ("stuck_seat", "i8"),  # of a deadlock
    ]
)  # fmt: skip

TALLY = np.dtype(
    [
        ("states", "i8", 1 << LABEL_BITS),  # warp-cycles, by WarpState; SELECTED follows from what was issued
        # instruction pairs issued in one cycle, the smaller `busy` of each, and scheduler-cycles busy from outside the window
        ("pairs", "i8"), ("pair_busy", "i8"), ("carried", "i8"),
        ("latency_sum", "i8"), ("moved_bytes", "f8"), ("retired", "i8"), ("lifetime_sum", "i8"),
        ("tracing", "i8"), ("traced", "i8"), ("changes", "i8"),  # whether issues are kept; how many were; changes of occupancy
        ("histogram", "i8", FINE_BINS + COARSE_BINS),  # loads by latency
        ("occupancy", "i8", WARPS + 1),  # SM-cycles with so many resident warps
    ]
)  # fmt: skip


class Machine(NamedTuple):
    """One chip with one program loaded. Shapes: S steps, R rows of quantiles."""

    chip: Records  # CHIP[1]
    program: Records  # STEP[S]: what every issue needs
    details: Records  # DETAIL[S]: what accesses, branches and loops need
    operands: Array  # int32[n]: for each step the registers that it reads, then the one it writes
    quantiles: Array  # float64[R, BINS + 1], cycles
    loads: Array  # float64[R], bytes per cycle at which the rows were measured
    loops: int


class State(NamedTuple):
    """All that changes. Shapes: M SMs, B = M * seats, W = M * WARPS warp slots."""

    clock: Records  # CLOCK[1]
    tally: Records  # TALLY[1]
    issued: Array  # int64[S]: warp instructions, by step
    sms: Records  # SM[M]
    calls: Array  # uint64[words * WHEEL]: the SMs that have something to do at a cycle, 64 to a word
    seats: Records  # SEAT[B]
    warps: Records  # WARP[W]: of a warp what is not needed at every issue
    registers: Array  # int64[W * registers]: (ready cycle << LABEL_BITS) | class of the last writer
    loops: Array  # int64[W, loops]: trips left; negative: endless
    returns: Array  # int64[W, loads_per_warp]: when the warp's latest loads return
    flights: Array  # int64[2 * M, most of per_sm]: for each SM a heap of return times of loads, and one of stores
    servers: Array  # float64[3, most servers]: when a server of the crossbar, of DRAM, or the one of the sustained rate is free
    window: Array  # float64[WINDOW_BUCKETS + 1]: bytes requested; then the number of the newest bucket
    trace: Array  # int64[n, 4]: cycle, SM, slot, step of the first n issues that are kept
    lives: Array  # int64[n, 5]: launch number, SM, start, last cycle, slot of the first n warps that retired
    changes: Array  # int64[n, 3]: cycle, SM, resident warps from then on: the first n changes of occupancy
    lines: Array  # int64[SCHEDULERS * S << LABEL_BITS]: warp-cycles by scheduler, step and WarpState
    caused: Array  # int64[S << LABEL_BITS]: warp-cycles by the step that caused them and WarpState
    causes: Array  # int64[W]: the step that caused a warp's present stall
    writers: Array  # int64[W * registers]: the step that wrote a register last
    last_loads: Array  # int64[W]: the load of a warp that returns last
    refused: Array  # int64[M * SCHEDULERS * CLASSES]: cycles in which a unit refused eligible warps, by scheduler and class
    refused_before: Array  # int64[W]: the same for a warp's scheduler and class when it woke
    detail: Array  # empty, of two dimensions where lines are counted and issues are kept: the compiler leaves that out otherwise


def allocate(machine: Machine, *, issues: int = 0, lives: int = 0, changes: int = 0, by_line: bool = False) -> State:
    """An idle machine at cycle 0, with so many rows for issues, retired warps and changes of occupancy."""
    chip = machine.chip[0]
    sms, schedulers = int(chip.sms), int(chip.schedulers)
    detail = by_line or issues > 0
    slots, warps = int(chip.seats * chip.block_warps), sms * WARPS

    def records(count: int, dtype: np.dtype[Any]) -> Records:
        return np.zeros(count, dtype).view(np.recarray)

    state = State(
        clock=records(1, CLOCK),
        tally=records(1, TALLY),
        issued=np.zeros(len(machine.program), np.int64),
        sms=records(sms, SM),
        calls=np.zeros((sms + 63) // 64 * WHEEL, np.uint64),
        seats=records(sms * int(chip.seats), SEAT),
        warps=records(warps, WARP),
        registers=np.zeros(warps * int(chip.registers), np.int64),
        loops=np.zeros((warps, max(1, machine.loops)), np.int64),
        returns=np.zeros((warps, max(1, int(chip.loads_per_warp))), np.int64),
        flights=np.zeros((2 * sms, max(1, int(chip.per_sm.max()))), np.int64),
        servers=np.zeros((3, max(1, int(chip.crossbar_servers), int(chip.dram_servers))), np.float64),
        window=np.zeros(WINDOW_BUCKETS + 1, np.float64),
        trace=np.empty((issues, 4), np.int64),
        lives=np.empty((lives, 5), np.int64),
        changes=np.empty((changes, 3), np.int64),
        lines=np.zeros((SCHEDULERS * len(machine.program) << LABEL_BITS) if detail else 0, np.int64),
        caused=np.zeros(len(machine.program) << LABEL_BITS if detail else 0, np.int64),
        causes=np.zeros(warps if detail else 0, np.int64),
        writers=np.zeros(warps * int(chip.registers) if detail else 0, np.int64),
        last_loads=np.zeros(warps if detail else 0, np.int64),
        refused=np.zeros(sms * SCHEDULERS * CLASSES if detail else 0, np.int64),
        refused_before=np.zeros(warps if detail else 0, np.int64),
        detail=np.zeros((0, 0) if detail else 0, np.int64),
    )
    state.sms.index[:] = indices = np.arange(sms)
    state.sms.calls[:] = indices // 64 * WHEEL
    state.sms.me[:] = np.uint64(1) << (indices % 64).astype(np.uint64)
    state.sms.visited[:] = -1
    for s in range(schedulers):
        state.sms.mine[:, s] = sum(1 << slot for slot in range(s, slots, schedulers))
    return state

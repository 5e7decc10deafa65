"""What is configured: one chip with one program loaded (Machine), as a few arrays of records.

`warpsim.simulation.encode` fills it, with the modules that it names. A record has one field a line, with its unit and range. An
array inside a record has a fixed place in it, so that an access is one machine instruction.
"""

from typing import Any, NamedTuple

import numpy as np

from warpsim.engine.constants import CACHE_LINE, MAX_WARPS, MOST_BANKS, OPERAND_SLOTS, Array, Records
from warpsim.jit.handles import handed_on_as_pointer


def in_whole_lines(fields: list[tuple[Any, ...]]) -> np.dtype[Any]:
    """A record whose size is a multiple of a cache line: two of them share no line, and a vector at its begin is on one."""
    used = np.dtype(fields).itemsize
    return np.dtype([*fields, ("unused", "u1", -used % CACHE_LINE)])


CHIP = np.dtype(
    [
        # Size
        ("sms", "i8"),  # SMs that are simulated
        ("of_sms", "i8"),  # SMs of the chip
        ("schedulers", "i8"),  # of an SM, 1..MAX_SCHEDULERS
        ("seats", "i8"),  # resident blocks of an SM
        ("block_warps", "i8"),  # warps of a block
        ("registers", "i8"),  # registers at which some step has to look
        ("most_extra", "i8"),  # the largest entry of `Machine.latency_to`
        # Places of a warp slot
        ("slot_bits", "i8"),  # binary logarithm of the places that the slots of an SM take in arrays, 0..6
        ("scheduler_of", "i8", MAX_WARPS),  # its scheduler
        ("lane_of", "i8", MAX_WARPS),  # its lane at that scheduler
        ("seat_of", "i8", MAX_WARPS),  # its seat
        ("warp_of", "i8", MAX_WARPS),  # the number of its warp in the block
        # Issue
        ("issue_width", "i8"),  # instructions that a warp can issue in one cycle, 1 or 2
        ("interval", "i8"),  # cycles for which a plain step occupies its scheduler
        ("banks", "i8"),  # register banks with a read port each, 1..MOST_BANKS; 0: reads never wait
        ("counters", "i8"),  # dependence counters of a warp that the program names, from the first one on
        ("mbarriers", "i8"),  # of a block, that the program names
        ("tick", "i8"),  # ticks per cycle, such that every interval is a whole number of them
        ("tick_factor", "u8"),  # in place of a division by it: the high half of a product with this number (`units.cycle_of`),
        ("tick_shift", "u8"),  # and the bits by which that is shifted to the right
        ("contended", "i8"),  # of the refusable classes, those that what other schedulers issue can have refused
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
        ("cache_lines", "i8"),  # lines of the instruction cache that the program has, and as many behind it as can be requested
        ("prefetch_cycles", "i8"),  # between two of them
        ("program_end", "i8"),  # the address after the program
        # Blocks
        ("block_launch", "i8"),  # cycles from the retirement of a block to the start of the next one
        ("warp_launch", "i8"),  # cycles by which the warps of a block can issue one after another
        ("blocks", "i8"),  # blocks of the grid; negative: an endless supply
        ("launch_interval", "f8"),  # cycles between the starts of two blocks of the slice
        ("first_start", "i8"),  # cycle at which the blocks of the deal are due
        ("cold_constants", "i8"),  # cycles from an SM's first block until its warps have the constants that they read first
        # Phases of the warps of the deal
        ("iteration", "i8"),  # cycles of one iteration of a warp alone; 0: all warps begin at the start of their programs
        ("before_iteration", "i8"),  # cycles that a warp alone takes to its first iteration
        ("by_block", "i8"),  # 1: all warps of a block have the same phase
        ("barriers", "i8"),  # 1: the program has barriers
        # Lookahead
        ("window", "i8"),  # cycles that every SM runs alone, since no other can affect it in them, 1..LONGEST_WINDOW
        ("store_latency", "i8"),  # cycles in which no store that issues in them can return, 1..window
        ("stores_counted", "i8"),  # 1: dependence counters of the program count stores that drain
        ("stores_pass_bus", "i8"),  # 1: all of these pass the data bus, and return so many cycles later, at least
        ("store_burst", "i8"),  # an SM issues at most so many stores in any time,
        ("store_rate", "f8"),  # and so many more in each of its cycles
        ("span", "i8"),  # cycles from the last arrival at a barrier until it lets warps go, at least, 1..window
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
        ("write_cost", "f8"),  # service of a store on the data bus over that of a load
        ("turnaround", "f8"),  # further service with as many stores as loads, over that of a load
        ("write_burst", "f8"),  # cycles for which a server of stage 2 writes the stores that it has collected, at least
        ("idle", "f8"),  # cycles after its latest request from which a channel is idle
        ("read_delay", "f8"),  # cycles by which a load waits longer with as many stores as loads, at a channel that is not idle
        # Chance
        ("seed", "u8"),  # of the replicate
    ]
)

CLASS = in_whole_lines(
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
        ("dst", "i4"),  # register that is written; negative: none at which a step has to look
        ("operands", "i4"),  # where the registers begin in `Machine.operands` at which it has to look
        ("operands_end", "i4"),  # and where they end
        ("gap", "i4"),  # cycles to the warp's next issue, at least
        ("latency", "i8"),  # cycles from issue to result
        ("unit_ticks", "i8"),  # ticks for which it occupies its unit, or the input of a unit that has a data stage
        ("data_ticks", "i8"),  # ticks for which it occupies the data stage of its unit; 0: it does not pass it
        ("busy", "i8"),  # cycles for which the scheduler is occupied, at least 1
        # Known waits: where the next instruction is certain and waits for this one alone
        ("delay", "i8"),  # cycles from this issue until the next step is eligible; 0: not known
        ("known_wait", "i8"),  # what turns the cycle of an issue, shifted, into that wait (bits.py)
        ("following", "i4"),  # the next step that issues, if it is certain; else negative
        ("next_uses", "i4"),  # what the next step uses
        ("known_dst", "i4"),  # as dst; negative, too, if the next step overwrites the register before anyone else reads it
        ("own_delay", "u2"),  # `delay`, as a time of a lane, of a plain step; else 0
        ("next_delay", "u2"),  # the same of the next step
        ("run", "i4"),  # steps in a row from this one on with its `own_delay` that may issue in a stretch; 0: it may not
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
        ("uses", "u1"),  # what can refuse it: its unit, and the Kind of its access (ACCESS_BITS)
        ("cached", "i1"),  # 1: the reuse cache matters to the program; all steps have the same
        ("needs", "u8"),  # its reads by bank, as times of lanes, if it passes the ports and `cached` is 0
    ]
)

DETAIL = np.dtype(
    [
        ("alone", "i8"),  # cycles from its issue to the next issue of a warp that runs alone
        ("straight_alone", "i8"),  # the same from its issue to the end of the straight code that it belongs to
        ("straight_end", "i4"),  # the last step of that code, which has no barrier and no branch; of these, the step itself
        ("to_barrier", "i4"),  # cycles from its issue to the next barrier or `exit` of its warp, at least, up to LONGEST_WINDOW
        # Of a load or a store
        ("awaited_by", "i4"),  # a load: BY_REGISTER, AT_THE_END, or the dependence counter that counts it
        ("outstanding", "i4"),  # where the loads begin in `Machine.outstanding` that may be under way when it issues
        ("outstanding_end", "i4"),  # and where they end
        ("counted", "i8"),  # what each dependence counter may count then, COUNTED_BITS each
        ("requests", "i8"),
        ("extra", "i8"),  # transactions beyond those of a coalesced access
        ("request_bytes", "f8"),
        ("asked_bytes", "f8"),  # bytes that the threads asked for
        ("slices", "i8"),  # servers of stage 1 among which a request chooses
        ("slice_cycles", "f8"),  # cycles for which a request occupies its server of stage 1
        ("dram_cycles", "f8"),  # the same of stage 2
        ("bus_cycles", "f8"),  # the same of the data bus, which has the sustained rate, where no stores are among the loads
        ("l1_hit", "f8"),  # probability of a hit in L1
        ("l2_hit", "f8"),  # probability of a hit in L1 or L2
        ("l1_late", "f8"),  # cycles for which what L1 serves is still on its way
        ("l2_late", "f8"),  # the same of L2
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


READS = np.dtype(  # of a step: the machine registers that it reads, by operand slot and bank
    [
        ("registers", "u2", OPERAND_SLOTS * MOST_BANKS),  # register + 1, or SEVERAL_REGISTERS; 0: none
        ("needs", "u2", OPERAND_SLOTS * MOST_BANKS),  # cycles of the bank's port, one for each register, as a time of a lane
        ("kept", "u2", OPERAND_SLOTS * MOST_BANKS),  # all bits: the reuse cache is to hold it
    ]
)

MBARRIER = np.dtype(  # of a step: the mbarrier that it names
    [
        ("arrives", "i4"),  # its number where the warp arrives; negative: it does not
        ("awaits", "i4"),  # its number where the warp awaits a phase; negative: it does not
        ("arrivals", "i4"),  # that complete a phase of it
        ("ahead", "i4"),  # phases of it that are complete at the start
        ("reports", "i4"),  # of an asynchronous copy, that at which arrivals of the warp wait for it; negative: none
    ]
)


@handed_on_as_pointer(constant=True)
class Machine(NamedTuple):
    """One chip with one program loaded. Shapes: S steps, C classes, R rows of quantiles.

    `reads`, `hints`, `addresses` and `mbarriers` are None, all four, where nothing of what they serve is needed: register ports,
    hints, fetch, mbarriers, and units of a scheduler that refuse. Numba leaves all of that out then.
    """

    chip: Records  # CHIP[1]
    program: Records  # STEP[S]: what every issue needs
    details: Records  # DETAIL[S]: what accesses, branches and loops need
    operands: Array  # int32[n]: for each step the registers that it names and that may not be ready, those that it reads first
    classes: Records  # CLASS[C]: operation classes
    latency_to: Array  # int64[C * C]: by writer and consumer, the cycles that the consumer sees more than the writer's latency
    refusing: Array  # int64[n]: the classes that are refusable, the contended ones first
    reads: Any  # READS[S or 0]
    hints: Any  # HINT[S or 0]
    addresses: Any  # int32[S, or 0 without fetch]: of a step that issues
    mbarriers: Any  # MBARRIER[S, or 0 without mbarriers]
    quantiles: Array  # float64[R, BINS + 1], cycles
    loads: Array  # float64[R], bytes per cycle at which the rows were measured
    outstanding: Array  # int32[n, 2]: of a slice, for each access: a load, how many of its latest executions may be left
    entries: Array  # int32[n]: the step at which a launched warp starts, by launch number modulo n
    loops: int

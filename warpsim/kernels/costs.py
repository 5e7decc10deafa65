"""What an instruction costs on a chip: the costs of its class, of its conflict and access, and its own (docs/model.md, 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.access import Transactions, conflict_ways, transactions, updates_of_one_address
from warpsim.kernels.instruction import Cost, Instruction
from warpsim.units import (
    ACCESS_KINDS,
    ATOMIC_OPS,
    LINE_BYTES,
    MEMORY_OPS,
    SECTOR_BYTES,
    WARP_LANES,
    gbs_to_bytes_per_cycle,
)

BULK_INTERVAL = Fraction(2)
"""Cycles for which a bulk copy occupies the memory pipeline: as any instruction does (Huerta et al. 2025)."""

_PAST_L1 = 16
"""Bytes per thread of asynchronous copies that go past L1 (CUDA Programming Guide, "Using LDGSTS")."""

_CLASS_COSTS = Cost()


@dataclass(frozen=True)
class Costs:
    """What an instruction costs on a chip.

    Attributes:
        unit_cycles: time for which it occupies its unit, or the input of a unit that has a data stage.
        data_cycles: time for which it occupies the data stage of its unit; 0: it does not pass it.
        latency_cycles: register dependency latency, with that of the conflict; 0 for a load or a store.
        own_latency: whether `latency_cycles` holds for all consumers, so that the `latency_to` of its class does not apply.
        gap_cycles: least distance to the next issue of the same warp.
        taken_gap_cycles: the same, for a taken branch.
        issue_slots: issue slots without reissues.
        reissues: further issue slots, for the conflict and for extra transactions; 0 if the slots are the instruction's own.
        ways: degree of the bank conflict.
        access: what a load or a store costs in the memory system; None for other instructions.
    """

    unit_cycles: Fraction
    data_cycles: Fraction
    latency_cycles: int
    own_latency: bool
    gap_cycles: int
    taken_gap_cycles: int
    issue_slots: int
    reissues: int
    ways: int
    access: Transactions | None


def costs_on(gpu: Gpu, instruction: Instruction) -> Costs:
    """Returns the costs of an instruction, whose class the chip must have."""
    op, own = gpu.ops[instruction.op], instruction.cost or _CLASS_COSTS
    ways, access = conflict_ways(instruction, gpu), access_transactions(gpu, instruction)
    latency = op.latency_cycles + (ways - 1) * op.conflict_latency_cycles
    own_gap = own.gap_cycles if own.gap_ns is None else math.ceil(own.gap_ns * Fraction(str(gpu.clock_ghz)))
    gap = op.gap_cycles if own_gap is None else own_gap
    taken = gap if op.taken_gap_cycles is None or own_gap is not None else op.taken_gap_cycles
    slots, reissues = op.issue_slots, ways - 1 + (access.extra if access else 0)
    passes = _passes(instruction, ways, access) if own.passes is None else own.passes
    interval, data = op.interval_cycles * (passes if instruction.op == "smem" else 1), Fraction(0)
    if gpu.core.replays == "unit":
        reissues, interval = 0, op.interval_cycles
        if own.interval_cycles is None or own.passes is not None:
            passing, filling = gpu.core.pass_cycles * passes, _fill_cycles(gpu, instruction, access)
            data = max(passing, filling) if _goes_past_l1(instruction) else passing + filling
    if own.multiply_adds is not None:
        interval = matrix_interval(gpu, instruction.op, own)
        latency = max(latency, math.ceil(interval))
    if own.issue_slots is not None:
        slots, reissues = own.issue_slots, 0
    return Costs(
        unit_cycles=interval if own.interval_cycles is None else own.interval_cycles,
        data_cycles=data,
        latency_cycles=latency if own.latency_cycles is None else own.latency_cycles,
        own_latency=own.latency_cycles is not None,
        gap_cycles=gap,
        taken_gap_cycles=taken,
        issue_slots=slots,
        reissues=reissues,
        ways=ways,
        access=access,
    )


def data_stage(unit: str) -> str:
    """Returns the name of the data stage of a unit, as one of an SM's resources."""
    return f"{unit} data stage"


def matrix_interval(gpu: Gpu, op: str, cost: Cost) -> Fraction:
    """Returns for how long a matrix instruction with its own multiply-adds occupies its unit.

    Raises:
        InvalidPoint: the chip has no such matrix instructions.
    """
    assert cost.multiply_adds is not None and cost.operands is not None
    rates = gpu.ops[op].rates
    if cost.operands not in rates:
        known = f"; it has {', '.join(rates)}" if rates else ""
        raise InvalidPoint(f"cost.operands = {cost.operands!r}: {gpu.name} has no such matrix instructions, class {op}{known}")
    return cost.multiply_adds / rates[cost.operands]


def _passes(instruction: Instruction, ways: int, access: Transactions | None) -> Fraction:
    """Returns the passes of an access in its data stage: one for each way of a conflict, or for each line and for each 128 bytes.

    An asynchronous copy has as many again, for what it writes to shared memory, unless it goes past L1.
    """
    if access is None:
        return Fraction(ways if instruction.op == "smem" else 0)
    passes = max(Fraction(access.requests), Fraction(access.requested_bytes, LINE_BYTES))
    return 2 * passes if instruction.op == "async_copy" and not _goes_past_l1(instruction) else passes


def _goes_past_l1(instruction: Instruction) -> bool:
    """Returns whether an instruction copies 16 bytes per thread past L1, straight into shared memory."""
    return instruction.op == "async_copy" and instruction.access is not None and instruction.access.bytes_per_thread == _PAST_L1


def _fill_cycles(gpu: Gpu, instruction: Instruction, access: Transactions | None) -> Fraction:
    """Returns for how long L1, or shared memory, takes in what a load gets from L2, on average, in quarters of a cycle."""
    if gpu.core.fill_bytes is None or access is None or instruction.access is None or ACCESS_KINDS[instruction.op] == "store":
        return Fraction(0)
    filled = (1.0 - instruction.access.l1_hit) * access.requests * access.bytes_per_request
    return Fraction(round(4 * filled / gpu.core.fill_bytes), 4)


def slices_of(gpu: Gpu, op: str, access: Transactions) -> tuple[int, float]:
    """Returns what an access of a class asks of the first stage of memory (docs/model.md, section 5).

    That is among how many slices of L2 each of its requests chooses, and for how many cycles the request occupies its slice.
    """
    memory, queue = gpu.memory, gpu.memory.queue
    rate = gbs_to_bytes_per_cycle(queue.crossbar_gbs, gpu.clock_ghz) / queue.crossbar_servers
    read = access.bytes_per_request * (1.0 - access.l2_coalesced)
    cycles = max(read / rate, access.updates * (memory.atomic_interval_cycles or 0.0))
    if ACCESS_KINDS[op] == "store":
        port = memory.port_cycles(gpu.clock_ghz)
        if access.contended_addresses and memory.atomic_interval_cycles is not None:
            port = min(port, memory.atomic_interval_cycles)
        cycles = max(cycles, access.port_sectors * port)
    return min(access.contended_addresses or queue.crossbar_servers, queue.crossbar_servers), cycles


def l2_cycles(gpu: Gpu, instruction: Instruction, access: Transactions) -> float:
    """Returns for how long a load or a store occupies the slices of L2 that it can choose, if it misses L1, in cycles.

    It is 0 where the chip does not state the latency of its L2.
    """
    if gpu.memory.l2_latency_cycles is None:
        return 0.0
    slices, cycles = slices_of(gpu, instruction.op, access)
    return access.requests * cycles / slices


def access_transactions(gpu: Gpu, instruction: Instruction) -> Transactions | None:
    """Returns what the access of a load or a store costs in the memory system; None for other instructions."""
    if instruction.op not in MEMORY_OPS or instruction.access is None:
        return None
    own = instruction.cost or _CLASS_COSTS
    if own.requests is None or own.bytes_per_request is None:
        counted = transactions(instruction.access, gpu)
        if own.port_sectors is not None:
            counted = replace(counted, port_sectors=own.port_sectors)
    else:
        asked = WARP_LANES * instruction.access.bytes_per_thread
        ports = own.port_sectors or own.bytes_per_request / SECTOR_BYTES
        counted = Transactions(own.requests, 0, own.requests, own.bytes_per_request, asked, ports)
    if instruction.op in ATOMIC_OPS:
        updates: float = updates_of_one_address(instruction.access) if own.updates is None else own.updates
        if own.update_intervals is not None:
            updates *= own.update_intervals
        counted = replace(counted, updates=updates, contended_addresses=instruction.access.contended_addresses or 0)
    if instruction.access.l2_coalesced:
        counted = replace(counted, l2_coalesced=instruction.access.l2_coalesced)
    return counted if own.requested_bytes is None else replace(counted, requested_bytes=own.requested_bytes)

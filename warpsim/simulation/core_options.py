"""Encodes what a program says to the options of a core, register ports, fetch and hints, and of its mbarriers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.constants import LANE_BITS, LINE_BITS, MOST_BANKS, OPERAND_SLOTS, RANK_BITS, SEVERAL_REGISTERS, Array, Records
from warpsim.engine.machine import HINT, MBARRIER, READS
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import Hints
from warpsim.kernels.program import Kernel
from warpsim.kernels.register_reads import register_reads
from warpsim.kernels.steps import FlatProgram, Step


def encode_reads(program: FlatProgram, gpu: Gpu) -> Records:
    """Returns the machine registers that each step reads; none where the register ports hold nobody.

    They hold nobody where no instruction names a register, or where a scheduler issues one instruction a cycle, of which none
    reads a bank twice: each bank is then free again when the next instruction comes to the ports.
    """
    reads = np.zeros(len(program.steps), READS).view(np.recarray)
    none = np.zeros(0, READS).view(np.recarray)
    if gpu.core.register_banks is None:
        return none
    for record, step in zip(reads, program.steps, strict=True):
        for slot, read in register_reads(step.instruction.reads if step.instruction is not None else ()):
            for number in range(read.first, read.first + read.registers):
                place = slot * MOST_BANKS + number % gpu.core.register_banks
                record["registers"][place] = number + 1 if read.registers == 1 else SEVERAL_REGISTERS
                record["needs"][place] += 1 << RANK_BITS
                record["kept"][place] = 0xFFFF if read.reuse else 0
    twice = (reads_of_banks(reads) > 1).any()
    return reads if twice or (gpu.issue.width > 1 and reads["registers"].any()) else none


def reads_of_banks(reads: Records) -> NDArray[np.int64]:
    """Returns how many registers of each bank a step reads; int64[S, MOST_BANKS]."""
    found: NDArray[np.int64] = (reads["needs"] >> RANK_BITS).reshape(-1, OPERAND_SLOTS, MOST_BANKS).sum(axis=1, dtype=np.int64)
    return found


def needs_of_ports(reads: Records) -> tuple[bool, NDArray[np.int64]]:
    """Returns whether the reuse cache matters to a program, and the ports that each step needs if not: `needs` of STEP.

    It does not matter where no step reads what another one has it hold, of the same bank and operand slot.
    """
    held, read = ((reads[name] > 0).any(axis=0) for name in ("kept", "registers"))
    return bool((held & read).any()), (reads_of_banks(reads) << LANE_BITS * np.arange(MOST_BANKS) + RANK_BITS).sum(axis=1)


def encode_addresses(program: FlatProgram, gpu: Gpu, chip: Array) -> Array:
    """Returns the address of each step that issues, and fills in the fields of CHIP about fetch; none without fetch."""
    fetch, issues = gpu.core.fetch, np.array([step.instruction is not None for step in program.steps])
    if fetch is None:
        return np.zeros(0, np.int32)
    record = chip[0]
    record["buffer"], record["stages"], record["lines"] = fetch.buffer, fetch.stages, fetch.lines
    record["line_share"], record["miss"] = -(-(1 << LINE_BITS) // fetch.line_instructions), fetch.miss_cycles
    record["prefetch_lines"], record["prefetch_cycles"] = fetch.prefetch_lines, fetch.prefetch_cycles
    record["program_end"] = np.count_nonzero(issues)
    record["cache_lines"] = -(-record["program_end"] // fetch.line_instructions) + fetch.prefetch_lines
    addresses: Array = (np.cumsum(issues) - issues).astype(np.int32)
    return addresses


def encode_mbarriers(program: FlatProgram, kernel: Kernel) -> Records:
    """Returns the MBARRIER record of each step; none where no instruction names an mbarrier."""
    numbers = {mbarrier.name: number for number, mbarrier in enumerate(kernel.mbarriers)}
    named = any(step.instruction is not None and step.instruction.names_mbarrier for step in program.steps)
    records = np.zeros(len(program.steps) if named else 0, MBARRIER).view(np.recarray)
    records["arrives"] = records["awaits"] = records["reports"] = -1
    for record, step in zip(records, program.steps, strict=False):
        one = step.instruction
        if one is None:
            continue
        if one.reports_to is not None:
            record["reports"] = numbers[one.reports_to]
        for role in ("arrives", "awaits"):
            if (name := getattr(one, role)) is not None:
                record[role], facts = numbers[name], kernel.mbarriers[numbers[name]]
                record["arrivals"], record["ahead"] = facts.arrivals, facts.ahead
    return records


def hints_of(step: Step) -> Hints | None:
    """Returns the hints of a step, if it has any."""
    return None if step.instruction is None else step.instruction.hints


def awaited_registers(program: FlatProgram) -> dict[int, int]:
    """Returns a number for each register for which a step can wait: one that is written, and that a step without hints names."""
    awaited = {r for step in program.steps if hints_of(step) is None for r in (*step.src, step.dst)}
    return {r: place for place, r in enumerate(sorted(awaited & program.written))}


def encode_hints(program: FlatProgram, gpu: Gpu) -> Records:
    """Returns the HINT record of each step; none where no instruction has hints."""
    given = [hints_of(step) for step in program.steps]
    records = np.zeros(len(given) if any(hints is not None for hints in given) else 0, HINT).view(np.recarray)
    for record, step, hints in zip(records, program.steps, given, strict=False):
        record["write"] = record["read"] = -1
        if hints is not None and step.instruction is not None:
            record["waits"], record["at_most"] = sum(1 << counter for counter in set(hints.waits)), hints.at_most
            record["write"], record["read"] = (-1 if counter is None else counter for counter in (hints.write, hints.read))
            record["operands"] = gpu.ops[step.instruction.op].operand_cycles
    for counter in {counter for hints in given if hints is not None and hints.at_most for counter in hints.waits}:
        records["partial"][records["write"] == counter] = 1
    return records

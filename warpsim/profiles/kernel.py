"""The kernel of a profiled launch: structure from counts, dependences from control fields, costs from counters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.flow import Flow, make_flow
from warpsim.frontends.machine_code.opcode_costs import AFTER, MEETS, gap_after, in_quarters, unit_costs
from warpsim.frontends.machine_code.opcodes import ASSUMED_SLEEP_NS, MATRIX_OPS, matrix_work, notes_of_unlisted, opcodes, sleep_ns
from warpsim.frontends.machine_code.operands import conditions, register_slots
from warpsim.frontends.machine_code.sass import MachineFunction, MachineInstruction
from warpsim.frontends.machine_code.symbols import plain_name
from warpsim.frontends.program.structure import Structure
from warpsim.frontends.waits.async_copies import counter_and_left, is_past_l1, role_of
from warpsim.frontends.waits.dependences import waits_of
from warpsim.frontends.waits.sequence import in_order
from warpsim.hardware.gpu import Gpu
from warpsim.kernels.instruction import MOST_COUNTED, OPS_WITHOUT_RESULT, Access, Cost, Hints, Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop, Statement
from warpsim.profiles.code import machine_function
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.flows import Flows
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch
from warpsim.profiles.measured import warps_of_block
from warpsim.profiles.traffic import SECTORS_BY_INSTRUCTION, Traffic, asked_bytes, missing_accesses, passes_of_l1, traffic
from warpsim.profiles.updates import updates
from warpsim.units import ACCESS_KINDS, ACCESSING_OPS, ATOMIC_OPS, LINE_BYTES, MEMORY_OPS, SECTOR_BYTES, WARP_LANES

L1_BYTES_PER_CYCLE = 128
"""Bytes that L1 or shared memory gives an SM in a cycle (CUDA C Programming Guide: 32 banks of 4 bytes)."""

_TOLERANCE = 0.01

_LOCAL = ("LDL", "STL")
"""Accesses to local memory."""

_GENERIC, _SHARED = ("LD", "ST", "ATOM"), 16
"""Accesses to the generic address space, and what the report's `memory_type` is of those that reach shared memory."""

_SHARED_WAVEFRONTS = "memory_l1_wavefronts_shared"
"""Passes of an instruction in shared memory."""

_LEAST_SHARE, _MOST_SHARE = 0.25, 2.0
"""Bounds of the ratio of the passes that are counted in sum to those of lines and bytes."""

_COPIES = 0
"""The dependence counter of a warp's asynchronous copies."""

_PORTED = ("fp32", "multiply", "integer", "half", "group_tensor")
"""Families whose operands pass the read ports of the register file one register at a time."""

_GIVES_WAY = 13
"""Where the parts of a warp meet, each executes the instruction, and one that is not the last gives way to another, which resumes
where it was. The one has come by a jump, 4 cycles, and the other is as late as after the meeting, 9 cycles: in launches whose
parts separate, an instruction that a branch falls through to comes 4 to 13 cycles late (A100, A40:
experiments/profiles/waits.py)."""

_OF_PARTS, _SEPARATES = {"BREAK": 4, "YIELD": 30}, 1.2
"""Opcode -> cycles from the end of its stall count to the next issue, in kernels of which a meeting is executed so many times as
often as warps come to it, or more. `BREAK` costs 4 cycles, and behind `YIELD`, within eight instructions, warps mostly wait
for 30 to 90 (A100: experiments/profiles/waits.py)."""


@dataclass(frozen=True)
class Replayed:
    """A kernel, and what the conversion had to assume: `notes`."""

    kernel: Kernel
    notes: tuple[str, ...]


def to_kernel(
    launch: ProfiledLaunch, gpu: Gpu, arch: int | None = None, l1_hit: float | None = None, l1_misses: float = 1.0
) -> Replayed:
    """Returns the kernel of a launch for a chip that can execute its machine code.

    Args:
        launch: the launch.
        gpu: the chip.
        arch: compute capability times ten by which units have rates; None: that of the launch.
        l1_hit: share of the sectors of loads that L1 holds, as in `traffic`; None: that of the launch.
        l1_misses: factor of the misses of L1.

    Raises:
        ProfileError: the report lacks what is needed, or the kernel's flow is not supported.
    """
    function = machine_function(launch)
    try:
        flow = make_flow(function)
        waits = waits_of(flow)
    except FrontEndError as error:
        raise ProfileError(f"{launch.report}, launch {launch.number}: {error}") from None
    flows = Flows(flow, [one.executed for one in launch.code], [_share(one) for one in launch.code])
    if not flows.counts.get(0):
        raise ProfileError(f"{launch.report}, launch {launch.number}: the first instruction was never executed")
    emitter = _Emitter(launch, flow, waits, gpu, flows, launch.arch if arch is None else arch, traffic(launch, l1_hit, l1_misses))
    one = np.ones(1)
    shape = Structure(
        flow,
        {block: count * one for block, count in flows.counts.items()},
        {loop: count * one for loop, count in flows.entries.items()},
        one,
        None,
        lambda block, _: emitter.block(block),
        tolerance=_TOLERANCE,
        specialised=warps_of_block(launch) if emitter.partial_barriers else 0,
    )
    body = shape.body()
    kernel = Kernel(
        name=plain_name(launch.name),
        title=f"{launch.title[:200]}, profiled",
        source=launch.report,
        registers_per_thread=min(255, max(1, function.registers)),
        shared_bytes_per_block=round(launch.get("launch__shared_mem_per_block_static") or 0)
        + round(launch.get("launch__shared_mem_per_block_dynamic") or 0),
        inputs=tuple(emitter.registers),
        body=tuple(body or [Instruction("branch")]),
    )
    return Replayed(kernel, tuple(dict.fromkeys((*shape.notes, *emitter.notes()))))


def _partial_barriers(launch: ProfiledLaunch, function: MachineFunction) -> frozenset[int]:
    """Returns the barriers that fewer threads than a block has come to: some warps have tasks of their own."""
    found = {}
    for index, one in enumerate(function.code):
        if one.base == "BAR" and (stated := re.fullmatch(r"\S+, (0x[0-9a-f]+|\d+)", one.operands)):
            found[index] = -(-int(stated[1], 0) // WARP_LANES)
    return frozenset(index for index, warps in found.items() if warps < warps_of_block(launch))


def copies_of_group(launch: ProfiledLaunch, flow: Flow) -> float:
    """Returns the mean number of a warp's asynchronous copies (LDGSTS) in a group (LDGDEPBAR); 0 where there are no groups."""
    counts = {"copy": 0, "commit": 0}
    for one, counted in zip(flow.function.code, launch.code, strict=True):
        if (role := role_of(one)) in counts:
            counts[role] += counted.executed
    return counts["copy"] / counts["commit"] if counts["commit"] else 0.0


def _share(one: ProfiledInstruction) -> float:
    """Returns the share of the threads that the guard lets through."""
    threads = one.counts.get("thread_inst_executed") or 32.0 * one.executed
    return min(1.0, one.counts.get("thread_inst_executed_true", 0.0) / threads) if threads else 1.0


class _Emitter:
    """Makes the instructions of blocks."""

    def __init__(
        self,
        launch: ProfiledLaunch,
        flow: Flow,
        waits: dict[tuple[int, int], tuple[int, ...]],
        gpu: Gpu,
        flows: Flows,
        arch: int,
        of_accesses: Traffic,
    ) -> None:
        self.launch, self.flow, self.waits, self.gpu, self.flows, self.arch = launch, flow, waits, gpu, flows, arch
        self.table, self.traffic, self.updates = opcodes(), of_accesses, updates(launch)
        self.available = frozenset(gpu.ops)
        self.registers = [f"v{index}" for index in sorted({writer for writers in waits.values() for writer in writers})]
        self.known = frozenset(self.registers)
        self.kinds: set[str] = set()
        self.unlisted: Counter[tuple[str, str]] = Counter()
        self.separates = flows.most_repeats(MEETS) >= _SEPARATES
        self.copies_of_group = copies_of_group(launch, flow)
        self.share_of_passes = self._share_of_passes()
        self.partial_barriers = _partial_barriers(launch, flow.function)
        commits = (one.control for one in flow.function.code if role_of(one) == "commit")
        self.counters_of_groups = frozenset(control.write for control in commits if control is not None)

    def notes(self) -> list[str]:
        """Returns what was assumed of opcodes, barriers and accesses."""
        tasks = "warps of a block have tasks of their own: nobody waits at a barrier of some of them, or for what others copy"
        return [
            *notes_of_unlisted(self.unlisted),
            *([tasks] if self.partial_barriers else []),
            *missing_accesses(self.launch, "load" in self.kinds, "store" in self.kinds),
        ]

    def block(self, number: int) -> list[Statement]:
        """Returns the instructions of a block."""
        found: list[Statement] = []
        code = self.flow.function.code
        made = in_order(
            [index for index in self.flow.blocks[number].code if code[index].base != "EXIT" or conditions(code[index])],
            waited=lambda index: tuple(f"v{writer}" for writer in self.waits.get((number, index), ())),
            hints=lambda index: self._hints(code[index]),
            make=lambda index, sources: self._instruction(index, code[index], sources),
        )
        for index, one in made:
            parts = self.flows.repeats(number, index) if code[index].base == MEETS else 1.0
            found.append(_by_parts(one, min(parts, float(WARP_LANES))))
        return found

    def _hints(self, one: MachineInstruction) -> Hints | None:
        """Returns the hints of an asynchronous copy, or of a wait for all but the latest groups of them; otherwise None."""
        role = role_of(one) if self.copies_of_group else None
        if role == "copy":
            return Hints(write=_COPIES)
        if role != "wait" or counter_and_left(one)[0] not in self.counters_of_groups:
            return None
        left = round(counter_and_left(one)[1] * self.copies_of_group)
        return Hints(waits=(_COPIES,), at_most=left) if left <= MOST_COUNTED else None

    def _instruction(self, index: int, one: MachineInstruction, sources: tuple[str, ...]) -> Instruction:
        family, listed = self.table.family(one)
        if not listed:
            self.unlisted[one.base, family] += 1
        counted = self.launch.code[index]
        if _reaches_shared_memory(one, counted):
            family = "shared"
        op = "branch" if index in self.partial_barriers else self.table.operation(family, self.available)
        if op in ACCESSING_OPS and one.guard and not counted.counts.get("thread_inst_executed_true"):
            op, family = self.table.operation("integer", self.available), "integer"  # off for all threads: it accesses nothing
        cost: dict[str, object] = {}
        if op == "sleep":
            cost["gap_ns"] = sleep_ns(one) or ASSUMED_SLEEP_NS
        elif one.control is not None and family != "fence":
            cost["gap_cycles"] = gap_after(one, AFTER | _OF_PARTS if self.separates else AFTER)
        if op in MATRIX_OPS and (work := matrix_work(one)) is not None and work[1] in self.gpu.ops[op].rates:
            cost |= {"multiply_adds": work[0], "operands": work[1]}
        cost |= unit_costs(one, self.arch, self.gpu.ops[op].interval_cycles)
        fields: dict[str, object] = {"src": () if op == "barrier" else sources, "comment": self._comment(one, counted)}
        if f"v{index}" in self.known and op not in OPS_WITHOUT_RESULT:
            fields["dst"] = f"v{index}"
        if family in _PORTED:
            fields["reads"] = _reads(one)
        if op in MEMORY_OPS:
            self._access(one, op, counted, fields, cost)
        elif family == "shared":
            self._shared(counted, op, cost)
        return Instruction(op, **fields, cost=Cost(**cost) if cost else None)  # type: ignore[arg-type]

    def _comment(self, one: MachineInstruction, counted: ProfiledInstruction) -> str:
        return f"{counted.address:#06x} {counted.text or one.text}"

    def _access(
        self, one: MachineInstruction, op: str, counted: ProfiledInstruction, fields: dict[str, object], cost: dict[str, object]
    ) -> None:
        """Adds requests, bytes, hits and the time of the load-store unit."""
        of = self.traffic
        if one.base not in _LOCAL and counted.executed:
            self.kinds.add(ACCESS_KINDS[op])
        loads, cached = ACCESS_KINDS[op] == "load", op not in ATOMIC_OPS
        sectors, tags, asked = self._asked(one, counted, loads=loads)
        cost["issue_slots"] = 1  # since Volta, further passes take no issue slots
        if one.base in _LOCAL or not sectors:
            sectors, tags = max(1.0, asked / SECTOR_BYTES), max(1.0, asked / LINE_BYTES)
            loaded = of.local_hit, tags, sectors * SECTOR_BYTES * of.load_excess
        else:
            sectors = max(0.5, sectors)
            loaded = of.loaded(sectors, tags, asked)
        if loads:
            hit, lines, moved = loaded
            fields["access"] = Access(
                bytes_per_thread=16 if is_past_l1(one) else 4,
                l1_hit=hit if cached else 0.0,
                l2_hit=of.load_l2_hit,
                l2_coalesced=of.coalesced if cached else 0.0,
            )
        else:
            lines, (moved, taken_in) = tags, of.stored(sectors, tags, asked)
            fields["access"] = Access(l2_hit=of.store_l2_hit)
        if not cached and self.updates.addresses is not None:
            fields["access"] = self.updates.access()
        requests = max(1, round(lines))
        cost["requests"], cost["requested_bytes"] = requests, max(1, round(asked))
        cost["bytes_per_request"] = _rounded(moved / requests)
        if not loads:
            cost["port_sectors"] = _rounded(taken_in / requests)
        passes = self.share_of_passes * max(tags, asked / L1_BYTES_PER_CYCLE)
        if role_of(one) == "copy":  # it is written to shared memory
            written = counted.counts.get(_SHARED_WAVEFRONTS, 0.0) / max(1, counted.executed)
            passes = (written or passes) if is_past_l1(one) else passes + written
        cost["passes"] = in_quarters(passes)

    def _asked(self, one: MachineInstruction, counted: ProfiledInstruction, *, loads: bool) -> tuple[float, float, float]:
        """Returns the sectors, lines and bytes of an execution of an access. Local memory is interleaved by threads."""
        times, of, asked = max(1, counted.executed), self.traffic, asked_bytes(counted)
        if one.base in _LOCAL:
            return asked / times / SECTOR_BYTES, asked / times / LINE_BYTES, asked / times
        sectors = counted.counts.get(SECTORS_BY_INSTRUCTION, 0.0) / times or (of.load_sectors if loads else of.store_sectors)
        lines = counted.counts.get("memory_l1_tag_requests_global", 0.0) / times or sectors / of.line_sectors
        return sectors, lines, asked / times

    def _share_of_passes(self) -> float:
        """Returns the passes of L1 that are counted in sum over those of the lines and bytes of all accesses.

        Lines of one access can pass together if no bank of L1 has words of both, and a line with several words in a bank needs
        more passes than one.
        """
        counted_in_sum, of_lines = passes_of_l1(self.launch), 0.0
        for one, counted in zip(self.flow.function.code, self.launch.code, strict=True):
            op = self.table.operation(self.table.family(one)[0], self.available)
            if op in MEMORY_OPS and not (_reaches_shared_memory(one, counted) or is_past_l1(one)):
                _, lines, asked = self._asked(one, counted, loads=ACCESS_KINDS[op] == "load")
                of_lines += counted.executed * max(lines, asked / L1_BYTES_PER_CYCLE)
        share = counted_in_sum / of_lines if counted_in_sum and of_lines else 1.0
        return min(_MOST_SHARE, max(_LEAST_SHARE, share))

    def _shared(self, counted: ProfiledInstruction, op: str, cost: dict[str, object]) -> None:
        """Adds the passes in shared memory: one for each wavefront."""
        wavefronts = counted.counts.get(_SHARED_WAVEFRONTS, 0.0) / max(1, counted.executed)
        cost["issue_slots"] = 1
        if wavefronts:
            cost["passes"] = in_quarters(wavefronts)
        cost["latency_cycles"] = self.gpu.ops[op].latency_cycles + max(0, round((wavefronts - 1) * self.gpu.core.pass_cycles))


def _rounded(mean: float) -> float:
    """Returns a mean over requests, as a cost takes it; counters of different passes of the profiler may leave nothing of it."""
    return max(0.001, round(mean, 3))


def _reaches_shared_memory(one: MachineInstruction, counted: ProfiledInstruction) -> bool:
    """Returns whether an access to the generic address space was one to shared memory."""
    return one.base in _GENERIC and counted.counts.get("memory_type") == _SHARED


def _by_parts(meeting: Instruction, parts: float) -> Statement:
    """Returns the meeting of so many parts of a warp on average; each takes the same time."""
    if parts <= 1.0 or meeting.cost is None or meeting.cost.gap_cycles is None:
        return meeting
    times = round(parts)
    gap = round((parts * meeting.cost.gap_cycles + (parts - 1.0) * _GIVES_WAY) / times)
    one = meeting.model_copy(update={"cost": meeting.cost.model_copy(update={"gap_cycles": gap})})
    return Loop(body=(one,), trips=times) if times > 1 else one


def _reads(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the machine registers in the operand slots of an instruction, with the marks of the reuse cache."""
    kept = one.control.reuse if one.control else 0
    names = (name.removesuffix(".reuse") for name in register_slots(one))
    return tuple(f"{name}.reuse" if name and ":" not in name and kept >> slot & 1 else name for slot, name in enumerate(names))

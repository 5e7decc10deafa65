"""One iteration of a kernel: which instructions a warp executes, how often, and how long each takes a warp that runs alone.

An iteration is the body of the endless loop in which the kernel ends, or else the whole program, since then a block follows
the other. docs/model.md, section 4, starts the warps of an endless run at random times of an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from warpsim.hardware.gpu import Gpu
from warpsim.kernels.costs import Costs, costs_on
from warpsim.kernels.instruction import Access, Instruction
from warpsim.kernels.program import Kernel, barriers_not_reached_by_all
from warpsim.kernels.statements import Loop, Statement
from warpsim.kernels.traversal import expected_executions, expected_trips, leaving, walk
from warpsim.units import ACCESS_KINDS, COALESCED_BYTES, MEMORY_OPS

MOST_CYCLES = 1 << 20
"""Cycles of an iteration over which warps are spread, at most."""

MOST_STORES = 8
"""Stores for each load of DRAM up to which slices of a chip were compared with whole chips (docs/validity.md)."""

END = "end"
"""Place of the `exit` with which every program ends."""


@dataclass(frozen=True)
class Iteration:
    """One iteration of a kernel on a chip.

    Attributes:
        alone: place of an instruction, as `walk` yields it, or END -> cycles from its issue to the next issue of a warp that
            runs alone. A conditional stands for its branch.
        before_cycles: mean time alone of what a warp executes before its first iteration.
        cycles: mean time alone of an iteration, from 1 to MOST_CYCLES.
        by_block: whether the warps of a block run in step: the kernel ends, so that they start together, or has barriers.
        barriers: whether the kernel has barriers, and all warps of a block reach them.
    """

    alone: dict[str, int]
    before_cycles: int
    cycles: int
    by_block: bool
    barriers: bool


def iteration(gpu: Gpu, kernel: Kernel, memory: str) -> Iteration:
    """Returns the iteration of a kernel on a chip, for a memory model.

    A warp alone issues an instruction once the gap of the one before has passed and all its registers are ready; a load takes
    its mean unloaded latency. Loops are walked twice, so that results of one repetition count for the next; where an
    instruction has several successors, the last one walked counts.
    """
    walker = _Alone(gpu, memory)
    for (first, path), share in zip(kernel.paths(), kernel.shares(), strict=True):
        walker.restart()
        coming = walker.follow(path, "body", share, first)
    if not kernel.endless:
        walker.issue(END, Instruction("exit"), coming)
    walker.alone.setdefault(END, 1)
    loop = f"body[{len(kernel.body) - 1}]." if kernel.endless else ""
    cycles = {True: 0.0, False: 0.0}
    for place, times in walker.times.items():
        cycles[place.startswith(loop)] += times * walker.alone.get(place, 1)
    barriers = "barrier" in kernel.ops and not barriers_not_reached_by_all(kernel)
    return Iteration(
        alone={place: walker.alone.get(place, 1) for place in (*walker.times, END)},
        before_cycles=math.floor(cycles[False] + 0.5),
        cycles=min(max(1, math.floor(cycles[True] + 0.5)), MOST_CYCLES),
        by_block=barriers or not kernel.endless,
        barriers=barriers,
    )


def iteration_instructions(kernel: Kernel, block_warps: int | None = None) -> float:
    """Returns the expected number of warp instructions of an iteration, with the `exit` of a program that ends.

    Without the warps of a block, one half of them is taken to execute each side of what their place in the block decides.
    """
    ends = () if kernel.endless else (Instruction("exit"),)
    return sum(times for _, times in _expected(kernel, block_warps, ends))


def loaded_cycles(gpu: Gpu, kernel: Kernel, warps: int) -> float:
    """Returns the approximate time of an iteration at an occupancy in warps per SM, by the bound on throughput (V 4.2)."""
    return warps * iteration_instructions(kernel) / ipc_bound(gpu, kernel, warps)


def ipc_bound(gpu: Gpu, kernel: Kernel, warps: int) -> float:
    """Returns an approximate upper bound on the instructions per cycle and SM of a kernel at an occupancy in warps per SM."""
    weights: dict[str, float] = {}
    for instruction, times in _expected(kernel):
        weights[instruction.op] = weights.get(instruction.op, 0.0) + times
    total = sum(weights.values()) or 1.0
    latency, bounds = 0.0, [gpu.issue_ipc * gpu.issue.width]
    for op, times in weights.items():
        share = times / total
        if not share or op not in gpu.ops:
            continue
        bounds.append(gpu.unit_ipc(op) / share)
        latency += share * (gpu.memory.latency_cycles if ACCESS_KINDS.get(op) == "load" else max(1, gpu.ops[op].latency_cycles))
    accesses = sum(weights.get(op, 0.0) for op in MEMORY_OPS) / total
    if accesses:
        bounds.append(gpu.bandwidth_bytes_per_cycle / gpu.sms / (COALESCED_BYTES * accesses))
    return min([*bounds, warps / max(latency, 1.0)])


def stores_run_free(kernel: Kernel) -> bool:
    """Returns whether there are more than MOST_STORES stores in a kernel for each load of DRAM, for which a warp waits.

    A store waits for nothing but room in the memory system, so that nothing ties the stores of echoes to those of a slice.
    """
    return stores_for_each_load(kernel) > MOST_STORES


def stores_for_each_load(kernel: Kernel) -> float:
    """Returns the stores of a kernel for each load that DRAM serves."""
    loads = stores = 0.0
    for instruction, times in _expected(kernel):
        if instruction.access is not None and ACCESS_KINDS.get(instruction.op) == "load":
            loads += times * (1 - instruction.access.l1_hit) * (1 - instruction.access.l2_hit)
        elif ACCESS_KINDS.get(instruction.op) == "store":
            stores += times
    return stores / loads if loads else math.inf if stores else 0.0


def _expected(
    kernel: Kernel, block_warps: int | None = None, ends: tuple[Instruction, ...] = ()
) -> Iterator[tuple[Instruction, float]]:
    """Yields instructions with the expected executions in an iteration; `ends` follow the program, as its `exit` does."""
    last = kernel.body[-1] if kernel.body else None
    if isinstance(last, Loop) and last.trips is None:
        yield from expected_executions(last.body, block_warps)
        return
    paths = [path for _, path in kernel.paths()]
    for path, share in zip((*paths[:-1], (*paths[-1], *ends)), kernel.shares(), strict=True):
        yield from ((instruction, times * share) for instruction, times in expected_executions(path, block_warps))


class _Alone:
    """A warp that walks a program alone.

    Attributes:
        alone: place -> cycles to the next issue.
        times: place -> expected executions in a program, or in an endless loop per repetition.
    """

    def __init__(self, gpu: Gpu, memory: str) -> None:
        self.gpu, self.memory = gpu, memory
        self.alone: dict[str, int] = {}
        self.times: dict[str, float] = {}
        self.last: str | None = None  # place of the last issue
        self.issued = self.gap_end = 0  # its cycle, and the end of its gap
        self.written: dict[str, tuple[dict[str, int], int]] = {}  # register -> `latency_to` of its writer, and when it is ready
        self.counted: dict[int, list[int]] = {}  # dependence counter -> until when it counts each instruction
        # By the id of an instruction, because kernels repeat few; it is kept, so that no other one gets its id.
        self.costs: dict[int, tuple[Instruction, Costs, int]] = {}

    def restart(self) -> None:
        """Goes to the start of a program, where all registers are ready."""
        self.last, self.issued, self.gap_end = None, 0, 0
        self.written.clear()
        self.counted.clear()

    def follow(self, statements: tuple[Statement, ...], path: str, times: float, first: int = 0) -> float:
        """Executes statements, of which the first one has a number at its place. Returns how often a warp comes to their end."""
        for index, statement in enumerate(statements, first):
            here = f"{path}[{index}]"
            if isinstance(statement, Instruction):
                self.issue(here, statement, times)
            elif isinstance(statement, Loop):
                trips = expected_trips(statement)
                if trips > 1.0 or statement.trips is None:
                    self.follow(statement.body, f"{here}.body", times * trips)
                self.follow(statement.body, f"{here}.body", times * trips)
                if trips > 1.0:
                    self.last = None  # the way back counts for the last instruction of a loop
            else:
                self.issue(here, statement.branch, times)
                then, orelse = statement.sides()
                self.follow(statement.then, f"{here}.then", times * then)
                self.follow(statement.orelse, f"{here}.orelse", times * orelse)
            if not isinstance(statement, Instruction):
                times *= 1.0 - leaving((statement,))
        return times

    def issue(self, place: str, instruction: Instruction, times: float) -> None:
        """Issues an instruction as soon as its registers and the gap allow."""
        if instruction.op not in self.gpu.ops:
            return  # the chip cannot run the kernel; the encoder says so
        cost, latency = self.costs_of(instruction)
        now, hints = self.gap_end, instruction.hints
        for register in (*instruction.src, instruction.dst) if hints is None else ():
            if register in self.written:
                extra, ready = self.written[register]
                now = max(now, ready + extra.get(instruction.op, 0))
        if hints is not None:
            for counter in hints.waits:
                counted = sorted(self.counted.get(counter, ()), reverse=True)
                now = max([now, *counted[hints.at_most : hints.at_most + 1]])
        if self.last is not None:
            self.alone[self.last] = max(1, now - self.issued)
        self.last, self.issued, self.times[place] = place, now, times
        self.gap_end = now + (max(cost.latency_cycles, 1) if instruction.op == "barrier" else cost.gap_cycles)
        op = self.gpu.ops[instruction.op]
        if hints is not None:
            self.gap_end = max(self.gap_end, now + 2 * hints.yields)
            for named, cycles in ((hints.write, latency), (hints.read, op.operand_cycles)):
                if named is not None:
                    self.counted[named] = [end for end in self.counted.get(named, ()) if end > now] + [now + cycles]
        if instruction.dst is not None:
            to = {} if cost.own_latency else {other: cycles - op.latency_cycles for other, cycles in op.latency_to.items()}
            self.written[instruction.dst] = to, now + latency

    def costs_of(self, instruction: Instruction) -> tuple[Costs, int]:
        """Returns the costs of an instruction, and the cycles from its issue to its result."""
        if id(instruction) not in self.costs:
            cost = costs_on(self.gpu, instruction)
            latency = cost.latency_cycles
            if cost.access is not None and instruction.access is not None:
                latency = math.floor(self.load_latency(instruction.access, cost.access.extra) + 0.5)
            self.costs[id(instruction)] = instruction, cost, latency
        return self.costs[id(instruction)][1:]

    def load_latency(self, access: Access, extra: int) -> float:
        """Returns the mean latency of an access in an idle memory system."""
        memory = self.gpu.memory
        latency = memory.queue_latency_cycles if self.memory == "queue" else memory.latency_cycles
        in_l2 = memory.mean_l2_latency_cycles or latency
        in_l1 = memory.l1_latency_cycles or latency
        beyond_l1 = access.l2_hit * (in_l2 + access.l2_late_cycles) + (1.0 - access.l2_hit) * latency
        mean = access.l1_hit * (in_l1 + access.l1_late_cycles) + (1.0 - access.l1_hit) * beyond_l1
        return mean + extra * memory.transaction_latency_cycles


def places(kernel: Kernel) -> list[str]:
    """Returns the places of the instructions and branches of a program in the order in which `flatten` lists them."""
    return [*(place for place, statement in walk(kernel.body) if not isinstance(statement, Loop)), END]

"""Limits that keep a run within the numbers of the engine; what would exceed them is refused before the run.

The engine holds the cycle in which a wait ends, together with the cause of the wait, in 64 bits, and takes cycles from 2**41 on
as unknown (`engine.constants`). Warm-up and counted cycles are at most `MAX_CYCLES` each, which leaves `MAX_WAIT` for a wait
that begins at the end of a run. The limits of the numbers of a chip and of a kernel (`hardware.fields`,
`kernels.instruction`, `kernels.statements`) hold every wait but one below `_MAX_OTHER_WAIT`. The exception is the wait for the
memory, which adds up over the accesses in flight; `check_limits` bounds it, and the time of a finite grid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from warpsim import units
from warpsim.hardware.fields import MAX_INTERVAL
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.memo import kept_by_object
from warpsim.kernels.costs import Costs, access_transactions, costs_on, matrix_interval
from warpsim.kernels.instruction import MOST_COUNTED, MOST_PHASES, Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop, Statement
from warpsim.kernels.traversal import issued, walk
from warpsim.simulation.pilot import longest_spread, longest_warmup

if TYPE_CHECKING:
    from warpsim.simulation.point import Point

MAX_CYCLES = 10**12
"""Upper limit on `warmup`, on `cycles`, and on the cycles of a finite grid."""

MAX_GRID = 10**12
"""Upper limit on the warp instructions of a finite grid, which would run for hours or days."""

MAX_REPLICATES = 10**6
"""Upper limit on the replicates of a point."""

MAX_SEED = 2**63 - 1
"""Upper limit on the root seed, which results hold as an integer of 64 bits."""

MAX_WAIT = 10**11
"""Upper limit on one wait, in cycles: 2 * MAX_CYCLES + MAX_WAIT is below 2**41."""

MAX_TICKS = 10**6
"""Maximum number of ticks per cycle, so that times of 2 * MAX_CYCLES in ticks fit into 64 bits."""

MAX_OCCUPIED = 32 * MAX_INTERVAL
"""Upper limit on the cycles for which an access occupies its unit, or the data stage: as many as a conflict of 32 ways."""

_MAX_OTHER_WAIT = 2 * 10**10
"""Upper limit on a wait that is not for the memory, and on a latency in an idle memory, by the limits of a chip's numbers."""

_MAX_SUM = 2**62
"""Upper limit on a sum of latencies, an integer of 64 bits."""


def check_limits(point: Point) -> None:
    """Refuses a point whose times could exceed what the engine can hold.

    Raises:
        ValueError: the message names the operations and the limit.
    """
    _check_passes(point)
    ticks_per_cycle(point.gpu, point.kernel)
    if point.finite:
        _check_grid(point)
    _check_memory(point)


@kept_by_object
def ticks_per_cycle(gpu: Gpu, kernel: Kernel) -> int:
    """Returns the smallest number of ticks per cycle for which all intervals of classes and instructions are whole numbers.

    Raises:
        ValueError: it is above MAX_TICKS.
    """
    of_classes = {(f"gpu.ops.{name}", op.interval_cycles) for name, op in gpu.ops.items()}
    own = ((instruction.op, instruction.cost) for instruction in issued(kernel.body))
    given = [(op, cost) for op, cost in own if cost is not None]
    of_instructions = {(f"cost of {op}", cost.interval_cycles) for op, cost in given if cost.interval_cycles is not None}
    of_matrices = {(f"cost of {op}", matrix_interval(gpu, op, cost)) for op, cost in given if cost.multiply_adds is not None}
    accesses = _costs_of_accesses(gpu, kernel)
    of_passes = {(f"passes of {one.op}", cycles) for one, cost in accesses for cycles in (cost.unit_cycles, cost.data_cycles)}
    intervals = of_classes | of_instructions | of_matrices | of_passes
    ticks = math.lcm(*(interval.denominator for _, interval in intervals))
    if ticks > MAX_TICKS:
        largest = sorted(intervals, key=lambda named: (-named[1].denominator, named[0]))[:4]
        raise ValueError(
            f"interval_cycles: those of {gpu.name} ({', '.join(f'{name} {interval}' for name, interval in largest)}, ...) need "
            f"{ticks} ticks of a cycle as a common denominator: must be at most {MAX_TICKS}; round some of them"
        )
    return ticks


@kept_by_object
def _costs_of_accesses(gpu: Gpu, kernel: Kernel) -> list[tuple[Instruction, Costs]]:
    """Returns the accesses of a kernel, to shared memory, too, that have a class on the chip, with what they cost there."""
    return [(one, costs_on(gpu, one)) for one in issued(kernel.body) if one.op in gpu.ops and one.op in units.ACCESSING_OPS]


def _check_passes(point: Point) -> None:
    """Refuses a point in which an access occupies its unit, or the data stage, for more than MAX_OCCUPIED."""
    for one, cost in _costs_of_accesses(point.gpu, point.kernel):
        cycles = float(max(cost.unit_cycles, cost.data_cycles))
        if cycles > MAX_OCCUPIED:
            passes = f"core.pass_cycles = {point.gpu.core.pass_cycles}"
            if one.cost is not None and one.cost.passes is not None:
                passes = f"cost.passes = {one.cost.passes}"
            raise ValueError(
                f"{passes}: must be so small that no {one.op} occupies its unit for more than {MAX_OCCUPIED:.2g} cycles; one of "
                f"{point.kernel.name} does so for {cycles:.2g} on {point.gpu.name}"
            )


def instructions_of_grid(point: Point) -> int:
    """Returns how many warp instructions a finite grid executes at least, without the exits."""
    return _warps_of_grid(point) * sum(_of_paths(point.kernel, min).values())


def _warps_of_grid(point: Point) -> int:
    """Returns the warps of a finite grid."""
    blocks = point.simulated_sms * _resident(point) if point.launch.persistent else point.launch.blocks
    assert blocks is not None
    return blocks * point.launch.block_warps


def _check_grid(point: Point) -> None:
    """Refuses a finite grid that is certain to run for more than MAX_CYCLES, or executes more than MAX_GRID instructions.

    Lower bounds on its time are the time that its instructions occupy the schedulers and the units of the SMs, and the issues
    of one warp. A grid that these bounds let pass and that still runs longer is stopped there (`run_machine`).
    """
    gpu, launch, sms = point.gpu, point.launch, point.simulated_sms
    warps, schedulers = _warps_of_grid(point), sms * gpu.sm.schedulers
    blocks = warps // launch.block_warps
    executed = _of_paths(point.kernel, min)
    bounds: dict[str, float] = {}
    for name, count in executed.items():
        if name in gpu.ops:  # the encoding refuses the others
            op = gpu.ops[name]
            units_of_chip = schedulers if op.scope == "scheduler" else sms
            occupied = max(float(op.interval_cycles) / units_of_chip, gpu.issue.interval_cycles / schedulers / gpu.issue.width)
            bounds[name] = count * max(warps * occupied, op.gap_cycles / gpu.issue.width)
    name, cycles = max(bounds.items(), key=lambda item: item[1], default=("", 0.0))
    if cycles > MAX_CYCLES:
        raise ValueError(
            f"launch.blocks = {blocks}: must be few enough for a grid of at most {MAX_CYCLES:.0e} cycles; on {gpu.name} this "
            f"grid of {point.kernel.name} takes at least {cycles:.2g}: each of its {warps} warps executes {name} "
            f"{executed[name]} times"
        )
    if instructions_of_grid(point) > MAX_GRID:
        raise ValueError(
            f"launch.blocks = {blocks}: must be few enough for a grid of at most {MAX_GRID:.0e} warp instructions; this grid of "
            f"{point.kernel.name} has {warps} warps with {sum(executed.values())} each: give fewer trips, or simulate a window "
            "of an endless grid"
        )


def _check_memory(point: Point) -> None:
    """Refuses a point in which an access to memory could wait for more than MAX_WAIT.

    A request waits at most for the service of all requests that are in flight in each of the three places it passes:
    crossbar, DRAM and the sustained rate (docs/model.md, section 5).
    """
    gpu = point.gpu
    if not _accesses(point.kernel):
        return
    service, delay = _slowest_service(gpu, point.kernel)
    flying = {kind: _most_in_flight(point, kind) * gpu.sms for kind in service}
    slowest = max(service, key=lambda kind: flying[kind] * service[kind])
    wait = delay + sum((flying[kind] + 1) * service[kind] for kind in service)
    where = f"{slowest} of {point.kernel.name}: up to {flying[slowest]} in flight on {gpu.name}"
    if wait > MAX_WAIT:
        raise ValueError(
            f"{where} could wait {wait:.2g} cycles for the memory: must be at most {MAX_WAIT:.0e}; give the chip a limit of "
            f"accesses in flight (memory.{slowest}s_per_sm) or more bandwidth, or simulate fewer cycles"
        )
    latencies = flying["load"] * ((MAX_CYCLES if point.finite else _end(point)) + wait)
    if point.finite:
        latencies = min(latencies, _warps_of_grid(point) * _most_accesses(point.kernel, "load") * (wait + _MAX_OTHER_WAIT))
    if latencies > _MAX_SUM:
        raise ValueError(
            f"load of {point.kernel.name}: up to {flying['load']} in flight on {gpu.name}: their latencies could add up to more "
            f"than 2**62 cycles; give the chip a limit of loads in flight (memory.loads_per_sm), or simulate fewer cycles"
        )


@kept_by_object
def _slowest_service(gpu: Gpu, kernel: Kernel) -> tuple[dict[str, float], float]:
    """Returns the most cycles that a load and a store occupy the memory, by kind, and the longest delay of an access."""
    memory, writes = gpu.memory, gpu.memory.writes
    slowdown = 1.0 if writes is None else max(1.0, 1 / writes.write_rate) + writes.turnaround
    per_byte = (
        (memory.queue.crossbar_servers + 1) / memory.queue.crossbar_gbs
        + (memory.queue.dram_servers + 1) / memory.queue.dram_gbs
        + slowdown / memory.bandwidth_gbs
    ) / (units.gbs_to_bytes_per_cycle(1.0, gpu.clock_ghz))
    service = {"load": 0.0, "store": 0.0}
    delay = 0.0 if writes is None else (writes.read_delay_ns + writes.write_burst_ns) * gpu.clock_ghz
    for instruction in _accesses(kernel):
        cost = access_transactions(gpu, instruction)
        assert cost is not None
        kind, updating = units.ACCESS_KINDS[instruction.op], cost.updates * (memory.atomic_interval_cycles or 0.0)
        taken_in = cost.port_sectors * memory.port_cycles(gpu.clock_ghz) if kind == "store" else 0.0
        service[kind] = max(service[kind], cost.requests * (cost.bytes_per_request * per_byte + updating + taken_in))
        delay = max(delay, cost.extra * memory.transaction_latency_cycles)
    return service, delay


def _most_in_flight(point: Point, kind: str) -> int:
    """Returns how many loads or stores of one SM can be in flight at most.

    A load without hints whose register is still to come holds up the next one into this register, and a dependence counter that
    is full holds up the next load that it counts. A warp stays until its loads are back. Without any limit it is the number of
    accesses of the whole run.
    """
    gpu, launch = point.gpu, point.launch
    warps = launch.resident_warps
    instructions = [i for i in _accesses(point.kernel) if units.ACCESS_KINDS[i.op] == kind]
    if not instructions:
        return 0
    limits = [gpu.memory.loads_per_sm if kind == "load" else gpu.memory.stores_per_sm]
    if kind == "load":
        limits.append(None if gpu.memory.loads_per_warp is None else warps * gpu.memory.loads_per_warp)
        limits.append(None if (of_warp := most_in_flight_of_warp(point.kernel, instructions)) is None else warps * of_warp)
    times = 0 if point.kernel.endless else _most_accesses(point.kernel, kind)
    if kind == "load" and not point.kernel.endless:
        limits.append(warps * times)
    if point.finite:
        blocks = _resident(point) if launch.persistent else launch.blocks
        assert blocks is not None
        limits.append(blocks * launch.block_warps * times)
    else:
        issues = gpu.sm.schedulers * gpu.issue.width * (-(-_end(point) // gpu.issue.interval_cycles))
        limits.append(issues)
    return min(limit for limit in limits if limit is not None)


def _most_accesses(kernel: Kernel, kind: str) -> int:
    """Returns how many loads or stores a warp executes at most."""
    return sum(count for op, count in _of_paths(kernel, max).items() if units.ACCESS_KINDS.get(op) == kind)


def most_in_flight_of_warp(kernel: Kernel, loads: list[Instruction]) -> int | None:
    """Returns how many loads of a warp its registers, counters and mbarriers let be in flight; None: any number."""
    arriving = sum(load.arrives is not None for load in loads)  # a warp has no more open phases, and one that it goes on to
    loads = [load for load in loads if load.arrives is None]
    hinted = [s for _, s in walk(kernel.body) if isinstance(s, Instruction) and s.hints is not None]
    counters = {load.hints.write for load in loads if load.hints is not None}
    registers = {load.dst for load in loads if load.hints is None}
    if None in counters or None in registers or registers & {one.dst for one in hinted}:  # these wait for no register
        return None
    return len(registers) + MOST_COUNTED * len(counters) + (MOST_PHASES + 1) * arriving


def _end(point: Point) -> int:
    """Returns the cycle at which an endless run ends, at the latest."""
    before = longest_warmup(point) + longest_spread(point) if point.warmup is None else point.warmup
    return before + point.cycles


def _of_paths(kernel: Kernel, choose: Callable[[int, int], int]) -> Counter[str]:
    """Returns the executions of each operation class by a warp at least (`choose` = min) or at most (max), whatever its path."""
    first, *others = (executions(path, choose) for _, path in kernel.paths())
    for other in others:
        first = Counter({op: choose(first[op], other[op]) for op in {*first, *other}})
    return first


def executions(statements: Iterable[Statement], choose: Callable[[int, int], int]) -> Counter[str]:
    """Returns how often a warp executes each operation class at least (`choose` = min) or at most (max).

    An endless loop counts once.
    """
    total: Counter[str] = Counter()
    for statement in statements:
        if isinstance(statement, Instruction):
            total[statement.op] += 1
        elif isinstance(statement, Loop):
            trips = abs(choose(*statement.trip_range))
            for op, count in executions(statement.body, choose).items():
                total[op] += trips * count
        else:
            total["branch"] += 1
            then, orelse = executions(statement.then, choose), executions(statement.orelse, choose)
            for op in {*then, *orelse}:
                total[op] += then[op] + orelse[op] if statement.diverges else choose(then[op], orelse[op])
    return total


@kept_by_object
def _accesses(kernel: Kernel) -> tuple[Instruction, ...]:
    """Returns the different loads and stores of a kernel; kernels repeat few instructions."""
    return tuple({id(one): one for one in issued(kernel.body) if one.op in units.MEMORY_OPS}.values())


def _resident(point: Point) -> int:
    """Returns the resident blocks of an SM; a point's launch is resolved."""
    assert point.launch.resident_blocks is not None
    return point.launch.resident_blocks

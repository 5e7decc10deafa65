"""Encodes a chip, a kernel and a launch for the engine.

Only this module, core_options.py, known_waits.py, lookahead.py and plain_steps.py write a Machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from warpsim import units
from warpsim.arguments import InvalidPoint
from warpsim.engine.constants import (
    AT_THE_END,
    BY_REGISTER,
    CIRCULAR,
    COUNTED_BITS,
    GREEDY,
    MAX_WARPS,
    MOST_STEPS,
    UNITS,
    Array,
    Kind,
    MemoryModel,
    Policy,
    Records,
    WarpState,
)
from warpsim.engine.machine import CHIP, CLASS, DETAIL, STEP, Machine
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import LatencyDistribution, load_distribution
from warpsim.hardware.memo import kept_by_object
from warpsim.hardware.residency import Launch
from warpsim.kernels.access import Transactions
from warpsim.kernels.costs import costs_on, slices_of
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.iteration import Iteration, iteration, places
from warpsim.kernels.outstanding import outstanding
from warpsim.kernels.program import Kernel
from warpsim.kernels.steps import flatten
from warpsim.simulation.core_options import (
    awaited_registers,
    encode_addresses,
    encode_hints,
    encode_mbarriers,
    encode_reads,
    hints_of,
    needs_of_ports,
)
from warpsim.simulation.known_waits import precompute_waits
from warpsim.simulation.limits import ticks_per_cycle
from warpsim.simulation.lookahead import set_windows
from warpsim.simulation.plain_steps import find_plain_steps, find_refusable, has_options
from warpsim.simulation.policies import group_of
from warpsim.simulation.readiness import NOTHING
from warpsim.units import MEMORY_OPS

_POLICIES = {policy.name.lower(): policy for policy in Policy}  # a test asserts that the names are policies.POLICIES
_MEMORY_MODELS = {model.name.lower(): model for model in MemoryModel}  # and point.MEMORY_MODELS

_KINDS = {"barrier": Kind.BARRIER, "branch": Kind.BRANCH, "exit": Kind.EXIT}
_KINDS |= {op: Kind.LOAD if kind == "load" else Kind.STORE for op, kind in units.ACCESS_KINDS.items()}
_CONTROL = {"loop_begin": Kind.LOOP_BEGIN, "loop_end": Kind.LOOP_END, "jump": Kind.JUMP}
_STATES_OF_PIPES = {  # pipe -> states of a warp whose unit does not accept, that waits for a register, in a gap
    "math": (WarpState.MATH_PIPE_THROTTLE, WarpState.WAIT, WarpState.WAIT),
    "none": (WarpState.MATH_PIPE_THROTTLE, WarpState.WAIT, WarpState.WAIT),
    "mio": (WarpState.MIO_THROTTLE, WarpState.SHORT_SCOREBOARD, WarpState.WAIT),
    "lg": (WarpState.LG_THROTTLE, WarpState.LONG_SCOREBOARD, WarpState.WAIT),
    "tex": (WarpState.TEX_THROTTLE, WarpState.LONG_SCOREBOARD, WarpState.WAIT),
    "branch": (WarpState.MATH_PIPE_THROTTLE, WarpState.WAIT, WarpState.BRANCH_RESOLVING),
    "imc": (WarpState.MIO_THROTTLE, WarpState.IMC_MISS, WarpState.IMC_MISS),
    "membar": (WarpState.LG_THROTTLE, WarpState.MEMBAR, WarpState.MEMBAR),
    "sleep": (WarpState.MATH_PIPE_THROTTLE, WarpState.SLEEPING, WarpState.SLEEPING),
}


def encode(
    gpu: Gpu, kernel: Kernel, launch: Launch, *, scheduler: str, memory: str, sms: int | None = None, phases: bool = False
) -> Machine:
    """Encodes one chip with one program; `with_seed` makes the result ready to run.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: the launch from `resolve_launch`.
        scheduler: scheduling policy, one of `policies.POLICIES`.
        memory: memory model, one of `point.MEMORY_MODELS`.
        sms: number of SMs of the slice (docs/model.md, section 1); None: the whole chip.
        phases: whether the warps of the deal are spread over an iteration (section 4), as in an endless run.

    Raises:
        InvalidPoint: a warp takes too long to its endless loop, or the memory of a slice is too fast (docs/model.md, sections 4
            and 5).
        ValueError: the program or the chip exceeds a limit of the engine on steps, units or ticks.
    """
    machine = _unlaunched(gpu, kernel, memory, sms, phases, *_latencies(gpu, memory))
    return machine._replace(chip=_launched(machine.chip, gpu, launch, scheduler))


@kept_by_object
def _unlaunched(
    gpu: Gpu, kernel: Kernel, memory: str, sms: int | None, phases: bool, quantiles: Array, loads: Array
) -> Machine:
    """Returns the machine of `encode` without what `_launched` fills in. Points share its arrays."""
    program = flatten(kernel)
    if len(program.steps) > MOST_STEPS:
        raise ValueError(f"kernel {kernel.name}: {len(program.steps)} lines: must be at most {MOST_STEPS}")
    tick = ticks_per_cycle(gpu, kernel)
    classes, latency_to = (facts.copy() for facts in _encode_classes(gpu))

    costs: dict[int, _Costs] = {}  # by the id of an instruction, because kernels repeat few instructions
    steps, details = [], []
    operands: list[int] = []
    registers = awaited_registers(program)
    for step in program.steps:
        cost: _Costs = (_CONTROL.get(step.kind, Kind.JUMP), 0, 0, 0, 0, 0, 0), (*_NO_ACCESS, 0)
        if step.instruction is not None:
            if id(step.instruction) not in costs:
                costs[id(step.instruction)] = _costs(step.instruction, gpu, tick)
            cost = costs[id(step.instruction)]
        (kind, op, *timing), access = cost
        first = len(operands)
        dst = registers.get(step.dst, NOTHING)
        if hints_of(step) is None:
            operands += dict.fromkeys(registers[r] for r in (*step.src, step.dst) if r in registers)
        steps.append((kind, op, dst, first, len(operands), *timing))
        takers = sum(1 << warp for warp in step.warps or ())
        branch = (step.target, step.probability, step.draws, step.warps is not None, takers)
        details.append((*access, *branch, step.loop, *step.trips))
    reads, hints, mbarriers = encode_reads(program, gpu), encode_hints(program, gpu), encode_mbarriers(program, kernel)
    # The fields of a plain array of records are read several times as fast; the engine names them as attributes.
    records: dict[str, Any] = {
        "chip": _encode_chip(gpu, memory, sms, tick, len(registers), len(reads) > 0),
        "program": _records(STEP, "kind", steps),
        "details": _records(DETAIL, "requests", details),
        "classes": classes,
    }
    if len(reads):
        records["program"]["cached"], records["program"]["needs"] = needs_of_ports(reads)
    if len(hints):
        waits = int(np.bitwise_or.reduce(hints["waits"])).bit_length()
        records["chip"][0]["counters"] = max(waits, hints["write"].max() + 1, hints["read"].max() + 1)
    records["chip"][0]["mbarriers"] = len(kernel.mbarriers) if len(mbarriers) else 0
    machine = Machine(
        **records,
        operands=np.array(operands, np.int32),
        latency_to=latency_to,
        refusing=np.zeros(0, np.int64),
        reads=reads,
        hints=hints,
        addresses=encode_addresses(program, gpu, records["chip"]),
        mbarriers=mbarriers,
        quantiles=quantiles,
        loads=loads,
        outstanding=np.zeros((0, 2), np.int32) if sms is None else _encode_outstanding(kernel, records["details"]),
        entries=np.array([program.entries[entry] for entry in kernel.entry_of_warp or (0,)], np.int32),
        loops=program.loops,
    )
    machine = precompute_waits(machine)
    set_windows(machine)
    refusing = find_refusable(machine)
    find_plain_steps(machine)
    machine = machine._replace(refusing=refusing, **{name: array.view(np.recarray) for name, array in records.items()})
    if not has_options(machine):
        machine = machine._replace(reads=None, hints=None, addresses=None, mbarriers=None)
    if phases and not kernel.mbarriers:
        _encode_phases(machine, iteration(gpu, kernel, memory), kernel)
    return machine


def _records(record: np.dtype[Any], first: str, rows: list[tuple[Any, ...]]) -> Array:
    """Returns a record for each row, which holds its fields from `first` on; the fields before and after these are 0."""
    records, names = np.zeros(len(rows), record), record.names or ()
    for name, values in zip(names[names.index(first) :], zip(*rows, strict=True), strict=False):
        records[name] = values
    return records


def _encode_outstanding(kernel: Kernel, details: Array) -> Array:
    """Returns the loads that may be under way when each access issues; fills in their places, and how loads are awaited."""
    found = outstanding(kernel)
    listed = [(load, times) for step in sorted(found.loads) for load, times in sorted(found.loads[step].items())]
    end = 0
    for step in sorted(found.loads):
        details["outstanding"][step], end = end, end + len(found.loads[step])
        details["outstanding_end"][step] = end
        details["counted"][step] = sum(count << COUNTED_BITS * c for c, count in found.counters[step].items())
    details["awaited_by"] = BY_REGISTER
    details["awaited_by"][sorted(found.unread)] = AT_THE_END
    for load, counter in found.counted.items():
        details["awaited_by"][load] = counter
    return np.array(listed, np.int32).reshape(-1, 2)


MOST_BEFORE = 1 << 30
"""Cycles that a warp alone takes to its endless loop, at most, where it passes them before the run (docs/model.md, section 4)."""


def _encode_phases(machine: Machine, repeated: Iteration, kernel: Kernel) -> None:
    """Fills in the fields about the phases of the warps of the deal."""
    if repeated.before_cycles > MOST_BEFORE:
        before = f"{repeated.before_cycles:.3g} cycles"
        raise InvalidPoint(
            f"kernel = {kernel.name!r}: a warp alone takes {before} to its endless loop, which pass before the run: must be at "
            f"most {MOST_BEFORE}; give warmup = 0, or leave these statements out"
        )
    chip = machine.chip[0]
    chip.iteration, chip.before_iteration = repeated.cycles, repeated.before_cycles
    chip.by_block, chip.barriers = repeated.by_block, repeated.barriers
    alone = [repeated.alone[place] for place in places(kernel)]
    machine.details.alone[machine.program.kind < Kind.LOOP_BEGIN] = alone
    _measure_straight_code(machine)


def _measure_straight_code(machine: Machine) -> None:
    """Fills in how long a warp alone takes from each step to the end of its straight code, and where that is."""
    lasts, cycles = np.arange(len(machine.program)), machine.details.alone.tolist()
    straight = (machine.program.kind <= Kind.STORE).tolist()
    for step in range(len(straight) - 2, -1, -1):
        if straight[step] and straight[step + 1]:
            lasts[step], cycles[step] = lasts[step + 1], cycles[step] + cycles[step + 1]
    machine.details.straight_end, machine.details.straight_alone = lasts, cycles


def with_seed(machine: Machine, seed: int) -> Machine:
    """Returns a machine with a replicate's 64-bit seed; it shares the other arrays with `machine`."""
    chip = machine.chip.copy()
    chip[0].seed = seed
    return machine._replace(chip=chip)


def _launched(chip: Records, gpu: Gpu, launch: Launch, scheduler: str) -> Records:
    """Returns the CHIP record with a launch and a policy."""
    chip = chip.copy()
    record = np.asarray(chip)[0]
    assert launch.resident_blocks is not None
    supply = int(record["sms"]) * launch.resident_blocks if launch.persistent else launch.blocks
    record["seats"], record["block_warps"] = launch.resident_blocks, launch.block_warps
    record["slot_bits"] = (launch.resident_warps - 1).bit_length()
    record["seat_of"][:], record["warp_of"][:] = np.divmod(np.arange(MAX_WARPS), launch.block_warps)
    record["blocks"] = -1 if supply is None else supply
    record["first_start"] = 0 if supply is None else gpu.grid_launch_cycles
    record["cold_constants"] = 0 if supply is None else gpu.cold_constants_cycles
    policy, record["group"] = group_of(scheduler)
    record["policy"] = _POLICIES[policy]
    record["circular"], record["greedy"] = _POLICIES[policy] in CIRCULAR, _POLICIES[policy] in GREEDY
    return chip


def _encode_chip(gpu: Gpu, memory: str, sms: int | None, tick: int, registers: int, ports: bool) -> Array:
    """Returns the CHIP record without the launch; `set_windows` and `find_plain_steps` fill in the rest of its fields."""
    queue = gpu.memory.queue
    simulated = gpu.sms if sms is None else sms
    chip = np.zeros(1, CHIP)
    record = chip[0]
    record["sms"], record["of_sms"], record["schedulers"] = simulated, gpu.sms, gpu.sm.schedulers
    record["issue_width"] = gpu.issue.width
    record["tick"], record["tick_factor"], record["tick_shift"] = tick, *factor_of(tick)
    record["banks"] = gpu.core.register_banks or 0 if ports else 0
    record["memory"] = _MEMORY_MODELS[memory]
    record["block_launch"], record["warp_launch"] = gpu.block_launch_cycles, gpu.warp_launch_cycles
    record["launch_interval"] = gpu.launch_interval_cycles * gpu.sms / simulated
    slots = np.arange(MAX_WARPS)
    record["scheduler_of"][:], record["lane_of"][:] = slots % record["schedulers"], slots // record["schedulers"]
    record["loads_per_warp"] = gpu.memory.loads_per_warp or 0
    record["per_sm"][:] = gpu.memory.loads_per_sm or 0, gpu.memory.stores_per_sm or 0
    record["latency"] = gpu.memory.latency_cycles
    record["l1_latency"], record["l2_latency"] = gpu.memory.l1_latency_cycles or 0, gpu.memory.l2_latency_cycles or 0
    record["l2_far_latency"] = gpu.memory.l2_far_latency_cycles or record["l2_latency"]
    record["transaction_latency"] = gpu.memory.transaction_latency_cycles
    record["crossbar_servers"] = queue.crossbar_servers
    record["dram_servers"] = queue.dram_servers
    if gpu.memory.writes is not None:
        writes = gpu.memory.writes
        record["write_cost"], record["turnaround"] = 1 / writes.write_rate, writes.turnaround
        for key in ("write_burst", "idle", "read_delay"):
            record[key] = getattr(writes, f"{key}_ns") * gpu.clock_ghz
    else:
        record["write_cost"] = 1.0
    record["registers"] = registers
    return chip


def factor_of(tick: int) -> tuple[int, int]:
    """Returns by what and how far `engine.units.cycle_of` multiplies and shifts where it divides by `tick`; 1 needs nothing."""
    bits = (tick - 1).bit_length()
    return (-(-(1 << 63 + bits) // tick), bits - 1) if tick > 1 else (0, 0)


@kept_by_object
def _encode_classes(gpu: Gpu) -> tuple[Array, Array]:
    """Returns the CLASS records, and what consumers of each class see more than the writer's latency.

    Each class of the chip stands there twice, in the chip's order. Instructions with a latency of their own belong to the
    second half, of which all consumers see the same latency.
    """
    names = list(gpu.ops)
    units = list(dict.fromkeys(gpu.unit_of(name) for name in names))
    if len(units) > UNITS:
        raise ValueError(f"gpu.ops = {len(units)} units: must be at most {UNITS}; classes may share units")
    queues = [unit for unit in units if unit in gpu.units and gpu.units[unit].queue is not None]
    accessing = {gpu.unit_of(name) for name in MEMORY_OPS if name in gpu.ops}
    classes = np.zeros(2 * len(names), CLASS)
    latency_to = np.zeros((2, len(names), 2, len(names)), np.int64)
    for number, (name, op) in enumerate(gpu.ops.items()):
        unit = gpu.unit_of(name)
        for record in (classes[number], classes[len(names) + number]):
            record["unit"], record["own_unit"] = units.index(unit), -(op.scope == "scheduler")
            record["shared"] = op.scope == "sm" or unit in accessing
            record["access"] = _KINDS[name] if name in MEMORY_OPS else 0
            record["throttle"], record["dependency"], record["after"] = _STATES_OF_PIPES[op.pipe]
            record["queue"], record["queue_row"], record["ports"] = 0, -1, gpu.uses_ports(name)
            if unit in queues:
                facts = gpu.units[unit]
                record["queue"], record["queue_row"] = facts.queue, queues.index(unit)
                record["lead"], record["address"] = facts.lead_cycles, facts.address_cycles
        for consumer, cycles in op.latency_to.items():
            latency_to[0, number, :, names.index(consumer)] = cycles - op.latency_cycles
    return classes, latency_to.ravel()


_Costs = tuple[tuple[int, ...], tuple[float, ...]]
_NO_ACCESS: tuple[float, ...] = (0, 0, 0.0, 0.0, 0, *7 * (0.0,), -1.0)


def _costs(instruction: Instruction, gpu: Gpu, tick: int) -> _Costs:
    """Returns the fields of STEP and DETAIL that depend on the instruction's cost."""
    cost = costs_on(gpu, instruction)
    kind = _KINDS.get(instruction.op, Kind.COMPUTE)
    number = list(gpu.ops).index(instruction.op) + cost.own_latency * len(gpu.ops)
    busy = gpu.issue.interval_cycles * (cost.issue_slots + cost.reissues)
    least = 2 if instruction.hints is not None and instruction.hints.yields else 1
    in_unit = int(cost.unit_cycles * tick), int(cost.data_cycles * tick)
    timing = (kind, number, max(cost.gap_cycles, least), cost.latency_cycles, *in_unit, busy)
    access = _NO_ACCESS
    if cost.access is not None:
        drain = gpu.memory.store_drain_cycles if kind == Kind.STORE else None
        access = (*_requests(cost.access, instruction.op, gpu), *_hits(instruction), -1.0 if drain is None else drain)
    return timing, (*access, max(cost.taken_gap_cycles, least))


def _requests(cost: Transactions, op: str, gpu: Gpu) -> tuple[float, ...]:
    """Returns the fields `requests` to `bus_cycles` of DETAIL."""
    queue = gpu.memory.queue

    def cycles(gbs: float, servers: int = 1) -> float:
        return cost.bytes_per_request / (units.gbs_to_bytes_per_cycle(gbs, gpu.clock_ghz) / servers)

    of_dram, of_bus = cycles(queue.dram_gbs, queue.dram_servers), cycles(gpu.memory.bandwidth_gbs)
    asked = cost.requests, cost.extra, cost.bytes_per_request, cost.requested_bytes
    return *asked, *slices_of(gpu, op, cost), of_dram, of_bus


def _hits(instruction: Instruction) -> tuple[float, ...]:
    """Returns the fields `l1_hit` to `l2_late` of DETAIL."""
    access = instruction.access
    assert access is not None
    in_either = access.l1_hit + (1 - access.l1_hit) * access.l2_hit
    return access.l1_hit, in_either, access.l1_late_cycles, access.l2_late_cycles


def _latencies(gpu: Gpu, memory: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the quantile tables in cycles and the load of each in bytes per cycle."""
    if memory == "fixed":
        return _NO_QUANTILES
    distribution = load_distribution(gpu.memory.distribution)
    if memory == "queue":
        return _unloaded(distribution, gpu.memory.queue_latency_cycles)
    return _measured(distribution, gpu.memory.measured_shift_cycles, gpu.clock_ghz)


_NO_QUANTILES = np.zeros((0, 0)), np.zeros(0)


@lru_cache(maxsize=64)
def _unloaded(distribution: LatencyDistribution, mean_cycles: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest row of a distribution, scaled to a mean; float64[1, BINS + 1]; and its load. Callers share them."""
    return distribution.scaled(mean_cycles).quantile_table(0)[None, :], np.zeros(1)


@lru_cache(maxsize=64)
def _measured(distribution: LatencyDistribution, shift: float, clock_ghz: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns all rows of a distribution, shifted by some cycles, and their loads. Callers share the arrays."""
    shifted = distribution.shifted(shift)
    loads = units.gbs_to_bytes_per_cycle(1.0, clock_ghz) * shifted.loads_gbs
    return np.stack([shifted.quantile_table(row) for row in range(len(loads))]), loads

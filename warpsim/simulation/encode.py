"""Encodes a chip, a kernel and a launch for the engine; the only module that imports both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from warpsim import units
from warpsim.arguments import InvalidPoint
from warpsim.engine.state import CHIP, CLASSES, DETAIL, MAX_WARPS, MOST_STEPS, STEP, Kind, Machine, MemoryModel, Policy, WarpState
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution
from warpsim.hardware.residency import Launch
from warpsim.kernels.access import conflict_ways, transactions
from warpsim.kernels.program import Access, Instruction, Kernel
from warpsim.kernels.steps import flatten
from warpsim.simulation.known_waits import precompute_lookahead, precompute_waits
from warpsim.simulation.limits import ticks_per_cycle

_POLICIES = {policy.name.lower(): policy for policy in Policy}  # a test asserts that the names are point.POLICIES
_MEMORY_MODELS = {model.name.lower(): model for model in MemoryModel}  # and point.MEMORY_MODELS

_KINDS = {"load": Kind.LOAD, "store": Kind.STORE, "barrier": Kind.BARRIER, "branch": Kind.BRANCH, "exit": Kind.EXIT}
_CONTROL = {"loop_begin": Kind.LOOP_BEGIN, "loop_end": Kind.LOOP_END, "jump": Kind.JUMP}
_DEPENDENCY = {
    "math": WarpState.WAIT,
    "none": WarpState.WAIT,
    "mio": WarpState.SHORT_SCOREBOARD,
    "lg": WarpState.LONG_SCOREBOARD,
}
_THROTTLE = {
    "math": WarpState.MATH_PIPE_THROTTLE,
    "none": WarpState.MATH_PIPE_THROTTLE,
    "mio": WarpState.MIO_THROTTLE,
    "lg": WarpState.LG_THROTTLE,
}


def encode(gpu: Gpu, kernel: Kernel, launch: Launch, *, scheduler: str, memory: str, sms: int | None = None) -> Machine:
    """Encodes one chip with one program; `with_seed` makes the result ready to run.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: the launch from `resolve_launch`.
        scheduler: scheduling policy, one of `point.POLICIES`.
        memory: memory model, one of `point.MEMORY_MODELS`.
        sms: number of SMs of the slice (docs/model.md, section 1); None: the whole chip.

    Raises:
        InvalidPoint: the chip lacks an operation class or a cache latency that the kernel needs.
        ValueError: the program or the chip exceeds a limit of the engine on steps, operation classes or ticks.
    """
    program = flatten(kernel)
    if len(program.steps) > MOST_STEPS:
        raise ValueError(f"kernel {kernel.name}: {len(program.steps)} lines: must be at most {MOST_STEPS}")
    missing = sorted(kernel.ops - gpu.ops.keys())
    if missing:
        raise InvalidPoint(f"kernel: operation class {missing[0]!r} of {kernel.name}: {gpu.name} has {', '.join(gpu.ops)}")
    classes = list(gpu.ops)
    if len(classes) > CLASSES:
        raise ValueError(f"gpu.ops = {len(classes)} operation classes: must be at most {CLASSES}")
    tick = ticks_per_cycle(gpu)

    costs: dict[int, _Costs] = {}  # by the id of an instruction, because kernels repeat few instructions
    steps, details = [], []
    operands: list[int] = []
    for step in program.steps:
        cost: _Costs = (_CONTROL.get(step.kind, Kind.JUMP), 0, 0, 0, 0, 0), (*_NO_ACCESS, 0)
        if step.instruction is not None:
            if id(step.instruction) not in costs:
                costs[id(step.instruction)] = _costs(step.instruction, gpu, classes, tick)
            cost = costs[id(step.instruction)]
        (kind, op, *timing), access = cost
        first = len(operands)
        operands += [r for r in dict.fromkeys((*step.src, step.dst)) if r in program.written]
        steps.append((kind, op, step.dst, first, len(operands), *timing, 0, 0, -1, 0, 0, 0, 0, step.dst, 0, 0, 0, 0, (0, 0)))
        takers = sum(1 << warp for warp in step.warps or ())
        branch = (step.target, step.probability, step.draws, step.warps is not None, takers)
        details.append((*access, *branch, step.loop, *step.trips))
    quantiles, loads = _latencies(gpu, memory, sms)
    machine = Machine(
        chip=_encode_chip(gpu, launch, scheduler, memory, sms, tick, len(program.registers)),
        program=np.array(steps, STEP).view(np.recarray),
        details=np.array(details, DETAIL).view(np.recarray),
        operands=np.array(operands, np.int32),
        quantiles=quantiles,
        loads=loads,
        loops=program.loops,
    )
    precompute_waits(machine, {step.target for step in program.steps})
    precompute_lookahead(machine)
    return machine


def with_seed(machine: Machine, seed: int) -> Machine:
    """Returns a machine with a replicate's 64-bit seed; it shares the other arrays with `machine`."""
    chip = machine.chip.copy()
    chip[0].seed = seed
    return machine._replace(chip=chip)


def _encode_chip(
    gpu: Gpu, launch: Launch, scheduler: str, memory: str, sms: int | None, tick: int, registers: int
) -> np.recarray:
    """Returns the CHIP record; `precompute_lookahead` fills in the rest of its fields."""
    queue, share = gpu.memory.queue, 1.0 if sms is None else sms / gpu.sms
    simulated = gpu.sms if sms is None else sms

    def rate(gbs: float, servers: int = 1) -> float:
        return units.gbs_to_bytes_per_cycle(gbs, gpu.clock_ghz) * share / servers

    chip = np.zeros(1, CHIP).view(np.recarray)
    record = chip[0]
    record.sms, record.schedulers = simulated, gpu.sm.schedulers
    record.seats, record.block_warps = launch.resident_blocks, launch.block_warps
    record.issue_width, record.tick = gpu.issue.width, tick
    record.policy, record.memory = _POLICIES[scheduler], _MEMORY_MODELS[memory]
    record.block_launch = gpu.block_launch_cycles
    assert launch.resident_blocks is not None
    supply = simulated * launch.resident_blocks if launch.persistent else launch.blocks
    slots = np.arange(MAX_WARPS)
    record.scheduler_of[:], record.lane_of[:] = slots % record.schedulers, slots // record.schedulers
    record.seat_of[:] = slots // record.block_warps
    record.blocks = -1 if supply is None else supply
    record.loads_per_warp = gpu.memory.loads_per_warp or 0
    record.per_sm[:] = gpu.memory.loads_per_sm or 0, gpu.memory.stores_per_sm or 0
    record.latency = gpu.memory.latency_cycles
    record.l1_latency, record.l2_latency = gpu.memory.l1_latency_cycles or 0, gpu.memory.l2_latency_cycles or 0
    record.transaction_latency = gpu.memory.transaction_latency_cycles
    record.crossbar_servers = _share_of(queue.crossbar_servers, share)
    record.dram_servers = _share_of(queue.dram_servers, share)
    record.crossbar_rate = rate(queue.crossbar_gbs, record.crossbar_servers)
    record.dram_rate = rate(queue.dram_gbs, record.dram_servers)
    record.peak_rate = rate(gpu.memory.bandwidth_gbs)
    record.registers = registers
    classes = list(gpu.ops)
    for number, (name, op) in enumerate(gpu.ops.items()):
        record.dependency[number], record.throttle[number] = _DEPENDENCY[op.pipe], _THROTTLE[op.pipe]
        record.own_unit[number] = -(op.scope == "scheduler")
        record.access[number] = _KINDS[name] if name in ("load", "store") else 0
        record.shared[number] = op.scope == "sm" or record.access[number] > 0
        for consumer, cycles in op.latency_to.items():
            record.latency_to[number * CLASSES + classes.index(consumer)] = cycles - op.latency_cycles
    return chip


def _share_of(servers: int, share: float) -> int:
    """Returns the number of servers of a slice: rounded, half up, and at least one."""
    return max(1, math.floor(servers * share + 0.5))


_Costs = tuple[tuple[int, ...], tuple[float, ...]]
_NO_ACCESS: tuple[float, ...] = (0, 0, 0.0, 0.0, 0.0, 0.0)


def _costs(instruction: Instruction, gpu: Gpu, classes: Sequence[str], tick: int) -> _Costs:
    """Returns the fields of STEP and DETAIL that depend on the instruction's cost."""
    op = gpu.ops[instruction.op]
    kind = _KINDS.get(instruction.op, Kind.COMPUTE)
    ways = conflict_ways(instruction, gpu) if instruction.op == "smem" else 1
    access, reissues = _NO_ACCESS, ways - 1
    if instruction.access is not None and instruction.op in ("load", "store"):
        access, reissues = _access(instruction.access, gpu)
    latency = op.latency_cycles + (ways - 1) * op.conflict_latency_cycles
    unit_ticks = int(op.interval_cycles * tick) * ways
    busy = gpu.issue.interval_cycles * (op.issue_slots + reissues)
    taken_gap = op.gap_cycles if op.taken_gap_cycles is None else op.taken_gap_cycles
    return (kind, classes.index(instruction.op), op.gap_cycles, latency, unit_ticks, busy), (*access, taken_gap)


def _access(access: Access, gpu: Gpu) -> tuple[tuple[float, ...], int]:
    """Returns the fields `requests` to `l2_hit` of DETAIL, and the number of reissues of an access."""
    cost = transactions(access, gpu)
    for level, hit, latency in (
        ("l1", access.l1_hit, gpu.memory.l1_latency_cycles),
        ("l2", access.l2_hit, gpu.memory.l2_latency_cycles),
    ):
        if hit > 0 and latency is None:
            raise InvalidPoint(f"access.{level}_hit = {hit}: 0 on {gpu.name}, whose memory.{level}_latency_cycles is not known")
    in_either = access.l1_hit + (1 - access.l1_hit) * access.l2_hit
    return (cost.requests, cost.extra, cost.bytes_per_request, cost.requested_bytes, access.l1_hit, in_either), cost.extra


def _latencies(gpu: Gpu, memory: str, sms: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the quantile tables in cycles and the load of each in bytes per cycle."""
    if memory == "fixed":
        return np.zeros((0, 0)), np.zeros(0)
    if memory == "queue":
        return _unloaded(gpu.memory.distribution, gpu.memory.queue_latency_cycles), np.zeros(1)
    distribution = load_distribution(gpu.memory.distribution).shifted(gpu.memory.measured_shift_cycles)
    share = 1.0 if sms is None else sms / gpu.sms
    loads = units.gbs_to_bytes_per_cycle(1.0, gpu.clock_ghz) * distribution.loads_gbs * share
    return np.stack([distribution.quantile_table(row) for row in range(len(loads))]), loads


@lru_cache(maxsize=64)
def _unloaded(distribution: str, mean_cycles: float) -> np.ndarray:
    """Returns the lowest row of a distribution, scaled to a mean; float64[1, BINS + 1]. Callers share the array."""
    return load_distribution(distribution).scaled(mean_cycles).quantile_table(0)[None, :]

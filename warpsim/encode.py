"""A chip, a kernel and a launch as the arrays of the engine: the only place that knows both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from warpsim import units
from warpsim.engine.state import CHIP, CLASSES, DETAIL, STEP, Kind, Machine, MemoryModel, Policy, WarpState
from warpsim.gpu import Gpu
from warpsim.kernels.access import conflict_ways, transactions
from warpsim.kernels.linear import LinearProgram, Step, linear
from warpsim.kernels.program import Instruction, Kernel
from warpsim.latency import deterministic, load_distribution
from warpsim.residency import Launch

SCHEDULERS = {policy.name.lower(): policy for policy in Policy}
MEMORY_MODELS = {model.name.lower(): model for model in MemoryModel}

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


def encode(gpu: Gpu, kernel: Kernel, launch: Launch, *, scheduler: str, memory: str, seed: int, sms: int | None = None) -> Machine:
    """One chip with one program loaded, ready to run.

    Args:
        gpu: the chip.
        kernel: the program of every warp.
        launch: as `resolve_launch` returns it.
        scheduler: one of SCHEDULERS.
        memory: one of MEMORY_MODELS.
        seed: the replicate's seed, 64 bits.
        sms: simulate a slice of so many SMs (docs/model.md, section 1); None: the whole chip.

    Raises:
        ValueError: the chip lacks an operation class or a cache latency that the kernel needs.
    """
    program = linear(kernel)
    missing = sorted(kernel.ops - gpu.ops.keys())
    if missing:
        raise ValueError(f"kernel: operation class {missing[0]!r} of {kernel.name}: {gpu.name} has {', '.join(gpu.ops)}")
    classes = list(gpu.ops)
    if len(classes) > CLASSES:
        raise ValueError(f"gpu.ops = {len(classes)} operation classes: at most {CLASSES}")
    tick = math.lcm(*(op.interval_cycles.denominator for op in gpu.ops.values()))

    steps = np.zeros(len(program.steps), STEP).view(np.recarray)
    details = np.zeros(len(program.steps), DETAIL).view(np.recarray)
    for record, detail, step in zip(steps, details, program.steps, strict=True):
        _encode_step(record, detail, step, gpu, classes, tick)
    quantiles, loads = _latencies(gpu, memory, sms)
    return Machine(
        chip=_encode_chip(gpu, launch, scheduler, memory, seed, sms, tick, len(program.registers)),
        program=steps,
        details=details,
        operands=_operands(steps, program),
        quantiles=quantiles,
        loads=loads,
        loops=program.loops,
    )


def _encode_chip(
    gpu: Gpu, launch: Launch, scheduler: str, memory: str, seed: int, sms: int | None, tick: int, registers: int
) -> np.recarray:
    queue, share = gpu.memory.queue, 1.0 if sms is None else sms / gpu.sms
    simulated = gpu.sms if sms is None else sms

    def rate(gbs: float, servers: int = 1) -> float:
        return units.gbs_to_bytes_per_cycle(gbs, gpu.clock_ghz) * share / servers

    chip = np.zeros(1, CHIP).view(np.recarray)
    record = chip[0]
    record.sms, record.schedulers = simulated, gpu.sm.schedulers
    record.seats, record.block_warps = launch.resident_blocks, launch.block_warps
    record.issue_interval, record.issue_width, record.tick = gpu.issue.interval_cycles, gpu.issue.width, tick
    record.policy, record.memory = SCHEDULERS[scheduler], MEMORY_MODELS[memory]
    record.block_launch = gpu.block_launch_cycles
    assert launch.resident_blocks is not None
    supply = simulated * launch.resident_blocks if launch.persistent else launch.blocks
    record.blocks = -1 if supply is None else supply
    record.loads_per_warp = gpu.memory.loads_per_warp or 0
    record.loads_per_sm = gpu.memory.loads_per_sm or 0
    record.latency = gpu.memory.latency_cycles
    record.l1_latency, record.l2_latency = gpu.memory.l1_latency_cycles or 0, gpu.memory.l2_latency_cycles or 0
    record.transaction_latency = gpu.memory.transaction_latency_cycles
    record.crossbar_servers = _share_of(queue.crossbar_servers, share)
    record.dram_servers = _share_of(queue.dram_servers, share)
    record.crossbar_rate = rate(queue.crossbar_gbs, record.crossbar_servers)
    record.dram_rate = rate(queue.dram_gbs, record.dram_servers)
    record.peak_rate = rate(gpu.memory.bandwidth_gbs)
    record.seed, record.registers = seed, registers
    classes = list(gpu.ops)
    for number, (name, op) in enumerate(gpu.ops.items()):
        record.dependency[number], record.throttle[number] = _DEPENDENCY[op.pipe], _THROTTLE[op.pipe]
        record.per_scheduler[number], record.is_load[number] = op.scope == "scheduler", name == "load"
        for consumer, cycles in op.latency_to.items():
            record.latency_to[number * CLASSES + classes.index(consumer)] = cycles - op.latency_cycles
    return chip


def _share_of(servers: int, share: float) -> int:
    """A slice's part of some servers: rounded, half up, and at least one."""
    return max(1, math.floor(servers * share + 0.5))


def _encode_step(record: np.record, detail: np.record, step: Step, gpu: Gpu, classes: Sequence[str], tick: int) -> None:
    record.dst = step.dst
    detail.loop, detail.target, detail.draws, detail.probability = step.loop, step.target, step.draws, step.probability
    detail.low, detail.high = step.trips
    if step.warps is not None:
        detail.by_index, detail.takers = 1, sum(1 << warp for warp in step.warps)
    if step.instruction is None:
        record.kind = _CONTROL[step.kind]
        return
    instruction = step.instruction
    op = gpu.ops[instruction.op]
    ways = conflict_ways(instruction, gpu) if instruction.op == "smem" else 1
    record.kind = _KINDS.get(instruction.op, Kind.COMPUTE)
    record.op = classes.index(instruction.op)
    record.latency = op.latency_cycles + (ways - 1) * op.conflict_latency_cycles
    record.occupancy = int(op.interval_cycles * tick) * ways
    record.slots = op.issue_slots + ways - 1
    record.gap = op.gap_cycles
    detail.taken_gap = op.gap_cycles if op.taken_gap_cycles is None else op.taken_gap_cycles
    if instruction.op in ("load", "store"):
        record.slots += _encode_access(detail, instruction, gpu)


def _encode_access(record: np.record, instruction: Instruction, gpu: Gpu) -> int:
    """Fills in an access; returns its reissues."""
    access = instruction.access
    assert access is not None
    cost = transactions(access, gpu)
    record.requests, record.extra = cost.requests, cost.extra
    record.request_bytes, record.asked_bytes = cost.bytes_per_request, cost.requested_bytes
    record.l1_hit = access.l1_hit
    record.l2_hit = access.l1_hit + (1 - access.l1_hit) * access.l2_hit
    for level, hit, latency in (
        ("l1", access.l1_hit, gpu.memory.l1_latency_cycles),
        ("l2", access.l2_hit, gpu.memory.l2_latency_cycles),
    ):
        if hit > 0 and latency is None:
            raise ValueError(f"access.{level}_hit = {hit}: 0 on {gpu.name}, whose memory.{level}_latency_cycles is not known")
    return cost.extra


def _operands(steps: np.recarray, program: LinearProgram) -> np.ndarray:
    """Registers that a step waits for: those it reads, then the one it writes, each once; inputs that nobody writes left out."""
    table: list[int] = []
    for record, step in zip(steps, program.steps, strict=True):
        record.operands = len(table)
        table += [r for r in dict.fromkeys((*step.src, step.dst)) if r in program.written]
        record.operands_end = len(table)
    return np.array([*table, 0], np.int32)


def _latencies(gpu: Gpu, memory: str, sms: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Quantile tables of the unloaded latency, cycles, and the loads at which they hold, bytes per cycle of what is simulated."""
    if memory == "fixed":
        return deterministic(gpu.memory.latency_cycles)[None, :], np.zeros(1)
    distribution = load_distribution(gpu.memory.distribution)
    if memory == "queue":
        return distribution.scaled(gpu.memory.queue.base_latency_cycles).quantile_table(0)[None, :], np.zeros(1)
    share = 1.0 if sms is None else sms / gpu.sms
    loads = units.gbs_to_bytes_per_cycle(1.0, gpu.clock_ghz) * distribution.loads_gbs * share
    return np.stack([distribution.quantile_table(row) for row in range(len(loads))]), loads

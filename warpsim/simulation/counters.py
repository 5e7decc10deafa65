"""Computes the variables of a result from the counters of the engine or of the reference machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import units
from warpsim.engine.accounts import line_accounts, scheduler_cycles, steps_issued
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels.iteration import iteration_instructions
from warpsim.reference.result import Result
from warpsim.results import schema

if TYPE_CHECKING:
    from warpsim.engine.machine import Machine
    from warpsim.engine.state import State
    from warpsim.simulation.point import Point

_NAN = float("nan")


@dataclass(frozen=True)
class Counts:
    """Counters of one replicate in its window, from the compiled engine or from the reference machine.

    Attributes:
        cycles: length of the window.
        instructions: operation class -> warp instructions issued.
        asked_bytes: bytes that the threads requested.
        moved_bytes: bytes that were moved at the memory's sustained rate.
        l2_use: fraction of time in which the slices of L2 were occupied that accesses could choose; 0 where none has to wait.
        unit_use: fraction of time in which the units of each operation class, or their data stages, were occupied.
        warp_cycles: int64[states], warp-cycles by state.
        issue_cycles: scheduler-cycles in which instructions issued.
        busy_cycles: scheduler-cycles in which the scheduler was still busy with earlier issues.
        occupancy: int64[warps + 1], SM-cycles by number of resident warps.
        latency_sum: sum of the latencies of all loads, in cycles.
        latencies: int64[bins], loads by latency, in the bins of section 7 of docs/model.md.
        retired: warps that retired.
        lifetime_sum: sum of their latencies, in cycles.
    """

    cycles: int
    instructions: dict[str, int]
    asked_bytes: float
    moved_bytes: float
    l2_use: float
    unit_use: list[float]
    warp_cycles: NDArray[np.int64]
    issue_cycles: int
    busy_cycles: int
    occupancy: NDArray[np.int64]
    latency_sum: int
    latencies: NDArray[np.int64]
    retired: int
    lifetime_sum: int


def variables(counts: Counts, point: Point, sms: int) -> dict[str, NDArray[np.float64]]:
    """Computes the variables of one replicate: variable of `schema.VARIABLES` -> array of its own dimensions."""
    cycles, gpu = counts.cycles, point.gpu
    sm_cycles, share, clock = sms * cycles, sms / gpu.sms, gpu.clock_ghz
    schedulers = sm_cycles * gpu.sm.schedulers
    instructions = np.array([counts.instructions[op] for op in schema.result_ops([gpu])], float)
    occupancy = counts.occupancy / sm_cycles
    levels = np.arange(len(occupancy))
    issued, busy = counts.issue_cycles, counts.busy_cycles
    loads = any(units.ACCESS_KINDS.get(op) == "load" for op in point.kernel.ops)
    most_gbs = gpu.memory.bandwidth_gbs if loads else gpu.memory.stores_gbs
    moved = counts.moved_bytes / cycles / (units.gbs_to_bytes_per_cycle(most_gbs, clock) * share)
    values: dict[str, Any] = {
        "cycles": cycles,
        "warmup_cycles": point.warmup,
        "warp_iterations": _NAN if point.finite else _iterations(counts, point),
        "instructions": instructions,
        "ipc": instructions / sm_cycles,
        "throughput": units.WARP_LANES * instructions / sm_cycles,
        "bandwidth": units.bytes_per_cycle_to_gbs(counts.asked_bytes / cycles, clock) / share,
        "memory_latency": _ratio(counts.latency_sum, int(counts.latencies.sum())),
        "memory_latency_quantile": _histogram_quantiles(counts.latencies, schema.QUANTILES),
        "warp_latency": _ratio(counts.lifetime_sum, counts.retired),
        "occupancy": levels @ occupancy,
        "occupancy_max": levels[occupancy > 0].max(initial=0),
        "occupancy_fraction": occupancy,
        "warp_cycles": counts.warp_cycles,
        "scheduler_cycles": np.array([issued, busy, schedulers - issued - busy]),
        "peak_fraction": max(moved, counts.l2_use, (issued + busy) / schedulers, *counts.unit_use),
    }
    return {name: np.asarray(value, dtype=float) for name, value in values.items()}


def _iterations(counts: Counts, point: Point) -> float:
    """Returns how many iterations of the kernel a warp slot executed in the window, on average over the resident warps."""
    resident = float(counts.warp_cycles.sum()) / counts.cycles
    return _ratio(sum(counts.instructions.values()), resident * iteration_instructions(point.kernel, point.launch.block_warps))


def engine_counts(machine: Machine, state: State, gpu: Gpu, warmup: int) -> Counts:
    """Reads the counters of the compiled engine."""
    chip, tally = machine.chip[0], state.tally[0]
    cycles = int(state.clock[0].cycle) - warmup
    issued, busy = scheduler_cycles(machine, state)
    by_step = steps_issued(machine, state)
    program = machine.program
    ticks = np.maximum(*(by_unit(machine, by_step * each) for each in (program.unit_ticks, program.data_ticks)))
    use = ticks / (int(chip.sms) * cycles * chip.tick)
    return Counts(
        cycles=cycles,
        instructions=dict(zip(gpu.ops, by_class(machine, by_step).tolist(), strict=False)),
        asked_bytes=float(by_step @ machine.details.asked_bytes),
        moved_bytes=float(tally.moved_bytes),
        l2_use=_l2_cycles(machine, by_step) / cycles * (int(chip.of_sms) / int(chip.sms)),
        unit_use=(use / [gpu.units_per_sm(op) for op in _first_classes(gpu)]).tolist(),
        warp_cycles=line_accounts(machine, state).sum(axis=(0, 1)),
        issue_cycles=issued,
        busy_cycles=busy,
        occupancy=tally.occupancy[: int(chip.seats * chip.block_warps) + 1],
        latency_sum=int(tally.latency_sum),
        latencies=tally.histogram,
        retired=int(tally.retired),
        lifetime_sum=int(tally.lifetime_sum),
    )


def _l2_cycles(machine: Machine, by_step: NDArray[np.int64]) -> float:
    """Returns the cycles for which accesses occupied the slices of L2 that they could choose, on average over hits in L1."""
    from warpsim.engine.constants import MemoryModel

    chip, details = machine.chip[0], machine.details
    if chip.memory != MemoryModel.QUEUE or chip.l2_latency == 0:
        return 0.0
    accesses = details.requests > 0
    asked = details[accesses]
    each = asked.requests * asked.slice_cycles / asked.slices * (1 - asked.l1_hit)
    counted: Counter[float] = Counter()
    for cycles, times in zip(each.tolist(), by_step[accesses].tolist(), strict=True):
        counted[cycles] += times
    return _summed(counted)


def _summed(counted: Mapping[float, int]) -> float:
    """Returns the sum of numbers that occur so many times, whatever their order."""
    return math.fsum(number * times for number, times in counted.items())


def reference_counts(result: Result, gpu: Gpu, launch: Launch, sms: int, warmup: int) -> Counts:
    """Reads the counters of the reference machine."""
    from warpsim.engine.constants import COARSE_BINS, COARSE_WIDTH, FINE_BINS

    cycles = result.end - warmup
    occupied = result.unit_cycles | result.data_cycles  # by unit the larger one
    latencies = np.array(result.load_latencies, np.int64)
    coarse = FINE_BINS + (latencies - FINE_BINS) // COARSE_WIDTH
    bins = np.minimum(np.where(latencies < FINE_BINS, latencies, coarse), FINE_BINS + COARSE_BINS - 1)
    return Counts(
        cycles=cycles,
        instructions={op: result.instructions[op] for op in gpu.ops},
        asked_bytes=result.asked_bytes,
        moved_bytes=result.moved_bytes,
        l2_use=_summed(result.l2_cycles) / cycles * (gpu.sms / sms),
        unit_use=[
            float(occupied[gpu.unit_of(op)] / (sms * cycles)) / gpu.units_per_sm(op) for op in _first_classes(gpu)
        ],
        warp_cycles=np.array([result.warp_cycles[name] for name in schema.STATES]),
        issue_cycles=result.scheduler_cycles["issued"],
        busy_cycles=result.scheduler_cycles["busy"],
        occupancy=np.array([result.occupancy_cycles[n] for n in range(launch.resident_warps + 1)]),
        latency_sum=int(latencies.sum()),
        latencies=np.bincount(bins, minlength=FINE_BINS + COARSE_BINS),
        retired=len(result.retired),
        lifetime_sum=sum(last - start + 1 for _, _, start, last in result.retired),
    )


def by_class(machine: Machine, of_steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns sums of counts by step over the operation classes of the chip; control steps count as 0. int64[classes]."""
    classes = len(machine.classes) // 2
    return np.bincount(machine.program.op % classes, of_steps, classes).astype(np.int64)


def by_unit(machine: Machine, of_steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns sums of counts by step over the units of the chip; int64[units]."""
    unit = machine.classes.unit
    return np.bincount(unit[machine.program.op], of_steps, unit.max() + 1).astype(np.int64)


def _first_classes(gpu: Gpu) -> list[str]:
    """Returns the first class of each unit, in the chip's order."""
    units = [gpu.unit_of(op) for op in gpu.ops]
    return [op for place, op in enumerate(gpu.ops) if units[place] not in units[:place]]


def _histogram_quantiles(histogram: NDArray[np.int64], levels: tuple[float, ...]) -> NDArray[np.float64]:
    """Returns quantiles: the smallest latency with at least this fraction of the loads at or below it; NaN without loads.

    So are those in the last bin, which holds all latencies above the others.
    """
    from warpsim.engine.constants import COARSE_BINS, COARSE_WIDTH, FINE_BINS

    total = histogram.sum()
    if total == 0:
        return np.full(len(levels), np.nan)
    ranks = np.maximum(np.ceil(np.array(levels) * total), 1)
    bins = np.searchsorted(np.cumsum(histogram), ranks)
    quantiles: NDArray[np.float64] = np.where(bins < FINE_BINS, bins, FINE_BINS + (bins - FINE_BINS + 0.5) * COARSE_WIDTH)
    return np.where(bins < FINE_BINS + COARSE_BINS - 1, quantiles, np.nan)


def _ratio(total: float, count: float) -> float:
    return float(total) / float(count) if count else float("nan")

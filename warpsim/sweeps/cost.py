"""Estimates the cost of a point from its settings alone, so that every machine cuts a sweep into the same tiles.

The time of the engine is proportional to the simulated cycles of SMs and to the issued instructions. Instructions per cycle are
bounded by the issue rate, the units' throughput, the memory bandwidth, and the latency of one warp's dependent instructions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel, Loop
from warpsim.kernels.program import Statement, expected_ops
from warpsim.results.schema import SWEEP_VARIABLES, result_coordinates
from warpsim.simulation.point import Point
from warpsim.sweeps.space import BuildCache, Space
from warpsim.units import WARP_LANES

TILE_SECONDS = 60.0
"""Intended time of a tile in a large sweep: short enough to lose little at an interruption, long enough to keep tiles few."""

TILE_BYTES = 16_000_000
"""Size of a tile's results in memory, before compression, at most."""

POINT_SECONDS, REPLICATE_SECONDS = 1e-3, 1e-3
"""Time to build a point, and to start and read one replicate: round figures, as the two below, for one core at about 3 GHz.

The engine alone takes some 12 to 30 ns for an instruction of the mix at alpha = 32, and 60 to 100 ns for a load (`make bench`).
"""

SM_CYCLE_SECONDS, INSTRUCTION_SECONDS = 2e-9, 20e-9
"""Time of the engine for one cycle of one SM, and for one instruction."""

_SAMPLE = 64
"""Points whose costs are averaged."""


def point_seconds(point: Point) -> float:
    """Estimates the time of a point on one core, in seconds."""
    cycles = (point.warmup + point.cycles) * (point.sms or point.gpu.sms)
    warps = point.launch.block_warps * (point.launch.resident_blocks or 1)
    engine = cycles * (SM_CYCLE_SECONDS + INSTRUCTION_SECONDS * ipc_bound(point.gpu, point.kernel, warps))
    return POINT_SECONDS + point.replicates * (REPLICATE_SECONDS + engine)


def ipc_bound(gpu: Gpu, kernel: Kernel, warps: int) -> float:
    """Returns an approximate upper bound on the instructions per cycle and SM of a kernel at an occupancy in warps per SM."""
    weights: dict[str, float] = {}
    for op, times in expected_ops(_steady_part(kernel)):
        weights[op] = weights.get(op, 0.0) + times
    total = sum(weights.values())
    latency, bounds = 0.0, [gpu.issue_ipc * gpu.issue.width]
    for op, times in weights.items():
        share = times / total
        if not share or op not in gpu.ops:
            continue
        bounds.append(gpu.unit_ipc(op) / share)
        latency += share * (gpu.memory.latency_cycles if op == "load" else max(1, gpu.ops[op].latency_cycles))
    accesses = sum(weights.get(op, 0.0) for op in ("load", "store")) / total
    if accesses:
        bounds.append(gpu.bandwidth_bytes_per_cycle / gpu.sms / (4 * WARP_LANES * accesses))
    return min([*bounds, warps / max(latency, 1.0)])


def tile_points(space: Space) -> int:
    """Returns the largest number of points in a tile, from their mean cost and the size of their results."""
    seconds = mean_seconds(space)
    by_cost = TILE_SECONDS / seconds if seconds else float("inf")
    return max(1, int(min(by_cost, TILE_BYTES / point_bytes(space))))


def mean_seconds(space: Space) -> float:
    """Estimates the mean time of a point on one core, in seconds; points that do not exist take none."""
    cache, total = BuildCache(), 0.0
    replicates = round(space.replicates.expected)
    positions = space.sample(_SAMPLE)
    for position in positions:
        with suppress(InvalidPoint):
            total += point_seconds(replace(space.point(position, cache), replicates=replicates))
    return total / len(positions)


def point_bytes(space: Space) -> int:
    """Returns the size of a point's results in bytes, with all replicates, before compression."""
    lengths = {name: len(values) for name, values in result_coordinates(space.replicates.most, space.ops).items()}
    return sum(
        np.dtype(declared.dtype).itemsize * int(np.prod([lengths[dim] for dim in declared.dims])) for declared in SWEEP_VARIABLES
    )


def _steady_part(kernel: Kernel) -> tuple[Statement, ...]:
    """Returns the endless loop in which a warp spends its time; without one, the whole program."""
    last = kernel.body[-1]
    return last.body if isinstance(last, Loop) and last.trips is None else kernel.body

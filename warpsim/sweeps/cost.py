"""What a point costs, estimated from its settings alone: the same on every machine, so that tiles are too.

The engine's time goes by cycles of SMs and by instructions. Instructions per cycle are bounded here by issue, by the units and
the memory's bandwidth, and by the latency of one warp's instructions, one after another.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel, Loop
from warpsim.kernels.program import Statement, expected_ops
from warpsim.results.schema import SWEEP_VARIABLES, result_coordinates
from warpsim.sweeps.check import few
from warpsim.sweeps.points import Parts
from warpsim.units import WARP_LANES

if TYPE_CHECKING:
    from warpsim.simulation.point import Point
    from warpsim.sweeps.plan import Plan

TILE_SECONDS = 60.0
"""What a tile of a large sweep is to cost: little is lost at an interruption, and tens of thousands of tiles are a month."""

TILE_BYTES = 16_000_000
"""Results of a tile at most, in memory and before compression."""

POINT_SECONDS, REPLICATE_SECONDS = 1e-3, 1e-3
"""To build a point, and to start and read one replicate; these and the next are round figures for one core at about 3 GHz.

The engine alone takes 31 ns for an instruction of the mix at alpha = 32, and 95 ns for a load (`make bench`).
"""

SM_CYCLE_SECONDS, INSTRUCTION_SECONDS = 2e-9, 20e-9
"""Of the engine: a cycle of an SM, and an instruction."""

_SAMPLE = 64
"""Points from which the mean cost is taken."""


def point_seconds(point: Point) -> float:
    """Estimated time of a point on one core, in seconds."""
    cycles = (point.warmup + point.cycles) * (point.sms or point.gpu.sms)
    warps = point.launch.block_warps * (point.launch.resident_blocks or 1)
    engine = cycles * (SM_CYCLE_SECONDS + INSTRUCTION_SECONDS * ipc_bound(point.gpu, point.kernel, warps))
    return POINT_SECONDS + point.replicates * (REPLICATE_SECONDS + engine)


def ipc_bound(gpu: Gpu, kernel: Kernel, warps: int) -> float:
    """About the most instructions per cycle that an SM can issue of a kernel at an occupancy."""
    weights: dict[str, float] = {}
    for op, times in expected_ops(_steady(kernel)):
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


def tile_room(plan: Plan) -> int:
    """Points that a tile has room for, by their mean cost and by the size of their results."""
    seconds = mean_seconds(plan)
    by_cost = TILE_SECONDS / seconds if seconds else float("inf")
    return max(1, int(min(by_cost, TILE_BYTES / point_bytes(plan))))


def mean_seconds(plan: Plan) -> float:
    """Estimated mean time of the plan's points on one core, in seconds; points that cannot exist take none."""
    parts, total = Parts(), 0.0
    replicates = round(plan.replicates.middle)
    places = few(plan.points, _SAMPLE)
    for index in places:
        with suppress(InvalidPoint):
            total += point_seconds(replace(plan.point(plan.place(index), parts), replicates=replicates))
    return total / len(places)


def point_bytes(plan: Plan) -> int:
    """Size of a point's results, all replicates, before compression."""
    lengths = {name: len(values) for name, values in result_coordinates(plan.replicates.most, plan.ops).items()}
    return sum(
        np.dtype(declared.dtype).itemsize * int(np.prod([lengths[dim] for dim in declared.dims])) for declared in SWEEP_VARIABLES
    )


def _steady(kernel: Kernel) -> tuple[Statement, ...]:
    """What a warp spends its time in: the endless loop, if there is one."""
    last = kernel.body[-1]
    return last.body if isinstance(last, Loop) and last.trips is None else kernel.body

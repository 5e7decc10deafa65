"""Estimates the cost of a point from its settings alone, so that every machine cuts a sweep into the same tiles.

The time of the engine is proportional to the simulated cycles of SMs and to the issued instructions. Instructions per cycle are
bounded by the issue rate, the units' throughput, the memory bandwidth, and the latency of one warp's dependent instructions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.kernels.iteration import ipc_bound
from warpsim.results.schema import SWEEP_VARIABLES, result_coordinates
from warpsim.simulation.pilot import batch_cycles, pilot_batches, pilots
from warpsim.simulation.point import Point
from warpsim.sweeps.space import BuildCache, Space

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

TYPICAL_BATCHES = 10
"""Batches of a derived warm-up, typically."""

_SAMPLE = 64
"""Points whose costs are averaged."""


def point_seconds(point: Point) -> float:
    """Estimates the time of a point on one core, in seconds."""
    ipc = ipc_bound(point.gpu, point.kernel, point.launch.resident_warps)
    cycle = point.simulated_sms * (SM_CYCLE_SECONDS + INSTRUCTION_SECONDS * ipc)
    pilot = 0 if point.warmup is not None else pilots(point) * pilot_batches(point) * batch_cycles(point)
    replicate = REPLICATE_SECONDS + (expected_warmup(point) + point.cycles) * cycle
    return POINT_SECONDS + pilot * cycle + point.replicates * replicate


def expected_warmup(point: Point) -> int:
    """Returns the warm-up of a point; where it is derived from a pilot run, a guess."""
    return TYPICAL_BATCHES * batch_cycles(point) if point.warmup is None else point.warmup


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

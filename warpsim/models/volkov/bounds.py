"""Volkov's framework for any kernel: latency bound, throughput bound, and the smaller of the two (V 3, 6.5).

`warpsim.models.volkov` states equations, assumptions and limits. V is Volkov 2016 (docs/bibliography.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.kernels.program import names_warps
from warpsim.models.parts.common import accepts_names, axis, quantity, result
from warpsim.models.parts.contention import memory_latency, solve
from warpsim.models.parts.costs import LOADS_IN_FLIGHT
from warpsim.models.parts.warp_path import warp_path
from warpsim.models.parts.worksheet import Worksheet, worksheet

LATENCY = "latency"
"""Value of `bottleneck` where the latency bound binds."""

_TOLERANCE = 1e-9


@accepts_names
def throughput_bound(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> Worksheet:
    """Returns the throughput bound as a worksheet of the resources of an SM (V 3.6, Tables 3.2 to 3.4).

    An instruction holds each resource exclusively: a unit for its interval, times the ways of a bank conflict; the data stage
    of the unit, since Volta, for its passes and for what L1 takes in; L2, on chips that state its latency, for the time of
    its slices; the memory system for the bytes moved, at the SM's share of the sustained bandwidth; the schedulers for its
    issue slots and one slot per reissue; and the limit of loads in flight, if the SM has one, for the latency of a load.
    Instructions pair as in a warp alone (V 3.8). Counts are expected values.

    The arguments and errors are those of `latency_bound`.
    """
    return worksheet(gpu, warp_path(gpu, kernel, block_warps=block_warps))


@accepts_names
def latency_bound(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> float:
    """Returns the lower bound on the mean latency of a warp, in cycles (V 3.7, 3.8).

    It is the longest path of V Figure 3.5, found by scheduling a warp alone. The schedule respects register dependencies,
    ILP latencies, dual issue, branches, barriers and the limit of loads in flight per warp, and adds the waits for the
    slowest warp of the block and for the launch of the next block. For an endless kernel the bound is the number of cycles
    per repetition in the steady state. For random kernels it bounds the mean (see `warp_path`), and warps of a block that
    differ only by chance are assumed to reach a barrier together.

    Args:
        gpu: the chip.
        kernel: any kernel.
        block_warps: warps of a thread block; only needed if the kernel treats the warps of a block differently.

    Raises:
        ValueError: `block_warps` is missing or below 1, a barrier is not reached by all warps of the block,
            or the chip lacks an operation class or the latency of a cache that the kernel hits.
        NotCoveredError: some warps of a block leave an endless loop, or repeat it faster than others.
    """
    return warp_path(gpu, kernel, block_warps=block_warps).cycles


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    refined: bool = False,
    block_warps: int | None = None,
) -> xr.Dataset:
    """Returns the throughput at one or several occupancies (V 3.5; refined: V 6.5).

    Args:
        gpu: the chip.
        kernel: any kernel.
        warps: warps per SM, at least 0; the limits of the chip are not checked.
        refined: let memory latency grow with the bytes moved per time, by V Table 6.5 (G80: the two terms of V 6.4). The
            throughput then solves throughput = min(n / latency(throughput), throughput bound).
        block_warps: as for `latency_bound`; if needed and left out, the default of `simulate` for `warps`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth` and `memory_latency` (of a coalesced load that
        misses the caches) as from `simulate`, and `latency_bound` in cycles, `throughput_bound` in warps or repetitions per
        cycle and SM, and `bottleneck`.

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0; otherwise as `latency_bound`.
    """
    occupancy = axis("warps", warps, at_least=0)
    points = [_point(gpu, kernel, n, refined, block_warps) for n in occupancy.values.flat]

    def over(of_point: Callable[[_Point], float | str]) -> xr.DataArray:
        values = np.array([of_point(point) for point in points]).reshape(occupancy.shape)
        return xr.DataArray(values, dims=occupancy.dims, coords=occupancy.coords)

    ops = dict.fromkeys(op for point in points for op in point.sheet.instructions)
    ipc = {op: over(lambda p, op=op: p.rate * p.sheet.instructions.get(op, 0.0)) for op in ops}  # type: ignore[misc]
    per = points[0].sheet.per if points else "warp"
    others = {
        "bandwidth": over(lambda p: _gbs(gpu, p.rate * p.sheet.requested_bytes)),
        "memory_latency": over(lambda p: p.memory_latency),
        "latency_bound": quantity(over(lambda p: p.latency), "cycles", f"bound on latency per {per}"),
        "throughput_bound": quantity(
            over(lambda p: 1 / p.sheet.cycles), f"{per}s/cycle/SM", "bound on throughput"
        ),
        "bottleneck": quantity(over(lambda p: p.bottleneck), "1", "bound that binds"),
    }
    return result(gpu, ipc, others, source=f"warpsim.models.volkov, V {'6.5' if refined else '3.5'}")


@accepts_names
def needed_warps(
    gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, refined: bool = False, block_warps: int | None = None
) -> float:
    """Returns the warps per SM that attain a fraction of the throughput bound (V 3.10, 4.5).

    It is latency x throughput. It is not rounded and may exceed what the chip holds. In the refined model the latency is that
    at the memory throughput attained, and the number is infinite if memory cannot attain that throughput.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1; otherwise as `latency_bound`.
    """
    check_fraction(fraction)
    path = warp_path(gpu, kernel, block_warps=block_warps)
    sheet = worksheet(gpu, path)
    rate = fraction / sheet.cycles
    if refined and sheet.traffic_bytes > 0:
        latency = memory_latency(gpu, _gbs(gpu, rate * sheet.traffic_bytes), refined=True)
        if math.isinf(latency):
            return math.inf
        path = warp_path(gpu, kernel, block_warps=block_warps, memory_latency=latency)
        if rate * worksheet(gpu, path).totals.get(LOADS_IN_FLIGHT, 0.0) > 1 + _TOLERANCE:
            return math.inf
    return rate * path.cycles


@accepts_names
def bottleneck(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: float | None = None,
    refined: bool = False,
    block_warps: int | None = None,
) -> str:
    """Returns the bound that binds at an occupancy: "latency", or a resource of the worksheet, such as "memory".

    Without `warps` it is the resource that binds once latency is hidden. Errors are those of `throughput`.
    """
    if warps is None:
        return throughput_bound(gpu, kernel, block_warps=block_warps).tightest
    return _point(gpu, kernel, float(axis("warps", warps, at_least=0)), refined, block_warps).bottleneck


@dataclass(frozen=True)
class _Point:
    """The model at one occupancy; `rate` is the throughput in warps or repetitions per cycle and SM."""

    rate: float
    latency: float
    memory_latency: float
    sheet: Worksheet

    @property
    def bottleneck(self) -> str:
        return self.sheet.tightest if self.rate * self.sheet.cycles > 1 - _TOLERANCE else LATENCY


def _point(gpu: Gpu, kernel: Kernel, warps: float, refined: bool, block_warps: int | None) -> _Point:
    if block_warps is None and names_warps(kernel):
        if warps != int(warps):
            raise ValueError(f"warps = {warps}: must be a whole number if block_warps is left out")
        block_warps = kernel.block_warps or default_block_warps(gpu, int(warps))

    def at(latency: float) -> _Point:
        path = warp_path(gpu, kernel, block_warps=block_warps, memory_latency=latency)
        sheet = worksheet(gpu, path)
        return _Point(min(warps / path.cycles, 1 / sheet.cycles), path.cycles, latency, sheet)

    def loaded_latency(rate: float) -> float:
        return memory_latency(gpu, _gbs(gpu, rate * unloaded.sheet.traffic_bytes), refined=True)

    def attained(rate: float) -> float:
        latency = loaded_latency(rate)
        return 0.0 if math.isinf(latency) else at(latency).rate

    unloaded = at(memory_latency(gpu, 0.0, refined=refined))
    if not refined or unloaded.sheet.traffic_bytes == 0:
        return unloaded
    rate = solve(attained, unloaded.rate)
    return replace(at(loaded_latency(rate)), rate=rate)


def _gbs(gpu: Gpu, bytes_per_cycle_and_sm: float) -> float:
    return units.bytes_per_cycle_to_gbs(bytes_per_cycle_and_sm * gpu.sms, gpu.clock_ghz)

"""Volkov's model of latency hiding: the smaller of two bounds, by latencies and by throughput limits.

V. Volkov, Understanding Latency Hiding on GPUs, 2016 (V): chapter 3 (the framework, for any kernel), 4.1, 4.5
and 4.7 (closed forms for mixes of two instructions, in `volkov_mix`), 6.4 and 6.5 (refined by memory
contention). With n warps per SM

    warp throughput = min(n / latency bound, throughput bound).          (V 3.5)

Throughput is per cycle and SM, of warps, or of repetitions where the kernel ends in an endless loop;
latencies are of a warp, or of a repetition.

Assumed: warps do not interfere, but at barriers; occupancy is constant; memory latency does not depend on the
load (refined: it has the mean of V Table 6.5 at that load); reads and writes are alike to the memory system;
caches hit with the probabilities that the kernel states. It fails near the knee between the bounds:
throughput gradually saturates and is overestimated by up to 28 % (G80: 34 %); refined, by up to 20 % at
intermediate intensities (V 7.9). It fails too where a loaded warp pairs instructions otherwise than one
alone, and where hit rates fall with occupancy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.models.parts.common import axis, check_fraction, quantity, result
from warpsim.models.parts.contention import memory_latency, solve
from warpsim.models.parts.costs import LOADS_IN_FLIGHT
from warpsim.models.parts.warp_path import names_warps, warp_path
from warpsim.models.parts.worksheet import Worksheet, worksheet
from warpsim.models.volkov.mix import MixParameters, mix_needed_warps, mix_parameters, mix_throughput

__all__ = [
    "LATENCY",
    "MixParameters",
    "bottleneck",
    "latency_bound",
    "mix_needed_warps",
    "mix_parameters",
    "mix_throughput",
    "needed_warps",
    "throughput",
    "throughput_bound",
]

LATENCY = "latency"
"""What `bottleneck` says where the latency bound binds."""

_TOLERANCE = 1e-9


def throughput_bound(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> Worksheet:
    """Return the worksheet of the hardware's throughput limits (V 3.6, Tables 3.2 to 3.4).

    Each resource of an SM is held exclusively: a unit for its interval, times the ways of a bank conflict;
    the memory system, at the SM's share of the sustained bandwidth, for the bytes moved; the schedulers for
    the issue slots of the chip's description and one for each reissue; a limit of loads in flight, where the
    SM has one, for a load's latency. Instructions pair as in a warp alone (V 3.8). Counts are expectations
    over chance.

    The arguments and errors are those of `latency_bound`.
    """
    return worksheet(gpu, warp_path(gpu, kernel, block_warps=block_warps))


def latency_bound(gpu: Gpu, kernel: Kernel, *, block_warps: int | None = None) -> float:
    """Return the lower bound on mean warp latency, in cycles (V 3.7, 3.8).

    It is the longest path of V Figure 3.5, found by scheduling a warp alone: register dependencies, ILP
    latencies, dual issue, branches, barriers, the limit of a warp's loads in flight; then the waits for the
    block's slowest warp and for the launch of the next block. Of an endless kernel it is the cycles per
    repetition in the steady state. Where chance decides it bounds the mean (`warp_path` says how), and warps
    of a block that differ by chance alone are taken to reach a barrier together.

    Args:
        gpu: the chip.
        kernel: any kernel.
        block_warps: warps of a thread block; only needed where the kernel tells warps of a block apart.

    Raises:
        ValueError: `block_warps` is missing or below 1, a barrier is not reached by all warps of the block,
            or the chip lacks an operation class or the latency of a cache that is hit.
        NotCoveredError: some warps of a block leave an endless loop, or repeat it faster than others.
    """
    return warp_path(gpu, kernel, block_warps=block_warps).cycles


def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    refined: bool = False,
    block_warps: int | None = None,
) -> xr.Dataset:
    """Return the throughput at an occupancy, or at an array of them (V 3.5; refined: V 6.5).

    Args:
        gpu: the chip.
        kernel: any kernel.
        warps: warps per SM, at least 0; not held against the chip's limits.
        refined: let memory latency grow with the bytes moved per time, by V Table 6.5 (G80: the two terms of
            V 6.4). Throughput is then the root of throughput = min(n / latency(throughput), throughput
            bound).
        block_warps: as for `latency_bound`; where needed and left out, what `simulate` takes for `warps`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth` and `memory_latency` (of a
        coalesced load that misses the caches) as from `simulate`, and `latency_bound` in cycles,
        `throughput_bound` in warps or repetitions per cycle and SM, and `bottleneck`.

    Raises:
        TypeError: `warps` are no numbers.
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


def needed_warps(
    gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, refined: bool = False, block_warps: int | None = None
) -> float:
    """Return the warps per SM that attain a fraction of the throughput bound (V 3.10, 4.5).

    It is latency x throughput, not rounded, and may be above what the chip holds. Refined, the latency is
    that of the memory throughput attained, and the number is infinite where the memory never gives as much.

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


def bottleneck(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: float | None = None,
    refined: bool = False,
    block_warps: int | None = None,
) -> str:
    """Return what binds at an occupancy: "latency", or a resource of the worksheet, such as "memory".

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
            raise ValueError(f"warps = {warps}: a whole number, where block_warps is left out")
        block_warps = default_block_warps(gpu, int(warps))

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

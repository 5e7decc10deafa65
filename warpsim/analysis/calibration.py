"""Calibration of the queue model of the memory system against measured latencies.

The measurement, of V or of a user, runs dependent loads at several occupancies (V 6.4; V is Volkov 2016,
docs/bibliography.md). By Little's law each occupancy gives a pair of bandwidth and mean latency, in measurement and
simulation alike. For each of several numbers of servers, a bounded simplex search fits the mean unloaded latency and the
stage rate of the queue model, so that the latencies agree at equal occupancy. If latency percentiles at given bandwidths are
known, they are also fitted. All simulations use common random numbers, so that the error is a sufficiently smooth function of
the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from warpsim import units
from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.memory import Queue
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import chain, mix
from warpsim.results.schema import QUANTILES
from warpsim.simulation.api import simulate_replicate
from warpsim.simulation.point import Point, make_point

SERVERS = (8, 12, 16, 20, 24, 32, 48, 64)
"""Numbers of servers per stage that the fit tries."""

SHARES = (1 / 3, 1 / 4, 1 / 6)
"""Shares of the crossbar in the servers of both stages that the fit tries where there are percentiles, besides one half."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """Measurements to fit.

    Attributes:
        latency: maps a bandwidth of the chip in GB/s to the mean latency in cycles; it must rise without bound (V 6.4).
        occupancies: warps per SM at which the latencies are compared.
        quantiles: bandwidth in GB/s -> latencies in cycles at the probabilities `levels` (V Table 6.6); may be empty.
        levels: probabilities; each must be one that a run reports.
    """

    latency: Callable[[float], float]
    occupancies: Sequence[int]
    quantiles: Mapping[float, Sequence[float]] = field(default_factory=dict)
    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Fit:
    """Fitted parameters, and the relative rms error in percent over all targets."""

    queue: Queue
    rms_percent: float


def with_queue(gpu: Gpu, queue: Queue) -> Gpu:
    """Returns a chip with other parameters of the queue model."""
    return gpu.model_copy(update={"memory": gpu.memory.model_copy(update={"queue": queue})})


def curve(
    gpu: Gpu,
    occupancies: Sequence[int],
    *,
    cycles: int = 40_000,
    seed: int = Point.seed,
    sms: int | None = None,
    loads: int = 1,
) -> dict[str, Floats]:
    """Simulates dependent loads at several occupancies, on the chip or on a slice of `sms` SMs; a warp has `loads` in flight.

    Returns:
        `bandwidth` (GB/s) and `memory_latency` (cycles), each of shape (occupancies,), and `memory_latency_quantile`
        (occupancies, quantiles of a run).
    """
    names = ("bandwidth", "memory_latency", "memory_latency_quantile")
    found, kernel = [], mix(alpha=0) if loads == 1 else chain("load", loads)
    for warps in occupancies:
        point = make_point(gpu, kernel, warps=warps, warmup=cycles // 8, cycles=cycles, sms=sms)
        found.append(simulate_replicate(point, seed))  # common random numbers for all parameters, unlike `simulate`
    return {name: np.array([values[name] for values in found]) for name in names}


def whole_warps(gpu: Gpu) -> list[int]:
    """Returns the occupancies in warps per SM that are multiples of the schedulers and that some block size attains."""
    found = []
    for warps in range(gpu.sm.schedulers, gpu.sm.max_warps + 1, gpu.sm.schedulers):
        try:
            default_block_warps(gpu, warps)
        except InvalidPoint:
            continue
        found.append(warps)
    return found


def closed_loop_latency(gpu: Gpu, latency: Callable[[float], float], warps: int) -> float:
    """Returns the mean latency in cycles when each of `warps` warps per SM has one load in flight (V 6.5).

    It solves Little's law, warps = rate x latency(bandwidth), for the bandwidth.
    """
    per_gbs = units.gbs_to_ipc(1.0, gpu.clock_ghz, gpu.sms)

    def excess(gbs: float) -> float:
        value = latency(gbs)
        return gbs * per_gbs * value - warps if math.isfinite(value) else math.inf

    high = warps / (per_gbs * latency(0.0))
    while excess(high) < 0:
        high *= 1.5
    low = 0.0
    while not math.isfinite(excess(high)):  # beyond the pole of the curve: bisect to where it is finite
        middle = (low + high) / 2
        if not math.isfinite(excess(middle)):
            high = middle
        elif excess(middle) < 0:
            low = middle
        else:
            high = middle
    return latency(brentq(excess, low, high))


def errors(gpu: Gpu, targets: Targets, *, cycles: int = 40_000, seed: int = Point.seed) -> Floats:
    """Returns relative errors, log(simulated / target), of the mean latency at each occupancy, then of the quantiles.

    Simulated quantiles are interpolated to the bandwidths of the targets.
    """
    found = curve(gpu, targets.occupancies, cycles=cycles, seed=seed)
    wanted = [closed_loop_latency(gpu, targets.latency, warps) for warps in targets.occupancies]
    result = list(np.log(found["memory_latency"] / wanted))
    columns = [QUANTILES.index(level) for level in targets.levels]
    for gbs, row in targets.quantiles.items():
        simulated = [
            np.interp(gbs, found["bandwidth"], found["memory_latency_quantile"][:, column]) for column in columns
        ]
        result += list(np.log(np.array(simulated) / np.array(row)))
    return np.array(result)


def fit_queue(
    gpu: Gpu, targets: Targets, *, servers: Sequence[int] = SERVERS, cycles: int = 40_000, seed: int = Point.seed
) -> Fit:
    """Fits the mean unloaded latency, the stage rate (equal in both stages) and the number of servers of the queue model.

    The mean wait depends on the servers of both stages together, and only the distribution of latencies on how they are divided.
    So both stages have the same number, unless there are percentiles: with these, other divisions of the best total are tried.
    The sustained rate, `gpu.memory.bandwidth_gbs`, is not fitted; it limits the throughput whatever the stages allow.

    Raises:
        ValueError: there are fewer than three occupancies, or `servers` is empty or has a number below 1.
    """
    if len(targets.occupancies) < 3:
        raise ValueError(f"targets.occupancies = {list(targets.occupancies)}: must be at least three, to fit three parameters")
    if not servers or min(servers) < 1:
        raise ValueError(f"servers = {list(servers)}: must be at least one number from 1")
    base, peak = targets.latency(0.0), gpu.memory.bandwidth_gbs

    def queue(parameters: Floats, counts: tuple[int, int]) -> Queue:
        return Queue(
            latency_offset_cycles=float(base * parameters[0] - gpu.memory.latency_cycles),
            crossbar_servers=counts[0],
            crossbar_gbs=float(peak * parameters[1]),
            dram_servers=counts[1],
            dram_gbs=float(peak * parameters[1]),
        )

    def fit(counts: tuple[int, int]) -> tuple[float, Queue]:
        def rms(parameters: Floats) -> float:
            found = errors(with_queue(gpu, queue(parameters, counts)), targets, cycles=cycles, seed=seed)
            return float(np.sqrt(np.mean(found**2)))

        search = minimize(
            rms,
            x0=[1.0, 1.1],
            method="Nelder-Mead",
            bounds=[(0.8, 1.1), (0.95, 1.6)],
            options={"xatol": 1e-3, "fatol": 1e-4, "maxfev": 60, "initial_simplex": [[1.0, 1.1], [0.98, 1.1], [1.0, 1.2]]},
        )
        return float(search.fun), queue(search.x, counts)

    best = min((fit((count, count)) for count in servers), key=lambda found: found[0])
    if targets.quantiles:
        total = 2 * best[1].dram_servers
        divisions = [(crossbar, total - crossbar) for crossbar in (round(total * share) for share in SHARES) if crossbar > 0]
        best = min((best, *map(fit, divisions)), key=lambda found: found[0])
    percent = round(100 * best[0], 2)
    rounded = best[1].model_copy(
        update={
            "latency_offset_cycles": round(best[1].latency_offset_cycles, 1),
            "crossbar_gbs": round(best[1].crossbar_gbs, 1),
            "dram_gbs": round(best[1].dram_gbs, 1),
            "fit_rms_percent": percent,
        }
    )
    return Fit(rounded, percent)

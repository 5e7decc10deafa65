"""The model of Huang et al. (GPUMech): intervals of a representative warp (V 4.13, 7.5 to 7.8).

Source: J.-C. Huang, J. H. Lee, H. Kim, H.-H. Lee, GPUMech: GPU performance modeling technique based on interval analysis,
MICRO 2014, as restated in V 4.13 and 7.5 to 7.8, which corrects typographical errors of the equations. V is Volkov 2016
(docs/bibliography.md).

A warp alone takes total_cycles for its N instructions. It is divided into intervals of instructions that issue without a stall;
each interval ends in a stall. With p = N / total_cycles and n warps::

    IPC_multithreading = n N / (total_cycles + sum of NO_i)                                    (eq. 7, 9)
    round robin:           NO_i = p (n - 1) (instructions_i - 1)                               (eq. 10, 11)
    greedy then oldest:    NO_i = max(0, min(p stall_i, 1) (n - 1) m - stall_i)                (eq. 12 to 16)
    CPI = 1 / IPC_multithreading + (sum of Bandwidth_delay_i) / N                              (eq. 3, 17)
    Bandwidth_delay_i = min(s^2 lambda_i / (2 (1 - rho_i)), s n requests_i cores / 2)          (eq. 21)
    lambda_i = n requests_i cores / mem_lat,  rho_i = lambda_i s                               (eq. 22, 23)

where m is the mean number of instructions of an interval (1 in V's workload), s is the time of a 128-byte transaction at the
pin bandwidth, and requests_i is the number of transactions of the interval. The paper adds the bandwidth delay to accesses that
do not coalesce; the argument `bandwidth` adds it to all.

Assumptions: A core issues one instruction per cycle. A core is the SM on Fermi, and a scheduler with its share of the warps on
Kepler and Maxwell (V 7.5).

Limits: The model fails where throughput binds. Without the bandwidth delay memory throughput has no limit, and under round robin
neither has anything else. With it the utilization rho may exceed 1; the delay, the throughput and the execution time are then
negative (V 7.7, 7.8). They are returned as the equations give them, with a RuntimeWarning. The model does not cover barriers,
conditionals, chips that issue less than one instruction per cycle and SM (G80, GT200), and, with `bandwidth`, more requests
than miss registers.
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim.arguments import choice
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel
from warpsim.models.parts.by_class import class_counts, dataset, part_of, refuse, sequence
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis, quantity
from warpsim.models.parts.longest_path import longest_path

TRANSACTION_BYTES = 128
"""Bytes of a memory transaction (V 7.7)."""

Policy = Literal["lrr", "gto"]


class Interval(NamedTuple):
    """Number of instructions that issue without a stall, the stall after them in cycles, and their memory transactions."""

    instructions: int
    stall: float
    transactions: float


class Profile(NamedTuple):
    """The representative warp.

    Attributes:
        intervals: intervals of `repetitions` repetitions, or of the whole warp.
        repetitions: repetitions that the intervals span; 1 for a warp that ends.
        total_cycles: cycles of a warp or repetition.
        instructions: instructions of a warp or repetition.
    """

    intervals: tuple[Interval, ...]
    repetitions: int
    total_cycles: float
    instructions: int


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    scheduler: Policy = "lrr",
    bandwidth: bool = False,
    mshrs: int = 64,
) -> xr.Dataset:
    """Returns the throughput (V 7.5 to 7.8).

    Args:
        gpu: the chip.
        kernel: straight code and loops without barriers.
        warps: warps per SM, at least 0.
        scheduler: "lrr" (round robin) or "gto" (greedy then oldest).
        bandwidth: add the bandwidth delay to all accesses.
        mshrs: miss registers of an SM; 64 on Fermi (Nugteren et al. 2014, as V 7.7 quotes).

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`; `utilization`, the largest
        rho; `bandwidth_delay` in cycles per warp or repetition; and `cpi`, cycles per instruction of a core.

    Raises:
        NotCoveredError: the model does not cover the kernel or the chip; see the limits above.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0, or `scheduler` is another word.

    Warns:
        RuntimeWarning: throughput is negative.
    """
    scheduler = "lrr" if choice("scheduler", scheduler, ("lrr", "gto")) == "lrr" else "gto"
    cores_per_sm = _cores(gpu)
    n = axis("warps", warps, at_least=0)
    alone = intervals(gpu, kernel)
    each = n / cores_per_sm
    cpi = (alone.total_cycles + _not_overlapped(alone, each, scheduler)) / (each.where(each > 0) * alone.instructions)
    delay, utilization = _bandwidth_delay(gpu, kernel, alone, n, mshrs) if bandwidth else (0.0 * n, 0.0 * n)
    cpi = cpi + delay / alone.instructions
    if bool((cpi < 0).any()):
        at = ", ".join(f"{v:g}" for v in np.unique(n.broadcast_like(cpi).values[cpi.values < 0]))
        warnings.warn(
            f"huang: throughput is negative at {at} warps, where utilization exceeds 1 (V 7.7)", RuntimeWarning, stacklevel=2
        )
    of = class_counts(gpu, kernel)
    rate = (cores_per_sm / cpi / of.total).where(n > 0, 0.0)
    return dataset(
        of,
        rate,
        n,
        source=f"warpsim.models.huang, V {'7.7' if bandwidth else '7.5' if scheduler == 'lrr' else '7.6'}, {scheduler}",
        cpi=quantity(cpi, "cycles/instruction", "cycles per instruction of a core"),
        bandwidth_delay=quantity(delay, "cycles", f"bandwidth delay per {of.per}"),
        utilization=quantity(utilization, "1", "utilization of the pin bandwidth"),
    )


@accepts_names
def execution_time(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    scheduler: Policy = "lrr",
    bandwidth: bool = False,
    mshrs: int = 64,
) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    They may be negative, with a RuntimeWarning (V 7.7). Arguments and errors are those of `throughput`.
    """
    ds = throughput(gpu, kernel, warps=warps, scheduler=scheduler, bandwidth=bandwidth, mshrs=mshrs)
    return ds["execution_time"]


@accepts_names
def intervals(gpu: Gpu, kernel: Kernel) -> Profile:
    """Returns the interval profile of a warp alone that issues at most one instruction per cycle (V 7.5).

    Raises:
        NotCoveredError: the kernel has barriers, conditionals or random loops.
    """
    refuse(kernel, "huang", "barrier")
    code = sequence(kernel, "huang")
    parts = {i: part_of(gpu, i) for i in code}
    path = longest_path(code, [1.0] * len(code), [parts[i].latencies for i in code], endless=kernel.endless)
    moved: list[tuple[Instruction, float]] = [(i, parts[i].traffic_bytes / TRANSACTION_BYTES) for i in code]
    moved *= path.repetitions
    gaps = np.diff(path.times)
    first = int(np.argmax(gaps > 1)) + 1 if kernel.endless else 0  # an interval may span two repetitions
    found: list[Interval] = []
    instructions, transactions = 0, 0.0
    for k in range(len(gaps)):
        index = (first + k) % len(gaps)
        instructions += 1
        transactions += moved[index][1]
        if gaps[index] > 1 or k == len(gaps) - 1:
            found.append(Interval(instructions, float(gaps[index]) - 1, transactions))
            instructions, transactions = 0, 0.0
    return Profile(tuple(found), path.repetitions, float(path.cycles), len(code))


def _cores(gpu: Gpu) -> int:
    """Returns the number of the model's cores per SM, each of which issues one instruction per cycle."""
    cores = gpu.issue_ipc
    if cores < 1 or cores != int(cores):
        raise NotCoveredError(
            f"{gpu.name}: huang only covers chips whose SMs issue a whole number of instructions per cycle, not {cores:g}"
        )
    return int(cores)


def _not_overlapped(alone: Profile, each: xr.DataArray, scheduler: Policy) -> xr.DataArray:
    """Returns the sum of NO_i per warp or repetition."""
    others = (each - 1).clip(min=0)
    p = alone.instructions / alone.total_cycles
    mean = float(np.mean([i.instructions for i in alone.intervals]))
    total = 0.0 * each
    for instructions, stall, _ in alone.intervals:
        if scheduler == "lrr":
            total = total + p * others * (instructions - 1)
        else:
            total = total + (min(p * stall, 1) * others * mean - stall).clip(min=0)
    return total / alone.repetitions


def _bandwidth_delay(
    gpu: Gpu, kernel: Kernel, alone: Profile, warps: xr.DataArray, mshrs: int
) -> tuple[xr.DataArray, xr.DataArray]:
    """Returns the bandwidth delay in cycles per warp or repetition, and the largest utilization."""
    service = gpu.clock_ghz * TRANSACTION_BYTES / gpu.memory.pin_bandwidth_gbs
    delay, utilization = 0.0 * warps, 0.0 * warps
    for _, _, transactions in alone.intervals:
        if transactions == 0:
            continue
        requests = transactions * warps
        if bool((requests > mshrs).any()):
            raise NotCoveredError(
                f"{kernel.name}: huang with bandwidth covers at most mshrs = {mshrs} requests per SM, "
                f"not the {float(requests.max()):g} of {float(warps.max()):g} warps"
            )
        arrivals = requests * gpu.sms / gpu.memory.latency_cycles
        rho = arrivals * service
        with np.errstate(divide="ignore", invalid="ignore"):
            queued = service**2 * arrivals / (2 * (1 - rho))
        delay = delay + xr.where(queued < service * requests * gpu.sms / 2, queued, service * requests * gpu.sms / 2)
        utilization = utilization.where(utilization > rho, rho)
    return delay / alone.repetitions, utilization

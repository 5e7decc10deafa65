"""Multithreading that switches at memory accesses only, and prefetching (V 4.9).

V is V. Volkov, Understanding Latency Hiding on GPUs, 2016; A. Agarwal, Performance tradeoffs in multithreaded processors,
1989; R. Saavedra-Barrera, D. Culler, T. von Eicken, Analysis of multithreaded architectures for parallel computing, 1990;
T. Mowry, M. Lam, A. Gupta, Design and evaluation of a compiler algorithm for prefetching, 1992. A thread runs for R
cycles, then waits L for memory; a switch to the next takes C:

    threads needed = (R + L) / (R + C)          Agarwal, section 2
    threads needed = L / (R + C) + 1            Saavedra-Barrera et al., eq. 4
    prefetch distance = l / s, rounded up       Mowry et al.: memory latency over the instructions of an iteration

Assumed: warps switch at loads and nowhere else; only memory's latency is hidden by other warps, and arithmetic
instructions take their peak rate, or, with `arithmetic_latency`, stall the processor for their latency; memory has
no bandwidth limit. On GPUs, which switch at every cycle, it underestimates the needed occupancy like the CUDA guide (V 4.8), and
still more with `arithmetic_latency` (V 4.9). Barriers are not covered.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.common import NotCoveredError, axis, check_fraction
from warpsim.models.parts.profile import Profile, busy, count, dataset, profile, refuse

Variant = Literal["saavedra_barrera", "agarwal"]


def needed_warps(
    gpu: Gpu,
    kernel: Kernel,
    *,
    fraction: float = 1.0,
    variant: Variant = "saavedra_barrera",
    switch_cycles: float = 0.0,
    arithmetic_latency: bool = False,
) -> float:
    """Return the warps per SM that keep the processor busy (V 4.9).

    Args:
        gpu: the chip.
        kernel: one with loads, and no barriers.
        fraction: of the throughput of the busy processor, to which it rises in proportion to the warps.
        variant: "saavedra_barrera" (a wait overlaps with one switch less than there are warps) or "agarwal". Without
            the cost of a switch they are the same.
        switch_cycles: cycles of a switch, C; 0 on GPUs.
        arithmetic_latency: let arithmetic instructions take their latencies in R, and not their peak rate.

    Raises:
        NotCoveredError: the kernel has barriers or no loads, or tells the warps of a block apart.
        ValueError: `fraction` is not above 0 and at most 1, `switch_cycles` is below 0, or there is no such variant.
    """
    check_fraction(fraction)
    run, wait, switch = _cycles(gpu, kernel, variant, switch_cycles, arithmetic_latency)[1:]
    return fraction * _period(run, wait, switch, variant) / (run + switch)


def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    variant: Variant = "saavedra_barrera",
    switch_cycles: float = 0.0,
    arithmetic_latency: bool = False,
) -> xr.Dataset:
    """Return the throughput: linear in the warps, then that of the busy processor.

    The busy processor executes a run of R in R + C cycles. Below that each warp runs once in the time R + L of a warp
    alone (Saavedra-Barrera et al.: R + L + C).

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0; otherwise as `needed_warps`.
    """
    of, run, wait, switch = _cycles(gpu, kernel, variant, switch_cycles, arithmetic_latency)
    n = axis("warps", warps, at_least=0)
    rate = (n / _period(run, wait, switch, variant)).clip(max=1 / (run + switch))
    return dataset(of, rate, n, source=f"warpsim.models.coarse_grained, V 4.9, {variant}")


def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


def prefetch_distance(gpu: Gpu, kernel: Kernel, *, instruction_cycles: float = 1.0) -> int:
    """Return how many iterations ahead data is prefetched (Mowry et al. 1992, as in V 4.9).

    Args:
        gpu: the chip.
        kernel: an endless loop with loads; one repetition is an iteration.
        instruction_cycles: cycles of an instruction; 1 in the paper.

    Raises:
        NotCoveredError: the kernel is not endless; otherwise as `needed_warps`.
        ValueError: `instruction_cycles` is not above 0.
    """
    if not instruction_cycles > 0:
        raise ValueError(f"instruction_cycles = {instruction_cycles!r}: above 0")
    of = _covered(gpu, kernel)
    if not kernel.endless:
        raise NotCoveredError(f"{kernel.name}: the prefetch distance is that of an endless loop")
    return math.ceil(of.memory_latency / (instruction_cycles * of.total))


def _covered(gpu: Gpu, kernel: Kernel) -> Profile:
    refuse(kernel, "coarse_grained", "barrier")
    of = profile(gpu, kernel)
    if not of.of("load"):
        raise NotCoveredError(f"{kernel.name}: coarse_grained covers kernels with loads, at which warps switch")
    return of


def _cycles(
    gpu: Gpu, kernel: Kernel, variant: str, switch_cycles: float, arithmetic_latency: bool
) -> tuple[Profile, float, float, float]:
    """Return the profile, and R, L and C of a whole warp or repetition."""
    if variant not in ("saavedra_barrera", "agarwal"):
        raise ValueError(f"variant = {variant!r}: 'saavedra_barrera' or 'agarwal'")
    if not switch_cycles >= 0:
        raise ValueError(f"switch_cycles = {switch_cycles!r}: cycles, at least 0")
    of = _covered(gpu, kernel)
    loads = of.of("load")
    if arithmetic_latency:  # R = alpha x alu_lat
        run = sum(part.count * part.latency for part in of.arithmetic)
    else:  # R = (alpha + 1) x instruction time
        instruction = max(1 / gpu.unit_ipc("alu"), 1 / gpu.issue_ipc)
        run = busy(of.arithmetic) + instruction * count(of.accesses)
    if run + switch_cycles == 0:
        raise NotCoveredError(f"{kernel.name}: nothing to run while a warp waits")
    return of, run, sum(p.count * p.latency for p in loads), switch_cycles * count(loads)


def _period(run: float, wait: float, switch: float, variant: str) -> float:
    return run + wait + (switch if variant == "saavedra_barrera" else 0.0)

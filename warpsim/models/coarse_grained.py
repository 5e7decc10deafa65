"""Coarse-grained multithreading, which switches only at memory accesses, and prefetching (V 4.9).

Sources, as restated in V 4.9: A. Agarwal, Performance tradeoffs in multithreaded processors, 1989; R. Saavedra-Barrera,
D. Culler, T. von Eicken, Analysis of multithreaded architectures for parallel computing, 1990; T. Mowry, M. Lam, A. Gupta,
Design and evaluation of a compiler algorithm for prefetching, 1992. V is Volkov 2016 (docs/bibliography.md).

A thread runs for R cycles and then waits L cycles for memory. A switch to the next thread takes C cycles. Then::

    threads needed = (R + L) / (R + C)          Agarwal, section 2
    threads needed = L / (R + C) + 1            Saavedra-Barrera et al., eq. 4
    prefetch distance = ceil(l / s)             Mowry et al.: memory latency l, instructions s of an iteration

Assumptions: Warps switch at loads and nowhere else. Other warps hide only the latency of memory; arithmetic instructions take
their peak rate or, with `arithmetic_latency`, stall the processor for their latency. Memory has no bandwidth limit.

Limits: GPUs switch at every cycle. The model underestimates the occupancy that they need, as the CUDA guide does (V 4.8), and
by more with `arithmetic_latency` (V 4.9). Barriers are not covered.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.arguments import check_fraction, choice
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.by_class import ClassCounts, busy, class_counts, count, dataset, refuse
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis

Variant = Literal["saavedra_barrera", "agarwal"]


@accepts_names
def needed_warps(
    gpu: Gpu,
    kernel: Kernel,
    *,
    fraction: float = 1.0,
    variant: Variant = "saavedra_barrera",
    switch_cycles: float = 0.0,
    arithmetic_latency: bool = False,
) -> float:
    """Returns the warps per SM that keep the processor busy (V 4.9).

    Args:
        gpu: the chip.
        kernel: a kernel with loads and without barriers.
        fraction: fraction of the throughput of a busy processor; throughput is proportional to the warps below it.
        variant: "saavedra_barrera" (a wait overlaps with the switches of all other warps) or "agarwal". The two are equal if a
            switch costs nothing.
        switch_cycles: C, cycles of a switch; 0 on GPUs.
        arithmetic_latency: count the latencies of arithmetic instructions in R, instead of their times at the peak rate.

    Raises:
        NotCoveredError: the kernel has barriers or no loads, or treats the warps of a block differently.
        ValueError: `fraction` is not above 0 and at most 1, `switch_cycles` is below 0, or `variant` is another word.
    """
    check_fraction(fraction)
    run, wait, switch = _cycles(gpu, kernel, variant, switch_cycles, arithmetic_latency)[1:]
    return fraction * _period(run, wait, switch, variant) / (run + switch)


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    variant: Variant = "saavedra_barrera",
    switch_cycles: float = 0.0,
    arithmetic_latency: bool = False,
) -> xr.Dataset:
    """Returns the throughput: proportional to the warps, up to that of a busy processor.

    A busy processor executes a run of R cycles in R + C cycles. Below that, each warp runs once in the time R + L of a warp
    alone (Saavedra-Barrera et al.: R + L + C).

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0; otherwise as `needed_warps`.
    """
    of, run, wait, switch = _cycles(gpu, kernel, variant, switch_cycles, arithmetic_latency)
    n = axis("warps", warps, at_least=0)
    rate = (n / _period(run, wait, switch, variant)).clip(max=1 / (run + switch))
    return dataset(of, rate, n, source=f"warpsim.models.coarse_grained, V 4.9, {variant}")


@accepts_names
def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


@accepts_names
def prefetch_distance(gpu: Gpu, kernel: Kernel, *, instruction_cycles: float = 1.0) -> int:
    """Returns the number of iterations by which data is prefetched (Mowry et al. 1992, as in V 4.9).

    Args:
        gpu: the chip.
        kernel: an endless loop with loads; one repetition is an iteration.
        instruction_cycles: cycles of an instruction; 1 in the paper.

    Raises:
        NotCoveredError: the kernel is not endless, or `needed_warps` does not cover it.
        ValueError: `instruction_cycles` is not above 0.
    """
    if not instruction_cycles > 0:
        raise ValueError(f"instruction_cycles = {instruction_cycles!r}: must be above 0")
    of = _covered(gpu, kernel)
    if not kernel.endless:
        raise NotCoveredError(f"{kernel.name}: only an endless loop has a prefetch distance")
    return math.ceil(of.memory_latency / (instruction_cycles * of.total))


def _covered(gpu: Gpu, kernel: Kernel) -> ClassCounts:
    refuse(kernel, "coarse_grained", "barrier")
    of = class_counts(gpu, kernel)
    if not of.of("load"):
        raise NotCoveredError(f"{kernel.name}: coarse_grained only covers kernels with loads, at which warps switch")
    return of


def _cycles(
    gpu: Gpu, kernel: Kernel, variant: str, switch_cycles: float, arithmetic_latency: bool
) -> tuple[ClassCounts, float, float, float]:
    """Returns the instructions by class, and the sums of R, L and C over a warp or repetition."""
    choice("variant", variant, ("saavedra_barrera", "agarwal"))
    if not switch_cycles >= 0:
        raise ValueError(f"switch_cycles = {switch_cycles!r}: must be at least 0")
    of = _covered(gpu, kernel)
    loads = of.of("load")
    if arithmetic_latency:  # R = alpha x alu_lat
        run = sum(part.count * part.latency for part in of.arithmetic)
    else:  # R = (alpha + 1) x instruction time
        instruction = max(1 / gpu.unit_ipc("alu"), 1 / gpu.issue_ipc)
        run = busy(of.arithmetic) + instruction * count(of.accesses)
    if run + switch_cycles == 0:
        raise NotCoveredError(f"{kernel.name}: coarse_grained needs instructions to run while a warp waits")
    return of, run, sum(p.count * p.latency for p in loads), switch_cycles * count(loads)


def _period(run: float, wait: float, switch: float, variant: str) -> float:
    return run + wait + (switch if variant.lower() == "saavedra_barrera" else 0.0)

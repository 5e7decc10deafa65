"""The needed occupancy of the CUDA C Programming Guide (V 4.8).

Source: NVIDIA, CUDA C Programming Guide, 5.2.3, as restated in V 4.8. V is Volkov 2016 (docs/bibliography.md). While one warp
waits for memory the others issue at the peak rate, each until it waits too::

    warps needed = mem_lat / (instruction time x alpha)                  alpha: instructions per load
    refined:       mem_lat / (instruction time x (alpha + 1)) + 1        counts the load, and the warp that waits

For kernels without loads it is the latency of the register dependencies over the instruction time (V 4.8, last paragraph).

Assumptions: If there are loads, only memory has a latency. The kernel is bound by instructions, not by memory.

Limits: The model underestimates the needed occupancy by a factor of about 2 (V Figure 4.10), because it ignores the warps that
hide arithmetic latency; the result tends to 0 at large alpha. It has no bandwidth limit, so it is meaningless where memory
binds. Barriers are not covered.
"""

from __future__ import annotations

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.by_class import ClassCounts, busy, class_counts, dataset, refuse
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis


@accepts_names
def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, refined: bool = False) -> float:
    """Returns the warps per SM that attain a fraction of the peak instruction throughput (V 4.8, Table 4.3).

    Args:
        gpu: the chip.
        kernel: a kernel with arithmetic instructions and without barriers.
        fraction: above 0 and at most 1; throughput is proportional to the warps below the peak.
        refined: count the load and the warp that waits.

    Raises:
        NotCoveredError: the kernel has barriers or no arithmetic, or treats the warps of a block differently.
        ValueError: `fraction` is not above 0 and at most 1.
    """
    check_fraction(fraction)
    of = _covered(gpu, kernel)
    return fraction * _wait(of, refined) / _issue_time(of, refined)


@accepts_names
def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, refined: bool = False) -> xr.Dataset:
    """Returns the throughput: proportional to the warps, up to the peak at the needed number.

    The guide only states the point at which latency is hidden. Its argument implies the straight line to that point: each
    warp issues its instructions once in the time that it waits.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: as `needed_warps`.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0.
    """
    of = _covered(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    rate = (n / _wait(of, refined)).clip(max=1 / _issue_time(of, refined))
    return dataset(of, rate, n, source="warpsim.models.cuda_guide, V 4.8")


@accepts_names
def execution_time(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, refined: bool = False
) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop."""
    return throughput(gpu, kernel, warps=warps, refined=refined)["execution_time"]


def _covered(gpu: Gpu, kernel: Kernel) -> ClassCounts:
    refuse(kernel, "cuda_guide", "barrier")
    of = class_counts(gpu, kernel)
    if not of.arithmetic:
        raise NotCoveredError(f"{kernel.name}: cuda_guide only covers kernels with arithmetic instructions")
    return of


def _issue_time(of: ClassCounts, refined: bool) -> float:
    """Returns the cycles that a warp's or repetition's instructions take at the peak rate."""
    if not refined:
        return busy(of.arithmetic)
    slot = of.gpu.issue.interval_cycles / of.gpu.sm.schedulers
    alu = max(1 / of.gpu.unit_ipc("alu"), slot)  # V uses this instruction time for the load as well
    return busy(of.arithmetic) + alu * sum(part.count for part in of.accesses)


def _wait(of: ClassCounts, refined: bool) -> float:
    """Returns the cycles in which a warp issues each of its instructions once."""
    loads = of.of("load")
    if not loads:
        return sum(part.count * part.latency for part in of.arithmetic)
    waiting = sum(part.count * part.latency for part in loads)
    return waiting + (_issue_time(of, refined) if refined else 0.0)

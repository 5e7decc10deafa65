"""The needed occupancy of the CUDA C Programming Guide, chapter 5.2.3, as V 4.8 restates it.

V is V. Volkov, Understanding Latency Hiding on GPUs, 2016. While one warp waits for memory, the others issue at the peak
rate, each until it waits too:

    warps needed = mem_lat / (instruction time x alpha)                  alpha: instructions per load
    refined:       mem_lat / (instruction time x (alpha + 1)) + 1        the load, and the warp that waits

Without loads it is the latency of the register dependencies over the instruction time (V 4.8, last paragraph).

Assumed: only memory has a latency, if there are loads; the kernel is bound by instructions, not by memory. So it
underestimates the needed occupancy by a factor of about 2 (V Figure 4.10): what hides arithmetic latency is missing; at
large alpha it goes to 0. It knows no limit of bandwidth: where memory binds, it means nothing. Barriers are not covered.
"""

from __future__ import annotations

import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.common import NotCoveredError, axis, check_fraction
from warpsim.models.parts.profile import Profile, busy, dataset, profile, refuse


def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, refined: bool = False) -> float:
    """Return the warps per SM that attain a fraction of the peak instruction throughput (V 4.8, Table 4.3).

    Args:
        gpu: the chip.
        kernel: one with arithmetic instructions, and no barriers.
        fraction: above 0 and at most 1; throughput is taken to rise in proportion.
        refined: count the load, and the warp that waits.

    Raises:
        NotCoveredError: the kernel has barriers or no arithmetic, or tells the warps of a block apart.
        ValueError: `fraction` is not above 0 and at most 1.
    """
    check_fraction(fraction)
    of = _covered(gpu, kernel)
    return fraction * _wait(of, refined) / _issue_time(of, refined)


def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, refined: bool = False) -> xr.Dataset:
    """Return the throughput: in proportion to the warps, up to the peak at the needed number.

    The guide states the point at which latency is hidden; the straight line to it is what its argument implies: each warp
    issues its instructions once in the time that it waits.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`.

    Raises:
        NotCoveredError: as `needed_warps`.
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0.
    """
    of = _covered(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    rate = (n / _wait(of, refined)).clip(max=1 / _issue_time(of, refined))
    return dataset(of, rate, n, source="warpsim.models.cuda_guide, V 4.8")


def execution_time(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, refined: bool = False
) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once."""
    return throughput(gpu, kernel, warps=warps, refined=refined)["execution_time"]


def _covered(gpu: Gpu, kernel: Kernel) -> Profile:
    refuse(kernel, "cuda_guide", "barrier")
    of = profile(gpu, kernel)
    if not of.arithmetic:
        raise NotCoveredError(f"{kernel.name}: cuda_guide covers kernels that are bound by arithmetic instructions")
    return of


def _issue_time(of: Profile, refined: bool) -> float:
    """Return the cycles that a warp's or repetition's instructions take at the peak rate."""
    if not refined:
        return busy(of.arithmetic)
    slot = of.gpu.issue.interval_cycles / of.gpu.sm.schedulers
    alu = max(1 / of.gpu.unit_ipc("alu"), slot)  # V's instruction time holds for the load too
    return busy(of.arithmetic) + alu * sum(part.count for part in of.accesses)


def _wait(of: Profile, refined: bool) -> float:
    """Return the cycles in which a warp issues once all its instructions."""
    loads = of.of("load")
    if not loads:
        return sum(part.count * part.latency for part in of.arithmetic)
    waiting = sum(part.count * part.latency for part in loads)
    return waiting + (_issue_time(of, refined) if refined else 0.0)

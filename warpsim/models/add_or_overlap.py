"""Times of arithmetic and of memory instructions taken alone, which then overlap or add up (V 4.11, 4.12).

Source: V 4.11 and 4.12. Models such as those of Zhang and Owens and of Sim et al. contain this step (V 4.11). K. Kothapalli et
al., A performance prediction model for the CUDA GPGPU platform, HiPC 2009, has both variants, with times that do not depend
on the occupancy (V 4.12). V is Volkov 2016 (docs/bibliography.md).

With n warps per SM, for a mix of alpha adds per load::

    arithmetic time(n) = max(alu_lat / n, 1 / alu_thru)     memory time(n) = max(mem_lat / n, 1 / mem_thru)
    overlap: max(alpha arithmetic time(n), memory time(n))  add: alpha arithmetic time(n) + memory time(n)

Times are cycles of an SM per repetition. Every other class of arithmetic adds its own time to that of the adds, from its own
latency and throughput. Shared memory is a third part beside arithmetic and memory. Nothing waits for a store.

Assumptions: Each class of instructions runs as if the others were absent. Throughput saturates sharply.

Limits: The overlap variant fails where latency binds: it lets a warp execute an arithmetic and a memory instruction at the
same time, and overestimates throughput by up to a factor of 2. The add variant fails where throughput binds, and
underestimates it by up to a factor of 2. Neither knows an issue limit that the parts share. Barriers are not covered.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim.arguments import check_fraction, choice
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.by_class import ClassCounts, Part, class_counts, dataset, refuse
from warpsim.models.parts.common import accepts_names, axis, quantity
from warpsim.models.parts.needed import smallest_warps

Times = Literal["overlap", "add"]


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    times: Times = "overlap",
    at_peak: bool = False,
) -> xr.Dataset:
    """Returns the throughput if the times overlap (V 4.11) or add up (V 4.12).

    Args:
        gpu: the chip.
        kernel: any kernel without barriers.
        warps: warps per SM, at least 0.
        times: "overlap" or "add".
        at_peak: take all times at peak throughput, at any occupancy (Kothapalli et al. as restated in V 4.12).

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`, and `arithmetic_time`,
        `smem_time` and `memory_time` in cycles of an SM per warp or repetition.

    Raises:
        NotCoveredError: the kernel has barriers, or treats the warps of a block differently.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0, or `times` is another word.
    """
    of = _covered(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    parts = part_times(of, n, at_peak=at_peak)
    together = _together(parts, times)
    named = {
        f"{name}_time": quantity(cycles, "cycles", f"{name} instructions alone, per {of.per} and SM")
        for name, cycles in parts.items()
    }
    equations = "V 4.11" if times.lower() == "overlap" else "V 4.12"
    return dataset(of, (1 / together).where(n > 0, 0.0), n, source=f"warpsim.models.add_or_overlap, {equations}", **named)


@accepts_names
def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, times: Times = "overlap") -> float:
    """Returns the smallest occupancy that attains a fraction of the largest throughput.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1.
        NotCoveredError: as `throughput`.
    """
    check_fraction(fraction)
    of = _covered(gpu, kernel)

    def rate(warps: float) -> float:
        return float(1 / _together(part_times(of, xr.DataArray(warps)), times))

    peak = float(1 / _together(part_times(of, xr.DataArray(1.0), at_peak=True), times))
    return smallest_warps(rate, fraction * peak)


@accepts_names
def execution_time(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, times: Times = "overlap"
) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop."""
    return throughput(gpu, kernel, warps=warps, times=times)["execution_time"]


@accepts_names
def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float) -> str:
    """Returns the part that takes longest at an occupancy: "arithmetic", "smem" or "memory"."""
    parts = part_times(_covered(gpu, kernel), axis("warps", warps, at_least=0))
    return max(parts, key=lambda name: float(parts[name]))


def part_times(of: ClassCounts, warps: xr.DataArray, *, at_peak: bool = False) -> dict[str, xr.DataArray]:
    """Returns the cycles of an SM that arithmetic, shared memory and global memory take alone, per warp or repetition."""
    kinds = {
        "arithmetic": [p for p in of.arithmetic if p.op != "smem"],
        "smem": of.of("smem"),
        "memory": of.accesses,
    }
    numbers = np.asarray(warps.values, dtype=np.float64)  # programs have hundreds of parts: labels would take most of the time

    def alone(part: Part) -> NDArray[np.float64]:
        latency = 0.0 if part.op == "store" or at_peak else part.latency
        with np.errstate(divide="ignore", invalid="ignore"):
            waiting = latency / numbers if latency > 0 else 0.0 * numbers
        return part.count * np.maximum(waiting, part.interval)

    return {name: (0.0 * warps).copy(data=sum(map(alone, parts), 0.0 * numbers)) for name, parts in kinds.items()}


def _covered(gpu: Gpu, kernel: Kernel) -> ClassCounts:
    refuse(kernel, "add_or_overlap", "barrier")
    return class_counts(gpu, kernel)


def _together(parts: dict[str, xr.DataArray], times: Times) -> xr.DataArray:
    combine = choice("times", times, ("overlap", "add"))
    arithmetic, smem, memory = parts.values()
    if combine == "add":
        return arithmetic + smem + memory
    return xr.concat([arithmetic, smem, memory], dim="part").max("part")

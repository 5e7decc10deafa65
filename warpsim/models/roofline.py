"""The roofline model: throughput is bound by arithmetic or by memory, whichever bound is lower.

Source: S. Williams, A. Waterman, D. Patterson, Roofline: An Insightful Visual Performance Model for Multicore Architectures,
Communications of the ACM 52(4), 2009. V 4.1 names it as the model for its workload; V is Volkov 2016 (docs/bibliography.md).

The model is::

    attainable operations per cycle = min(peak, bandwidth x operational intensity)

Assumptions: Latency is hidden at any occupancy. Operations are those of the CUDA cores; all others are free.

Limits: The model fails where latency is not hidden, that is at small occupancies, and where another resource binds: issue,
special functions, shared memory, or a limit of loads in flight.
"""

from __future__ import annotations

import math

import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.parts.by_class import ClassCounts, class_counts, dataset
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis, quantity
from warpsim.models.parts.costs import MEMORY, unit_cycles


@accepts_names
def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.Dataset:
    """Returns the attainable throughput, the same at every occupancy.

    Args:
        gpu: the chip.
        kernel: a kernel with operations of the CUDA cores or accesses to global memory.
        warps: warps per SM, at least 0; only the shape of the result depends on them.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`, and
        `operational_intensity` in operations per byte moved (infinite without accesses).

    Raises:
        NotCoveredError: the kernel has neither of these, or treats the warps of a block differently.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0.
    """
    found = _covered(gpu, kernel)
    n = axis("warps", warps, at_least=0)
    operations, moved = _work(found)
    rate = 1 / max(_cycles(found).values())
    intensity = operations / moved if moved else math.inf
    return dataset(
        found,
        0 * n + rate,
        n,
        source="warpsim.models.roofline, Williams et al. 2009",
        operational_intensity=quantity(intensity, "operations/byte", "operational intensity"),
    )


@accepts_names
def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps)["execution_time"]


@accepts_names
def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float | None = None) -> str:
    """Returns the lower roof: "alu" or "memory". It is the same at every occupancy."""
    if warps is not None:
        axis("warps", warps, at_least=0)
    cycles = _cycles(_covered(gpu, kernel))
    return max(cycles, key=lambda resource: cycles[resource])


@accepts_names
def ridge(gpu: Gpu) -> float:
    """Returns the operational intensity at which the roofs meet, in operations per byte."""
    return units.ipc_to_ops_per_cycle(_peak(gpu)) * gpu.sms / gpu.bandwidth_bytes_per_cycle


def _peak(gpu: Gpu) -> float:
    return min(gpu.unit_ipc("alu"), gpu.issue_ipc * gpu.issue.width)


def _covered(gpu: Gpu, kernel: Kernel) -> ClassCounts:
    found = class_counts(gpu, kernel)
    if not any(_work(found)):
        raise NotCoveredError(f"{kernel.name}: roofline only covers CUDA core operations and accesses to global memory")
    return found


def _work(of: ClassCounts) -> tuple[float, float]:
    """Returns the operations and the bytes moved, per warp or repetition."""
    return units.ipc_to_ops_per_cycle(of.instructions.get("alu", 0.0)), sum(p.count * p.traffic_bytes for p in of.parts)


def _cycles(of: ClassCounts) -> dict[str, float]:
    moved, issue = _work(of)[1], of.gpu.issue_ipc * of.gpu.issue.width
    return {
        "alu": sum(part.count * max(unit_cycles(of.gpu, part.instruction), 1 / issue) for part in of.of("alu")),
        MEMORY: moved * of.gpu.sms / of.gpu.bandwidth_bytes_per_cycle,
    }

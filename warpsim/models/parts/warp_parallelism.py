"""Results that the models of Hong and Kim and of Sim et al. have in common: the time of N warps, MWP and CWP."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.models.parts.common import quantity, result
from warpsim.models.parts.counts import Counts


class HasWarpParallelism(Protocol):
    """A solution of either model's equations: arrays in warps per SM."""

    @property
    def mwp(self) -> NDArray[np.float64]:
        """Memory warp parallelism."""
        ...

    @property
    def cwp(self) -> NDArray[np.float64]:
        """Computation warp parallelism."""
        ...

    @property
    def mwp_peak_bw(self) -> NDArray[np.float64]:
        """Memory warps at the peak bandwidth."""
        ...


def over_warps(warps: xr.DataArray, values: NDArray[Any]) -> xr.DataArray:
    """Returns values with the dimensions and coordinates of the warps."""
    return warps.copy(data=np.broadcast_to(values, warps.shape).copy())


def warp_parallelism(warps: xr.DataArray, solution: HasWarpParallelism) -> dict[str, xr.DataArray]:
    """Returns `mwp`, `cwp` and `mwp_peak_bw` as variables of a result."""
    names = {
        "mwp": "memory warp parallelism",
        "cwp": "computation warp parallelism",
        "mwp_peak_bw": "memory warps at the peak bandwidth",
    }
    return {name: quantity(over_warps(warps, getattr(solution, name)), "warps/SM", text) for name, text in names.items()}


def counted_result(
    gpu: Gpu,
    counted: Counts,
    warps: xr.DataArray,
    *,
    cycles: NDArray[np.float64],
    memory_latency: NDArray[np.float64],
    source: str,
    **others: xr.DataArray,
) -> xr.Dataset:
    """Returns the result of a model from the time of N warps.

    Args:
        gpu: the chip.
        counted: what each warp, or repetition, executes.
        warps: N, warps per SM.
        cycles: time of N warps in cycles, of the shape of `warps`; the rate is 0 at N = 0.
        memory_latency: mean latency of an access in cycles, of the shape of `warps`.
        source: name of the model.
        others: further variables.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = warps.copy(data=np.where(warps.values > 0, warps.values / cycles, 0.0))
    requested = sum(made.requested_bytes * count for _, made, count in counted.accesses(gpu))
    return result(
        gpu,
        {op: rate * count for op, count in counted.ops.items()},
        {
            "bandwidth": rate * requested * units.bytes_per_cycle_to_gbs(gpu.sms, gpu.clock_ghz),
            "memory_latency": over_warps(warps, memory_latency),
            "execution_time": quantity(over_warps(warps, cycles), "cycles", f"time of the SM's warps per {counted.per}"),
            **others,
        },
        source=source,
    )

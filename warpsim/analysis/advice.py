"""Advice for a kernel on a chip: its limits, and the gain of each possible change, predicted by models and simulated.

S is Sim et al. 2012 (`models.gpuperf`), whose potential benefits are upper limits of the time that could be saved. V is Volkov
2016 (`models.volkov`), whose bounds give the bottleneck and the needed warps. See docs/bibliography.md.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.analysis.advice_changes import Change, changes, most_warps, resident_warps
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.kernels.files import as_kernel
from warpsim.models import NotCoveredError, volkov
from warpsim.models.parts.common import check_fraction, quantity
from warpsim.models.parts.counts import counts
from warpsim.models.sim_2012 import gpuperf
from warpsim.results.schema import STATES, coordinate_attrs
from warpsim.results.statistics import interval, paired_difference
from warpsim.simulation.api import builder_arguments, simulate_point
from warpsim.simulation.point import Point, make_point

AS_IT_IS = "as it is"
"""Label of the original kernel on the dimension `change`."""

REPLICATES = 4
"""Default number of replicates; an interval needs several."""

_STREAMS = b"advice"  # common random numbers for all changes, which reduces the variance of the gains


def advise(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    *,
    fraction: float = 0.9,
    departure_delay: float | None = None,
    threads: int = 1,
    **arguments: Any,
) -> xr.Dataset:
    """Reports what limits a kernel on a chip, and simulates what changes would gain.

    Args:
        gpu: the chip, or its name or file.
        kernel: any kernel, or its name or file.
        fraction: fraction of the throughput bound that the needed occupancy attains.
        departure_delay: Delta of S in cycles; S needs it for accesses of several transactions (`models.gpuperf.parameters`).
        threads: number of replicates to run at a time.
        arguments: further arguments of `simulate`, and of the builder of a named kernel; `replicates` defaults to 4.

    Returns:
        The Dataset of `advice.advise_point`.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch.
        NotCoveredError: only some warps of the kernel reach its endless loop, or only some leave it.
    """
    builder = builder_arguments(arguments)
    settings = {name: value for name, value in arguments.items() if name not in builder}
    point = make_point(gpu, as_kernel(kernel, **builder), **{"replicates": REPLICATES, **settings})
    return advise_point(point, fraction=fraction, departure_delay=departure_delay, threads=threads)


def advise_point(
    point: Point, *, fraction: float = 0.9, departure_delay: float | None = None, threads: int = 1
) -> xr.Dataset:
    """Reports what limits a point, and simulates what changes would gain.

    A gain is the work per cycle with a change over that without; the gain of the original is 1. Original and changes use
    common random numbers. Intervals are 95 % confidence intervals (Student's t over replicates), and NaN for one replicate.

    Args:
        point: the point to simulate.
        fraction: as for `advise`.
        departure_delay: as for `advise`.
        threads: as for `advise`.

    Returns:
        A Dataset. Over `change`, the first of which is `AS_IT_IS`:

        - `gain`, `gain_low`, `gain_high`: simulated gain and its interval;
        - `predicted_s`, `predicted_v`: gains predicted by S and V;
        - `potential`: largest gain by S, time over (time - benefit); `benefit`: the name of that benefit, or "".

        Over `saving_of`, the four benefits of S: `saving`, the largest share of the time that each could save. Over `state`:
        `warp_share`, the warp states of the original. Without dimension:

        - `rate`, `rate_low`, `rate_high`: simulated throughput in warps or repetitions per cycle and SM; `rate_s`, `rate_v`:
          by S and V;
        - `warps`, `needed_warps`, `most_warps`: occupancies in warps per SM;
        - `limiter`, `limiter_s`: the bound that binds by V and by S; `tightest`: the bound that binds by V once latency is
          hidden.

        Attributes: `per` ("warp" or "repetition"), `fraction`, and `not_covered`, which says why S does not cover the kernel,
        or is "". Values of S are NaN if it does not cover the kernel.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1, the chip lacks an operation class or a cache latency, or nothing
            issues in `cycles`.
        NotCoveredError: only some warps of the kernel reach its endless loop, or only some leave it.
    """
    check_fraction(fraction)
    gpu, kernel, launch = point.gpu, point.kernel, point.launch
    warps = resident_warps(launch)
    needed = volkov.needed_warps(gpu, kernel, fraction=fraction, block_warps=launch.block_warps)
    found = [Change(AS_IT_IS, point), *changes(point, needed)]

    simulated = [simulate_point(change.point, threads=threads, streams=_STREAMS) for change in found]
    work = np.stack([_work(change, arrays["ipc"]) for change, arrays in zip(found, simulated, strict=True)])
    if not (work > 0).all():
        idle = found[int(np.argmin(work.min(axis=1)))].name
        raise ValueError(f"cycles = {point.cycles}: must be larger, since nothing issued in them ({idle})")
    names = np.array([change.name for change in found], dtype=np.dtypes.StringDType())
    rates = xr.DataArray(work, dims=("change", "replicate"), coords={"change": names})
    gains = paired_difference(rates, "change", relative=True) + 1
    gains = gains.reindex(change=names, fill_value=1.0)
    rate = interval(rates.isel(change=0, drop=True))
    by_v = np.array([_by_v(change) for change in found])
    by_s, costs, why = _all_by_s(found, departure_delay)
    cycles = simulated[0]["warp_cycles"].sum(axis=0)
    per = f"{counts(gpu, kernel, block_warps=launch.block_warps).per}s/cycle/SM"

    def over(values: NDArray[Any], text: str) -> xr.DataArray:
        return quantity(xr.DataArray(values, dims="change", coords={"change": names}), "1", text)

    ds = xr.Dataset(
        {
            "gain": over(gains["mean"].values, "simulated gain"),
            "gain_low": over(gains["low"].values, "lower bound of simulated gain"),
            "gain_high": over(gains["high"].values, "upper bound of simulated gain"),
            "predicted_s": over(by_s / by_s[0], "gain predicted by Sim et al. (S)"),
            "predicted_v": over(by_v / by_v[0], "gain predicted by Volkov (V)"),
            "potential": over(
                np.array([_potential(costs, change.benefit) for change in found]), "potential gain by Sim et al. (S)"
            ),
            "benefit": over(np.array([change.benefit for change in found], dtype=object), "potential benefit by Sim et al. (S)"),
            "saving": quantity(_savings(costs), "1", "largest share of the time that could be saved, by Sim et al. (S)"),
            "warp_share": quantity(
                xr.DataArray(cycles / cycles.sum(), dims="state", coords={"state": list(STATES)}), "1", "share of warp-cycles"
            ),
            "rate": quantity(rate["mean"].values, per, "simulated throughput"),
            "rate_low": quantity(rate["low"].values, per, "lower bound of simulated throughput"),
            "rate_high": quantity(rate["high"].values, per, "upper bound of simulated throughput"),
            "rate_s": quantity(by_s[0], per, "throughput by Sim et al. (S)"),
            "rate_v": quantity(by_v[0], per, "throughput by Volkov (V)"),
            "warps": quantity(warps, "warps/SM", "occupancy"),
            "needed_warps": quantity(needed, "warps/SM", "needed occupancy"),
            "most_warps": quantity(most_warps(gpu, kernel, launch), "warps/SM", "largest occupancy"),
            "limiter": quantity(
                volkov.bottleneck(gpu, kernel, warps=warps, block_warps=launch.block_warps), "1", "bound that binds by Volkov (V)"
            ),
            "tightest": quantity(
                volkov.bottleneck(gpu, kernel, block_warps=launch.block_warps), "1", "tightest bound on throughput by Volkov (V)"
            ),
            "limiter_s": quantity("" if costs is None else costs.bottleneck.item(), "1", "bound that binds by Sim et al. (S)"),
        },
        attrs={
            "source": "warpsim.analysis.advice",
            "gpu": gpu.name,
            "kernel": kernel.name,
            "per": per.partition("s/")[0],
            "fraction": fraction,
            "not_covered": why,
        },
    )
    ds["state"].attrs = coordinate_attrs("state")
    ds["change"].attrs = {"units": "1", "long_name": "change"}
    return ds


def _work(change: Change, ipc: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rate of the original's warps (repetitions) per cycle and SM, of each replicate or of a model."""
    point = change.point
    each = counts(point.gpu, point.kernel, block_warps=point.launch.block_warps).total
    found: NDArray[np.float64] = ipc.sum(axis=-1) / each * change.copies
    return found


def _by_v(change: Change) -> float:
    point = change.point
    ds = volkov.throughput(
        point.gpu, point.kernel, warps=resident_warps(point.launch), block_warps=point.launch.block_warps
    )
    return float(_work(change, ds.ipc.values))


def _all_by_s(found: list[Change], departure_delay: float | None) -> tuple[NDArray[np.float64], xr.Dataset | None, str]:
    """Returns the rates by S, the costs and benefits of the original, and why S does not cover the kernel."""
    rates = np.full(len(found), np.nan)
    costs, why = None, ""
    for number, change in enumerate(found):
        point = change.point
        arguments: dict[str, Any] = {
            "warps": resident_warps(point.launch),
            "block_warps": point.launch.block_warps,
            "departure_delay": departure_delay,
        }
        try:
            ds = gpuperf.throughput(point.gpu, point.kernel, **arguments)
            rates[number] = _work(change, ds.ipc.values)
            costs = gpuperf.benefits(point.gpu, point.kernel, **arguments) if number == 0 else costs
        except NotCoveredError as error:
            why = why or str(error)
    return rates, costs, why


def _savings(costs: xr.Dataset | None) -> xr.DataArray:
    names = list(gpuperf.BENEFITS)
    shares = [np.nan if costs is None else float(costs[name] / costs.t_exec) for name in names]
    return xr.DataArray(shares, dims="saving_of", coords={"saving_of": names})


def _potential(costs: xr.Dataset | None, benefit: str) -> float:
    """Returns the gain if a change realized a benefit of S in full."""
    if costs is None or not benefit:
        return float("nan")
    time, saved = float(costs.t_exec), float(costs[benefit])
    return time / (time - saved) if saved < time else float("inf")

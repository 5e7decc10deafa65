"""What models say of the changes of an advice: the throughput with each, and the benefits by Sim et al. 2012."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim.analysis.advice_changes import Change
from warpsim.analysis.estimates import SIM, VOLKOV
from warpsim.analysis.occupancy_search import warps_held
from warpsim.models import NotCoveredError, volkov
from warpsim.models.parts.counts import counts
from warpsim.models.sim_2012 import gpuperf
from warpsim.results.schema import labels


def rates_by_model(found: list[Change], departure_delay: float | None) -> tuple[xr.DataArray, xr.Dataset | None, str]:
    """Returns the throughput with each change by each model, over `model` and `change`.

    Beside it stand the costs and benefits of the original by Sim et al., and why these do not cover the kernel, or "".
    """
    by_sim, costs, why = _all_by_sim(found, departure_delay)
    by_volkov = np.array([_by_volkov(change) for change in found])
    rates = xr.DataArray(np.stack([by_sim, by_volkov]), dims=("model", "change"), coords={"model": labels([SIM, VOLKOV])})
    return rates, costs, why


def work(change: Change, ipc: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the rate of the original's warps (repetitions) per cycle and SM, of each replicate or of a model."""
    point = change.point
    each = counts(point.gpu, point.kernel, block_warps=point.launch.block_warps).total
    found: NDArray[np.float64] = ipc.sum(axis=-1) / each * change.copies
    return found


def _by_volkov(change: Change) -> float:
    point = change.point
    ds = volkov.throughput(
        point.gpu, point.kernel, warps=warps_held(point, point.launch), block_warps=point.launch.block_warps
    )
    return float(work(change, ds.ipc.values))


def _all_by_sim(found: list[Change], departure_delay: float | None) -> tuple[NDArray[np.float64], xr.Dataset | None, str]:
    """Returns the rates by Sim et al., the costs and benefits of the original, and why they do not cover the kernel."""
    rates = np.full(len(found), np.nan)
    costs, why = None, ""
    for number, change in enumerate(found):
        point = change.point
        arguments: dict[str, Any] = {
            "warps": warps_held(point, point.launch),
            "block_warps": point.launch.block_warps,
            "departure_delay": departure_delay,
        }
        try:
            ds = gpuperf.throughput(point.gpu, point.kernel, **arguments)
            rates[number] = work(change, ds.ipc.values)
            costs = gpuperf.benefits(point.gpu, point.kernel, **arguments) if number == 0 else costs
        except NotCoveredError as error:
            why = why or str(error)
    return rates, costs, why


def savings(costs: xr.Dataset | None) -> xr.DataArray:
    """Returns the largest share of the time that each benefit of Sim et al. could save."""
    names = list(gpuperf.BENEFITS)
    shares = [np.nan if costs is None else float(costs[name] / costs.t_exec) for name in names]
    return xr.DataArray(shares, dims="saving_of", coords={"saving_of": names})


def potential(costs: xr.Dataset | None, benefit: str) -> float:
    """Returns the gain if a change realized a benefit of Sim et al. in full."""
    if costs is None or not benefit:
        return float("nan")
    time, saved = float(costs.t_exec), float(costs[benefit])
    return time / (time - saved) if saved < time else float("inf")

"""Estimates of the models of V chapter 7 for mixes of adds and loads, and the simulations that replace the measurements."""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

import warpsim as ws
from warpsim import models

TITLES = {
    "hong_kim": "Hong and Kim 2009",
    "baghsorkhi": "Baghsorkhi et al. 2010",
    "zhang_owens": "Zhang and Owens 2011",
    "zhang_owens_add": "the same, times added",
    "sim": "Sim et al. 2012",
    "huang_lrr": "Huang et al., round robin",
    "huang_gto": "Huang et al., greedy",
    "huang_lrr_bandwidth": "with bandwidth, round robin",
    "huang_gto_bandwidth": "with bandwidth, greedy",
    "basic": "V 4.1",
    "refined": "V 6.5",
}


def simulated(results: xr.Dataset, gpu: ws.Gpu) -> xr.DataArray:
    """Returns operations per cycle and SM on a chip, including loads, over (alpha, warps, replicate).

    At each point the policy with the larger mean counts, since V takes the largest of several samples.
    """
    of = results.sel(gpu=gpu.name, drop=True)
    total = of.throughput.sum("op", skipna=False).swap_dims(warps_per_scheduler="warps").drop_vars("warps_per_scheduler")
    total = total.dropna("warps", how="all")
    mean = total.mean("replicate")
    return total.isel(scheduler=mean.argmax("scheduler")).drop_vars("scheduler").transpose("alpha", "warps", "replicate")


def estimate(
    name: str, gpu: ws.Gpu, alpha: ArrayLike, warps: ArrayLike, measured: xr.DataArray | None = None
) -> xr.DataArray:
    """Returns operations per cycle and SM by a model, over (alpha, warps).

    Args:
        name: a key of TITLES.
        gpu: the chip.
        alpha: an array of intensities.
        warps: an array of occupancies, in warps per SM.
        measured: for Zhang and Owens, what `simulated` returns: pure loads and pure adds are their measurements.
    """
    alpha, warps = np.atleast_1d(alpha), np.atleast_1d(warps)
    arguments: dict[str, object] = {"warps": warps}
    if name in ("basic", "refined"):
        ds = models.volkov.mix_throughput(gpu, alpha, warps, refined=name == "refined")
        return ds.throughput.sum("op")
    if name.startswith("zhang_owens"):
        assert measured is not None
        alone = measured.mean("replicate") / 32
        arguments["measured"] = {"alu": alone.sel(alpha=np.inf), "load": alone.sel(alpha=0)}
        arguments["times"] = "add" if name.endswith("add") else "overlap"
    if name.startswith("huang"):
        arguments["scheduler"] = name.split("_")[1]
        arguments["bandwidth"] = name.endswith("bandwidth")
    module = {"hong_kim": "mwp_cwp", "sim": "gpuperf", "huang": "huang", "zhang": "zhang_owens"}.get(
        name if name == "hong_kim" else name.split("_")[0], name
    )
    with warnings.catch_warnings():
        if name.startswith("huang"):  # Figure 7.10 shows negative throughput
            warnings.simplefilter("ignore", RuntimeWarning)
        ds = models.over_alpha(models.load(module).throughput, gpu, alpha, **arguments)
    return ds.throughput.sum("op").transpose("alpha", "warps")


def intensities(found: xr.DataArray) -> np.ndarray:
    """Selects the intensities from 1 to 512 (V 7.9)."""
    alpha: np.ndarray = found.alpha.values[(found.alpha.values >= 1) & np.isfinite(found.alpha.values)]
    return alpha


def quotients(name: str, gpu: ws.Gpu, found: xr.DataArray, alpha: ArrayLike | None = None) -> xr.DataArray:
    """Returns estimate over simulation, over (alpha, warps, replicate); `alpha` left out, over 1 to 512."""
    at = found.sel(alpha=intensities(found) if alpha is None else np.atleast_1d(alpha))
    return estimate(name, gpu, at.alpha.values, at.warps.values, found) / at


def extreme(ratio: xr.DataArray, which: str) -> np.ndarray:
    """Returns the replicates of the point with the largest or the smallest quotient of the means over replicates."""
    mean = 1 / (1 / ratio).mean("replicate")  # the simulation is in the denominator
    points = mean.stack(point=[d for d in mean.dims])
    place = points.argmax("point") if which == "largest" else points.argmin("point")
    return ratio.stack(point=[d for d in mean.dims]).isel(point=int(place)).values


def needed(throughput: xr.DataArray, gpu: ws.Gpu, *, fraction: float = 0.9) -> xr.DataArray:
    """Returns the smallest occupancy that attains a fraction of one of the chip's peaks, over alpha; NaN if none does."""
    peak = estimate("basic", gpu, throughput.alpha.values, [1e9]).isel(warps=0)
    return throughput.warps.where(throughput >= fraction * peak).min("warps")


def synthetic() -> ws.Gpu:
    """Returns the GPU of Huang et al. (V 7.6, 7.7): 16 SMs, 1 GHz, 192 GB/s, latencies of 300 and 25 cycles; else as Fermi."""
    data = ws.load_gpu("fermi").to_dict()
    data |= {"name": "synthetic", "sms": 16, "clock_ghz": 1.0}
    data["memory"] |= {"pin_bandwidth_gbs": 192.0, "latency_cycles": 300}
    data["ops"]["alu"]["latency_cycles"] = 25
    return ws.Gpu.from_dict(data)

"""Estimates of the models of V chapter 7 for mixes of adds and loads, and the simulated throughput that replaces hardware."""

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

    Each point uses the policy with the larger mean, because V uses the largest of his samples.
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
        measured: result of `simulated`; Zhang and Owens need measurements of pure loads and pure adds.
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


def intensities(throughput: xr.DataArray) -> np.ndarray:
    """Returns the finite intensities from 1 (V 7.9: 1 to 512)."""
    alpha: np.ndarray = throughput.alpha.values
    return alpha[(alpha >= 1) & np.isfinite(alpha)]


def quotients(name: str, gpu: ws.Gpu, measured: xr.DataArray, alpha: ArrayLike | None = None) -> xr.DataArray:
    """Returns estimate over simulation, over (alpha, warps, replicate). If `alpha` is None, it is 1 to 512."""
    selected = measured.sel(alpha=intensities(measured) if alpha is None else np.atleast_1d(alpha))
    return estimate(name, gpu, selected.alpha.values, selected.warps.values, measured) / selected


def extreme(ratio: xr.DataArray, which: str) -> xr.DataArray:
    """Returns the replicates of the point with the largest or smallest quotient of means; its coordinates name the point."""
    mean = 1 / (1 / ratio).mean("replicate")  # the simulation is in the denominator
    index = mean.argmax(...) if which == "largest" else mean.argmin(...)
    return ratio.isel({dim: int(where) for dim, where in index.items()})


def on_grid(gpu: ws.Gpu, alpha: float, warps: int, share: float) -> float:
    """Returns operations per cycle and SM of V's finite grid, by the better of two policies as in `simulated`.

    V divides the work of the grid by its total time (V 5.5, 5.9, 5.10). SMs without memory accesses are independent, and one
    of them is simulated.
    """
    mix, sms = ws.kernels.mix(alpha), 1 if np.isinf(alpha) else None
    grid = models.volkov.measured_grid(gpu, mix, warps=warps, persistent=gpu.name == "gt200", share=share, sms=sms)
    runs = (ws.simulate(gpu, grid.kernel, launch=grid.launch, scheduler=policy, sms=sms) for policy in ("lrr", "gto"))
    return max(float(ds.throughput.sum("op").mean()) for ds in runs)


def needed(throughput: xr.DataArray, gpu: ws.Gpu, *, fraction: float = 0.9) -> xr.DataArray:
    """Returns, over alpha, the smallest occupancy that attains a fraction of a peak of the chip; NaN if none does."""
    peak = estimate("basic", gpu, throughput.alpha.values, [1e9]).isel(warps=0)
    return throughput.warps.where(throughput >= fraction * peak).min("warps")


def synthetic() -> ws.Gpu:
    """Returns the GPU of Huang et al. (V 7.6, 7.7): Fermi with 16 SMs, 1 GHz, 192 GB/s, and latencies of 300 and 25 cycles."""
    data = ws.load_gpu("fermi").to_dict()
    data |= {"name": "synthetic", "sms": 16, "clock_ghz": 1.0}
    data["memory"] |= {"pin_bandwidth_gbs": 192.0, "latency_cycles": 300}
    data["ops"]["alu"]["latency_cycles"] = 25
    return ws.Gpu.from_dict(data)

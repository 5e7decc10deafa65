"""How many warps hide the latency of a mix of loads and adds, on five chips? V Figures 4.5 and 4.6."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import warpsim as ws
from warpsim.models import volkov
from warpsim.views.plots import needed_warps_vs_alpha

FRACTION = 0.9  # of one of the peak throughputs (V 4.5)
HERE = Path(__file__).parent


def main(out: Path, *, full: bool, workers: int) -> int:
    """Runs the sweep into out/cusp.zarr (resumable), and writes cusp.png and cusp.csv."""
    out.mkdir(parents=True, exist_ok=True)
    name = "cusp_full" if full else "cusp"
    plan = ws.Plan.from_toml(HERE / ("plan_full.toml" if full else "plan.toml"))
    results = ws.sweep(plan, out / f"{name}.zarr", workers=workers, progress=True)
    figure(results).savefig(out / f"{name}.png", dpi=150)
    table(results).to_dataframe().to_csv(out / f"{name}.csv")
    print(f"{out / name}.zarr: results; {name}.png: figure; {name}.csv: needed warps")
    return 0


def models_of(gpu: ws.Gpu, alpha: xr.DataArray) -> dict[str, xr.Dataset]:
    """Returns the needed warps per SM by the basic (V 4.5) and the refined model (V 6.5), by name of the model."""
    both = {"basic model": False, "refined model": True}
    return {
        label: volkov.mix_needed_warps(gpu, alpha.values, fraction=FRACTION, refined=refined)
        .rename("needed_warps")
        .to_dataset()
        for label, refined in both.items()
    }


def figure(results: xr.Dataset) -> Figure:
    """Draws needed warps against alpha, one panel per chip; a dotted line shows the occupancy limit of the chip."""
    chips = [ws.load_gpu(str(name)) for name in results.gpu.values]
    page = Figure(figsize=(11, 6.5), layout="constrained")
    axes = page.subplots(2, 3)
    for gpu, ax in zip(chips, axes.flat, strict=False):
        panel(results.sel(gpu=gpu.name), gpu, ax)
    legend = axes.flat[-1]
    legend.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    legend.legend(handles, labels, loc="center left", title=f"warps that attain {FRACTION:.0%} of a peak")
    return page


def panel(results: xr.Dataset, gpu: ws.Gpu, ax: Axes) -> Axes:
    """Draws one chip."""
    models = {
        label: model.where(model.needed_warps <= gpu.sm.max_warps) for label, model in models_of(gpu, results.alpha).items()
    }
    needed_warps_vs_alpha(results, ax, fraction=FRACTION, models=models)
    ax.axhline(gpu.sm.max_warps, color="grey", linestyle=":", linewidth=1)
    ax.set_ylim(0, gpu.sm.max_warps * 1.08)
    ax.set_title(f"{gpu.generation} ({gpu.title.removeprefix('NVIDIA ')})")
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    return ax


def table(results: xr.Dataset) -> xr.Dataset:
    """Returns the needed warps per SM by chip and alpha: simulated for each policy with intervals, and by both models.

    NaN: no occupancy attains the fraction.
    """
    simulated = results.warpsim.needed_warps(fraction=FRACTION)
    if isinstance(simulated, xr.Dataset):
        columns = {
            f"{name}_{policy}": simulated[name].sel(scheduler=policy, drop=True)
            for policy in results.scheduler.values
            for name in ("needed_warps", "low", "high")
        }
    else:
        columns = {f"needed_warps_{policy}": simulated.sel(scheduler=policy, drop=True) for policy in results.scheduler.values}
    chips = [ws.load_gpu(str(name)) for name in results.gpu.values]
    for label in ("basic model", "refined model"):
        values = [models_of(gpu, results.alpha)[label].needed_warps.values for gpu in chips]
        columns[label.replace(" ", "_")] = xr.DataArray(
            np.array(values), dims=("gpu", "alpha"), coords={"gpu": results.gpu.values, "alpha": results.alpha}
        )
    return xr.Dataset(columns)

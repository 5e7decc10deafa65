"""How many warps hide the latency of a mix of loads and adds, on five chips? V Figures 4.5 and 4.6."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import warpsim as ws
from warpsim.models import volkov
from warpsim.views.plots import needed_warps_vs_alpha
from warpsim.views.plots.style import SETTINGS

FRACTION = 0.9  # of one of the peak throughputs (V 4.5)
NEEDED = f"warps that attain {FRACTION:.0%} of a peak"
MODELS = {"Volkov 2016, constant latency": False, "Volkov 2016, latency under load": True}
EXPLANATION = """\
The peak is that of the resource that limits the mix: the
memory bandwidth at small alpha, adds or issue at large
alpha. Where the two meet, most warps are needed.

Curves have a gap where even a full SM does not attain
90 % of either peak."""
INTERVALS = " Bars are 95 % intervals."
HERE = Path(__file__).parent


def main(out: Path, *, full: bool, workers: int, progress: bool = True) -> int:
    """Runs the sweep into out/cusp.zarr (resumable), and writes cusp.png and cusp.csv; first, a figure of fewer points."""
    out.mkdir(parents=True, exist_ok=True)
    name = "cusp_full" if full else "cusp"
    plan = ws.Plan.from_toml(HERE / ("plan_full.toml" if full else "plan.toml"))
    if not (out / f"{name}.zarr").exists():
        first = ws.sweep(ws.Plan.from_toml(HERE / "plan_first.toml"), workers=workers, progress=progress)
        draw(first, out / f"{name}_first.png")
        print(f"{out / name}_first.png: a first figure, of fewer points; now all {plan.points} points", flush=True)
    results = ws.sweep(plan, out / f"{name}.zarr", workers=workers, progress=progress)
    draw(results, out / f"{name}.png")
    table(results).to_dataframe().to_csv(out / f"{name}.csv")
    print(f"{out / name}.zarr: results; {name}.png: figure; {name}.csv: needed warps")
    return 0


def draw(results: xr.Dataset, path: Path) -> None:
    """Writes the figure."""
    with matplotlib.rc_context(SETTINGS | {"font.size": 9, "axes.titlesize": 10}):
        figure(results).savefig(path, dpi=150)


def models_of(gpu: ws.Gpu, alpha: xr.DataArray) -> dict[str, xr.Dataset]:
    """Returns the needed warps per SM by Volkov's basic (V 4.5) and refined model (V 6.5), by label."""
    return {
        label: volkov.mix_needed_warps(gpu, alpha.values, fraction=FRACTION, refined=refined)
        .rename("needed_warps")
        .to_dataset()
        for label, refined in MODELS.items()
    }


def figure(results: xr.Dataset) -> Figure:
    """Draws needed warps against alpha, one panel per chip, with an explanation in the last field."""
    chips = [ws.load_gpu(str(name)) for name in results.gpu.values]
    page = Figure(figsize=(11, 6.5), layout="constrained")
    axes = page.subplots(2, 3)
    for gpu, ax in zip(chips, axes.flat, strict=False):
        panel(results.sel(gpu=gpu.name), gpu, ax)
    legend = axes.flat[-1]
    legend.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    order = sorted(zip(handles, labels, strict=True), key=lambda shown: isinstance(shown[0], Line2D))  # the simulation first
    shown = [(handle, label) for handle, label in order if not label.startswith("gap")]
    legend.legend(*zip(*shown, strict=True), loc="upper left", frameon=False, title=NEEDED, alignment="left")
    text = EXPLANATION + (INTERVALS if results.sizes["replicate"] > 1 else "")
    legend.text(0.02, 0.0, text, transform=legend.transAxes, va="bottom", fontsize="small", linespacing=1.35)
    return page


def panel(results: xr.Dataset, gpu: ws.Gpu, ax: Axes) -> Axes:
    """Draws one chip."""
    models = {
        label: model.where(model.needed_warps <= gpu.sm.max_warps) for label, model in models_of(gpu, results.alpha).items()
    }
    needed_warps_vs_alpha(results, ax, fraction=FRACTION, models=models)
    ax.axhline(gpu.sm.max_warps, color="grey", linestyle=":", linewidth=1, label="the most warps that an SM holds")
    ax.set_ylim(0, gpu.sm.max_warps * 1.08)
    ax.set_xlabel("alpha: adds per load")
    ax.set_ylabel("warps per SM")
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
    for label, refined in MODELS.items():
        values = [models_of(gpu, results.alpha)[label].needed_warps.values for gpu in chips]
        columns["refined_model" if refined else "basic_model"] = xr.DataArray(
            np.array(values), dims=("gpu", "alpha"), coords={"gpu": results.gpu.values, "alpha": results.alpha}
        )
    return xr.Dataset(columns)

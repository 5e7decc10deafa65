"""Draws V Figures 7.1 to 7.14 with simulated instead of measured points."""

from __future__ import annotations

import numpy as np
import xarray as xr
from estimates import TITLES, estimate, intensities, needed, quotients, simulated, synthetic
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import warpsim as ws
from warpsim.results.statistics import half_width

THROUGHPUT = [  # figure, chip, alpha, models
    ("7.1", "gt200", 32, ("hong_kim",)),
    ("7.2 a", "g80", 0, ("baghsorkhi",)),
    ("7.2 b", "g80", 11.3137, ("baghsorkhi",)),
    ("7.3", "g80", 32, ("baghsorkhi",)),
    ("7.4, left", "gt200", np.inf, ()),
    ("7.4, right", "gt200", 0, ()),
    ("7.5", "gt200", 16, ("zhang_owens", "zhang_owens_add")),
    ("7.6 a", "fermi", 32, ("zhang_owens",)),
    ("7.6 b", "kepler", 32, ("zhang_owens",)),
    ("7.6 c", "maxwell", 64, ("zhang_owens",)),
    ("7.7 a", "fermi", 32, ("sim",)),
    ("7.7 b", "kepler", 32, ("sim",)),
    ("7.7 c", "maxwell", 64, ("sim",)),
    ("7.8 a", "fermi", 0, ("huang_lrr", "huang_gto")),
    ("7.8 b", "kepler", 32, ("huang_lrr", "huang_gto")),
    ("7.9", "maxwell", np.inf, ("huang_lrr", "huang_gto")),
    ("7.10, left", "synthetic", 16, ("huang_lrr_bandwidth", "huang_gto_bandwidth")),
    ("7.10, right", "fermi", 32, ("huang_lrr_bandwidth", "huang_gto_bandwidth")),
]
BANDS = [  # figure, chip, models
    ("7.11", "g80", ("baghsorkhi", "basic", "refined")),
    ("7.11", "gt200", ("zhang_owens", "basic", "refined")),
    ("7.11", "fermi", ("sim", "basic", "refined")),
    ("7.12", "kepler", ("basic", "refined")),
    ("7.12", "maxwell", ("basic", "refined")),
    ("7.13", "fermi", ("huang_lrr", "huang_gto", "basic")),
    ("7.13", "kepler", ("huang_lrr", "huang_gto", "basic")),
    ("7.13", "maxwell", ("huang_lrr", "huang_gto", "basic")),
]
NEEDED = [("g80", "baghsorkhi"), ("gt200", "zhang_owens"), ("fermi", "sim")]
"""The panels of Figure 7.14."""

_PRIOR = (
    {"color": "#999999", "linewidth": 3.5, "zorder": 1},
    {"color": "#d55e00", "linewidth": 1.2, "linestyle": "-.", "zorder": 2},
)
_OURS = {
    "basic": {"color": "black", "linewidth": 1.0, "linestyle": "--"},
    "refined": {"color": "#0072b2", "linewidth": 1.0},
}
_TOP = 2.8  # top of a panel over the largest simulated throughput


def throughput_page(results: xr.Dataset) -> Figure:
    """Draws Figures 7.1 to 7.10: throughput against occupancy."""
    page = Figure(figsize=(13, 15), layout="constrained")
    for ax, (figure, chip, alpha, names) in zip(page.subplots(5, 4).flat, THROUGHPUT, strict=False):
        throughput_panel(results, ax, chip, alpha, names)
        ax.set_title(f"Figure {figure}: {chip}, alpha = {_alpha(alpha)}", fontsize=9)
    for ax in page.axes[len(THROUGHPUT) :]:
        ax.axis("off")
    return page


def throughput_panel(results: xr.Dataset, ax: Axes, chip: str, alpha: float, names: tuple[str, ...]) -> Axes:
    """Draws one mix on one chip: models as lines, the simulation as points with 95 % intervals."""
    gpu = synthetic() if chip == "synthetic" else ws.load_gpu(chip)
    share = 1.0 if alpha == 0 or np.isinf(alpha) else alpha / (1 + alpha)  # of adds in all operations
    measured = None if chip == "synthetic" else simulated(results, gpu)
    most = gpu.sm.max_warps
    lines = np.linspace(0, most, 8 * most + 1) if "bandwidth" in "".join(names) else np.arange(0, most + 1)
    top = 0.0
    if measured is not None:
        points = share * measured.sel(alpha=alpha)
        top = float(points.max())
        ax.errorbar(
            points.warps, points.mean("replicate"), half_width(points.values), fmt="o", markersize=3, color="#009e73",
            label="simulated", zorder=4,
        )  # fmt: skip
    for style, name in zip(_PRIOR, names, strict=False):
        warps = measured.warps.values if name.startswith("zhang_owens") and measured is not None else lines
        values = share * estimate(name, gpu, [alpha], warps, measured).isel(alpha=0)
        finite = values.where(abs(values) < 20 * (top or 32))  # leaves a gap at the pole
        ax.plot(warps, finite, label=TITLES[name], **style)
        top = max(top, min(float(finite.max()), (_TOP if measured is not None else 40) * (top or 1)))
    low = 0.0
    if "bandwidth" in "".join(names):
        ax.axhline(0, color="black", linewidth=0.5)
        top, low = (40.0, -40.0) if chip == "synthetic" else (60.0, -60.0)
    else:
        for name, style in _OURS.items():
            ax.plot(lines, share * estimate(name, gpu, [alpha], lines).isel(alpha=0), label=TITLES[name], zorder=3, **style)
    ax.set_xlim(0, most * 1.02)
    ax.set_ylim(low, 1.08 * top)
    ax.set_xlabel("warps per SM")
    ax.set_ylabel("loads/cycle per SM" if alpha == 0 else "adds/cycle per SM")
    ax.legend(fontsize=6.5, loc="best" if low == 0 else "lower left")
    return ax


def band_page(results: xr.Dataset) -> Figure:
    """Draws Figures 7.11 to 7.13: the range of estimate over simulation against alpha."""
    page = Figure(figsize=(10, 16), layout="constrained")
    for row, (figure, chip, names) in zip(page.subplots(len(BANDS), 3), BANDS, strict=True):
        for ax, name in zip(row, names, strict=False):
            band_panel(results, ax, chip, name)
            ax.set_title(f"{figure}: {TITLES[name]}, {chip}", fontsize=9)
        for ax in row[len(names) :]:
            ax.axis("off")
    return page


def band_panel(results: xr.Dataset, ax: Axes, chip: str, name: str) -> Axes:
    """Draws the smallest and the largest quotient over all occupancies against alpha."""
    gpu = ws.load_gpu(chip)
    ratio = quotients(name, gpu, simulated(results, gpu))
    mean = 1 / (1 / ratio).mean("replicate")
    low, high = mean.min("warps"), mean.max("warps")
    prior = name not in _OURS
    ax.fill_between(mean.alpha, low, high, color="#999999" if prior else "#56b4e9", alpha=0.7)
    ax.plot(mean.alpha, low, mean.alpha, high, color="black", linewidth=0.6)
    ax.axhline(1, color="black", linewidth=0.6, linestyle=":")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_ylim(1 / 8 if name == "baghsorkhi" else 0.4, 3)
    ax.set_yticks([t for t in (0.125, 0.25, 0.5, 0.8, 1, 1.25, 1.5, 2, 2.5) if t >= ax.get_ylim()[0]])
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("alpha")
    ax.set_ylabel("estimate / simulation")
    return ax


def needed_page(results: xr.Dataset) -> Figure:
    """Draws Figure 7.14: the smallest occupancy that attains 90 % of a peak."""
    page = Figure(figsize=(11, 3.6), layout="constrained")
    for ax, (chip, name) in zip(page.subplots(1, 3), NEEDED, strict=True):
        needed_panel(results, ax, chip, name)
        ax.set_title(f"Figure 7.14: {TITLES[name]}, {chip}", fontsize=9)
    return page


def needed_panel(results: xr.Dataset, ax: Axes, chip: str, name: str) -> Axes:
    """Draws one model on its chip; a dotted line shows the occupancy limit of the chip."""
    gpu = ws.load_gpu(chip)
    measured = simulated(results, gpu)
    alpha = intensities(measured)
    points = needed(measured.mean("replicate").sel(alpha=alpha), gpu)
    ax.plot(alpha, points, "o", markersize=4, color="#009e73", label="simulated", zorder=4)
    warps = measured.warps.values if name == "zhang_owens" else np.arange(0.25, 128.1, 0.25)
    for which, style in ((name, _PRIOR[0]), ("basic", _OURS["basic"]), ("refined", _OURS["refined"])):
        at = warps if which == name else np.arange(0.25, 128.1, 0.25)
        ax.plot(alpha, needed(estimate(which, gpu, alpha, at, measured), gpu), label=TITLES[which], **style)
    ax.axhline(gpu.sm.max_warps, color="grey", linestyle=":", linewidth=1)
    ax.set_xscale("log", base=2)
    ax.set_ylim(0, 1.25 * gpu.sm.max_warps if name != "baghsorkhi" else 110)
    ax.set_xlabel("alpha")
    ax.set_ylabel("warps per SM for 90 % of a peak")
    ax.legend(fontsize=7)
    return ax


def _alpha(alpha: float) -> str:
    return "infinity" if np.isinf(alpha) else f"{alpha:.3g}"

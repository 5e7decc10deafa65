"""Does the simulation find the fast ones among the configurations of a kernel, which autotuners find by measuring them?

clone.sh brings measured times and sources; the environment variable WARPSIM_TUNING names their folder. NVRTC compiles them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _processes import in_processes
from _tables import markdown_table, replace_tables, write_rows
from configurations import SPACES, Configuration, sample, simulate
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.stats import spearmanr

from warpsim.views.plots import paper
from warpsim.views.plots.style import COLOURS

HERE = Path(__file__).parent
MEASURED_AGAIN = 5
"""Configurations that the simulation takes for the fastest ones, of which an autotuner would measure all."""

MARKERS = {"shared memory": "o", "L1": "s", "L1, read-only loads": "^"}
"""Variant -> its marker in the figure, where it is hollow if registers are in local memory."""


def main(out: Path, *, full: bool, workers: int) -> int:
    """Simulates samples of all spaces; writes tuning.csv, a figure and the tables of the page. `full`: more of each."""
    out.mkdir(parents=True, exist_ok=True)
    folder, count = Path(os.environ.get("WARPSIM_TUNING", "tuning")), 120 if full else 24
    tasks = [(folder, *one, full) for gpu in SPACES for one in sample(folder, gpu, count)]
    found = in_processes(simulate, tasks, workers)
    write_rows(out / "tuning.csv", found)
    text = tables(found)
    print(text)
    replace_tables(HERE / "README.md", text)
    with paper():
        figure(found).savefig(out / "tuning.png", dpi=150)
    return 0


def tables(found: Sequence[Configuration]) -> str:
    """Returns the tables of the page: how far times are, and what the choice of the simulation is worth."""
    times, choices = [], []
    for gpu in SPACES:
        of_gpu = [one for one in found if one.gpu == gpu]
        kept = [one for one in of_gpu if not one.local_words]
        for variant in dict.fromkeys(one.variant for one in sorted(kept, key=lambda one: one.variant)):
            times.append({"chip": gpu, "reads from": variant, **spread([one for one in kept if one.variant == variant])})
        choices.append({"chip": gpu, "configurations": len(of_gpu), "in local memory": len(of_gpu) - len(kept), **choice(of_gpu)})
    return f"{markdown_table(times)}\n\n{markdown_table(choices)}"


def spread(found: Sequence[Configuration]) -> dict[str, object]:
    """Returns how far simulated times are from measured ones: in the median, and beyond the factor that all have in common."""
    ratios = np.array([one.ratio for one in found])
    common = np.median(ratios)
    apart = np.abs(ratios / common - 1) * 100
    return {
        "configurations": len(found), "simulated over measured, median": f"{common:.2f}",
        "from this factor: median, %": f"{np.median(apart):.1f}", "75 % within, %": f"{np.quantile(apart, 0.75):.1f}",
        "class": "prediction",
    }  # fmt: skip


def choice(found: Sequence[Configuration]) -> dict[str, object]:
    """Returns how the ranks agree, and how slow what the simulation chooses is over the fastest one of the sample."""
    measured = np.array([one.measured_ms for one in found])
    simulated = np.array([one.simulated_ms for one in found])
    order, best = np.argsort(simulated), measured.min()
    return {
        "rank correlation": f"{spearmanr(measured, simulated).statistic:.2f}",
        "median over fastest": f"{np.median(measured) / best:.2f}",
        "simulated fastest over fastest": f"{measured[order[0]] / best:.2f}",
        f"best of {MEASURED_AGAIN} over fastest": f"{measured[order[:MEASURED_AGAIN]].min() / best:.2f}",
        "class": "prediction",
    }


def figure(found: Sequence[Configuration]) -> Figure:
    """Draws the simulated time of each configuration over its measured one, a panel for each GPU."""
    page = Figure(figsize=(12, 3.4), layout="constrained")
    for axes, gpu in zip(page.subplots(1, len(SPACES)), SPACES, strict=True):
        of_gpu = [one for one in found if one.gpu == gpu]
        for (variant, marker), colour in zip(MARKERS.items(), COLOURS, strict=False):
            for spills in (False, True):
                points = [one for one in of_gpu if one.variant == variant and bool(one.local_words) == spills]
                x, y = [one.measured_ms for one in points], [one.simulated_ms for one in points]
                filled, label = ("none", "_") if spills else (colour, variant)
                axes.loglog(x, y, marker, color=colour, markersize=4, markerfacecolor=filled, label=label)
        ends = [min(one.measured_ms for one in of_gpu), max(one.measured_ms for one in of_gpu)]
        axes.loglog(ends, ends, color="0.6", linewidth=0.8, zorder=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.set_title(gpu)
        axes.set_xlabel("measured, ms")
    page.axes[0].set_ylabel("simulated, ms")
    page.axes[0].legend(fontsize=7)
    return page

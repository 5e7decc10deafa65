"""Do the scheduling policies differ on everyday CUDA kernels on today's chips?"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from _tables import markdown_table, replace_tables
from matplotlib.figure import Figure
from numpy.typing import NDArray

import warpsim as ws
from warpsim.kernels import Kernel
from warpsim.results.statistics import half_width
from warpsim.views.plots import paper
from warpsim.views.plots.style import COLOURS, MARKERS

HERE = Path(__file__).parent
CHIPS = {"v100": "sm_70", "t4": "sm_75", "a100": "sm_80", "rtx4090": "sm_89", "h100": "sm_90"}
"""Chip -> the architecture of the machine code that it runs."""

LACKING = {("matmul_tensor", "sm_70")}
"""Kernels that do not compile for an architecture: this one has matrix instructions that came with Turing."""

POLICIES = ("lrr", "gto", "gty")
BASE = "lrr"
SHORTER: dict[str, dict[str, float]] = {
    **{name: {"n": 128} for name in ws.list_kernels() if name.startswith("cuda/matmul")},
    "cuda/softmax": {"columns": 1024},
    "cuda/layer_norm": {"columns": 1024},
    "cuda/stencil": {"nx": 512, "ny": 512, "nz": 16},
    "cuda/histogram": {"words": 1_048_576},
}
"""Kernel -> arguments with which a block lasts for fewer cycles than with those of its file, so that a window sees several."""

SLICE = 2  # SMs
LIFETIMES, LIMITS = (2, 8), ((4_000, 25_000), (30_000, 45_000))
"""The warm-up and the window in lifetimes of a warp, and their limits in cycles."""
LEVEL = 0.95
MATTERS = 1.0  # percent
SECOND_SEED = 2

Rates = dict[tuple[str, str, str], NDArray[np.float64]]
Lifetimes = dict[tuple[str, str], float]
"""(chip, kernel) -> the window in lifetimes of a warp."""


def main(out: Path, *, full: bool, workers: int) -> int:
    """Runs all kernels on all chips. Writes policies.csv, policies.png, and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    settings = {"longer": 4 if full else 1, "threads": workers}
    rates, lifetimes = simulate_all(kernels(), replicates=24 if full else 5, **settings)
    found = differences(rates)
    second = differences(again(found, replicates=32 if full else 8, **settings))
    with (out / "policies.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["chip", "kernel", "policy", "replicate", "ipc"])
        for key, values in rates.items():
            writer.writerows([*key, number, f"{value:.6g}"] for number, value in enumerate(values))
    tables = [summary(found, second), by_chip(found, lifetimes), confirmed(found, second), every(found, rates)]
    replace_tables(HERE / "README.md", "\n".join(markdown_table(rows) for rows in map(list, tables) if rows))
    with paper():
        figure(found).savefig(out / "policies.png", dpi=150)
    print(f"{out}: policies.csv, {len(rates)} points; policies.png")
    return 0


def kernels() -> list[str]:
    """Returns the names of the everyday kernels, without their folder."""
    return [name.removeprefix("cuda/") for name in ws.list_kernels() if name.startswith("cuda/")]


def load(name: str, arch: str) -> Kernel:
    """Returns an everyday kernel in the machine code of an architecture."""
    path = f"cuda/{name}"
    return ws.load_kernel(path, arch=arch, **({"args": SHORTER[path]} if path in SHORTER else {}))


def simulate_all(
    names: list[str], *, replicates: int, longer: int = 1, threads: int = 1, chips: Mapping[str, str] = CHIPS
) -> tuple[Rates, Lifetimes]:
    """Returns the instructions per cycle and SM, one value per replicate, and the windows.

    The policies of a chip and a kernel have the same seeds, warm-up and window, so that their values are pairs.
    """
    rates: Rates = {}
    lifetimes: Lifetimes = {}
    cases = itertools.product(names, dict.fromkeys(chips.values()))
    loaded = {case: load(*case) for case in cases if case not in LACKING}
    for chip, arch in chips.items():
        gpu = ws.load_gpu(chip)
        for name, kernel in ((name, kernel) for (name, of_arch), kernel in loaded.items() if of_arch == arch):
            warmup, cycles, lifetime = spans(gpu, kernel)
            lifetimes[chip, name] = longer * cycles / lifetime
            settings = {"sms": SLICE, "replicates": replicates, "warmup": warmup, "cycles": longer * cycles, "threads": threads}
            for policy in POLICIES:
                run = ws.simulate(gpu, kernel, scheduler=policy, **settings)
                rates[chip, name, policy] = run.ipc.sum("op").values
    return rates, lifetimes


def spans(gpu: ws.Gpu, kernel: Kernel) -> tuple[int, int, float]:
    """Returns the warm-up, the window and the lifetime of a warp in cycles; the last is that of a short run."""
    cycles = 20_000
    pilot = ws.simulate(gpu, kernel, sms=SLICE, replicates=1, warmup=5_000, cycles=cycles, seed=1)
    lifetime = cycles / float(pilot.warp_iterations.mean())
    warmup, window = (int(np.clip(n * lifetime, *limits)) for n, limits in zip(LIFETIMES, LIMITS, strict=True))
    return warmup, window, lifetime


def again(found: Differences, *, replicates: int, longer: int = 1, threads: int = 1, chips: Mapping[str, str] = CHIPS) -> Rates:
    """Returns the rates, with other seeds, where the interval of a difference does not hold 0."""
    rates: Rates = {}
    for chip, name, policy in (key for key, one in found.items() if abs(one.mean) > one.half):
        gpu, kernel = ws.load_gpu(chip), load(name, chips[chip])
        warmup, cycles, _ = spans(gpu, kernel)
        settings = {"sms": SLICE, "replicates": replicates, "warmup": warmup, "cycles": longer * cycles, "threads": threads}
        for each in (BASE, policy):
            if (chip, name, each) not in rates:
                run = ws.simulate(gpu, kernel, scheduler=each, seed=SECOND_SEED, **settings)
                rates[chip, name, each] = run.ipc.sum("op").values
    return rates


class Difference:
    """A policy against round robin on one chip and kernel, in percent, with intervals.

    Attributes:
        values: one difference per replicate, each of a pair of runs with the same random numbers.
        mean: their mean.
        half: half-width of its 95 % interval (Student's t).
        strict: the same with the level divided among all comparisons (Bonferroni).
    """

    def __init__(self, values: NDArray[np.float64], comparisons: int) -> None:
        self.values, self.mean = values, float(values.mean())
        self.half = float(half_width(values, LEVEL))
        self.strict = float(half_width(values, 1 - (1 - LEVEL) / comparisons))

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half:.2f}"


Differences = dict[tuple[str, str, str], Difference]


def differences(rates: Rates) -> Differences:
    """Returns policy - round robin in percent of round robin: (chip, kernel, policy) -> difference."""
    others = [key for key in rates if key[2] != BASE]
    return {
        (chip, name, policy): Difference(100 * (rates[chip, name, policy] / rates[chip, name, BASE] - 1), len(others))
        for chip, name, policy in others
    }


def is_confirmed(first: Difference, second: Difference) -> bool:
    """Whether other seeds have a difference of the same sign, at a level that is divided among all that were repeated."""
    return abs(second.mean) > second.strict and second.mean * first.mean > 0


def summary(found: Differences, second: Differences) -> Iterator[dict[str, str]]:
    """Yields for each policy how many differences there are, how many a second set of seeds confirms, and how large they are."""
    for policy in POLICIES[1:]:
        of = {key: difference for key, difference in found.items() if key[2] == policy}
        sizes = np.abs([difference.mean for difference in of.values()])
        real = [second[key] for key, one in of.items() if key in second and is_confirmed(one, second[key])]
        yield {
            "policy": policy,
            "chips x kernels": str(len(of)),
            "95 % interval without 0": str(sum(abs(one.mean) > one.half for one in of.values())),
            "confirmed by other seeds": f"{len(real)}: {sum(one.mean > 0 for one in real)} faster, "
            f"{sum(one.mean < 0 for one in real)} slower",
            f"of these above {MATTERS:g} %": str(sum(abs(one.mean) > MATTERS for one in real)),
            "median of all sizes, %": f"{np.median(sizes):.2f}",
            "90 % of sizes below, %": f"{np.quantile(sizes, 0.9):.2f}",
        }


def by_chip(found: Differences, lifetimes: Lifetimes) -> Iterator[dict[str, str]]:
    """Yields the mean over the kernels of each chip, with its interval over the replicates, and the shortest window."""
    for chip in dict.fromkeys(key[0] for key in found):
        row = {"chip": chip}
        for policy in POLICIES[1:]:
            values = np.mean([one.values for key, one in found.items() if (key[0], key[2]) == (chip, policy)], axis=0)
            row[f"{policy} against {BASE}, mean over kernels, %"] = str(Difference(values, 1))
        name = min((key[1] for key in lifetimes if key[0] == chip), key=lambda name: lifetimes[chip, name])
        yield row | {"shortest window, lifetimes of a warp": f"{lifetimes[chip, name]:.1f} ({name})"}


def confirmed(found: Differences, second: Differences) -> list[dict[str, str]]:
    """Returns the confirmed differences, the largest first."""
    ranked = sorted(second.items(), key=lambda item: -abs(item[1].mean))
    return [
        {"chip": c, "kernel": n, "policy": p, f"against {BASE}, %": str(found[c, n, p]), "with other seeds, %": str(one)}
        for (c, n, p), one in ranked
        if is_confirmed(found[c, n, p], one)
    ]


def every(found: Differences, rates: Rates) -> Iterator[dict[str, str]]:
    """Yields a row for each kernel: instructions per cycle and SM with round robin, and the differences of the others to it."""
    chips = dict.fromkeys(key[0] for key in found)
    for name in sorted({key[1] for key in found}):
        for policy in POLICIES[1:]:
            yield {"kernel": name, "policy": policy} | {
                f"{chip}, %": f"{found[chip, name, policy]} ({rates[chip, name, BASE].mean():.2f})"
                if (chip, name, policy) in found
                else "no code"
                for chip in chips
            }


def figure(found: Differences) -> Figure:
    """Draws the differences with their intervals: a panel for each chip, a line for each kernel."""
    chips, names = list(dict.fromkeys(key[0] for key in found)), sorted({key[1] for key in found})
    page = Figure(figsize=(11, 0.22 * len(names) + 1.2), layout="constrained")
    places = np.arange(len(names))[::-1]
    for ax, chip in zip(page.subplots(1, len(chips), sharey=True, squeeze=False)[0], chips, strict=True):
        ax.axvline(0, color="0.6", linewidth=1)
        for number, policy in enumerate(POLICIES[1:]):
            here = zip(places, names, strict=True)
            of = {place: found[chip, name, policy] for place, name in here if (chip, name, policy) in found}
            ax.errorbar(
                [one.mean for one in of.values()], np.array(list(of)) + 0.18 - 0.36 * number,
                xerr=[one.half for one in of.values()], fmt=MARKERS[number],
                color=COLOURS[number], markersize=3.5, linewidth=1, fillstyle="none", label=policy,
            )  # fmt: skip
        ax.set(title=chip, yticks=places, yticklabels=names, xlabel=f"against {BASE}, %")
        ax.grid(axis="y", linewidth=0.3)
    page.legend(*page.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return page

"""Do streams on today's chips, and the loaded latency of an H100, come out of the chip files?"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from _tables import comparison, markdown_table, replace_tables
from fit import fit
from loaded import fitted_chip, loaded_latency
from matplotlib.figure import Figure
from mixes import mixed_latency
from streams import HERE, RECORDS, STREAMS, bandwidth, below_the_knee, chip_of, measured

import warpsim as ws
from warpsim.hardware.architectures import BLOCK_LAUNCH, STORE_DRAIN

SIZES = (32, 64, 96, 128, 192, 256, 320, 384, 448, 512, 768, 1024)
"""Threads of a block that the short plan simulates; the full one takes all of the measurement."""

FITTED = {("v100", "read"), ("v100", "init"), ("a40", "scale")}
"""Curves that a fit has used: the turnover of blocks, and the bursts of writes of GDDR6."""

TURNOVER = {("a40", "init")}
"""Curves of which a point, of 64 threads a block, is the turnover of blocks in the file of the chip."""

LOOKED_AT = ("v100", "a100")
"""Chips whose curves were known while the model was made. Those of the others were compared once it stood, with one seed."""

Curves = dict[tuple[str, str], dict[int, float]]
GOAL_PERCENT = 12.0


def main(out: Path, *, full: bool) -> int:
    """Compares the curves. With `full`, all block sizes, three seeds, and the fits anew, which are printed and not written."""
    out.mkdir(parents=True, exist_ok=True)
    if full:
        found, l2_latency = fit(), ws.load_gpu("v100").memory.l2_latency_cycles or 0
        print(f"fit: {found}; the files have {BLOCK_LAUNCH * l2_latency:.0f}, {STORE_DRAIN * l2_latency:.0f}")
    simulated = curves(full)
    write_points(out / "streams.csv", simulated)
    latencies = loaded_latency(fit_again=full)
    mixed = mixed_latency(fitted_chip(False))
    write_tables(out, [summary(simulated), rows(simulated), latencies, mixed], full)
    figure(simulated).savefig(out / "streams.png", dpi=150)
    print(f"{out / 'streams'}.csv: {sum(map(len, simulated.values()))} points; .png: figure")
    return 0


def write_tables(out: Path, tables: list[list[dict[str, str]]], full: bool) -> None:
    """Writes the tables of the full plan into the page, and those of the short one into the output folder."""
    text = "\n".join(markdown_table(table) for table in tables)
    if full:
        replace_tables(HERE / "README.md", text)
    else:
        (out / "streams.md").write_text(text, encoding="utf-8")
        print(f"{out / 'streams'}.md: the tables of this short plan; the page has those of --full")


def curves(full: bool) -> Curves:
    """Returns the simulated bandwidths in GB/s: (chip, kernel) -> threads of a block -> bandwidth."""
    found: Curves = {}
    for chip, kernels in measured().items():
        gpu = chip_of(chip)
        for name, points in kernels.items():
            all_of_it = full and chip in LOOKED_AT
            sizes = sorted(points) if all_of_it else [threads for threads in sorted(points) if threads in SIZES]
            seeds = range(3) if all_of_it else range(1)
            bound = chip not in RECORDS
            found[chip, name] = {
                threads: float(np.mean([bandwidth(gpu, name, threads, bound=bound, seed=seed) for seed in seeds]))
                for threads in sizes
            }
    return found


def errors(chip: str, name: str, simulated: dict[int, float]) -> np.ndarray:
    """Returns the relative errors in percent at the points below 90 % of the measured curve's peak."""
    points = measured()[chip][name]
    sizes = [threads for threads in below_the_knee(points) if threads in simulated]
    return np.array([100 * (simulated[threads] / points[threads] - 1) for threads in sizes])


def summary(simulated: Curves) -> list[dict[str, str]]:
    """Returns a row for each curve: its errors below 90 % of its peak."""
    table = []
    for (chip, name), points in simulated.items():
        found = errors(chip, name, points)
        table.append({
            "chip": chip,
            "kernel": name,
            "points below 90 % of peak": str(len(found)),
            "median of absolute errors, %": f"{np.median(abs(found)):.1f}",
            "largest error, %": f"{found[np.argmax(abs(found))]:+.1f}",
            f"within {GOAL_PERCENT:g} %": f"{np.mean(abs(found) <= GOAL_PERCENT):.0%}",
            "class": class_of(chip, name),
        })  # fmt: skip
    others = tuple(dict.fromkeys(chip for chip, _ in simulated if chip not in LOOKED_AT))
    for what, chips in (("both", LOOKED_AT), ("others", others)):
        keys = [key for key in simulated if key[0] in chips and class_of(*key) == "prediction"]
        every = np.concatenate([errors(*key, simulated[key]) for key in keys])
        table.append({
            "chip": what, "kernel": "predictions", "points below 90 % of peak": str(len(every)),
            "median of absolute errors, %": f"{np.median(abs(every)):.1f}",
            "largest error, %": f"{every[np.argmax(abs(every))]:+.1f}",
            f"within {GOAL_PERCENT:g} %": f"{np.mean(abs(every) <= GOAL_PERCENT):.0%}", "class": "prediction",
        })  # fmt: skip
    return table


def class_of(chip: str, name: str) -> str:
    """Returns whether a curve is an input, as one of its points is, was fitted, or is a prediction."""
    return "input" if (chip, name) in TURNOVER else "fit" if (chip, name) in FITTED else "prediction"


def rows(simulated: Curves) -> list[dict[str, str]]:
    """Compares single points of V100 and A100, and the peaks: those of `read`, `init` and `scale` are inputs."""
    points, table = measured(), []
    for (chip, name), found in simulated.items():
        if chip not in LOOKED_AT:
            continue
        kind = "fit" if (chip, name) in FITTED else "prediction"
        for threads in (32, 128, 256):
            what = f"{name}, {threads} threads a block, GB/s"
            table.append(comparison("gpu-stream", chip, what, points[chip][name][threads], found[threads], kind))
        kind = "input" if name in ("read", "init", "scale") else "prediction"
        peak = max(points[chip][name].values())
        table.append(comparison("gpu-stream", chip, f"{name}, peak, GB/s", peak, max(found.values()), kind))
    return table


def write_points(file: Path, simulated: Curves) -> None:
    """Writes all points: measured and simulated bandwidth in GB/s."""
    points = measured()
    with file.open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(["chip", "kernel", "threads", "measured_gbs", "simulated_gbs"])
        for (chip, name), found in simulated.items():
            writer.writerows([chip, name, threads, points[chip][name][threads], f"{gbs:.1f}"] for threads, gbs in found.items())


def figure(simulated: Curves) -> Figure:
    """Draws measured and simulated bandwidth against the threads of a block, one panel for each kernel."""
    page = Figure(figsize=(11, 6), layout="constrained")
    axes, points = page.subplots(2, 3, sharex=True), measured()
    for name, ax in zip(STREAMS, axes.flat, strict=True):
        for chip, colour in (("v100", "C0"), ("a100", "C1")):
            of_chip, found = points[chip][name], simulated[chip, name]
            ax.plot(list(of_chip), list(of_chip.values()), color=colour, label=f"{chip}, measured")
            ax.plot(list(found), list(found.values()), "o", color=colour, markersize=4, label=f"{chip}, simulated")
        ax.set(title=name, xlabel="threads of a block, two blocks per SM", ylabel="GB/s")
    axes.flat[0].legend()
    return page

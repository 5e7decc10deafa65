"""Does queueing explain how memory latency grows with load? Fit to V Tables 6.5 and 6.6, then prediction of V Table 6.4."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from _tables import comparison, markdown_table, replace_tables
from matplotlib.figure import Figure

import warpsim as ws
from warpsim.analysis.calibration import Targets, curve, errors, fit_queue, whole_warps
from warpsim.hardware.files import params_dir
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import load_distribution
from warpsim.results.schema import QUANTILES

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
FITTED_ROWS = (3.8, 30.0, 82.0, 107.0, 144.0)  # GB/s, of V Table 6.6
PREDICTED_ROWS = (58.0, 129.0)
TABLE_6_4 = {  # warps per scheduler at 90 % and 95 %, linear estimate, % of peak at that; None: not in our copy of V
    "g80": (20, 24, 12, 75),
    "gt200": (16, 18, 12, 84),
    "fermi": (None, None, 15.5, None),
    "kepler": (14, 16, 10, 78),
    "maxwell": (None, None, 7.5, None),
}
HERE = Path(__file__).parent


def main(out: Path, *, full: bool) -> int:
    """Compares predictions with published numbers. With `full`, first fits the parameters and writes them to the chip files."""
    out.mkdir(parents=True, exist_ok=True)
    if full:
        for name in CHIPS:
            print(f"{name}: rms {fit(name):.2f} %", flush=True)
    replicates = 16 if full else 8
    rows = [*fits(), *percentiles(replicates), *needed(replicates), *ilp_for_warps(replicates)]
    with (out / "memory_contention.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    replace_tables(HERE / "README.md", markdown_table(rows))
    figure().savefig(out / "memory_contention.png", dpi=150)
    print(f"{out / 'memory_contention'}.csv: published and simulated numbers; .png: figure")
    return 0


def targets(gpu: Gpu) -> Targets:
    """Returns V's contention curve at every integer number of warps per scheduler; on Kepler also five rows of percentiles."""
    rows = {}
    occupancies = whole_warps(gpu)
    if gpu.memory.measured:
        measured = load_distribution(gpu.memory.distribution)
        rows = {gbs: measured.cycles[list(measured.loads_gbs).index(gbs), 1:-1] for gbs in FITTED_ROWS}
        occupancies = [1, 2, *occupancies]
    return Targets(lambda gbs: float(gpu.memory.contention.latency(gbs)), occupancies, rows)


def fit(name: str) -> float:
    """Fits one chip and writes its file. Returns the relative rms error in percent."""
    gpu = ws.load_gpu(name)
    result = fit_queue(gpu, targets(gpu))
    ws.write_queue_parameters(params_dir() / "gpus" / f"{name}.toml", result.queue)
    return result.rms_percent


def fits() -> list[dict[str, str]]:
    """Compares: the error of each fit, evaluated with seeds that the fit did not use."""
    rows = []
    for name in CHIPS:
        gpu = ws.load_gpu(name)
        again = [100 * np.sqrt(np.mean(errors(gpu, targets(gpu), seed=seed) ** 2)) for seed in (1, 2, 3, 4)]
        what = "rms error of latency, %" + (" (curve and five rows of Table 6.6)" if gpu.memory.measured else "")
        rows.append(comparison("V Table 6.5", name, what, None, np.array(again), "fit") | {"published": "0"})
    return rows


def percentiles(replicates: int) -> list[dict[str, str]]:
    """Compares: the two rows of V Table 6.6 to which no parameter was fitted."""
    gpu = ws.load_gpu("kepler")
    measured = load_distribution(gpu.memory.distribution)
    curves = [curve(gpu, [1, 2, *whole_warps(gpu)], cycles=60_000, seed=seed) for seed in range(replicates)]
    rows = []
    for gbs in PREDICTED_ROWS:
        for level in (0.05, 0.25, 0.5, 0.75, 0.95):
            column = QUANTILES.index(level)
            values = [np.interp(gbs, c["bandwidth"], c["memory_latency_quantile"][:, column]) for c in curves]
            published = measured.cycles[list(measured.loads_gbs).index(gbs), list(measured.levels).index(level)]
            rows.append(
                comparison("V Table 6.6", "kepler", f"{level:.0%} of latencies at {gbs:g} GB/s, cycles", float(published),
                    np.array(values), "prediction")
            )  # fmt: skip
    return rows


def needed(replicates: int) -> list[dict[str, str]]:
    """Compares V Table 6.4: warps per scheduler for 90 and 95 % of the peak, and the share that the linear estimate attains."""
    rows = []
    for name in CHIPS:
        gpu = ws.load_gpu(name)
        at90, at95, linear, percent = TABLE_6_4[name]
        warps = np.array(whole_warps(gpu)) / gpu.sm.schedulers
        shares = [
            curve(gpu, whole_warps(gpu), cycles=60_000, seed=seed)["bandwidth"] / gpu.memory.bandwidth_gbs
            for seed in range(replicates)
        ]
        for share, published in ((0.9, at90), (0.95, at95)):
            values = np.array([_first(warps, s, share) for s in shares])
            if np.isnan(values).any():
                values = np.full(1, np.nan)
            rows.append(
                comparison("V Table 6.4", name, f"warps per scheduler for {share:.0%} of peak", published, values, "prediction")
            )
        values = np.array([100 * np.interp(linear, warps, s) for s in shares])
        what = f"% of peak at {linear:g} warps per scheduler"
        rows.append(comparison("V Table 6.4", name, what, percent, values, "prediction"))
    return rows


def _first(warps: np.ndarray, shares: np.ndarray, share: float) -> float:
    """Returns the first occupancy that attains a share of the peak, interpolated linearly; NaN if none does."""
    above = np.flatnonzero(shares >= share)
    if not len(above):
        return float("nan")
    i = int(above[0])
    if i == 0:
        return float(warps[0])
    return float(np.interp(share, shares[i - 1 : i + 1], warps[i - 1 : i + 1]))


def ilp_for_warps(replicates: int) -> list[dict[str, str]]:
    """Compares V Figure 6.2: two independent loads per warp have the same effect as twice the warps."""
    rows = []
    for name in CHIPS:
        gpu = ws.load_gpu(name)
        warps = gpu.sm.schedulers * 4
        settings = {"replicates": replicates, "warmup": 10_000, "cycles": 60_000}
        two = ws.simulate(gpu, ws.kernels.chain("load", ilp=2), warps=warps, **settings).bandwidth.values
        one = ws.simulate(gpu, ws.kernels.chain("load", ilp=1), warps=2 * warps, **settings).bandwidth.values
        what = f"bandwidth of ILP 2 at {warps} warps over ILP 1 at {2 * warps}"
        rows.append(comparison("V Figure 6.2", name, what, 1.0, two / one, "prediction"))
    return rows


def figure() -> Figure:
    """Draws mean latency against bandwidth on each chip, and percentiles on Kepler; V's curves are lines."""
    page = Figure(figsize=(11, 6.5), layout="constrained")
    axes = page.subplots(2, 3)
    for name, ax in zip(CHIPS, axes.flat, strict=False):
        gpu = ws.load_gpu(name)
        found = curve(gpu, whole_warps(gpu), cycles=60_000)
        x = np.linspace(0, found["bandwidth"].max(), 200)
        ax.plot(x, gpu.memory.contention.latency(x), color="0.4", label="V Table 6.5")
        ax.plot(found["bandwidth"], found["memory_latency"], "o", label="simulated")
        ax.set(title=gpu.generation, xlabel="bandwidth, GB/s", ylabel="mean latency, cycles")
        ax.set_ylim(0, 1.1 * found["memory_latency"].max())
        ax.legend()
    gpu, ax = ws.load_gpu("kepler"), axes.flat[-1]
    measured = load_distribution(gpu.memory.distribution)
    found = curve(gpu, [1, 2, *whole_warps(gpu)], cycles=60_000)
    for level, marker in zip((0.05, 0.25, 0.5, 0.75, 0.95), "vso^D", strict=True):
        line = found["memory_latency_quantile"][:, QUANTILES.index(level)]
        ax.plot(found["bandwidth"], line, color="0.4", linewidth=1)
        ax.plot(measured.loads_gbs, measured.cycles[:, list(measured.levels).index(level)], marker, label=f"{level:.0%}")
    ax.set(title="Kepler: Table 6.6 (marks)", xlabel="bandwidth, GB/s", ylabel="latency, cycles")
    ax.legend()
    return page

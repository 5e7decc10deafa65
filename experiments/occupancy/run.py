"""When does a varying occupancy cost throughput, and how much? Reproduces V chapter 5."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr
from _tables import comparison, markdown_table, replace_tables
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from turnover import CHIPS, constant, figure_costs, summary, sweep

import warpsim as ws
from warpsim.views.plots import occupancy_over_time, warp_lifelines

HERE = Path(__file__).parent
KEPLER = ws.load_gpu("kepler")
POLICIES = ("lrr", "gto")
SFU_STEPS = 2000  # instructions per warp of the sfu kernels: at least 18,000 cycles, 90 times the block launch time
ROUNDS = 100  # successive blocks per block slot in Figure 5.1


def main(out: Path, *, full: bool, workers: int) -> int:
    """Runs all parts. Writes the figures, occupancy.csv (the sweep), and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    replicates = 8 if full else 3
    waves, sawtooth, sizes, wave_of_five = start_up(replicates), jigsaw(), block_sizes(replicates), persistent()
    costs = sweep(replicates=4 if full else 2, threads=workers)
    statements = [*figure_5_1(waves), *figure_5_2(sawtooth), *figure_5_3(sizes), *figure_5_4(wave_of_five)]
    for name, page in {
        "start_up": figure_start_up(waves),
        "imbalance": figure_imbalance(sawtooth),
        "block_size": figure_block_size(sizes),
        "persistent": figure_persistent(wave_of_five),
        "turnover": figure_costs(costs),
    }.items():
        page.savefig(out / f"{name}.png", dpi=150)
    with (out / "occupancy.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(costs[0]))
        writer.writeheader()
        writer.writerows(costs)
    replace_tables(HERE / "README.md", f"{markdown_table(statements)}\n{markdown_table(summary(costs))}")
    print(f"{out}: five figures; occupancy.csv: sweep of {len(costs)} points on {len(CHIPS)} chips")
    return 0


def levels(ds: xr.Dataset, sm: int = 0, begin: float = 0.0, end: float = np.inf) -> tuple[NDArray[np.float64], ...]:
    """Returns the levels of occupancy of an SM from `begin` to `end`, ascending, and the number of cycles at each."""
    changes = ds.isel(replicate=0).dropna("change")
    of_sm = changes["occupancy_change_sm"].values == sm
    edges = np.append(changes["occupancy_change_cycle"].values[of_sm], changes["cycles"].item())
    held = np.diff(np.clip(edges, begin, end))
    warps = changes["occupancy_change_warps"].values[of_sm]
    present = np.unique(warps[held > 0])
    return present, np.array([held[warps == level].sum() for level in present])


def quantile(ds: xr.Dataset, p: float, begin: float = 0.0, end: float = np.inf) -> float:
    """Returns the p-quantile over time of the occupancy of SM 0."""
    warps, held = levels(ds, 0, begin, end)
    return float(warps[np.searchsorted(np.cumsum(held) / held.sum(), p - 1e-12)])


def ops(ds: xr.Dataset, op: str) -> NDArray[np.float64]:
    """Returns the throughput on Kepler in ops/cycle per scheduler, one value per replicate."""
    return ds["throughput"].sel(op=op).values / KEPLER.sm.schedulers


# Figures 3.3 and 5.1: waves that lose synchrony


def start_up(replicates: int) -> list[xr.Dataset]:
    """Runs 16 blocks of 4 warps on each SM, ROUNDS times in succession. Returns one Dataset per seed."""
    launch = ws.Launch(blocks=16 * KEPLER.sms * ROUNDS, block_warps=4)
    trace = ws.Trace(occupancy=True, warps=True)
    return [
        ws.simulate(KEPLER, ws.kernels.mix(16, iterations=15), launch=launch, seed=2016 + seed, trace=trace)
        for seed in range(replicates)
    ]


def figure_5_1(runs: list[xr.Dataset]) -> Iterator[dict[str, str]]:
    """Compares the occupancy in the first waves and in the second half of the run."""
    lifetime = [ds["warp_latency"].item() for ds in runs]
    early = [levels(ds, 0, 0, 2.5 * life) for ds, life in zip(runs, lifetime, strict=True)]
    late = [(0.5 * ROUNDS * life, 0.9 * ROUNDS * life) for life in lifetime]
    yield comparison("V Figure 5.1", "kepler", "start: occupancy most of the time, warps", 64, [
        warps[np.argmax(held)] for warps, held in early], "prediction")  # fmt: skip
    yield comparison("V Figure 5.1", "kepler", "start: least between waves (“nearly half”), warps", 32, [
        warps.min() for warps, _ in early], "prediction")  # fmt: skip
    for p, published in ((0.01, 48), (0.99, 64)):
        values = [quantile(ds, p, *span) for ds, span in zip(runs, late, strict=True)]
        what = f"later: {p:.0%} of the time at or below, warps"
        yield comparison("V Figure 5.1", "kepler", what, published, values, "prediction")


def figure_start_up(runs: list[xr.Dataset]) -> Figure:
    """Draws the lifelines of SM 0 in the first waves, at a transition and later, and its occupancy over the whole run."""
    ds = runs[0]
    life = ds["warp_latency"].item()
    page = Figure(figsize=(11, 6), layout="constrained")
    top, bottom = page.subfigures(2, 1, height_ratios=(1.4, 1))
    spans = {"A: the first waves": (0, 3), "B: falling out of step": (10, 13), "C: later": (80, 83)}
    for (title, (begin, end)), ax in zip(spans.items(), top.subplots(1, 3), strict=True):
        warp_lifelines(ds, ax, start=begin * life, stop=end * life)
        ax.locator_params(axis="x", nbins=3)
        ax.set_title(title)
    occupancy_over_time(ds, bottom.subplots(), sm=0)
    return page


# Figure 5.2: imbalance across schedulers


def sfu(warps: int, block_warps: int | None = None, **options: object) -> xr.Dataset:
    """Runs a chain of sfu instructions in blocks that are replaced, on one SM of Kepler; without memory, SMs are independent."""
    return ws.simulate(
        KEPLER, ws.kernels.chain("sfu", iterations=SFU_STEPS), warps=warps, block_warps=block_warps, sms=1,
        memory="fixed", warmup=100_000, cycles=1_000_000, **options,
    )  # fmt: skip


def jigsaw() -> dict[str, NDArray[np.float64] | xr.Dataset]:
    """Returns the throughput at 1 to 64 warps in the fewest blocks of equal size; NaN where there is no such block size."""
    found: dict[str, NDArray[np.float64] | xr.Dataset] = {}
    for policy in POLICIES:
        values = []
        for warps in range(1, 65):
            size = max(n for n in range(1, 33) if warps % n == 0)
            values.append(ops(sfu(warps, size, scheduler=policy), "sfu")[0] if warps // size <= 16 else np.nan)
        found[policy] = np.array(values)
    found["trace"] = sfu(17, 17, trace=ws.Trace(occupancy=True))
    return found


def figure_5_2(found: dict) -> Iterator[dict[str, str]]:
    """Compares the peak, the loss at 17 warps, and the time for which only one scheduler has warps."""
    lrr = found["lrr"]
    yield comparison("V Figure 5.2", "kepler", "sfu: ops/cycle per scheduler at 12 warps", 8, lrr[11], "prediction")
    for policy in POLICIES:
        for fewer in (12, 16):
            loss = 100 * (1 - found[policy][16] / found[policy][fewer - 1])
            what = f"17 warps: throughput below that of {fewer}, %, {policy}"
            yield comparison("V 5.8", "kepler", what, None, loss, "prediction")
    warps, held = levels(found["trace"])
    stragglers = warps[:-1][np.argmax(held[:-1])]
    yield comparison("V 5.8", "kepler", "17 warps: level of the stragglers, warps", None, stragglers, "prediction")
    part = 100 * held[:-1].max() / held.sum()
    yield comparison("V 5.8", "kepler", "17 warps: time at this level, %", None, part, "prediction")


def figure_imbalance(found: dict) -> Figure:
    """Draws throughput against occupancy, and occupancy over time at 17 warps."""
    page = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = page.subplots(1, 2)
    for policy, marker in zip(POLICIES, "ox", strict=True):
        left.plot(np.arange(1, 65), found[policy], marker, markersize=3.5, label=policy)
    left.axhline(8, color="grey", linestyle=":", linewidth=1)
    left.axvline(17, color="grey", linestyle=":", linewidth=1)
    left.set(xlabel="occupancy (warps/SM)", ylabel="sfu throughput (ops/cycle per scheduler)", ylim=(0, 8.6), xlim=(0, 65))
    left.legend(frameon=False)
    occupancy_over_time(found["trace"], right, sm=0)
    begin = found["trace"]["occupancy_change_cycle"].values.min()
    right.set_xlim(begin, begin + 6 * 20 * SFU_STEPS)
    right.set_title("one block of 17 warps")
    return page


# Figure 5.3: one occupancy, several block sizes


def block_sizes(replicates: int) -> dict[int, xr.Dataset]:
    """Runs 64 warps per SM of Kepler in blocks of 4 to 32 warps, with a mix that benefits from more warps (alpha = 16)."""
    trace = ws.Trace(occupancy=True)
    return {
        size: ws.simulate(
            KEPLER, ws.kernels.mix(16, iterations=20), warps=64, block_warps=size, replicates=replicates,
            warmup=100_000, cycles=300_000, trace=trace,
        )
        for size in (4, 8, 16, 32)
    }  # fmt: skip


def figure_5_3(runs: dict[int, xr.Dataset]) -> Iterator[dict[str, str]]:
    """Compares throughput and swing of the largest and the smallest blocks."""
    found = {
        f"blocks of {size}: {what}, warps": values
        for size in (4, 32)
        for what, values in (("mean occupancy of 64", runs[size]["occupancy"].values), ("swing", swing(runs[size])))
    }
    found["blocks of 4 above blocks of 32 (“larger throughput”), %"] = 100 * (ops(runs[4], "alu") / ops(runs[32], "alu") - 1)
    for what, values in found.items():
        yield comparison("V Figure 5.3", "kepler", what, None, values, "prediction")


def swing(ds: xr.Dataset) -> NDArray[np.float64]:
    """Returns the standard deviation of the occupancy over time in warps, one value per replicate."""
    fraction, warps = ds["occupancy_fraction"].values, ds["warps"].values
    return np.sqrt(np.maximum(fraction @ warps**2 - (fraction @ warps) ** 2, 0))


def figure_block_size(runs: dict[int, xr.Dataset]) -> Figure:
    """Draws throughput against block size, and occupancy over time for the smallest and the largest blocks."""
    page = Figure(figsize=(10, 3.6), layout="constrained")
    left, *right = page.subplots(1, 3)
    means = [ops(ds, "alu").mean() for ds in runs.values()]
    left.plot(list(runs), means, "o-")
    left.axhline(constant("kepler", 16, "lrr", 64) / KEPLER.sm.schedulers, color="grey", linestyle=":", label="64 warps always")
    left.set(xlabel="block size (warps)", ylabel="add throughput (ops/cycle per scheduler)", xscale="log", xticks=list(runs))
    left.set_xticklabels([str(size) for size in runs])
    left.minorticks_off()
    left.legend(frameon=False)
    for size, ax in zip((4, 32), right, strict=True):
        occupancy_over_time(runs[size], ax, sm=0)
        ax.set_xlim(100_000, 200_000)
        ax.set_xticks([100_000, 150_000, 200_000])
        ax.set_title(f"blocks of {size} warps")
    return page


# Figure 5.4: persistent threads against oversubscription


def persistent() -> dict[tuple[str, str], xr.Dataset]:
    """Runs shared memory instructions on G80 in two blocks of 10 warps per SM: all work in one wave, or in 100 waves."""
    g80, found = ws.load_gpu("g80"), {}
    for policy in POLICIES:
        for name, steps, blocks in (("persistent", 20_000, 2), ("oversubscribed", 200, 200)):
            found[policy, name] = ws.simulate(
                g80, ws.kernels.chain("smem", iterations=steps), sms=1, scheduler=policy, memory="fixed",
                launch=ws.Launch(blocks=blocks, block_warps=10, resident_blocks=2), trace=ws.Trace(occupancy=True, warps=True),
            )  # fmt: skip
    return found


def figure_5_4(runs: dict[tuple[str, str], xr.Dataset]) -> Iterator[dict[str, str]]:
    """Compares when the warps end, the time below the nine warps that hide the latency, and the gain of oversubscription."""
    published = {"half": 66.7, "short": 7.0}
    for policy in POLICIES:
        alone, many = runs[policy, "persistent"], runs[policy, "oversubscribed"]
        ends = np.sort(alone["warp_end"].values[0])
        half = 100 * ends[len(ends) // 2 - 1] / alone["cycles"].item()
        what = f"persistent: half of the warps have ended, % of the time, {policy}"
        yield comparison("V 5.9", "g80", what, published["half"], half, "prediction")
        for name, ds, number in (("persistent", alone, published["short"]), ("oversubscribed", many, None)):
            warps, held = levels(ds)
            if name == "oversubscribed":
                for p, level in ((0.02, 10), (0.98, 20)):
                    what = f"{name}: {p:.0%} of the time at or below, warps, {policy}"
                    yield comparison("V 5.9", "g80", what, level, quantile(ds, p), "prediction")
            short = 100 * held[warps < 9].sum() / held.sum()
            yield comparison("V 5.9", "g80", f"{name}: time below 9 warps, %, {policy}", number, short, "prediction")
        gain = 100 * (alone["cycles"].item() / many["cycles"].item() - 1)
        yield comparison("V 5.9", "g80", f"oversubscribed is faster (“a few percent”), %, {policy}", None, gain, "prediction")


def figure_persistent(runs: dict[tuple[str, str], xr.Dataset]) -> Figure:
    """Draws occupancy over time for each policy and each kind of launch."""
    page = Figure(figsize=(10, 5.5), layout="constrained")
    for ((policy, name), ds), ax in zip(runs.items(), page.subplots(2, 2).flat, strict=True):
        panel(ds, ax).set_title(f"{policy}, {name}")
    return page


def panel(ds: xr.Dataset, ax: Axes) -> Axes:
    """Draws the occupancy of the SM, with the number of warps that hide the latency (V Table 6.3)."""
    occupancy_over_time(ds, ax, sm=0)
    ax.axhline(9, color="grey", linestyle=":", linewidth=1)
    return ax

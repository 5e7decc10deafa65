"""What the turnover of blocks costs: a sweep over chips, policies, block sizes, work per warp and block launch cost."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from matplotlib.figure import Figure

import warpsim as ws

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
POLICIES = ("lrr", "gto")
ALPHAS = (2, 16, 64)
WORK = (64, 256, 1024)  # instructions of a warp
LAUNCH = (0, 200, 1000)  # cycles between a block's end and the next one's start
BLOCKS = (2, 4, 8, 16)  # of an SM
LIVES = (5, 15)  # warp lifetimes before the window and in it


def changed(name: str, block_launch: int) -> ws.Gpu:
    """A chip with another block launch cost."""
    return ws.Gpu.from_dict(ws.load_gpu(name).to_dict() | {"block_launch_cycles": block_launch})


@cache
def constant(name: str, alpha: int, policy: str, warps: int) -> float:
    """Add throughput, ops/cycle per SM, of warps that never end: at an occupancy that is constant."""
    ds = ws.simulate(
        ws.load_gpu(name), ws.kernels.mix(alpha), warps=warps, scheduler=policy, sms=1, replicates=2, cycles=50_000
    )
    return float(ds["throughput"].sel(op="alu").mean())


def at(name: str, alpha: int, policy: str, warps: float) -> float:
    """The same at a fractional number of warps, linear between multiples of four."""
    low = int(warps // 4) * 4
    high = min(low + 4, ws.load_gpu(name).sm.max_warps)
    ends = [constant(name, alpha, policy, n) if n else 0.0 for n in (low, high)]
    return ends[0] if high == low else ends[0] + (warps - low) / (high - low) * (ends[1] - ends[0])


def sweep(*, replicates: int, threads: int) -> list[dict[str, float | str]]:
    """One row for each point: occupancy and its swing as fractions of the most; throughput lost, and what explains it.

    `lost_by_mean` is what a constant occupancy as large as the mean would lose; `lost_by_levels` what would be lost if the chip
    worked at each moment as it does at that occupancy held constant.
    """
    rows = []
    for name, policy, alpha, blocks, work, launch in product(CHIPS, POLICIES, ALPHAS, BLOCKS, WORK, LAUNCH):
        gpu = changed(name, launch)
        warps = gpu.sm.max_warps
        size = warps // blocks
        if blocks > gpu.sm.max_blocks or size > gpu.sm.max_block_warps:
            continue
        best = constant(name, alpha, policy, warps)
        lifetime = int(warps * work * alpha / (alpha + 1) * 32 / best)  # Little's law
        ds = ws.simulate(
            gpu, ws.kernels.mix(alpha, iterations=max(1, round(work / (alpha + 1)))), warps=warps, block_warps=size,
            scheduler=policy, sms=1, replicates=replicates, threads=threads, warmup=LIVES[0] * lifetime,
            cycles=LIVES[1] * lifetime,
        )  # fmt: skip
        fraction, level = ds["occupancy_fraction"].values.mean(axis=0), ds["warps"].values
        mean = float(fraction @ level)
        swing = float(np.sqrt(fraction @ (level - mean) ** 2))
        found = float(ds["throughput"].sel(op="alu").mean())
        rows.append(
            {
                "chip": name, "policy": policy, "alpha": alpha, "blocks": blocks, "work": work, "launch_cycles": launch,
                "lifetime_cycles": float(ds["warp_latency"].mean()), "occupancy": mean / warps, "swing": swing / warps,
                "lost": 1 - found / best, "lost_by_mean": 1 - at(name, alpha, policy, mean) / best,
                "lost_by_levels": 1 - sum(f * at(name, alpha, policy, n) for f, n in zip(fraction, level, strict=True)) / best,
            }
        )  # fmt: skip
    return rows


def figure_costs(rows: list[dict[str, float | str]]) -> Figure:
    """Throughput lost against occupancy lost, and against what the mean occupancy explains."""
    page = Figure(figsize=(10, 4.6), layout="constrained")
    left, middle, right = page.subplots(1, 3, sharey=True)
    for alpha, marker in zip(ALPHAS, "osx", strict=True):
        some = [row for row in rows if row["alpha"] == alpha]
        lost = [100 * float(row["lost"]) for row in some]
        style = {"linestyle": "none", "marker": marker, "markersize": 3, "alpha": 0.6, "label": f"alpha = {alpha}"}
        left.plot([100 * (1 - float(row["occupancy"])) for row in some], lost, **style)
        middle.plot([100 * float(row["lost_by_mean"]) for row in some], lost, **style)
        right.plot([100 * float(row["lost_by_levels"]) for row in some], lost, **style)
    labels = ("occupancy lost (%)", "lost at the mean occupancy (%)", "lost at each level in its time (%)")
    for ax, label in zip((left, middle, right), labels, strict=True):
        ax.axline((0, 0), slope=1, color="grey", linewidth=0.8)
        ax.set_xlabel(label)
    left.set_ylabel("throughput lost (%)")
    left.legend(frameon=False)
    return page


def summary(rows: list[dict[str, float | str]]) -> list[dict[str, str]]:
    """By chip and policy, at a block launch of 200 cycles: occupancy, swing, and what is lost, on average and at most."""
    result = []
    for name, policy in product(CHIPS, POLICIES):
        for work in WORK:
            mine = [r for r in rows if (r["chip"], r["policy"], r["work"], r["launch_cycles"]) == (name, policy, work, 200)]
            means = {key: np.mean([float(row[key]) for row in mine]) for key in ("lifetime_cycles", "occupancy", "swing", "lost")}
            result.append(
                {
                    "chip": name, "policy": policy, "instructions of a warp": str(work),
                    "warp latency, cycles": f"{means['lifetime_cycles']:.0f}",
                    "mean occupancy, % of the most": f"{100 * means['occupancy']:.1f}",
                    "swing, %": f"{100 * means['swing']:.1f}",
                    "throughput lost, %": f"{100 * means['lost']:.1f}",
                    "at most, %": f"{100 * max(float(row['lost']) for row in mine):.1f}",
                }
            )  # fmt: skip
    return result

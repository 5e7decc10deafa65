"""Measures the cost of block turnover, over chips, policies, block sizes, work per warp and block launch times."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from matplotlib.figure import Figure

import warpsim as ws

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
POLICIES = ("lrr", "gto")
ALPHAS = (2, 16, 64)
WORK = (64, 256, 1024)  # instructions per warp
LAUNCH = (0, 200, 1000)  # cycles between the end of a block and the start of the next
BLOCKS = (2, 4, 8, 16)  # per SM
LIFETIMES = (5, 15)  # warm-up and counted cycles, in warp lifetimes


def changed(name: str, block_launch: int) -> ws.Gpu:
    """Returns a chip with another block launch time."""
    return ws.Gpu.from_dict(ws.load_gpu(name).to_dict() | {"block_launch_cycles": block_launch})


@cache
def constant(name: str, alpha: int, policy: str, warps: int) -> float:
    """Returns the add throughput, in ops/cycle per SM, at a constant occupancy: the warps never end."""
    ds = ws.simulate(
        ws.load_gpu(name), ws.kernels.mix(alpha), warps=warps, scheduler=policy, sms=1, replicates=2, cycles=50_000
    )
    return float(ds["throughput"].sel(op="alu").mean())


def constant_at(name: str, alpha: int, policy: str, warps: float) -> float:
    """Returns the same at a fractional number of warps, interpolated linearly between multiples of four."""
    low = int(warps // 4) * 4
    high = min(low + 4, ws.load_gpu(name).sm.max_warps)
    ends = [constant(name, alpha, policy, n) if n else 0.0 for n in (low, high)]
    return ends[0] if high == low else ends[0] + (warps - low) / (high - low) * (ends[1] - ends[0])


def sweep(*, replicates: int, threads: int) -> list[dict[str, float | str]]:
    """Returns one row per point: occupancy and its swing as fractions of the limit, the throughput lost, and two explanations.

    `lost_by_mean` is the loss at a constant occupancy equal to the mean. `lost_by_levels` is the loss if the chip had, at each
    moment, the throughput of the present occupancy held constant.
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
            scheduler=policy, sms=1, replicates=replicates, threads=threads, warmup=LIFETIMES[0] * lifetime,
            cycles=LIFETIMES[1] * lifetime,
        )  # fmt: skip
        fraction, level = ds["occupancy_fraction"].values.mean(axis=0), ds["warps"].values
        mean = float(fraction @ level)
        swing = float(np.sqrt(fraction @ (level - mean) ** 2))
        throughput = float(ds["throughput"].sel(op="alu").mean())
        at_levels = sum(f * constant_at(name, alpha, policy, n) for f, n in zip(fraction, level, strict=True))
        rows.append(
            {
                "chip": name, "policy": policy, "alpha": alpha, "blocks": blocks, "work": work, "launch_cycles": launch,
                "lifetime_cycles": float(ds["warp_latency"].mean()), "occupancy": mean / warps, "swing": swing / warps,
                "lost": 1 - throughput / best, "lost_by_mean": 1 - constant_at(name, alpha, policy, mean) / best,
                "lost_by_levels": 1 - at_levels / best,
            }
        )  # fmt: skip
    return rows


def figure_costs(rows: list[dict[str, float | str]]) -> Figure:
    """Draws the throughput lost against the occupancy lost, and against both explanations."""
    page = Figure(figsize=(10, 4.6), layout="constrained")
    left, middle, right = page.subplots(1, 3, sharey=True)
    for alpha, marker in zip(ALPHAS, "osx", strict=True):
        selected = [row for row in rows if row["alpha"] == alpha]
        lost = [100 * float(row["lost"]) for row in selected]
        style = {"linestyle": "none", "marker": marker, "markersize": 3, "alpha": 0.6, "label": f"alpha = {alpha}"}
        left.plot([100 * (1 - float(row["occupancy"])) for row in selected], lost, **style)
        middle.plot([100 * float(row["lost_by_mean"]) for row in selected], lost, **style)
        right.plot([100 * float(row["lost_by_levels"]) for row in selected], lost, **style)
    labels = ("occupancy lost (%)", "lost at the mean occupancy (%)", "lost at each level in its time (%)")
    for ax, label in zip((left, middle, right), labels, strict=True):
        ax.axline((0, 0), slope=1, color="grey", linewidth=0.8)
        ax.set_xlabel(label)
    left.set_ylabel("throughput lost (%)")
    left.legend(frameon=False)
    return page


def summary(rows: list[dict[str, float | str]]) -> list[dict[str, str]]:
    """Returns occupancy, swing, and mean and maximum loss by chip, policy and work, at a block launch time of 200 cycles."""
    result = []
    for name, policy in product(CHIPS, POLICIES):
        for work in WORK:
            selected = [r for r in rows if (r["chip"], r["policy"], r["work"], r["launch_cycles"]) == (name, policy, work, 200)]
            columns = ("lifetime_cycles", "occupancy", "swing", "lost")
            means = {key: np.mean([float(row[key]) for row in selected]) for key in columns}
            result.append(
                {
                    "chip": name, "policy": policy, "instructions of a warp": str(work),
                    "warp latency, cycles": f"{means['lifetime_cycles']:.0f}",
                    "mean occupancy, % of the most": f"{100 * means['occupancy']:.1f}",
                    "swing, %": f"{100 * means['swing']:.1f}",
                    "throughput lost, %": f"{100 * means['lost']:.1f}",
                    "at most, %": f"{100 * max(float(row['lost']) for row in selected):.1f}",
                }
            )  # fmt: skip
    return result

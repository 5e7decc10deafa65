"""Do measurements on the simulated chip agree with hardware? V Tables 6.1 to 6.3, measured in the simulator."""

from __future__ import annotations

import csv
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _tables import GRID_COLUMN, KINDS, comparison, count_within, markdown_table, replace_tables, with_grid
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import warpsim as ws
from warpsim.analysis.calibration import whole_warps
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.models.volkov import measured_grid

CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")
INSTRUCTIONS = ("add", "sfu", "smem", "smem2", "stream", "random")
PEAK = {  # V Table 6.1, ops/cycle per scheduler
    "g80": (8, 2, 6, 3, 0.86, 0.027),
    "gt200": (8, 2, 8, 4, 0.89, 0.016),
    "fermi": (16, 2, 8, 4, 0.97, 0.029),
    "kepler": (32, 8, 8, 4, 1.07, 0.034),
    "maxwell": (32, 8, 8, 4, 0.65, 0.023),
}
LATENCY = {  # V Table 6.2, cycles
    "g80": (20, 32, 38, 54, 444, 644),
    "gt200": (24, 34, 40, 56, 434, 662),
    "fermi": (18, 22, 26, 58, 513, 1571),
    "kepler": (9, 9, 24, 56, 301, 1213),
    "maxwell": (6, 13, 24, 26, 368, 534),
}
NEEDED = {  # V Table 6.3, warps per scheduler; memory at 90 % of the peak; None: below 1 or not in our copy
    "g80": (5, 2, 9, 6, 20, None),
    "gt200": (6, 3, 11, 8, 16, None),
    "fermi": (9, 1.5, 6.5, 7.5, None, 2),
    "kepler": (9, 3, 6, 7, 14, 1.75),
    "maxwell": (6, 4, 8, 3.75, None, 0.75),
}
TABLE_4_3 = {  # V Table 4.3: alpha, and the guide's estimate of needed warps per SM
    "g80": (16, 6.9), "gt200": (16, 6.8), "fermi": (32, 16), "kepler": (32, 38), "maxwell": (64, 23),
}  # fmt: skip
SHARE, COMPUTE_SHARE = 0.3, 0.1
"""Share of the work of V's finite grids that the quick experiment runs, and that all runs without memory accesses have; see
`measured_grid` for what it changes."""
# Whether a latency is an input of the chip file, was fitted, or is a prediction; the others are inputs.
CLASS_OF_LATENCY = {"stream": "fit", "random": "prediction"}
HERE = Path(__file__).parent


def main(out: Path, *, full: bool) -> int:
    """Measures all chips. Writes validation.csv, validation.png, and the table of the page."""
    out.mkdir(parents=True, exist_ok=True)
    replicates = 8 if full else 4
    share = 1.0 if full else SHARE
    rows = [row for name in CHIPS for row in chip(ws.load_gpu(name), replicates=replicates, share=share)]
    rows += [*listings(), *vector_add(replicates), *stride_two(replicates), *worksheet(replicates)]
    rows += [*figure_4_7(), *guide(replicates, share)]
    memory = runpy.run_path(str(HERE.parent / "memory_contention" / "run.py"))  # Tables 6.4 and 6.6, and Figure 6.2
    rows += [*memory["needed"](2 * replicates), *memory["percentiles"](2 * replicates), *memory["ilp_for_warps"](2 * replicates)]
    rows = [row | {GRID_COLUMN: row.get(GRID_COLUMN, "")} for row in rows]
    with (out / "validation.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    replace_tables(HERE / "README.md", markdown_table(rows))
    figure(rows).savefig(out / "validation.png", dpi=150)
    for kind in KINDS:
        (within_1, count), (within_5, _) = count_within(rows, kind, 1), count_within(rows, kind, 5)
        print(f"{kind}: {count} numbers, {within_1} within 1 %, {within_5} within 5 %")
    return 0


def kernel(kind: str) -> Kernel:
    """Returns a sequence of dependent instructions of one kind (V 5.2)."""
    if kind == "random":
        return ws.kernels.chain("load", pattern="random")
    if kind == "smem2":
        return ws.kernels.chain("smem", ways=2)
    return ws.kernels.chain({"add": "alu", "stream": "load"}.get(kind, kind))


def chip(gpu: Gpu, *, replicates: int, share: float) -> Iterator[dict[str, str]]:
    """Yields the rows of one chip, with the numbers of V's finite grids at the occupancies that the rows are about."""
    for column, kind in enumerate(INSTRUCTIONS):
        op = {"add": "alu", "smem2": "smem", "stream": "load", "random": "load"}.get(kind, kind)
        occupancies = [1, *whole_warps(gpu)] if gpu.sm.schedulers > 1 else whole_warps(gpu)
        if kind != "random":
            occupancies = sorted({*occupancies, *range(1, min(33, gpu.sm.max_warps))} & set(_possible(gpu)))
        rates = {warps: rate(gpu, kernel(kind), op, warps, replicates) for warps in occupancies}
        peak = np.max([values for values in rates.values()], axis=0)
        if kind == "random":  # V 6.7: unloaded latency with one warp per device
            short_chain = ws.kernels.chain("load", pattern="random", iterations=20)
            launch = ws.Launch(blocks=1, block_warps=1, resident_blocks=1)
            latency = ws.simulate(gpu, short_chain, launch=launch, replicates=replicates).memory_latency.values
        else:
            latency = 1 / rates[1]
        of_scheduler = 32 * peak / gpu.sm.schedulers
        if kind == "stream":  # V 6.3 finds the peak with instruction-level parallelism
            more = rate(gpu, ws.kernels.chain("load", ilp=2), op, whole_warps(gpu)[-1], replicates)
            of_scheduler = 32 * more / gpu.sm.schedulers
        highest = max(rates, key=lambda warps: rates[warps].mean())
        of_grid = {warps: grid_rate(gpu, kernel(kind), op, warps, share) for warps in (1, highest) if warps in rates}
        line = row("Table 6.2", gpu, f"{kind}: latency, cycles", LATENCY[gpu.name][column], latency,
                   CLASS_OF_LATENCY.get(kind, "input"))  # fmt: skip
        yield line if kind == "random" else with_grid(line, latency, 1 / of_grid[1])
        line = row("Table 6.1", gpu, f"{kind}: ops/cycle per scheduler", PEAK[gpu.name][column], of_scheduler, "input")
        yield line if kind == "stream" else with_grid(line, of_scheduler, 32 * of_grid[highest] / gpu.sm.schedulers)
        fraction = 0.9 if kind in ("stream", "random") else 0.99
        wanted = fraction * PEAK[gpu.name][column] * gpu.sm.schedulers / 32
        needed = next((warps for warps, values in rates.items() if values.mean() >= wanted), np.nan)
        attaining = (warps for warps in rates if warps >= needed and grid_rate(gpu, kernel(kind), op, warps, share) >= wanted)
        line = row("Table 6.3", gpu, f"{kind}: warps per scheduler for {fraction:.0%} of the peak", NEEDED[gpu.name][column],
                   needed / gpu.sm.schedulers, "prediction")  # fmt: skip
        yield with_grid(line, needed / gpu.sm.schedulers, next(attaining, np.nan) / gpu.sm.schedulers)


def listings() -> Iterator[dict[str, str]]:
    """Yields the issue cycles of one warp on an idle chip (Listings 3.1 to 3.3)."""
    kepler, fermi = ws.load_gpu("kepler"), ws.load_gpu("fermi")
    cases = [
        ("Listing 3.1", kepler, ws.kernels.listing_3_1(), 1, 0, (0, 301, 325, 334, 343), "input"),
        ("Listing 3.2, adds", fermi, ws.kernels.listing_3_2("adds"), 1, 0, tuple(range(0, 42, 6)), "input"),
        ("Listing 3.2, stores", fermi, ws.kernels.listing_3_2("stores"), 1, 0, tuple(range(0, 238, 34)), "input"),
        ("Listing 3.2, loads", fermi, ws.kernels.listing_3_2("loads"), 1, 0, (0, 6, 12, 38, 44, 526, 534), "prediction"),
        ("Listing 3.3, warp 1", fermi, ws.kernels.listing_3_3(), 2, 0, (0, 28, 540, 546, 580), "prediction"),
        ("Listing 3.3, warp 2", fermi, ws.kernels.listing_3_3(), 2, 1, (0, 32, 580), "prediction"),
    ]
    for source, gpu, of, warps, slot, published, kind in cases:
        launch = ws.Launch(blocks=1, block_warps=warps, resident_blocks=1)
        run = ws.simulate(gpu, of, launch=launch, memory="fixed", trace=ws.Trace(issues=(0, 10_000))).isel(replicate=0)
        cycles = run.issue_cycle.values[run.issue_slot.values == slot]
        for number, (expected, cycle) in enumerate(zip(published, cycles, strict=False)):
            if number:  # the first instruction issues at 0 by definition
                yield row(source, gpu, f"issue cycle of instruction {number + 1}", expected, float(cycle), kind)


def vector_add(replicates: int) -> Iterator[dict[str, str]]:
    """Yields V 3.8: the model at small occupancies, which agrees with the measurements, and the largest measured bandwidth."""
    gpu = ws.load_gpu("kepler")
    for warps, published in ((4, 4 * 6.35), (8, 8 * 6.35), (64, 156.0)):
        bandwidth = ws.simulate(gpu, ws.kernels.vector_add(), warps=warps, replicates=replicates).bandwidth.values
        yield row("3.8, Figure 3.6", gpu, f"vector add at {warps} warps per SM, GB/s", published, bandwidth, "prediction")


def stride_two(replicates: int) -> Iterator[dict[str, str]]:
    """Yields V 4.3: accesses with stride 2 on Maxwell."""
    gpu = ws.load_gpu("maxwell")
    of = ws.kernels.chain("load", pattern="stride", stride=2)
    settings = {"replicates": replicates, "warmup": 5_000, "cycles": 40_000}
    runs = {warps: ws.simulate(gpu, of, warps=warps, **settings) for warps in whole_warps(gpu)}
    rates = {warps: ds.ipc.sel(op="load").values for warps, ds in runs.items()}
    short_chain = ws.kernels.chain("load", pattern="stride", stride=2, iterations=20)
    alone = ws.simulate(gpu, short_chain, launch=ws.Launch(blocks=1, block_warps=1, resident_blocks=1), replicates=replicates)
    yield row("4.3", gpu, "stride 2: latency, cycles", 376, alone.memory_latency.values, "prediction")
    yield row("4.3", gpu, "stride 2: peak, IPC/SM", 0.041, max(rates.values(), key=np.mean), "prediction")
    needed = next(warps for warps, values in rates.items() if values.mean() >= 0.9 * 0.041)
    yield row("4.3", gpu, "stride 2: warps per SM for 90% of the peak", 20, float(needed), "prediction")


def worksheet(replicates: int) -> Iterator[dict[str, str]]:
    """Yields V Table 3.4: cycles per warp and SM of a mix of all instruction types on Maxwell, bound by memory."""
    gpu = ws.load_gpu("maxwell")
    ds = ws.simulate(gpu, ws.kernels.worksheet_3_2(), warps=64, replicates=replicates)
    cycles = 10 / ds.ipc.sel(op="load").values  # ten loads per warp
    yield row("Table 3.4", gpu, "cycles per warp and SM (a bound in V)", 184.5, cycles, "prediction")


def figure_4_7() -> Iterator[dict[str, str]]:
    """Yields V Figure 4.7: 6 warps sustain 1 add per cycle with alu latency 3, memory latency 12 and alpha = 4.

    Times are doubled and the unit accepts an add every other cycle, so that loads have free issue slots as in the figure.
    """
    described = ws.load_gpu("kepler").model_dump(mode="json")
    described |= {"name": "figure_4_7", "sms": 1}
    described["sm"]["schedulers"] = 1
    described["issue"] = {"interval_cycles": 1, "width": 1}
    described["ops"]["alu"] |= {"latency_cycles": 6, "interval_cycles": 2, "scope": "scheduler", "gap_cycles": 1}
    described["ops"]["load"] |= {"interval_cycles": 1, "scope": "scheduler", "gap_cycles": 1}
    described["memory"] |= {"latency_cycles": 24}
    drawn = Gpu.from_dict(described, source="V Figure 4.7")
    for scheduler in ("gto", "lrr"):
        ds = ws.simulate(drawn, ws.kernels.mix(alpha=4), warps=6, block_warps=1, scheduler=scheduler, memory="fixed")
        rate = 2 * ds.ipc.sel(op="alu").values
        yield row("Figure 4.7", drawn, f"{scheduler}: adds per drawn cycle of 6 warps", 1, rate, "prediction")


def guide(replicates: int, share: float) -> Iterator[dict[str, str]]:
    """Yields V Table 4.3 and 4.8: the needed warps by the CUDA guide, which V finds too small by a factor of about 2."""
    for name, (alpha, estimate) in TABLE_4_3.items():
        gpu = ws.load_gpu(name)
        of, peak = ws.kernels.mix(alpha=alpha), min(gpu.issue_ipc, gpu.unit_ipc("alu"))
        settings = {"replicates": replicates, "warmup": 5_000, "cycles": 20_000}
        rates = {warps: ws.simulate(gpu, of, warps=warps, **settings).ipc.sel(op="alu").values for warps in whole_warps(gpu)}
        needed = next((warps for warps, values in rates.items() if values.mean() >= 0.9 * peak), np.nan)
        attaining = (warps for warps in rates if warps >= needed and grid_rate(gpu, of, "alu", warps, share) >= 0.9 * peak)
        what = f"warps for 90% of the add peak at alpha = {alpha}, over Table 4.3's {estimate:g}"
        line = row("4.8", gpu, what, 2, needed / estimate, "prediction")
        yield with_grid(line, needed / estimate, next(attaining, np.nan) / estimate)


def _possible(gpu: Gpu) -> list[int]:
    """Returns the occupancies that are a multiple of an allowed block size."""
    occupancies = []
    for warps in range(1, gpu.sm.max_warps + 1):
        try:
            default_block_warps(gpu, warps)
        except ValueError:
            continue
        occupancies.append(warps)
    return occupancies


def rate(gpu: Gpu, of: Kernel, op: str, warps: int, replicates: int) -> np.ndarray:
    """Returns instructions per cycle and SM, one number per replicate."""
    memory = op == "load"
    settings = {"replicates": replicates if memory else 2, "warmup": 5_000, "cycles": 40_000 if memory else 10_000}
    return ws.simulate(gpu, of, warps=warps, **settings).ipc.sel(op=op).values


def grid_rate(gpu: Gpu, of: Kernel, op: str, warps: int, share: float) -> float:
    """Returns instructions per cycle and SM as V measured them: the work of a finite grid over its total time (V 5.5, 5.9, 5.10).

    SMs without memory accesses are independent, and one of them is simulated.
    """
    sms = None if "load" in of.ops else 1
    share = share if "load" in of.ops else COMPUTE_SHARE
    grid = measured_grid(gpu, of, warps=warps, persistent=gpu.name == "gt200", share=share, sms=sms)
    return float(ws.simulate(gpu, grid.kernel, launch=grid.launch, sms=sms).ipc.sel(op=op).mean())


def row(source: str, gpu: Gpu, quantity: str, published: float | None, values: ArrayLike, kind: str) -> dict[str, str]:
    """Returns one row of the table."""
    return comparison(f"V {source}", gpu.name, quantity, published, values, kind)


def figure(rows: list[dict[str, str]]) -> Figure:
    """Draws the error of each number against the published value."""
    page = Figure(figsize=(7, 4), layout="constrained")
    ax = page.subplots()
    for kind, marker in (("input", "o"), ("fit", "s"), ("prediction", "^")):
        selected = [r for r in rows if r["class"] == kind and r["error, %"] != ""]
        x = [float(r["published"]) for r in selected]
        y = [float(r["error, %"]) for r in selected]
        ax.plot(x, y, marker, fillstyle="none", label=kind)
    ax.set(xscale="log", xlabel="published value (ops/cycle, cycles or warps)", ylabel="simulated against published, %")
    ax.axhline(0, color="0.6", linewidth=1)
    ax.legend()
    return page

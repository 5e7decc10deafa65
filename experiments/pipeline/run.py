"""Does the pipeline model of Lemeire et al. (L), implemented from their tables, reproduce the results of their paper?"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from _tables import markdown_table, replace_tables
from matplotlib.figure import Figure

import warpsim as ws
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.models.lemeire import pipeline
from warpsim.views.plots import paper
from warpsim.views.plots.style import COLOURS, LINES, MARKERS, add_grid_and_legend

CHIPS = ("fermi_c2050", "pascal_gtx_1060")
BENCHMARKS = {"fadd": "alu", "cos": "sfu", "loop": "branch", "memory": "load"}
TABLE_II = {  # mean and standard deviation of the error against hardware, %
    ("fadd", "fermi_c2050"): (2.79, 0.56),
    ("fadd", "pascal_gtx_1060"): (0.55, 4.14),
    ("cos", "fermi_c2050"): (0.45, 0.52),
    ("cos", "pascal_gtx_1060"): (0.19, 3.80),
    ("loop", "fermi_c2050"): (0.91, 3.80),
    ("loop", "pascal_gtx_1060"): (-1.91, 2.25),
    ("memory", "fermi_c2050"): (3.74, 4.18),
    ("memory", "pascal_gtx_1060"): (11.59, 7.19),
}
COMBINATIONS = {"fermi_c2050": (34, 18), "pascal_gtx_1060": (78, 43)}  # L IV.A: configurations, warp counts
WIDTH = 1024  # L IV.C
INSTRUCTIONS = 512  # per warp of a micro-benchmark; L: "a great number"
TILES = (8, 16)
HERE = Path(__file__).parent


def main(out: Path, *, full: bool, workers: int) -> int:
    """Reproduces Tables I and II and Figure 3. Writes three CSV files, pipeline.png, and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    chips = [pipeline.load_pipelines(name) for name in CHIPS]
    first = list(configurations(chips))
    second = [*(against_equation_1(chip, name) for chip in chips for name in BENCHMARKS), *against_simulator(full)]
    curves = matrix_multiplication(chips, WIDTH if full else WIDTH // 4, workers)
    third = list(bounds(chips, curves))
    for name, rows in (("configurations", first), ("table_ii", second), ("matrix_multiply", curves)):
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    replace_tables(HERE / "README.md", "\n".join(markdown_table(rows) for rows in (first, second, third)))
    with paper():
        figure(chips, curves).savefig(out / "pipeline.png")
    print(f"{out}: configurations.csv, table_ii.csv, matrix_multiply.csv, pipeline.png")
    return 0


def configurations(chips: list[pipeline.Pipelines]) -> Iterator[dict[str, object]]:
    """Compares Tables I and II with each other, and counts the occupancies that L explores."""
    for chip in chips:
        found = pipeline.configurations(chip)
        counts = (len(found), len({size * groups for size, groups in found}))
        cores = 32 * chip.compute_units / chip.compute_elements
        for quantity, printed, made in (
            ("issue latency of fadd, cycles: Table II, and 32 threads over the elements of a unit in Table I",
             chip.ops["alu"].issue_cycles, cores),
            ("combinations of group size and count (IV.A)", COMBINATIONS[chip.name][0], counts[0]),
            ("different warp counts (IV.A)", COMBINATIONS[chip.name][1], counts[1]),
        ):  # fmt: skip
            yield {"chip": chip.name, "quantity": quantity, "L": f"{printed:g}", "here": f"{made:g}"}


def benchmark(name: str) -> Kernel:
    """Returns a chain of dependent instructions (L III.B); for loops, a chain of branches."""
    if BENCHMARKS[name] != "branch":
        return ws.kernels.chain(BENCHMARKS[name], iterations=INSTRUCTIONS)
    return Kernel(name="loop", inputs=("r1",), body=(Loop(body=(Instruction("branch", src=("r1",)),), trips=INSTRUCTIONS),))


def against_equation_1(chip: pipeline.Pipelines, name: str) -> dict[str, object]:
    """Returns a row of Table II: the error in performance of Algorithm 1, against equation 1 instead of hardware."""
    op = chip.ops[BENCHMARKS[name]]
    errors = []
    for size, groups in pipeline.configurations(chip):
        arguments = {"groups": groups, "resident_groups": groups, "group_warps": size}
        made = pipeline.execution_cycles(chip, benchmark(name), **arguments)
        ideal = pipeline.equation_1(op.issue_cycles, op.completion_cycles, warps=size * groups, instructions=INSTRUCTIONS)
        errors.append(float(ideal) / made - 1)
    return row(name, chip.name, op.issue_cycles, op.completion_cycles, TABLE_II[name, chip.name], "equation 1", errors)


def against_simulator(full: bool) -> Iterator[dict[str, object]]:
    """Yields rows of Table II on the simulated Fermi chip (GTX 480), with latencies and errors measured as L did on hardware."""
    gpu = ws.load_gpu("fermi")
    similar = pipeline.load_pipelines("fermi_c2050")
    counts = sorted({size * groups for size, groups in pipeline.configurations(similar)})
    for name in ("fadd", "cos", "memory"):
        op = BENCHMARKS[name]
        kernel = ws.kernels.chain(op)
        runs = [ws.simulate(gpu, kernel, warps=n, cycles=100_000 if full else 20_000) for n in counts]
        rates = dict(zip(counts, (float(ds["ipc"].sel(op=op).mean()) for ds in runs), strict=True))
        issue, completion = 1 / max(rates.values()), counts[0] / rates[counts[0]]  # L III.B: shortest and longest run time
        errors = []
        for size, groups in pipeline.configurations(similar):
            ideal = pipeline.equation_1(issue, completion, warps=size * groups, instructions=INSTRUCTIONS)
            errors.append(INSTRUCTIONS * size * groups / float(ideal) / rates[size * groups] - 1)
        yield row(name, "fermi (GTX 480)", issue, completion, TABLE_II[name, "fermi_c2050"], "warpsim", errors)


def row(
    name: str, chip: str, issue: float, completion: float, printed: tuple[float, float], against: str, errors: list[float]
) -> dict[str, object]:
    """Returns a row of Table II."""
    percent = 100 * np.array(errors)
    return {
        "benchmark": name,
        "chip": chip,
        "λ": f"{issue:.4g}",
        "Λ": f"{completion:.4g}",
        "L: error against hardware, %": f"{printed[0]:+.2f} ± {printed[1]:.2f}",
        "here: error, %": f"{percent.mean():+.2f} ± {percent.std():.2f}",
        "against": against,
    }


def matrix_multiplication(chips: list[pipeline.Pipelines], width: int, workers: int) -> list[dict[str, object]]:
    """Returns the performance in Gflop/s over all occupancies, with and without bank conflicts (L Figure 3).

    The grid is that of 1024 x 1024. A smaller `width` shortens the loop over tiles but keeps the number of groups.
    """

    def point(case: tuple[pipeline.Pipelines, int, bool, int]) -> dict[str, object]:
        chip, tile, conflicts, groups = case
        size, blocks = tile * tile // 32, (WIDTH // tile) ** 2
        kernel = ws.kernels.matrix_multiply(tile, width=width, ways=8 if conflicts else 1, table_iii=True)
        seconds = pipeline.execution_time(chip, kernel, blocks=blocks, warps=groups * size, block_warps=size)
        gflops = 2 * WIDTH * WIDTH * width / seconds / 1e9
        return {"chip": chip.name, "tile": tile, "conflicts": conflicts, "warps": groups * size, "Gflop/s": gflops}

    cases = [
        (chip, tile, conflicts, groups)
        for chip, tile, conflicts in itertools.product(chips, TILES, (False, True))
        for size, groups in pipeline.configurations(chip)
        if size == tile * tile // 32
    ]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(point, cases))


def bounds(chips: list[pipeline.Pipelines], curves: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Yields the best performance of each kernel and the bound by its busiest pipeline."""
    for chip, tile, conflicts in itertools.product(chips, TILES, (False, True)):
        here = [c for c in curves if (c["chip"], c["tile"], c["conflicts"]) == (chip.name, tile, conflicts)]
        best = max(here, key=lambda c: c["Gflop/s"])
        trip = ws.kernels.matrix_multiply(tile, width=tile, ways=8 if conflicts else 1, table_iii=True)
        busy: dict[str, float] = {}
        for instruction in trip.body[0].body:
            pipe, issue, _ = pipeline.timing(chip, instruction)
            busy[pipe] = busy.get(pipe, 0.0) + issue
        tightest = max(busy, key=busy.__getitem__)
        bound = 2 * 32 * tile / busy[tightest] * chip.compute_units * chip.clock_ghz
        yield {
            "kernel": f"mmul{tile:02}{', conflicts' if conflicts else ''}",
            "chip": chip.name,
            "one warp count: Gflop/s": f"{here[0]['Gflop/s']:.0f} at {here[0]['warps']}",
            "best: Gflop/s": f"{best['Gflop/s']:.0f} at {best['warps']}",
            "bound, Gflop/s": f"{bound:.0f} ({tightest})",
            "best / bound": f"{best['Gflop/s'] / bound:.3f}",
        }


def figure(chips: list[pipeline.Pipelines], curves: list[dict[str, object]]) -> Figure:
    """Draws the simulated half of L Figure 3: performance against occupancy on both chips."""
    drawn = Figure(figsize=(7.0, 2.9), layout="constrained")
    for ax, chip in zip(drawn.subplots(1, 2), chips, strict=True):
        for number, (tile, conflicts) in enumerate(itertools.product(TILES, (False, True))):
            here = [c for c in curves if (c["chip"], c["tile"], c["conflicts"]) == (chip.name, tile, conflicts)]
            ax.plot(
                [c["warps"] for c in here], [c["Gflop/s"] for c in here], color=COLOURS[number], marker=MARKERS[number],
                linestyle=LINES[number], linewidth=1.0, markersize=3.5,
                label=f"mmul{tile:02}{', conflicts' if conflicts else ''}",
            )  # fmt: skip
        ax.set_title(chip.title, loc="left")
        ax.set_xlabel("occupancy (warps per compute unit)")
        ax.set_ylabel("Gflop/s")
        ax.set_xlim(0, None)
        ax.set_ylim(0, None)
        add_grid_and_legend(ax)
    return drawn

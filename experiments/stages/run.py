"""How many stages does a pipeline of copies need on today's chips, and how far does the closed formula see?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from _tables import markdown_table, replace_tables, write_rows
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pipelines import Pipeline, TileTime

import warpsim as ws

CHIPS = ("h100", "h200", "rtx5090")
LOADS = (0.5, 0.9, 1.5)
"""Times that a tile takes at the sustained rate of memory, over the time of its work."""

STAGES = tuple(range(1, 9))
SHARE = 0.95
HERE = Path(__file__).parent


def needed(cycles: Sequence[float]) -> str:
    """Returns the first number of stages with which a tile takes at most 1 / SHARE of the time that it takes with the most."""
    return str(next(stages for stages, time in zip(STAGES, cycles, strict=True) if time <= cycles[-1] / SHARE))


def main(out: Path, *, full: bool, workers: int) -> int:
    """Simulates the pipelines; writes a table, the page's table and a figure."""
    out.mkdir(parents=True, exist_ok=True)
    replicates = 16 if full else 3
    pipelines = [Pipeline(ws.load_gpu(name), load) for name in CHIPS for load in LOADS]
    todo = [(pipeline, stages) for pipeline in pipelines for stages in STAGES]
    with ThreadPoolExecutor(workers) as pool:
        found = dict(zip(todo, pool.map(lambda point: point[0].simulated(point[1], replicates), todo), strict=True))
    rows, table = [], []
    for pipeline in pipelines:
        simulated = [float(found[pipeline, stages].mean()) for stages in STAGES]
        formula = [pipeline.formula(stages) for stages in STAGES]
        for stages, time, closed in zip(STAGES, simulated, formula, strict=True):
            spread = float(found[pipeline, stages].std(ddof=1) / np.sqrt(replicates))
            rows.append(TileTime(pipeline.gpu.name, pipeline.load, stages, round(time, 1), round(spread, 2), round(closed, 1)))
        errors = [100 * (closed / time - 1) for closed, time in zip(formula, simulated, strict=True)]
        worst = max(range(len(STAGES)), key=lambda i: abs(errors[i]))
        table.append({
            "chip": pipeline.gpu.name,
            "transfer / work": pipeline.load,
            "stages for 95 %, simulated": needed(simulated),
            "by the formula": needed(formula),
            "largest error of the formula, %": f"{errors[worst]:+.0f}",
            "with stages": STAGES[worst],
            "cycles of a tile, 8 stages": f"{simulated[-1]:.0f}",
        })  # fmt: skip
    write_rows(out / "stages.csv", rows)
    replace_tables(HERE / "README.md", markdown_table(table))
    figure(pipelines, found).savefig(out / "stages.png", dpi=150)
    print(f"{out / 'stages'}.csv: cycles of a tile; .png: figure")
    return 0


def figure(pipelines: list[Pipeline], found: dict[tuple[Pipeline, int], NDArray[np.float64]]) -> Figure:
    """Returns the rates against the number of stages, as shares of what work and transfer allow."""
    drawn = Figure(figsize=(10, 3.4), layout="constrained")
    panels = drawn.subplots(1, len(CHIPS), sharey=True)
    for panel, name in zip(panels, CHIPS, strict=True):
        for number, pipeline in enumerate(each for each in pipelines if each.gpu.name == name):
            least = max(pipeline.work(), pipeline.transfer)
            rates = [100 * least / float(found[pipeline, stages].mean()) for stages in STAGES]
            panel.plot(STAGES, rates, "o-", color=f"C{number}", label=f"transfer / work = {pipeline.load:g}")
            panel.plot(STAGES, [100 * least / pipeline.formula(stages) for stages in STAGES], ":", color=f"C{number}")
        panel.set(title=name, xlabel="stages (buffers of a block)", xticks=STAGES, ylim=(0, 105))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("tiles per second, % of the bound")
    panels[0].legend(fontsize=8, loc="lower right")
    return drawn

"""Do the everyday kernels take as long on an H100 and an H200 as simulated, from their machine code alone?

measure.py measured the times on the two GPUs whose records lie beside them. The simulation gets the machine code of the kernels,
the launches and the chips' files; nothing is fitted to these launches.
"""

from __future__ import annotations

from pathlib import Path

from _processes import in_processes
from _tables import markdown_table, predicted_within, replace_tables, write_rows
from launches import CHIPS, GROUPS, HERE, Point, launches, measured, of_launch
from matplotlib.figure import Figure

from warpsim.views.plots import paper
from warpsim.views.plots.style import COLOURS

SHOWN = (
    "vector_add 16M", "copy_8 16M", "permute 16M", "gather 16M", "black_scholes 16M", "reduce_2 16M",
    "softmax of 16384 rows", "histogram 16M", "transpose_padded 4096",
    "matmul_naive 2048", "matmul_16 2048", "matmul_tensor 2048",
)  # fmt: skip
"""Launches of the figure."""


def main(out: Path, *, full: bool, workers: int) -> int:
    """Simulates all launches. Writes hardware.csv, hardware.png, and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    tasks = [(chip, entry, full) for chip in CHIPS for entry in launches()]
    points = [point for found in in_processes(of_launch, tasks, workers) for point in found]
    write_rows(out / "hardware.csv", points)
    with paper():
        figure(points).savefig(out / "hardware.png", dpi=150)
    text = tables(points)
    print(text)
    replace_tables(HERE / "README.md", text)
    return 0


def tables(points: list[Point]) -> str:
    """Returns the tables of the page."""
    rows = []
    for chip in CHIPS:
        for title, chosen in (
            ("all, as many blocks as fit", [point for point in points if point.most]),
            ("all, fewer blocks", [point for point in points if not point.most]),
            *((group, [point for point in points if point.group == group]) for group in GROUPS),
        ):
            of_chip = [point for point in chosen if point.chip == chip]
            if of_chip:
                errors = predicted_within([point.error for point in of_chip])
                rows.append({"chip": chip, "launches": title, "points": len(of_chip), **errors})
    worst = sorted(points, key=lambda point: -abs(point.error))[:12]
    of_worst = [
        {
            "chip": point.chip, "launch": point.name, "blocks per SM": point.resident, "measured, us": f"{point.measured_us:.1f}",
            "simulated, us": f"{point.simulated_us:.1f}", "error, %": f"{point.error:+.0f}",
        }
        for point in worst
    ]  # fmt: skip
    return f"{markdown_table(rows)}\n\nThe worst:\n\n{markdown_table(of_worst)}"


def figure(points: list[Point]) -> Figure:
    """Draws time against resident blocks of some launches: crosses are measured, lines simulated."""
    drawn = Figure(figsize=(11, 8), layout="constrained")
    for axes, name in zip(drawn.subplots(3, 4).ravel(), SHOWN, strict=True):
        for colour, chip in zip(COLOURS, CHIPS, strict=False):
            times = measured(chip)[name]
            axes.plot(list(times), [timed.us for timed in times.values()], "x", color=colour)
            chosen = [point for point in points if (point.chip, point.name) == (chip, name)]
            x, y = zip(*((point.resident, point.simulated_us) for point in chosen), strict=True)
            axes.plot(x, y, "-o", markersize=3, color=colour, label=chip)
        axes.set(title=name, yscale="log", xlabel="blocks per SM", ylabel="us")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        for formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            formatter("{x:g}")
        axes.tick_params(which="both", labelsize=7)
        axes.title.set_size(9)
    drawn.axes[0].legend()
    return drawn

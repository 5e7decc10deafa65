"""Does the throughput of double-precision chains on a V100 come out of its file?"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from _tables import comparison, markdown_table, replace_tables
from chains import HERE, measured, simulated


def main(out: Path) -> int:
    """Compares all 30 points."""
    out.mkdir(parents=True, exist_ok=True)
    points = {place: (published, *simulated(*place)) for place, published in measured().items()}
    with (out / "incore.csv").open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(["warps", "chains", "measured_cycles", "loop_cycles", "bare_cycles"])
        writer.writerows([*place, *(f"{value:.4g}" for value in values)] for place, values in points.items())
    replace_tables(HERE / "README.md", "\n".join([markdown_table(summary(points)), markdown_table(rows(points))]))
    print(f"{out / 'incore.csv'}: {len(points)} points")
    return 0


Points = dict[tuple[int, int], tuple[float, float, float]]


def summary(points: Points) -> list[dict[str, str]]:
    """Returns the mean and the largest error of both programs."""
    published, whole, alone = np.array(list(points.values())).T
    table = []
    for name, found in (("the benchmark's loop", whole), ("the chains alone", alone)):
        errors = 100 * (found / published - 1)
        table.append({
            "program": name,
            "points": str(len(errors)),
            "mean of absolute errors, %": f"{np.mean(abs(errors)):.1f}",
            "largest error, %": f"{errors[np.argmax(abs(errors))]:+.1f}",
            "class": "prediction",
        })  # fmt: skip
    return table


def rows(points: Points) -> list[dict[str, str]]:
    """Compares the points one by one."""
    return [
        comparison("gpu-benches, cuda-incore", "v100", f"{warps} warps, {chains} chains, cycles", published, whole, "prediction")
        for (warps, chains), (published, whole, _) in points.items()
    ]

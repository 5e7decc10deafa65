"""Do measured times lie in the intervals that predictions have? Each set of kernels is checked against those that came before it.

The sets are the results of other experiments, which the folder WARPSIM_RESULTS holds, one folder each. What is not there is taken
from `params/predictions.csv`, which this experiment writes.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from _tables import markdown_table, replace_tables, write_rows
from compared import PREDICTIONS, Compared, compared_in

from warpsim.simulation.predictions import LEVEL, middle

HERE = Path(__file__).parent


def main(out: Path) -> int:
    """Writes predictions.csv, and the table of the page."""
    out.mkdir(parents=True, exist_ok=True)
    compared = compared_in(Path(os.environ.get("WARPSIM_RESULTS", "results")))
    write_rows(PREDICTIONS, compared)
    write_rows(out / "predictions.csv", compared)
    text = table(compared)
    print(text)
    replace_tables(HERE / "README.md", text)
    return 0


def table(compared: list[Compared]) -> str:
    """Returns for each set how many of its kernels lie in the interval of the sets before it; and at last the interval of all."""
    lines = []
    for origin in dict.fromkeys(one.origin for one in compared):
        before: list[float] = []
        of_origin = [one for one in compared if one.origin == origin]
        for name in dict.fromkeys(one.set for one in of_origin):
            ratios = [one.ratio for one in of_origin if one.set == name]
            lines.append({"made of": origin, "set": name, "kernels": str(len(ratios)), **covered(ratios, before)})
            before = sorted([*before, *ratios])
        of_all = covered([], before)
        lines.append({"made of": origin, "set": "all: the intervals of the package", "kernels": str(len(before)), **of_all})
    return markdown_table(lines)


def covered(ratios: list[float], before: list[float]) -> dict[str, str]:
    """Returns the interval of measured over simulated time that earlier kernels give, and how many ratios lie in it."""
    try:
        low, high = (before[place] for place in middle(len(before), LEVEL))
    except ValueError:
        return {"interval": "", "of the kernels in it, %": ""}
    inside = np.mean([low <= ratio <= high for ratio in ratios]) if ratios else np.nan
    share = f"{100 * inside:.0f}" if ratios else ""
    return {"interval": f"{low:.2f} to {high:.2f}", "of the kernels in it, %": share}

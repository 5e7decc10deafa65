"""Do the accesses of imported kernels hit L1 and L2 as often as the counters of profiled launches say?

The reports are those of `experiments/profiles/clone.sh`; the environment variable WARPSIM_PROFILES names their folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from _tables import markdown_table, read_rows, replace_tables, write_rows
from launches import Found, of_launch

from warpsim.frontends.machine_code.symbols import plain_name

HERE = Path(__file__).parent


def main(out: Path) -> int:
    """Walks the accesses of all launches, and writes hits.csv and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(os.environ.get("WARPSIM_PROFILES", "reports"))
    found = [of_launch(row, folder) for row in read_rows(HERE / "kernels.csv")]
    write_rows(out / "hits.csv", found)
    text = tables(found)
    print(text)
    replace_tables(HERE / "README.md", text)
    return 0


def tables(found: list[Found]) -> str:
    """Returns the tables of the page."""
    errors = [100 * (one.l1_walked / one.l1_counted - 1) for one in found]
    points = [100 * (one.l2_walked - one.l2_counted) for one in found]
    summary = [
        {"what": "sectors that L1 misses, %", "launches": len(found), **spread(errors)},
        {"what": "share of these that L2 misses, points", "launches": len(found), **spread(points)},
    ]
    rows = [
        {
            "chip": one.gpu, "kernel": f"`{plain_name(one.function)}`", "grid": one.grid, "block": one.block,
            "sectors of a request": f"{one.sectors:.2f}",
            "that L1 misses, counted": f"{one.l1_counted:.3f}", "walked": f"{one.l1_walked:.3f}",
            "share that L2 misses, counted": f"{one.l2_counted:.3f}", "walked ": f"{one.l2_walked:.3f}",
        }
        for one in found
    ]  # fmt: skip
    return f"{markdown_table(summary)}\n\n{markdown_table(rows)}"


def spread(errors: list[float]) -> dict[str, str]:
    """Returns the columns of a table that say how large errors are."""
    size = np.abs(errors)
    shares = {f"within {most}": f"{(size <= most).mean():.0%}" for most in (3, 6, 10, 20)}
    medians = {"median of the errors": f"{np.median(errors):+.1f}", "median": f"{np.median(size):.1f}"}
    return medians | shares | {"largest": f"{size.max():.0f}"}

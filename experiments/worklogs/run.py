"""Do products of matrices of public worklogs attain what their authors measured, from their source alone?

clone.sh brings the sources; the environment variable WARPSIM_WORKLOGS names their folder. NVRTC compiles them.
"""

from __future__ import annotations

import os
from pathlib import Path

from _cards import chip_of
from _processes import in_processes
from _tables import markdown_table, predicted_within, read_rows, replace_tables, write_rows
from rates import HERE, Rate, of_kernel


def main(out: Path, *, full: bool, workers: int) -> int:
    """Simulates all launches, and writes worklogs.csv and the tables of the page. `full`: more replicates and longer samples."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(os.environ.get("WARPSIM_WORKLOGS", "worklogs"))
    tasks = [(row, folder, full) for row in read_rows(HERE / "kernels.csv")]
    rates = in_processes(of_kernel, tasks, workers)
    write_rows(out / "worklogs.csv", rates)
    text = tables(rates)
    print(text)
    replace_tables(HERE / "README.md", text)
    return 0


def tables(rates: list[Rate]) -> str:
    """Returns the tables of the page."""
    summary = []
    for gpu in dict.fromkeys(rate.gpu for rate in rates):
        errors = [rate.error for rate in rates if rate.gpu == gpu]
        summary.append({"chip": chip_of(gpu)[0].title, "kernels": len(errors), **predicted_within(errors)})
    rows = [
        {
            "chip": rate.gpu, "kernel": rate.kernel, "published, TFLOP/s": f"{rate.published:.4g}",
            "simulated": f"{rate.simulated:.4g} ± {rate.half_width:.2g}", "error, %": f"{rate.error:+.0f}",
            "simulated part": rate.sampling,
        }
        for rate in rates
    ]  # fmt: skip
    return f"{markdown_table(summary)}\n\n{markdown_table(rows)}"

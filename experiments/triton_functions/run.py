"""Do Triton functions take as long on an H200 as simulated from the machine code that Triton makes?

Triton must be installed: `pip install triton==3.6.0` is the version of the measurement. No GPU is needed.
"""

from __future__ import annotations

from pathlib import Path

from _processes import in_processes
from _tables import markdown_table, predicted_within, replace_tables, write_rows
from launches import GROUPS, HERE, Compared, compare, launches

CLASSES = {
    "blind_us": "blind, before the measurement",
    "simulated_us": "now, at the clock of the chip's file",
    "at_clock_us": "now, at the measured clock",
}
"""Field of `Compared` -> what it is."""


def main(out: Path, *, workers: int) -> int:
    """Simulates all launches. Writes triton_functions.csv, and the tables of the page."""
    out.mkdir(parents=True, exist_ok=True)
    found = in_processes(compare, launches(), workers)
    write_rows(out / "triton_functions.csv", found)
    text = tables(found)
    print(text)
    replace_tables(HERE / "README.md", text)
    return 0


def tables(found: list[Compared]) -> str:
    """Returns the tables of the page."""
    rows = []
    for of, title in CLASSES.items():
        for group in ("all", *GROUPS):
            errors = [one.error(of) for one in found if group in ("all", one.group)]
            rows.append({"simulated": title, "launches": group, "number": len(errors), **predicted_within(errors)})
    each = [
        {
            "launch": one.name, "measured, us": f"{one.measured_us:.1f}", "clock, GHz": f"{one.clock_ghz:.2f}",
            "blind, %": f"{one.error('blind_us'):+.0f}", "now, %": f"{one.error('simulated_us'):+.0f}",
            "now at that clock, %": f"{one.error('at_clock_us'):+.0f}",
        }
        for one in found
    ]  # fmt: skip
    return f"{markdown_table(rows)}\n\n{markdown_table(each)}"

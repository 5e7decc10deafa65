"""Do Triton functions take as long on an H200 as simulated from the machine code that Triton makes?

Triton must be installed: `pip install triton==3.6.0` is the version of the measurement. No GPU is needed.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from _tables import write_rows
from launches import launches, simulate


def main(out: Path, *, workers: int) -> int:
    """Simulates all launches. Writes triton.csv."""
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(simulate, launches()))
    write_rows(out / "triton.csv", found)
    return 0

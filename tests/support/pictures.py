"""The data of the pictures in docs/pictures.md, kept so that a picture changes only with what draws it.

`python -m tests.support.pictures` simulates them again.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pictures.md"
PLAN = ROOT / "docs" / "pictures" / "example.toml"
SWEEP = ROOT / "tests" / "data" / "pictures_sweep.nc"
RUN = ROOT / "tests" / "data" / "pictures_run.nc"

DRAWN = (
    "throughput", "bandwidth", "memory_latency", "memory_latency_quantile", "warp_cycles", "occupancy", "instructions",
    "peak_fraction",
)  # fmt: skip
OPS = ["alu", "load"]


def simulated() -> xr.Dataset:
    """What is drawn of the sweep, simulated now."""
    return sweep(Plan.from_toml(PLAN))[list(DRAWN)].sel(op=OPS)


def kept() -> xr.Dataset:
    """What is drawn of the sweep, as it was simulated once; with the provenance that it would have now."""
    results = xr.load_dataset(SWEEP, engine="scipy").astype(float)
    return results.assign_attrs(Plan.from_toml(PLAN).attributes())


def traced(folder: Path) -> xr.Dataset:
    """What is drawn of the run over time: the code on the page, which saves it in a folder, and what it saved."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    with contextlib.chdir(folder):
        exec(compile(code, str(PAGE), "exec"), {})
    run = xr.open_zarr(folder / "run.zarr", consolidated=False).load()
    drawn = [name for name in run.data_vars if str(name).startswith(("occupancy_change_", "warp_"))]
    unused = ["warp_cycles", "warp_latency", "warp_scheduler"]
    return run[["cycles", *(name for name in drawn if name not in unused)]].drop_vars("state", errors="ignore")


def main() -> None:
    """Write the files."""
    with tempfile.TemporaryDirectory() as folder:
        made = {SWEEP: simulated(), RUN: traced(Path(folder))}
    for path, results in made.items():
        for name in results.data_vars:
            results[name] = results[name].astype(np.float32)
        results.drop_attrs(deep=False).to_netcdf(path, engine="scipy")


if __name__ == "__main__":
    main()

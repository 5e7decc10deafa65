"""The data of the figures in docs/pictures.md, stored so that a figure changes only with the code that draws it.

`python -m tests.support.picture_data` simulates them again.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

from warpsim.results.schema import TRACE_VARIABLES
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "pictures.md"
PLAN = ROOT / "docs" / "pictures" / "example.toml"
SWEEP = ROOT / "tests" / "data" / "pictures_sweep.nc"
RUN = ROOT / "tests" / "data" / "pictures_run.nc"

VARIABLES = (
    "throughput", "bandwidth", "memory_latency", "memory_latency_quantile", "warp_cycles", "occupancy", "instructions",
    "peak_fraction", "warp_iterations",
)  # fmt: skip
OPS = ["alu", "load"]


def simulated_sweep() -> xr.Dataset:
    """Simulates the sweep, and returns the variables that are drawn."""
    return sweep(Plan.from_toml(PLAN))[list(VARIABLES)].sel(op=OPS)


def stored_sweep() -> xr.Dataset:
    """Returns the stored results of the sweep, with the provenance that they would have now."""
    results = xr.load_dataset(SWEEP, engine="scipy").astype(float)
    return results.assign_attrs(Plan.from_toml(PLAN).attributes())


def simulated_run(folder: Path) -> xr.Dataset:
    """Runs the code of the page in a folder, where it saves a traced run, and returns the variables that are drawn."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    with contextlib.chdir(folder):
        exec(compile(code, str(PAGE), "exec"), {})
    run = xr.open_zarr(folder / "run.zarr", consolidated=False).load()
    traced = [v.name for v in TRACE_VARIABLES if v.name.startswith(("occupancy_change_", "warp_")) and v.name in run]
    unused = ["warp_cycles_over_time", "warp_scheduler"]
    return run[["cycles", *(name for name in traced if name not in unused)]].drop_vars("state", errors="ignore")


def main() -> None:
    """Writes the files."""
    with tempfile.TemporaryDirectory() as folder:
        made = {SWEEP: simulated_sweep(), RUN: simulated_run(Path(folder))}
    for path, results in made.items():
        for name in results.data_vars:
            results[name] = results[name].astype(np.float32)
        results.drop_attrs(deep=False).to_netcdf(path, engine="scipy")


if __name__ == "__main__":
    main()

"""Small plans for the tests of sweeps: one SM and a few hundred cycles, a few milliseconds per point."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from warpsim.sweeps.plan import Plan

if TYPE_CHECKING:
    import xarray as xr

SHORT: dict[str, Any] = {"sms": 1, "warmup": 0, "cycles": 400}


def small_plan(**changes: Any) -> Plan:
    """Returns a plan of 24 points: two chips, two intensities, three occupancies (48 do not fit on g80), two policies."""
    settings = {
        "gpu": ["g80", "kepler"],
        "kernel": "mix",
        "alpha": [1, 8],
        "warps": [4, 8, 48],
        "scheduler": ["lrr", "gto"],
        "replicates": 2,
        **SHORT,
    }
    return Plan(**{**settings, **changes})


PLAN_TOML = """\
gpu = ["g80", "kepler"]
kernel = "mix"
alpha = [1, 8]
warps = [4, 8, 48]
scheduler = ["lrr", "gto"]
replicates = 2
sms = 1
warmup = 0
cycles = 400
"""
"""The plan of `small_plan()` as a file."""


def tile_dataset(plan: Plan, tile: int) -> xr.Dataset:
    """Returns the results of one tile with labels, as they are in the result of the sweep."""
    from warpsim.results.schema import build_dataset
    from warpsim.sweeps.tile import run_tile, tile_coordinates

    return build_dataset(run_tile(plan, tile), tile_coordinates(plan, tile), axes=plan.grid.axes)


def write_dataset(store: Any, tile: int, results: xr.Dataset, seconds: float = float("nan")) -> None:
    """Writes the results of one tile, as `tile_dataset` returns them, into a store."""
    from warpsim.store.zarr_store import write_tile

    arrays = {str(name): array.values for name, array in results.data_vars.items()}
    write_tile(store, tile, arrays, {str(name): labels.values for name, labels in results.coords.items()}, seconds)


def at_a_terminal() -> None:
    """Makes a new process the leader of its own group, in which Ctrl-C interrupts it even if the tests ignore Ctrl-C."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

"""Small plans for the tests of sweeps: one SM and a few hundred cycles, which take a few milliseconds per point."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from warpsim.sweeps.plan import Plan

if TYPE_CHECKING:
    import xarray as xr

SHORT: dict[str, Any] = {"sms": 1, "warmup": 0, "cycles": 400}


def small_plan(**changes: Any) -> Plan:
    """Returns a plan of 24 points: two chips, two intensities, three occupancies (48 does not fit on g80), two policies."""
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


def small_plan_beyond_the_chip(**changes: Any) -> Plan:
    """Returns such a plan without the check that its values fit a chip, as a store of an earlier version may hold it."""
    with patch("warpsim.sweeps.plan.check_fits"):
        return small_plan(**changes)


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

LONG_TOML = PLAN_TOML.replace("alpha = [1, 8]", f"alpha = {[*range(1, 41)]}")
"""The same plan with twenty times as many points, for tests that interrupt a sweep."""


def tile_dataset(plan: Plan, tile: int) -> xr.Dataset:
    """Returns the results of one tile with labels, as they are in the result of the sweep."""
    from warpsim.results.schema import build_dataset
    from warpsim.sweeps.tile import run_tile, tile_coordinates

    return build_dataset(run_tile(plan, tile), tile_coordinates(plan, tile), axes=plan.grid.axes)


def write_dataset(store: Any, tile: int, results: xr.Dataset, seconds: float = float("nan")) -> None:
    """Writes the results of one tile, as `tile_dataset` returns them, into a store."""
    from warpsim.store.writing import write_tile

    arrays = {str(name): array.values for name, array in results.data_vars.items()}
    write_tile(store, tile, arrays, {str(name): labels.values for name, labels in results.coords.items()}, seconds)


def failing(monkeypatch: Any, fails: Callable[[Any], bool]) -> None:
    """Makes simulate_point raise for the points for which `fails(point)` holds."""
    from warpsim.sweeps import tile

    real = tile.simulate_point

    def simulate_point(point: Any, **options: Any) -> Any:
        if fails(point):
            raise RuntimeError("broken on purpose")
        return real(point, **options)

    monkeypatch.setattr(tile, "simulate_point", simulate_point)


def at_a_terminal() -> None:
    """Prepares a process as a terminal does: it leads a process group, and SIGINT interrupts it even if the tests ignore it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

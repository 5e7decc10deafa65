"""How far are earlier performance models from the simulator, where V found them far from hardware? V chapter 7."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pictures
import xarray as xr
from _tables import comparison, markdown_table, replace_tables, with_grid
from estimates import estimate, extreme, on_grid, quotients, simulated

import warpsim as ws

HERE = Path(__file__).parent

SHARE = 0.3
"""Share of the work of V's finite grids that the quick experiment runs; see `measured_grid` for what it changes."""


class Found(NamedTuple):
    """A number at one point: from the steady state, one value per replicate, and from V's finite grid."""

    values: np.ndarray
    grid: float


def main(out: Path, *, full: bool, workers: int, progress: bool = True) -> int:
    """Runs the sweep into out/prior_models.zarr (resumable), draws the figures, and writes the table of the page."""
    out.mkdir(parents=True, exist_ok=True)
    name = "plan_full" if full else "plan"
    store = out / ("prior_models_full.zarr" if full else "prior_models.zarr")
    results = ws.sweep(ws.Plan.from_toml(HERE / f"{name}.toml"), store, workers=workers, progress=progress).load()
    rows = list(printed(results, 1.0 if full else SHARE))
    with (out / "prior_models.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    replace_tables(HERE / "README.md", markdown_table(rows))
    for figure in ("throughput", "band", "needed"):
        getattr(pictures, f"{figure}_page")(results).savefig(out / f"{figure}.png", dpi=110)
    print(f"{out}: prior_models.csv: table; throughput.png, band.png, needed.png: Figures 7.1 to 7.14")
    return 0


def printed(results: xr.Dataset, share: float) -> Iterator[dict[str, str]]:
    """Yields the numbers that V chapter 7 states about models and measurements, compared with models and simulation.

    The finite grid of V runs at the point that the row is about: that of the extreme of the steady state.
    """
    chips = {name: ws.load_gpu(name) for name in ("g80", "gt200", "fermi", "kepler", "maxwell")}
    found = {name: simulated(results, gpu) for name, gpu in chips.items()}

    @cache
    def grid(chip: str, alpha: float, warps: float) -> float:
        return on_grid(chips[chip], alpha, int(warps), share)

    def simulation(chip: str, alpha: float, warps: float, factor: float = 1.0) -> Found:
        return Found(found[chip].sel(alpha=alpha, warps=warps).values * factor, grid(chip, alpha, warps) * factor)

    def quotient(model: str, chip: str, alpha: float | None, warps: float | None, which: str) -> tuple[xr.DataArray, float]:
        ratio = quotients(model, chips[chip], found[chip], alpha)
        at = extreme(ratio if warps is None else ratio.sel(warps=[warps]), which)
        point = chip, float(at.alpha), float(at.warps)
        steady = found[chip].sel(alpha=at.alpha, warps=at.warps)
        return at, float((at * steady).mean()) / grid(*point)  # estimate over simulation

    def over(model: str, chip: str, alpha: float | None = None, warps: float | None = None) -> Found:
        at, finite = quotient(model, chip, alpha, warps, "largest")
        return Found(at.values, finite)

    def under(model: str, chip: str, alpha: float | None = None, warps: float | None = None) -> Found:
        at, finite = quotient(model, chip, alpha, warps, "smallest")
        return Found(1 / at.values, 1 / finite)

    def row(
        source: str, chip: str, quantity: str, published: float | None, number: Found, kind: str = "prediction"
    ) -> dict[str, str]:
        return with_grid(comparison(source, chip, quantity, published, number.values, kind), number.values, number.grid)

    def ranked(numbers: dict[str, Found], which: str) -> tuple[str, Found]:
        order = sorted(numbers, key=lambda chip: float(numbers[chip].values.mean()))
        chip = order[0] if which == "smallest" else order[-1]
        return chip, numbers[chip]

    yield row("7.1", "gt200", "Hong and Kim, alpha 32: overestimate up to", 2.1, over("hong_kim", "gt200", 32))
    yield row("7.1", "gt200", "V 4.1, alpha 32: overestimate up to (at the knee)", 1.09, over("basic", "gt200", 32))
    loads = under("baghsorkhi", "g80", 0, 24)
    yield _bound(row("7.2", "g80", "Baghsorkhi, alpha 0, 24 warps: underestimate", 8, loads, "fit"), "over")
    at_20 = simulation("g80", 0, 20, 1 / estimate("basic", chips["g80"], [0], [1e9]).item())
    yield row("7.2", "g80", "alpha 0, 20 warps: share of the peak", 0.94, at_20, "fit")
    yield row("7.9", "g80", "Baghsorkhi, alpha 1: underestimate up to", 7.6, under("baghsorkhi", "g80", 1))
    yield row("7.9", "g80", "Baghsorkhi, alpha 8: underestimate up to", 2.7, under("baghsorkhi", "g80", 8))
    yield row("7", "g80", "Baghsorkhi, some alpha: overestimate (at least)", 1.7, over("baghsorkhi", "g80"))
    yield row("7.3", "g80", "Baghsorkhi, alpha 32: overestimate up to", None, over("baghsorkhi", "g80", 32))
    yield row("7.3", "gt200", "Zhang and Owens, alpha 16: overestimate up to", 1.9, over("zhang_owens", "gt200", 16))
    both = over("zhang_owens", "gt200", 1), under("zhang_owens", "gt200", 1)
    at_one = max(both, key=lambda number: float(number.values.mean()))
    yield row("7.9", "gt200", "Zhang and Owens, alpha 1: off by a factor of up to", 1.06, at_one)
    newer = {c: over("zhang_owens", c, a) for c, a in (("fermi", 32), ("kepler", 32), ("maxwell", 64))}
    yield row("7.3", *_named(ranked(newer, "smallest"), "Zhang and Owens, Figure 7.6: overestimate, smallest of three", 1.9))
    yield row("7.3", *_named(ranked(newer, "largest"), "Zhang and Owens, Figure 7.6: overestimate, largest of three", 2.0))
    yield row("7.4", "fermi", "Sim, alpha 32: overestimate up to", 1.8, over("sim", "fermi", 32))
    yield row("7.4", "kepler", "Sim, alpha 32: overestimate up to", 2.0, over("sim", "kepler", 32))
    yield row("7.4", "maxwell", "Sim, alpha 64: overestimate up to", None, over("sim", "maxwell", 64))
    yield row("7.9", "fermi", "Sim, small alpha: underestimate up to", 2, under("sim", "fermi"))
    yield row("7.9", "fermi", "Sim, 4 warps: underestimate up to", 1.3, under("sim", "fermi", warps=4))
    yield row("7.9", "fermi", "Sim, alpha 1: overestimate up to", 1.25, over("sim", "fermi", 1))
    full = simulation("fermi", 0, 48, ws.units.ipc_to_gbs(1, 1.4, 15) / 32)
    yield row("7.5", "fermi", "alpha 0, the most attained, GB/s", 151, full, "fit")
    yield row("7.5", "fermi", "Huang, alpha 0, 48 warps: overestimate", 1.67, over("huang_lrr", "fermi", 0, 48), "fit")
    adds = {policy: over(f"huang_{policy}", "maxwell", np.inf, 64) for policy in ("lrr", "gto")}
    yield row("7.5", "maxwell", "Huang, adds, 64 warps: overestimate", 2.66, adds["lrr"], "input")
    yield row("7.6", "maxwell", "Huang, adds, greedy, 64 warps: overestimate", 1.2, adds["gto"], "input")
    yield row("7.5", "kepler", "alpha 32, 64 warps, adds/cycle", None, simulation("kepler", 32, 64, 32 / 33))
    small = {c: over("huang_gto", c) for c in ("fermi", "kepler", "maxwell")}
    yield _bound(row("7", *_named(ranked(small, "largest"), "Huang, greedy: overestimate, largest of three", 2.0)), "at least")
    basic = {c: over("basic", c) for c in chips}
    yield row("7.9", "g80", "V 4.1: overestimate up to", 1.34, basic.pop("g80"))
    yield row("7.9", *_named(ranked(basic, "smallest"), "V 4.1: overestimate, smallest of the other four", 1.25))
    yield row("7.9", *_named(ranked(basic, "largest"), "V 4.1: overestimate, largest of the other four", 1.28))
    yield row("7.9", "fermi", "V 6.5: overestimate up to", 1.09, over("refined", "fermi"))
    yield row("7.9", "kepler", "V 6.5: overestimate up to (about)", 1.2, over("refined", "kepler"))


def _bound(row: dict[str, str], words: str) -> dict[str, str]:
    """Returns a row whose published number is a bound, so that it has no error."""
    return row | {"published": f"{words} {row['published']}", "error, %": ""}


def _named(ranked: tuple[str, Found], quantity: str, published: float) -> tuple[str, str, float, Found]:
    return ranked[0], quantity, published, ranked[1]

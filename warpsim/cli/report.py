"""warpsim report: a store, a saved result or one point as a page for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.common import (
    DONE,
    Commands,
    RequestError,
    add_point_options,
    chosen,
    new_command,
    request,
    requested_point,
)

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.store.zarr_store import Store

_FAILURES_SHOWN = 5


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "report", _run, "write a page with interactive figures, the points and the provenance")
    parser.add_argument("results", nargs="?", metavar="OUT.zarr", help="a store, or a saved result; or ask for a point")
    add_point_options(parser, required=False)
    parser.add_argument("--where", action="append", default=[], metavar="K=V", help="a value of an axis, or several: K=V,V")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html")


def _run(options: argparse.Namespace) -> int:
    from warpsim.bounds import bounds
    from warpsim.results.plots import select
    from warpsim.results.report import write_report

    asked = options.gpu is not None or options.kernel is not None
    if asked == (options.results is not None):
        raise RequestError("report: needs either OUT.zarr, or --gpu and --kernel")
    if asked and None in (options.gpu, options.kernel):
        raise RequestError(f"report: needs --{'gpu' if options.gpu is None else 'kernel'} too")
    if not options.output.parent.is_dir():
        raise RequestError(f"-o {options.output}: {options.output.parent} must be a folder that exists")
    with request():
        results, title, notes = _simulated(options) if asked else _opened(options.results)
        results = select(results, chosen(options.where))
        try:
            write_report(results, options.output, model=bounds, title=title, notes=notes)
        except ModuleNotFoundError as error:
            raise RequestError(str(error)) from None
    for note in notes:
        print(note)
    return DONE


def _simulated(options: argparse.Namespace) -> tuple[xr.Dataset, str, list[str]]:
    from warpsim.simulation import simulate

    point = requested_point(options)
    title = f"{point.gpu.title}: {point.kernel.title or point.kernel.name}"
    return simulate(**vars(point)), title, []


def _opened(path: str) -> tuple[xr.Dataset, str, list[str]]:
    """Results, the page's title, and what is missing."""
    import xarray as xr

    from warpsim.store.zarr_store import StoreError, open_results, open_store

    title = Path(path).name
    if Path(path).is_file():
        try:
            return xr.open_dataset(path), title, []
        except (OSError, ValueError) as error:
            raise RequestError(f"{path}: no saved result that can be read: {error}") from None
    try:
        store = open_store(path, read_only=True)
    except StoreError as error:
        saved = _saved(path)
        if saved is None:
            raise RequestError(str(error)) from None
        return saved, title, []
    return open_results(path), title, _missing(store)


def _saved(path: str) -> xr.Dataset | None:
    """A result that was saved by `Dataset.to_zarr`, if it is one."""
    import xarray as xr

    try:
        saved: xr.Dataset = xr.open_zarr(path, chunks=None, consolidated=False)
    except (OSError, ValueError):
        return None
    return saved if "provenance" in saved.attrs and "warpsim_schema" not in saved.attrs else None


def _missing(store: Store) -> list[str]:
    """What of a store is not done, in sentences; none where all of it is."""
    import numpy as np

    from warpsim.store.status import Status, tile_counts, tile_status

    counts: Any = tile_counts(store.log)
    if counts.done == len(store.grid):
        return []
    there = np.zeros(store.grid.sizes, bool)
    for index in np.flatnonzero(tile_status(store.log) == Status.DONE):
        there[tuple(store.grid.region(int(index)).values())] = True
    notes = [
        f"Not all is done: {int(there.sum())} of {store.grid.points} points, {counts.done} of {len(store.grid)} tiles; "
        f"{counts.pending} tiles pending, {len(counts.failures)} failed. What is missing is left out."
    ]
    absent = []
    for place, axis in enumerate(store.grid.axes):
        some = np.moveaxis(there, place, 0).reshape(there.shape[place], -1).any(axis=1)
        values = [str(value) for value in store.coordinates[axis][~some].tolist()]
        absent += [f"{axis} {', '.join(values)}"] if values else []
    if absent and there.any():
        notes.append(f"Nothing is there of {'; '.join(absent)}.")
    for index, message in list(counts.failures.items())[:_FAILURES_SHOWN]:
        notes.append(f"Tile {index} failed: {message}")
    return notes

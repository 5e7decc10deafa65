"""Opens the results that a command is given: a store or a saved result."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.common import RequestError, counted

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.store.zarr_store import Store

_FAILURES_SHOWN = 5

_COMPLETE = {
    "cycles": (
        "warmup_cycles",
        "instructions",
        "bandwidth",
        "occupancy",
        "occupancy_max",
        "warp_cycles",
        "scheduler_cycles",
        "peak_fraction",
    ),
    "instructions": ("ipc", "throughput"),
}
"""Variables that have numbers wherever another one has: at every simulated point."""

_REASON = 160
"""Letters that are shown of an error of a library."""


def opened(path: str) -> tuple[xr.Dataset, list[str]]:
    """Opens results; also returns sentences that describe what is missing in them.

    Args:
        path: a store, or a result saved by `Dataset.to_zarr` or `Dataset.to_netcdf`.

    Raises:
        RequestError: the path is neither, or a saved result is damaged.
    """
    import xarray as xr

    from warpsim.store.place import StoreError, place_of
    from warpsim.store.status import TILES
    from warpsim.store.zarr_store import open_results, open_store

    if Path(path).is_file():
        return _read(path, xr.open_dataset), []
    try:
        store = open_store(path, read_only=True)
    except StoreError as error:
        saved = None if place_of(path).names(TILES) else _saved(path)  # a damaged store is no saved result
        if saved is None:
            raise RequestError(str(error)) from None
        return saved, []
    return open_results(path), _missing(store)


def _saved(path: str) -> xr.Dataset | None:
    """Reads a result that was saved by `Dataset.to_zarr`; None if the path is something else."""
    import xarray as xr
    import zarr

    from warpsim.store.zarr_store import VERSION

    try:
        attrs = zarr.open_group(path, mode="r").attrs.asdict()
    except Exception:  # Zarr raises exceptions of many classes where there is something else
        return None
    if "provenance" not in attrs or VERSION in attrs:
        return None
    return _read(path, partial(xr.open_zarr, chunks=None, consolidated=False))


def _read(path: str, opening: Callable[[str], xr.Dataset]) -> xr.Dataset:
    """Reads a saved result into memory, so that damage in any part of it shows here. Files have its variables in any order.

    Raises:
        RequestError: it cannot be read, or its variables are not those of a result.
    """
    from warpsim.results.schema import TRACE_VARIABLES, VARIABLES

    try:
        with opening(path) as saved:
            results = saved.load()
    except Exception as error:  # the libraries raise exceptions of many classes on damaged files
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", _REASON, placeholder=" ...")
        raise RequestError(
            f"{path}: must be a store, or a result saved by to_netcdf or to_zarr that is not damaged; reading it failed: {reason}"
        ) from None
    for name in (declared.name for declared in VARIABLES if declared.name in results.data_vars):
        unnamed = [dim for dim in results[name].dims if dim not in results.coords and dim != "replicate"]
        if unnamed:
            raise RequestError(f"{path}: must have the labels of {unnamed[0]}, along which it has {name}")
        if results[name].dtype.kind not in "biuf":
            raise RequestError(f"{path}: must have numbers as {name}; got {results[name].dtype}")
    _check_labels(path, results)
    _check_complete(path, results)
    declared_order = [declared.name for declared in (*VARIABLES, *TRACE_VARIABLES)]
    first = [name for name in declared_order if name in results.data_vars]
    return results[[*first, *(name for name in results.data_vars if name not in first)]]


def _check_labels(path: str, results: xr.Dataset) -> None:
    """Refuses labels that are not unique: Zarr reads a missing chunk of labels as zeros or as empty text."""
    for dim, index in results.indexes.items():
        if index.hasnans or not index.is_unique:
            raise RequestError(f"{path}: must have different labels along {dim}; some are missing, or occur twice")


def _check_complete(path: str, results: xr.Dataset) -> None:
    """Refuses variables without numbers at points that were simulated: Zarr reads a missing chunk as NaN or False.

    Raises:
        RequestError: a variable that every simulated point has is missing at some of them, or there where others are missing.
    """
    valid = results["valid"] if "valid" in results and results["valid"].dtype == bool else None
    for reference, names in _COMPLETE.items():
        for name in names if reference in results else ():
            if name in results and _differ(results[reference], results[name], valid):
                raise RequestError(f"{path}: must have {reference} and {name} at the same points; a part of one is missing")
    if valid is not None and "cycles" in results:
        complete = simulated = _numbers(results["cycles"], "replicate", "op")
        for name in (name for name in _COMPLETE["cycles"] if name in results):
            complete = complete & _numbers(results[name], "replicate", "op")
        if bool((valid & ~simulated | ~valid & complete).any()):  # a tile that was interrupted has some variables without valid
            raise RequestError(f"{path}: must have valid and cycles at the same points; a part of one is missing")


def _differ(one: xr.DataArray, other: xr.DataArray, valid: xr.DataArray | None) -> bool:
    """Whether two variables have numbers at different points among those that are valid."""
    shared = "op" in one.dims and "op" in other.dims
    reduced = [_numbers(array, *(() if shared else ("op",))) for array in (one, other)]
    differ = reduced[0] != reduced[1]
    return bool((differ if valid is None else differ & valid).any())


def _numbers(array: xr.DataArray, *dims: str) -> xr.DataArray:
    """Whether a variable has numbers, for all states or uses of a scheduler and for any label of other dimensions."""
    numbers = array.notnull()
    return numbers.all([dim for dim in ("state", "slot") if dim in array.dims]).any([dim for dim in dims if dim in array.dims])


def _missing(store: Store) -> list[str]:
    """Returns sentences about the unfinished tiles of a store; none if all are done."""
    import numpy as np

    from warpsim.store.status import Status, tile_counts, tile_status

    counts: Any = tile_counts(store.log)
    if counts.done == len(store.grid):
        return []
    done = np.zeros(store.grid.sizes, bool)
    for index in np.flatnonzero(tile_status(store.log) == Status.DONE):
        done[tuple(store.grid.region(int(index)).values())] = True
    notes = [
        f"Incomplete sweep: {int(done.sum())} of {store.grid.points} points, "
        f"{counts.done} of {counted(len(store.grid), 'tile')}; "
        f"{counted(counts.pending, 'tile')} pending, {len(counts.failures)} failed. Missing points are left out."
    ]
    absent = []
    for number, axis in enumerate(store.grid.axes):
        some = np.moveaxis(done, number, 0).reshape(done.shape[number], -1).any(axis=1)
        values = [str(value) for value in store.coordinates[axis][~some].tolist()]
        absent += [f"{axis} {', '.join(values)}"] if values else []
    if absent and done.any():
        notes.append(f"No point is done for {'; '.join(absent)}.")
    for index, message in list(counts.failures.items())[:_FAILURES_SHOWN]:
        notes.append(f"Tile {index} failed: {message}")
    return notes

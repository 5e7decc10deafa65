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

    from warpsim.store.zarr_store import StoreError, open_results, open_store

    if Path(path).is_file():
        return _read(path, xr.open_dataset), []
    try:
        store = open_store(path, read_only=True)
    except StoreError as error:
        saved = _saved(path)
        if saved is None:
            raise RequestError(str(error)) from None
        return saved, []
    return open_results(path), _missing(store)


def _saved(path: str) -> xr.Dataset | None:
    """Reads a result that was saved by `Dataset.to_zarr`; None if the path is something else."""
    import xarray as xr
    import zarr

    try:
        attrs = zarr.open_group(path, mode="r").attrs.asdict()
    except Exception:  # Zarr raises exceptions of many classes where there is something else
        return None
    if "provenance" not in attrs or "warpsim_schema" in attrs:
        return None
    return _read(path, partial(xr.open_zarr, chunks=None, consolidated=False))


def _read(path: str, opening: Callable[[str], xr.Dataset]) -> xr.Dataset:
    """Reads a saved result into memory, so that damage in any part of it shows here.

    Raises:
        RequestError: it cannot be read, or its variables are not those of a result.
    """
    from warpsim.results.schema import VARIABLES

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
    return results


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

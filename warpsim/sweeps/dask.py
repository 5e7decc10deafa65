"""Runs the tiles of a sweep on a Dask cluster, one task for each tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from warpsim.store.writing import mark_failed
from warpsim.store.zarr_store import open_store
from warpsim.sweeps.tile import Job, TileOutcome, complete_tile_of

RETRIES = 3
"""Times that Dask repeats a tile after an unexpected error, such as a lost connection to the store."""


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """Yields the client of a Dask cluster, given by the address of its scheduler or as a `distributed.Client`.

    Raises:
        ValueError: distributed is not installed, or the address is wrong.
        OSError: there is no scheduler at the address.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError(f"dask: {error}; install it with `pip install 'warpsim[dask]'`") from None
    if isinstance(cluster, Client):
        yield cluster
        return
    try:
        client = Client(cluster)
    except OSError as error:
        raise OSError(f"dask = {cluster!r}: no scheduler answers at this address: {error}") from None
    with client:
        yield client


def dask_outcomes(client: Any, job: Job, tiles: Sequence[int]) -> Iterator[TileOutcome]:
    """Runs tiles as tasks of a Dask cluster. An interruption cancels the tasks that have not started.

    Args:
        client: a `distributed.Client`.
        job: the sweep; the workers must have this version of warpsim, and reach the store by the same path.
        tiles: indices of the tiles.
    """
    from distributed import KilledWorker, as_completed

    futures = client.map(partial(complete_tile_of, job), tiles, retries=RETRIES, pure=False)
    tile_of = dict(zip(futures, tiles, strict=True))
    try:
        for future in as_completed(futures):
            try:
                yield future.result()
            except KilledWorker as error:  # Dask gives up a task whose workers keep dying, for instance for lack of memory
                yield _given_up(job, tile_of[future], error.allowed_failures + 1)
    finally:
        client.cancel(futures)


def _given_up(job: Job, tile: int, deaths: int) -> TileOutcome:
    message = f"its worker died {deaths} times; see the logs of the workers"
    mark_failed(open_store(job.path), tile, message)
    return TileOutcome(tile, 0.0, message)

"""Runs the tiles of a sweep on a Dask cluster, one task for each tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from warpsim.store.zarr_store import mark_failed, open_store
from warpsim.sweeps.tile import Job, TileOutcome, complete_tile_of

RETRIES = 3
"""Times that Dask repeats a tile after an unexpected error, such as a lost connection to the store."""


def dask_outcomes(cluster: Any, job: Job, tiles: Sequence[int]) -> Iterator[TileOutcome]:
    """Runs tiles as tasks of a Dask cluster. An interruption cancels the tasks that have not started.

    Args:
        cluster: address of the scheduler, or a `distributed.Client`.
        job: the sweep; the workers must have this version of warpsim, and reach the store by the same path.
        tiles: indices of the tiles.

    Raises:
        ValueError: distributed is not installed.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise ValueError(f"dask: {error}; install it with `pip install 'warpsim[dask]'`") from None
    with ExitStack() as stack:
        client = cluster if isinstance(cluster, Client) else stack.enter_context(Client(cluster))
        futures = client.map(partial(complete_tile_of, job), tiles, retries=RETRIES, pure=False)
        stack.callback(client.cancel, futures)
        tile_of = dict(zip(futures, tiles, strict=True))
        for future in as_completed(futures):
            try:
                yield future.result()
            except KilledWorker as error:  # Dask gives up a task whose workers keep dying, for instance for lack of memory
                yield _given_up(job, tile_of[future], error.allowed_failures + 1)


def _given_up(job: Job, tile: int, deaths: int) -> TileOutcome:
    message = f"its worker died {deaths} times; see the logs of the workers"
    mark_failed(open_store(job.path), tile, message)
    return TileOutcome(tile, 0.0, message)

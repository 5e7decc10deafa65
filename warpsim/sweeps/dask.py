"""Sweeps on a Dask cluster: each tile is a task, done by the same function as on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from warpsim.store.zarr_store import mark_failed, open_store
from warpsim.sweeps.work import Job, Outcome, do_tile_of

RETRIES = 3
"""Times that a tile is tried again that raised something unforeseen, such as a lost connection to the store."""


def dask_outcomes(cluster: Any, job: Job, tiles: Sequence[int]) -> Iterator[Outcome]:
    """Do tiles as tasks of a Dask cluster. An interruption cancels those that have not begun.

    Args:
        cluster: address of the scheduler, or a `distributed.Client`.
        job: the sweep; the workers must have this warpsim, and reach the store by the same path.
        tiles: the tiles.

    Raises:
        ValueError: distributed is not installed.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise ValueError(f"dask: {error}; `pip install 'warpsim[dask]'` installs it") from None
    with ExitStack() as stack:
        client = cluster if isinstance(cluster, Client) else stack.enter_context(Client(cluster))
        futures = client.map(partial(do_tile_of, job), tiles, retries=RETRIES, pure=False)
        stack.callback(client.cancel, futures)
        tile_of = dict(zip(futures, tiles, strict=True))
        for future in as_completed(futures):
            try:
                yield future.result()
            except KilledWorker as error:  # perhaps for want of memory; Dask gives such a task up
                yield _gave_up(job, tile_of[future], error.allowed_failures + 1)


def _gave_up(job: Job, tile: int, deaths: int) -> Outcome:
    message = f"its worker died {deaths} times; the logs of the workers may say why"
    mark_failed(open_store(job.path), tile, message)
    return Outcome(tile, 0.0, message)

"""Sweeps on a Dask cluster: each tile is a task, done by the same function as on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from warpsim.batch.work import Job, Outcome, do_tile_of

RETRIES = 3
"""Times that a tile is given to another worker after its worker has died, or raised something unforeseen."""


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
        from distributed import Client, as_completed
    except ImportError as error:
        raise ValueError(f"dask: {error}; `pip install 'warpsim[dask]'` installs it") from None
    with ExitStack() as stack:
        client = cluster if isinstance(cluster, Client) else stack.enter_context(Client(cluster))
        futures = client.map(partial(do_tile_of, job), tiles, retries=RETRIES, pure=False)
        stack.callback(client.cancel, futures)
        for _, outcome in as_completed(futures, with_results=True):
            yield outcome

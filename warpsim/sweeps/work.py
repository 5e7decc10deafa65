"""What one worker does, wherever it runs: simulate a tile, write it, say how it went."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.store.extend import kept_part
from warpsim.store.zarr_store import Store, is_done, mark_failed, open_store, write_tile
from warpsim.sweeps.tile import TileError, run_tile

if TYPE_CHECKING:
    from warpsim.sweeps.plan import Plan


class StoppedError(Exception):
    """The sweep was interrupted before the tile was done; nothing of it counts."""


@dataclass(frozen=True)
class Outcome:
    """How a tile went.

    Attributes:
        tile: its index.
        seconds: how long it took.
        message: why it failed, or empty.
    """

    tile: int
    seconds: float
    message: str = ""


@dataclass(frozen=True)
class Job:
    """A sweep in a form that travels to other processes and machines.

    Attributes:
        plan: the pickled plan.
        path: folder or URL of its store, which exists.
    """

    plan: bytes
    path: str

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Job:
        """The job of a plan and its store."""
        where = store.path.resolve() if isinstance(store.path, Path) else store.path  # others may have other working folders
        return cls(pickle.dumps(plan), str(where))


def do_tile(plan: Plan, store: Store, index: int, before_point: Callable[[], None] | None = None) -> Outcome:
    """Simulate one tile and write it; a tile that raises is marked as failed.

    Args:
        plan: the sweep.
        store: its store.
        index: the tile.
        before_point: called before each point; what it raises abandons the tile.

    Raises:
        OSError: the store cannot be written to.
    """
    start = time.perf_counter()
    if is_done(store, index):  # by another job, since this one looked
        return Outcome(index, 0.0)
    try:
        results = run_tile(plan, index, before_point, kept_part(store, index))
    except TileError as error:
        seconds = time.perf_counter() - start
        mark_failed(store, index, str(error), seconds)
        return Outcome(index, seconds, str(error))
    seconds = time.perf_counter() - start
    try:
        write_tile(store, index, results, seconds)
    except OSError as error:  # a full disk, a lost connection
        why = f"{error.strerror or error}; the tiles that are done are kept, and the same call goes on"
        raise OSError(error.errno, why, str(store.path)) from error
    return Outcome(index, seconds)


def do_tile_of(job: Job, index: int, before_point: Callable[[], None] | None = None) -> Outcome:
    """`do_tile` in another process, which keeps plan and store open from one tile to the next."""
    plan, store = _opened(job)
    return do_tile(plan, store, index, before_point)


@lru_cache(maxsize=1)
def _opened(job: Job) -> tuple[Plan, Store]:
    plan: Plan = pickle.loads(job.plan)
    return plan, open_store(job.path)

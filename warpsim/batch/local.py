"""Sweeps on this machine: workers are threads, since the engine releases the interpreter's lock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.batch.plan import Plan
from warpsim.batch.progress import Progress, Report, reporting
from warpsim.batch.record import difference
from warpsim.batch.tile import TileError, empty_arrays, run_tile
from warpsim.store.provenance import read_call
from warpsim.store.schema import build_dataset
from warpsim.store.zarr_store import (
    Store,
    StoreError,
    create_store,
    mark_failed,
    open_results,
    open_store,
    pending_tiles,
    write_tile,
)

if TYPE_CHECKING:
    import xarray as xr


class SweepError(RuntimeError):
    """Some tiles failed; all others were done.

    Attributes:
        failures: tile -> why it failed.
        dataset: the results, NaN in the tiles that failed.
    """

    def __init__(self, failures: dict[int, str], dataset: xr.Dataset) -> None:
        """Say how many tiles failed, and why the first few did."""
        self.failures = failures
        self.dataset = dataset
        lines = [f"tile {index}: {message}" for index, message in list(failures.items())[:5]]
        more = [f"and {len(failures) - 5} more"] if len(failures) > 5 else []
        number = f"{len(failures)} tiles" if len(failures) > 1 else "1 tile"
        super().__init__("\n".join([f"{number} failed; all others were done", *lines, *more]))


def sweep(
    plan: Plan,
    path: str | os.PathLike[str] | None = None,
    *,
    workers: int = 1,
    share: tuple[int, int] = (1, 1),
    progress: bool | Report = False,
) -> xr.Dataset:
    """Simulate all points of a plan.

    Args:
        plan: the sweep.
        path: Zarr store to write, tile by tile; left out, the results stay in memory. Where it holds a part
            of this plan already, the sweep goes on from there; tiles that failed are tried again.
        workers: threads.
        share: (k, n): only the k-th of n shares of the tiles, 1 <= k <= n, so that n jobs can fill one store.
        progress: True: a bar on a terminal, plain lines otherwise; or a function that is called with each
            Progress.

    Returns:
        The results over the plan's axes; of a store lazily, as `open_results`. Points that a chip cannot hold
        are NaN, and `valid` is False there.

    Raises:
        StoreError: `path` holds another plan, or is no store; nothing was changed.
        SweepError: tiles failed, after all others were done.
        TypeError, ValueError: an argument is wrong.
    """
    _check(plan, path, workers, share)
    if path is not None:
        store = prepare_store(plan, path)
        write, fail = partial(write_tile, store), partial(mark_failed, store)
        mine = plan.tiles()[share[0] - 1 :: share[1]]
        pending = sorted({*pending_tiles(store)} & {*mine})
        with reporting(progress) as report:
            failures = _run(plan, pending, workers, write, fail, _Meter(plan, mine, pending, report))
        dataset = open_results(store.path)
    else:
        arrays = empty_arrays(plan, plan.grid.sizes)
        dataset = build_dataset(arrays, plan.coordinates(), axes=plan.grid.axes, attrs=plan.attributes())

        def write_memory(index: int, results: xr.Dataset, seconds: float) -> None:
            region = tuple(plan.grid.region(index).values())
            for name, array in arrays.items():
                array[region] = results[name].values

        tiles = plan.tiles()
        with reporting(progress) as report:
            failures = _run(
                plan, tiles, workers, write_memory, lambda *_: None, _Meter(plan, tiles, tiles, report)
            )
    if failures:
        raise SweepError(failures, dataset)
    return dataset


def prepare_store(plan: Plan, path: str | os.PathLike[str]) -> Store:
    """Open the store of this plan, or make it where nothing is yet.

    Raises:
        StoreError: something else is at `path`, or a store of another plan; the message shows the difference.
    """
    store = open_store(path) if os.path.lexists(path) else create_store(path, plan.layout())
    try:
        theirs = read_call(store.attrs["provenance"], "sweep")
    except ValueError as error:
        raise StoreError(f"{store.path}: {error}") from None
    lines = difference(plan.record(), theirs)
    if lines:
        shown = lines[:10] + [f"and {len(lines) - 10} more"] * (len(lines) > 10)
        raise StoreError("\n  ".join([f"{store.path}: holds another plan; it was left as it is", *shown]))
    return store


@dataclass(frozen=True)
class _Outcome:
    index: int
    seconds: float
    message: str = ""


class _StoppedError(Exception):
    """The sweep was interrupted before the tile was done."""


class _Meter:
    """Counts tiles and points, and reports."""

    def __init__(self, plan: Plan, tiles: Sequence[int], pending: Sequence[int], report: Report) -> None:
        self.grid, self.report = plan.grid, report
        self.tiles, self.failed = len(tiles), 0
        self.points = sum(map(plan.grid.tile_points, tiles))
        self.before = self.points - sum(map(plan.grid.tile_points, pending))
        self.done, self.points_done = len(tiles) - len(pending), self.before
        self.start = time.perf_counter()

    def show(self, message: str = "") -> None:
        seconds = time.perf_counter() - self.start
        new = self.points_done - self.before
        left = seconds * (self.points - self.points_done) / new if new else None
        self.report(
            Progress(
                self.tiles, self.done, self.failed, self.points, self.points_done, seconds, left, message
            )
        )

    def count(self, outcome: _Outcome) -> None:
        self.points_done += self.grid.tile_points(outcome.index)
        self.failed += bool(outcome.message)
        self.done += not outcome.message
        self.show(f"tile {outcome.index} failed: {outcome.message}" if outcome.message else "")


def _run(
    plan: Plan,
    tiles: Sequence[int],
    workers: int,
    write: Callable[[int, xr.Dataset, float], None],
    fail: Callable[[int, str, float], None],
    meter: _Meter,
) -> dict[int, str]:
    """Run tiles in threads; return why some failed. An interruption abandons tiles between two points."""
    stop = threading.Event()

    def go_on() -> None:
        if stop.is_set():
            raise _StoppedError

    def work(index: int) -> _Outcome:
        start = time.perf_counter()
        try:
            results = run_tile(plan, index, go_on)
        except TileError as error:
            outcome = _Outcome(index, time.perf_counter() - start, str(error))
            fail(index, outcome.message, outcome.seconds)
            return outcome
        outcome = _Outcome(index, time.perf_counter() - start)
        write(index, results, outcome.seconds)
        return outcome

    failures: dict[int, str] = {}
    meter.show()
    with _pool(workers, stop) as pool:
        for future in as_completed([pool.submit(work, index) for index in tiles]):
            outcome = future.result()
            if outcome.message:
                failures[outcome.index] = outcome.message
            meter.count(outcome)
    return dict(sorted(failures.items()))


@contextmanager
def _pool(workers: int, stop: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """Threads that are told to stop when the block is left by an exception (Ctrl-C, a full disk)."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="warpsim")
    try:
        yield pool
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _check(plan: Plan, path: str | os.PathLike[str] | None, workers: int, share: tuple[int, int]) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan = {plan!r}: must be a Plan")
    if path is not None and not isinstance(path, str | Path | os.PathLike):
        raise TypeError(f"path = {path!r}: must be the path of a store, or left out")
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"workers = {workers!r}: must be an integer")
    if workers < 1:
        raise ValueError(f"workers = {workers}: must be at least 1")
    if len(share) != 2 or not 1 <= share[0] <= share[1]:
        raise ValueError(f"share = {share}: must be (k, n) with 1 <= k <= n")
    if path is None and share != (1, 1):
        raise ValueError(f"share = {share}: a share needs a store to write to; path is left out")

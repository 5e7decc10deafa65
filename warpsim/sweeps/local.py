"""Sweeps: the tiles of a plan into memory or a store, by threads or processes of this machine, or by a Dask cluster.

The engine releases the interpreter's lock; what Python does for a point (building it, its results) holds it for some 5 ms. So
threads keep N cores busy with points that take N times 5 ms or more; with shorter ones processes are faster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.results.schema import build_dataset
from warpsim.store.extend import extend_store
from warpsim.store.place import place_of
from warpsim.store.zarr_store import Store, StoreError, create_store, open_results, pending_tiles
from warpsim.sweeps.interrupts import interrupts_held, interrupts_kept
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.progress import Meter, Report, reporting
from warpsim.sweeps.resume import as_stored
from warpsim.sweeps.settings import integer
from warpsim.sweeps.tile import TileError, empty_arrays, run_tile
from warpsim.sweeps.work import Job, Outcome, StoppedError, do_tile, do_tile_of

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


class WorkerError(RuntimeError):
    """A worker ended before its tile was done; the tiles that are done are kept, and the same call goes on."""


def sweep(
    plan: Plan,
    path: str | os.PathLike[str] | None = None,
    *,
    workers: int = 1,
    processes: bool = False,
    dask: Any = None,
    share: tuple[int, int] = (1, 1),
    tiles: Sequence[int] | None = None,
    extend: bool = False,
    progress: bool | Report = False,
) -> xr.Dataset:
    """Simulate all points of a plan.

    Args:
        plan: the sweep.
        path: Zarr store to write, tile by tile: a folder, or a URL that fsspec knows (s3://bucket/name.zarr). Left out, the
            results stay in memory. Where it holds a part of this plan already, the sweep goes on from there; tiles
            that failed are tried again.
        workers: threads or processes.
        processes: whether the workers are processes; needs a path. A script that asks for it needs the usual
            `if __name__ == "__main__":`.
        dask: address of a Dask scheduler, or a `distributed.Client`, whose workers do the tiles; needs a path that they
            all reach. `workers` and `processes` do not matter then.
        share: (k, n): only the k-th of n shares of the tiles, 1 <= k <= n, so that n jobs can fill one store.
        tiles: only these tiles.
        extend: where the store holds a part of the plan (fewer replicates, fewer values along its axes), add the rest and
            keep what is done. Values that are new come last on their axis. No other job may use the store meanwhile.
        progress: True: a bar on a terminal, plain lines otherwise; or a function that is called with each
            Progress.

    Returns:
        The results over the plan's axes; of a store lazily, as `open_results`. Points that a chip cannot hold
        are NaN, and `valid` is False there.

    Raises:
        StoreError: `path` holds another plan, or is no store; nothing was changed.
        SweepError: tiles failed, after all others were done.
        WorkerError: a worker process was killed; the same call goes on.
        TypeError, ValueError: an argument is wrong.
    """
    _check(plan, path, workers, processes or dask is not None, share)
    with interrupts_kept() as check_interrupts:
        if path is None:
            return _sweep_memory(plan, workers, progress, check_interrupts)
        if not place_of(path).exists():
            _chosen(plan, share, tiles)  # before anything is made
        plan, store = prepare_store(plan, path, extend=extend)
        chosen = _chosen(plan, share, tiles)
        pending = sorted({*pending_tiles(store)} & {*chosen})
        if dask is not None:
            from warpsim.sweeps.dask import dask_outcomes

            outcomes = dask_outcomes(dask, Job.of(plan, store), pending)
        elif processes:
            outcomes = _process_outcomes(Job.of(plan, store), pending, workers)
        else:
            outcomes = _thread_outcomes(lambda index, go_on: do_tile(plan, store, index, go_on), pending, workers)
        with reporting(progress) as report:
            failures = _follow(outcomes, Meter(plan.grid, chosen, pending, report), check_interrupts)
    dataset = open_results(store.path)
    if failures:
        raise SweepError(failures, dataset)
    return dataset


def _sweep_memory(
    plan: Plan, workers: int, progress: bool | Report, check_interrupts: Callable[[], None]
) -> xr.Dataset:
    arrays = empty_arrays(plan, plan.grid.sizes)
    dataset = build_dataset(arrays, plan.coordinates(), axes=plan.grid.axes, attrs=plan.attributes())

    def do(index: int, go_on: Callable[[], None]) -> Outcome:
        start = time.perf_counter()
        try:
            results = run_tile(plan, index, go_on)
        except TileError as error:
            return Outcome(index, time.perf_counter() - start, str(error))
        region = tuple(plan.grid.region(index).values())
        for name, array in arrays.items():
            array[region] = results[name].values
        return Outcome(index, time.perf_counter() - start)

    with reporting(progress) as report:
        meter = Meter(plan.grid, plan.tiles(), plan.tiles(), report)
        failures = _follow(_thread_outcomes(do, plan.tiles(), workers), meter, check_interrupts)
    if failures:
        raise SweepError(failures, dataset)
    return dataset


def prepare_store(plan: Plan, path: str | os.PathLike[str], *, extend: bool = False) -> tuple[Plan, Store]:
    """Open the store of this plan, or make it where nothing is yet.

    Args:
        plan: the sweep.
        path: its store.
        extend: where the store holds a part of the plan, add the rest.

    Returns:
        The plan as the store has it, with its tiles and its order of the values along an axis; the store.

    Raises:
        StoreError: something else is at `path`, a store of another plan, or of a part of this one that is not to be
            extended; the message shows the difference, and nothing was changed.
    """
    store = create_store(path, plan.layout())
    plan, added = as_stored(plan, store)
    if added and not extend:
        what = "; ".join(added)
        raise StoreError(f"{store.path}: holds a part of this plan: {what}; extend=True (--extend) adds what is missing")
    return plan, extend_store(store, plan.layout()) if added else store


def _follow(outcomes: Iterator[Outcome], meter: Meter, check_interrupts: Callable[[], None]) -> dict[int, str]:
    """Report outcomes as they come; return why some tiles failed. What interrupts it stops the workers."""
    failures: dict[int, str] = {}
    check_interrupts()
    meter.show()
    with closing(outcomes):  # type: ignore[type-var]  # they are generators
        for outcome in outcomes:
            check_interrupts()
            if outcome.message:
                failures[outcome.tile] = outcome.message
            meter.count(outcome.tile, outcome.message)
    return dict(sorted(failures.items()))


def _thread_outcomes(
    do: Callable[[int, Callable[[], None]], Outcome], tiles: Sequence[int], workers: int
) -> Iterator[Outcome]:
    """Do tiles in threads. An interruption (Ctrl-C, a full disk) abandons those in work between two points."""
    stop = threading.Event()

    def go_on() -> None:
        if stop.is_set():
            raise StoppedError

    pool = ThreadPoolExecutor(workers, thread_name_prefix="warpsim")
    try:
        for future in as_completed([pool.submit(do, index, go_on) for index in tiles]):
            yield future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


_stop: Any = None
"""In a worker process: the event that tells it to abandon its tile."""


def _process_outcomes(job: Job, tiles: Sequence[int], workers: int) -> Iterator[Outcome]:
    """Do tiles in processes, which are told of an interruption as threads are."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(min(workers, max(1, len(tiles))), context, _start_process, (stop,))
    try:
        with interrupts_held():  # processes start here, and inherit it: Ctrl-C is their parent's affair
            futures: list[Future[Outcome]] = [pool.submit(_do_in_process, job, index) for index in tiles]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError("a worker process was killed; the tiles that are done are kept, and the same call goes on") from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _start_process(stop: Any) -> None:
    """Set up a worker process, which ends when its parent does."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it was not held
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do_in_process(job: Job, index: int) -> Outcome:
    def go_on() -> None:
        if _stop.is_set():
            raise StoppedError

    return do_tile_of(job, index, go_on)


def _chosen(plan: Plan, share: tuple[int, int], tiles: Sequence[int] | None) -> Sequence[int]:
    if tiles is None:
        return plan.tiles()[share[0] - 1 :: share[1]]
    wrong = [index for index in tiles if index not in plan.tiles()]
    if wrong:
        raise ValueError(f"tiles = {wrong[0]}: must be from 0 to {len(plan.tiles()) - 1}")
    return sorted({*tiles})[share[0] - 1 :: share[1]]


def _check(
    plan: Plan, path: str | os.PathLike[str] | None, workers: int, elsewhere: bool, share: tuple[int, int]
) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan = {plan!r}: must be a Plan")
    if path is not None and not isinstance(path, str | Path | os.PathLike):
        raise TypeError(f"path = {path!r}: must be the path of a store, or left out")
    integer("workers", workers)
    if len(share) != 2 or not 1 <= share[0] <= share[1]:
        raise ValueError(f"share = {share}: must be (k, n) with 1 <= k <= n")
    if path is None and share != (1, 1):
        raise ValueError(f"share = {share}: a share needs a store to write to; path is left out")
    if path is None and elsewhere:
        raise ValueError("processes, dask: other processes need a store to write to; path is left out")

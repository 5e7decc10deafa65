"""`sweep`: simulates the tiles of a plan into memory or a store, with threads or processes of this machine, or a Dask cluster.

The engine releases Python's global interpreter lock, but building a point and reading its counters hold it for 1 to 2 ms per
replicate. Threads therefore keep N cores busy only with points that take N times as long; for shorter points, use processes.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from numbers import Integral
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from warpsim.arguments import integer
from warpsim.results.schema import build_dataset
from warpsim.simulation.api import compile_engine
from warpsim.store.lease import writers
from warpsim.store.place import place_of
from warpsim.store.zarr_store import open_results, pending_tiles
from warpsim.sweeps.dask import connected, dask_outcomes
from warpsim.sweeps.opening import writable_store
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.progress import Meter, Report, reporting
from warpsim.sweeps.tile import (
    Job,
    StoppedError,
    TileError,
    TileOutcome,
    complete_tile,
    complete_tile_of,
    empty_arrays,
    run_tile,
)

if TYPE_CHECKING:
    import xarray as xr


class SweepError(RuntimeError):
    """Some tiles failed; all others are done.

    Attributes:
        failures: tile -> the reason for its failure.
        dataset: the results, NaN in the tiles that failed.
    """

    def __init__(self, failures: dict[int, str], dataset: xr.Dataset) -> None:
        self.failures = failures
        self.dataset = dataset
        lines = [f"tile {index}: {message}" for index, message in list(failures.items())[:5]]
        more = [f"and {len(failures) - 5} more"] if len(failures) > 5 else []
        number = f"{len(failures)} tiles" if len(failures) > 1 else "1 tile"
        super().__init__("\n".join([f"{number} failed; all others are done", *lines, *more]))

    def __reduce__(self) -> tuple[type[SweepError], tuple[dict[int, str], xr.Dataset]]:
        """Tells pickle how to make the error again, as it does where a process passes it on to another."""
        return SweepError, (self.failures, self.dataset)


class WorkerError(RuntimeError):
    """A worker died before its tile was done. Finished tiles are kept, and the same call resumes the sweep."""


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
    """Simulates all points of a plan.

    Args:
        plan: the sweep.
        path: Zarr store for the results, a folder or a URL that fsspec supports (s3://bucket/name.zarr). By default the results
            stay in memory. If the store already holds a part of this plan, the sweep resumes there, and repeats failed tiles.
        workers: number of threads or processes.
        processes: whether the workers are processes; requires a path. A script that uses processes needs the usual
            `if __name__ == "__main__":`.
        dask: address of a Dask scheduler, or a `distributed.Client`, whose workers run the tiles; requires a path that all of
            them can reach. `workers` and `processes` are then ignored.
        share: (k, n): only the k-th of n shares of the tiles, 1 <= k <= n, so that n jobs can fill one store; requires a path.
        tiles: only these tiles; requires a path.
        extend: if the store holds a part of the plan (fewer replicates, or fewer values along its axes), adds the rest and keeps
            what is done. New values are appended to their axes. Refused while another process writes to the store,
            or while tasks of Slurm wait or run for it.
        progress: True shows a bar on a terminal and plain lines otherwise; a function is called with each Progress.

    Returns:
        The results over the plan's axes; those of a store are read lazily, as by `open_results`. Points that a chip cannot hold
        are NaN, and their `valid` is False.

    Raises:
        StoreError: `path` holds another plan, or is not a store; it was not changed.
        SweepError: some tiles failed; all others are done.
        WorkerError: a worker process was killed; the same call resumes the sweep.
        BusyError: another process writes to the store, so that it cannot be extended now, or changes its layout.
        SlurmError: it cannot be told whether tasks wait for a store that is to be extended.
        LeaseLostError: this machine slept, and another process has taken this one for dead.
        OSError: the store cannot be written, or no Dask scheduler answers; then no store was created.
        TypeError, ValueError: an argument is wrong.
    """
    _check_arguments(plan, path, workers, processes or dask is not None, share, tiles)
    with _remembered_interrupts() as raise_if_interrupted, ExitStack() as stack:
        if path is None:
            return _sweep_memory(plan, workers, progress, raise_if_interrupted)
        if not place_of(path).exists():
            _chosen_tiles(plan, share, tiles)  # raises before the store is created, as the next line
        client = None if dask is None else stack.enter_context(connected(dask))
        plan, store = stack.enter_context(writable_store(plan, path, extend=extend))
        chosen = _chosen_tiles(plan, share, tiles)
        pending = sorted({*pending_tiles(store)} & {*chosen})
        if len(writers(store.place)) > 1:
            random.shuffle(pending)  # so that processes which share a store do not run the same tiles at the same time
        if pending and client is None:
            compile_engine(plan.some_points())  # before the workers, so that they load the code, and before the time is taken
        if client is not None:
            outcomes = dask_outcomes(client, Job.of(plan, store), pending)
        elif processes:
            outcomes = _process_outcomes(Job.of(plan, store), pending, workers)
        else:
            outcomes = _thread_outcomes(lambda tile, before: complete_tile(plan, store, tile, before), pending, workers)
        with reporting(progress) as report:
            meter = Meter(plan.grid, chosen, pending, report)
            try:
                failures = _follow(outcomes, meter, raise_if_interrupted)
            except BaseException:  # tiles may have been done while the workers stopped
                with suppress(OSError):
                    meter.stop({*pending_tiles(store)})
                raise
    dataset = open_results(store.path)
    if failures:
        raise SweepError(failures, dataset)
    return dataset


def _sweep_memory(
    plan: Plan, workers: int, progress: bool | Report, raise_if_interrupted: Callable[[], None]
) -> xr.Dataset:
    arrays = empty_arrays(plan, plan.grid.sizes)
    dataset = build_dataset(arrays, plan.coordinates(), axes=plan.grid.axes, attrs=plan.attributes())

    def run(tile: int, pause: Callable[[], None]) -> TileOutcome:
        start = time.perf_counter()
        try:
            results = run_tile(plan, tile, pause)
        except TileError as error:
            return TileOutcome(tile, time.perf_counter() - start, str(error))
        region = tuple(plan.grid.region(tile).values())
        for name, array in arrays.items():
            array[region] = results[name]
        return TileOutcome(tile, time.perf_counter() - start)

    compile_engine(plan.some_points())
    with reporting(progress) as report:
        meter = Meter(plan.grid, plan.tiles(), plan.tiles(), report)
        failures = _follow(_thread_outcomes(run, plan.tiles(), workers), meter, raise_if_interrupted)
    if failures:
        raise SweepError(failures, dataset)
    return dataset


def _follow(
    outcomes: Iterator[TileOutcome], meter: Meter, raise_if_interrupted: Callable[[], None]
) -> dict[int, str]:
    """Reports outcomes as they arrive, and returns tile -> the reason for its failure. Any exception stops the workers."""
    failures: dict[int, str] = {}
    raise_if_interrupted()
    meter.show()
    with closing(outcomes):  # type: ignore[type-var]  # all of them are generators
        for outcome in outcomes:
            raise_if_interrupted()
            if outcome.message:
                failures[outcome.tile] = outcome.message
            meter.count(outcome.tile, outcome.message)
    return dict(sorted(failures.items()))


def _thread_outcomes(
    run: Callable[[int, Callable[[], None]], TileOutcome], tiles: Sequence[int], workers: int
) -> Iterator[TileOutcome]:
    """Runs tiles in threads. An interruption (Ctrl-C, a full disk) abandons the unfinished tiles within a second."""
    stop = threading.Event()

    def raise_if_stopped() -> None:
        if stop.is_set():
            raise StoppedError

    pool = ThreadPoolExecutor(workers, thread_name_prefix="warpsim")
    try:
        for future in as_completed([pool.submit(run, tile, raise_if_stopped) for tile in tiles]):
            yield future.result()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


_stop: Any = None
"""In a worker process: the event that tells it to abandon its tile."""


def _process_outcomes(job: Job, tiles: Sequence[int], workers: int) -> Iterator[TileOutcome]:
    """Runs tiles in processes. An interruption abandons the unfinished tiles within a fraction of a second."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(min(workers, max(1, len(tiles))), context, _start_process, (stop,))
    try:
        with _blocked_interrupts():  # worker processes start here and inherit the blocked signal; only the parent handles Ctrl-C
            futures: list[Future[TileOutcome]] = [pool.submit(_run_in_process, job, tile) for tile in tiles]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError("a worker process was killed; finished tiles are kept, and the same call resumes the sweep") from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _start_process(stop: Any) -> None:
    """Sets up a worker process, which ends when its parent ends."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on systems that cannot block signals
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_in_process(job: Job, tile: int) -> TileOutcome:
    def raise_if_stopped() -> None:
        if _stop.is_set():
            raise StoppedError

    return complete_tile_of(job, tile, raise_if_stopped)


@contextmanager
def _remembered_interrupts() -> Iterator[Callable[[], None]]:
    """Provides a function that raises KeyboardInterrupt after Ctrl-C, even if a library has swallowed the exception.

    pydantic swallows exceptions now and then that are raised while it calls a Python function. Only signals with Python's default
    handler are remembered, and only in the main thread, where Python handles signals.
    """
    interrupted = threading.Event()

    def remember(number: int, frame: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def raise_if_interrupted() -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    signals = [name for name in (signal.SIGINT, signal.SIGTERM) if main and signal.getsignal(name) is signal.default_int_handler]
    for name in signals:
        signal.signal(name, remember)
    try:
        yield raise_if_interrupted
    finally:
        for name in signals:
            signal.signal(name, signal.default_int_handler)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Blocks SIGINT until the end, where the system can block signals; processes started meanwhile never receive it.

    Another thread may receive it all the same, and Python's handler then runs in the main thread; it does so at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    delays = callable(handler) and threading.current_thread() is threading.main_thread()
    received: list[tuple[int, FrameType | None]] = []
    if delays:
        signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if delays:
            signal.signal(signal.SIGINT, handler)
    if received and callable(handler):
        handler(*received[0])


def _chosen_tiles(plan: Plan, share: tuple[int, int], tiles: Sequence[int] | None) -> Sequence[int]:
    if tiles is None:
        return plan.tiles()[share[0] - 1 :: share[1]]
    last = len(plan.tiles()) - 1
    chosen = sorted({integer("tiles", tile, 0, last) for tile in tiles})
    return chosen[share[0] - 1 :: share[1]]


def _check_arguments(
    plan: Plan,
    path: str | os.PathLike[str] | None,
    workers: int,
    elsewhere: bool,
    share: tuple[int, int],
    tiles: Sequence[int] | None,
) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan = {plan!r}: must be a Plan, such as Plan.from_toml returns")
    if path is not None and not isinstance(path, str | Path | os.PathLike):
        raise TypeError(f"path = {path!r}: must be the path of a store, or None")
    integer("workers", workers)
    if not isinstance(share, tuple | list) or len(share) != 2 or not all(isinstance(number, Integral) for number in share):
        raise TypeError(f"share = {share!r}: must be (k, n), two integers with 1 <= k <= n")
    if not 1 <= share[0] <= share[1]:
        raise ValueError(f"share = {share}: must be (k, n) with 1 <= k <= n")
    if isinstance(tiles, str) or not (tiles is None or isinstance(tiles, Iterable)):
        raise TypeError(f"tiles = {tiles!r}: must be the numbers of tiles, such as [0, 3], or None")
    if path is None and (share != (1, 1) or tiles is not None):
        what = f"share = {share}: a share needs" if tiles is None else f"tiles = {tiles}: a part of the tiles needs"
        raise ValueError(f"{what} a store; give a path")
    if path is None and elsewhere:
        raise ValueError("processes, dask: other processes need a store; give a path")

"""A tile of a sweep: a pure function of the plan and the tile's index, simulated into arrays or into a store."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import InvalidPoint
from warpsim.hardware.memo import kept_by_object
from warpsim.results.schema import SWEEP_VARIABLES, VALID, result_ops
from warpsim.simulation.api import Settled, settled, simulate_point
from warpsim.simulation.point import Point
from warpsim.store.extend import earlier_results
from warpsim.store.lease import require_lease
from warpsim.store.writing import is_done, mark_failed, write_tile
from warpsim.store.zarr_store import Store, open_store
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import Results, replicated
from warpsim.sweeps.space import BuildCache, Space

Arrays = Mapping[str, NDArray[Any]]
"""Sweep variables by name."""


class TileError(RuntimeError):
    """A point of a tile could not be simulated; the message names the point and the reason."""


class StoppedError(Exception):
    """The sweep was interrupted before the tile was done; nothing of the tile is kept."""


@dataclass(frozen=True)
class TileOutcome:
    """What became of a tile.

    Attributes:
        tile: its index.
        seconds: the time it took.
        message: the reason for its failure, or empty.
    """

    tile: int
    seconds: float
    message: str = ""


@dataclass(frozen=True)
class Job:
    """A sweep in a form that can be sent to other processes and machines.

    Attributes:
        plan: the pickled plan.
        path: folder or URL of its store, which exists.
        lease: key of the lease under which the tiles are written.
    """

    plan: bytes
    path: str
    lease: str | None = None

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Job:
        """Makes the job of a plan and its store."""
        return cls(pickle.dumps(plan), str(store.place.root), store.lease)  # workers may have another working folder


def run_tile(
    plan: Plan, tile: int, pause: Callable[[], None] | None = None, earlier: Arrays | None = None
) -> dict[str, NDArray[Any]]:
    """Simulates all points of one tile.

    The result depends on the plan and the index only; process, thread, order of tiles and earlier results do not change it.

    Args:
        plan: the sweep.
        tile: index of the tile, from 0.
        pause: called before each point, and several times per second; abandons the tile by a StoppedError.
        earlier: every sweep variable over a part of the tile that was done before the plan grew: the first points along each
            axis, with their first replicates and operation classes.

    Returns:
        Every sweep variable over the tile's part of the axes, of shape (*axes, *own dimensions). A point that the chip cannot
        hold is NaN, and its `valid` is False.

    Raises:
        TileError: a point could not be simulated.
    """
    region = plan.grid.region(tile).values()
    arrays = empty_arrays(plan, plan.grid.tile_shape(tile))
    cache = _build_cache(plan)
    columns_of: dict[tuple[str, ...], list[int]] = {}
    for position in plan.positions(tile):
        if pause is not None:
            pause()
        inside = tuple(i - part.start for i, part in zip(position, region, strict=True))
        try:
            point = plan.point(position, cache)
            ops = tuple(point.gpu.ops)
            if ops not in columns_of:
                columns_of[ops] = [plan.ops.index(op) for op in result_ops([point.gpu])]
            columns = columns_of[ops]
            before = None if earlier is None else _earlier_replicates(earlier, inside, columns)
            simulate = replicate_runner(point, plan.streams(position), pause)
            _insert(arrays, inside, replicated(simulate, plan.replicates, before), columns)
        except InvalidPoint:
            continue
        except StoppedError:
            raise
        except Exception as error:
            raise TileError(f"{plan.describe(position)}: {type(error).__name__}: {error}") from error
    return arrays


@kept_by_object
def _build_cache(plan: Plan) -> BuildCache:
    """Returns the chips and kernels of a plan, which its tiles share."""
    return BuildCache(plan.check_unchanged)


def replicate_runner(
    point: Point, streams: bytes | None, pause: Callable[[], None] | None = None
) -> Callable[[int, int], Results]:
    """Returns a function (first, number) that runs `number` replicates of a point from replicate `first` on.

    The warm-up is derived when the function is first called. `streams` is what the seeds are hashed from.
    """
    known: list[Settled] = []

    def run(first: int, number: int) -> Results:
        if not known:
            known.append(settled(point, streams, pause=pause))
        of, base, spread = known[0]
        return simulate_point(replace(of, replicates=number), streams=base, first=first, spread=spread, pause=pause)

    return run


def complete_tile(plan: Plan, store: Store, tile: int, pause: Callable[[], None] | None = None) -> TileOutcome:
    """Simulates one tile and writes it to the store. A tile that raises is marked as failed.

    Args:
        plan: the sweep.
        store: its store.
        tile: index of the tile.
        pause: called before each point, and several times per second; abandons the tile by a StoppedError.

    Raises:
        OSError: the store cannot be written.
        LeaseLostError: the lease of this sweep is gone.
    """
    start = time.perf_counter()
    if is_done(store, tile):  # another job may have done it in the meantime
        return TileOutcome(tile, 0.0)
    try:
        arrays = run_tile(plan, tile, pause, earlier_results(store, tile))
    except TileError as error:
        seconds = time.perf_counter() - start
        mark_failed(store, tile, str(error), seconds)
        return TileOutcome(tile, seconds, str(error))
    seconds = time.perf_counter() - start
    require_lease(store.place, store.lease)
    try:
        write_tile(store, tile, arrays, tile_coordinates(plan, tile), seconds)
    except OSError as error:  # a full disk, a lost connection
        reason = f"{error.strerror or error}; finished tiles are kept, and the same call resumes the sweep"
        raise OSError(error.errno, reason, str(error.filename2 or store.path)) from error  # the file that cannot be replaced
    return TileOutcome(tile, seconds)


def complete_tile_of(job: Job, tile: int, pause: Callable[[], None] | None = None) -> TileOutcome:
    """Runs `complete_tile` in another process, which keeps the plan and the store open between tiles."""
    plan, store = _opened(job)
    return complete_tile(plan, store, tile, pause)


@lru_cache(maxsize=1)
def _opened(job: Job) -> tuple[Plan, Store]:
    plan: Plan = pickle.loads(job.plan)
    return plan, replace(open_store(job.path), lease=job.lease)


def tile_coordinates(plan: Plan, tile: int) -> dict[str, Any]:
    """Returns the labels of every dimension of one tile's results."""
    region = plan.grid.region(tile)
    return {name: labels[region.get(name, slice(None))] for name, labels in _labels(plan).items()}


def empty_arrays(space: Space, shape: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """Returns arrays of every sweep variable over `shape` points, filled with the values of points that do not exist."""
    labels = _labels(space)
    return {
        declared.name: np.full((*shape, *(len(labels[dim]) for dim in declared.dims)), declared.fill, declared.dtype)
        for declared in SWEEP_VARIABLES
    }


def _labels(space: Space) -> dict[str, Any]:
    """Returns the labels of every dimension of the result."""
    return {name: value for name, value in space.coordinates().items() if isinstance(value, list | np.ndarray)}


def _earlier_replicates(earlier: Arrays, position: tuple[int, ...], columns: Sequence[int]) -> Arrays | None:
    """Returns the earlier replicates of one point, with the operation classes of its chip only; None if there are none."""
    valid = earlier[VALID.name]
    if not all(i < size for i, size in zip(position, valid.shape, strict=True)) or not valid[position]:
        return None
    results = {declared.name: earlier[declared.name][position] for declared in SWEEP_VARIABLES if declared is not VALID}
    for declared in SWEEP_VARIABLES:
        if declared.dims and declared.dims[-1] == "op":
            results[declared.name] = results[declared.name][..., columns]
    number = int(np.isfinite(results["cycles"]).sum())
    return {name: values[:number] for name, values in results.items()}


def _insert(arrays: Arrays, position: tuple[int, ...], results: Arrays, columns: Sequence[int]) -> None:
    """Enters one point's replicates; `columns` are the chip's operation classes among those of all chips."""
    arrays[VALID.name][position] = True
    for declared in SWEEP_VARIABLES:
        if declared is VALID:
            continue
        values = results[declared.name]
        target = arrays[declared.name][position][: len(values)]
        if declared.dims[-1] == "op":
            target[..., columns] = values
        else:
            target[...] = values

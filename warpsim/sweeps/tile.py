"""One tile of a sweep: a pure function of the plan and the tile's index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import InvalidPoint
from warpsim.results.schema import SWEEP_VARIABLES, VALID, build_dataset, result_ops
from warpsim.simulation.api import simulate_point
from warpsim.sweeps.points import Parts
from warpsim.sweeps.replicates import replicated

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.simulation.point import Point
    from warpsim.sweeps.plan import Plan

Arrays = Mapping[str, NDArray[Any]]
"""Sweep variables by name."""


class TileError(RuntimeError):
    """A point of a tile could not be simulated; the message names the point and the reason."""


def run_tile(
    plan: Plan, index: int, before_point: Callable[[], None] | None = None, known: Arrays | None = None
) -> xr.Dataset:
    """Simulate all points of one tile.

    The result depends on the plan and the index alone, whatever the process, threads or order of tiles, and whatever is known.

    Args:
        plan: the sweep.
        index: the tile, from 0.
        before_point: called before each point; what it raises abandons the tile.
        known: every sweep variable over a part of the tile that was done before the plan grew: the first points along each
            axis, and of them the first replicates and operation classes.

    Returns:
        Every sweep variable over the tile's part of the axes, with coordinates. A point that the chip cannot
        hold is NaN, and its `valid` is False.

    Raises:
        TileError: a point could not be simulated.
    """
    region = plan.grid.region(index)
    arrays = empty_arrays(plan, plan.grid.tile_shape(index))
    parts = Parts()
    for place in plan.places(index):
        if before_point is not None:
            before_point()
        inside = tuple(i - part.start for i, part in zip(place, region.values(), strict=True))
        try:
            point = plan.point(place, parts)
            columns = [plan.ops.index(op) for op in result_ops([point.gpu])]
            before = None if known is None else _known(known, inside, columns)
            run = partial(simulate_replicates, point, plan.streams(place))
            _put(arrays, inside, replicated(run, plan.replicates, before), columns)
        except InvalidPoint:
            continue
        except Exception as error:
            raise TileError(f"{plan.describe(place)}: {type(error).__name__}: {error}") from error
    return build_dataset(arrays, tile_coordinates(plan, index), axes=plan.grid.axes)


def simulate_replicates(point: Point, streams: bytes | None, first: int, number: int) -> Arrays:
    """Simulate so many replicates of a point, from number `first` on, by its random streams."""
    return simulate_point(replace(point, replicates=number), streams=streams, first=first)


def _known(known: Arrays, place: tuple[int, ...], columns: Sequence[int]) -> Arrays | None:
    """What is known of one point, with the chip's own operation classes: its first replicates, at least one."""
    valid = known[VALID.name]
    if not all(i < size for i, size in zip(place, valid.shape, strict=True)) or not valid[place]:
        return None
    results = {declared.name: known[declared.name][place] for declared in SWEEP_VARIABLES if declared is not VALID}
    for declared in SWEEP_VARIABLES:
        if declared.dims and declared.dims[-1] == "op":
            results[declared.name] = results[declared.name][..., columns]
    number = int(np.isfinite(results["cycles"]).sum())
    return {name: values[:number] for name, values in results.items()}


def tile_coordinates(plan: Plan, index: int) -> dict[str, Any]:
    """Labels of the dimensions of one tile."""
    region = plan.grid.region(index)
    return {name: labels[region.get(name, slice(None))] for name, labels in _labels(plan).items()}


def empty_arrays(plan: Plan, shape: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of every sweep variable over so many points, holding what stands where nothing was simulated."""
    labels = _labels(plan)
    return {
        declared.name: np.full((*shape, *(len(labels[dim]) for dim in declared.dims)), declared.fill, declared.dtype)
        for declared in SWEEP_VARIABLES
    }


def _labels(plan: Plan) -> dict[str, Any]:
    """Labels of every dimension of the result."""
    return {name: value for name, value in plan.coordinates().items() if isinstance(value, list | np.ndarray)}


def _put(arrays: Arrays, place: tuple[int, ...], results: Arrays, columns: Sequence[int]) -> None:
    """Enter one point's replicates; the chip's operation classes go to their places among those of all chips."""
    arrays[VALID.name][place] = True
    for declared in SWEEP_VARIABLES:
        if declared is VALID:
            continue
        values = results[declared.name]
        target = arrays[declared.name][place][: len(values)]
        if declared.dims[-1] == "op":
            target[..., columns] = values
        else:
            target[...] = values

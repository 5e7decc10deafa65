"""One tile of a sweep: a pure function of the plan and the tile's index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.batch.points import Parts
from warpsim.residency import InvalidPoint
from warpsim.simulation import simulate_point
from warpsim.store.schema import SWEEP_VARIABLES, VALID, build_dataset, result_ops

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import NDArray

    from warpsim.batch.plan import Plan


class TileError(RuntimeError):
    """A point of a tile could not be simulated; the message names the point and the reason."""


def run_tile(plan: Plan, index: int, before_point: Callable[[], None] | None = None) -> xr.Dataset:
    """Simulate all points of one tile.

    The result depends on the plan and the index alone, whatever the process, threads or order of tiles.

    Args:
        plan: the sweep.
        index: the tile, from 0.
        before_point: called before each point; what it raises abandons the tile.

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
        try:
            point = plan.point(place, parts)
            results = simulate_point(point, streams=plan.streams(place))
        except InvalidPoint:
            continue
        except Exception as error:
            raise TileError(f"{plan.describe(place)}: {type(error).__name__}: {error}") from error
        inside = tuple(i - part.start for i, part in zip(place, region.values(), strict=True))
        _put(arrays, inside, results, plan.ops, result_ops([point.gpu]))
    return build_dataset(arrays, tile_coordinates(plan, index), axes=plan.grid.axes)


def tile_coordinates(plan: Plan, index: int) -> dict[str, Any]:
    """Labels of the dimensions of one tile."""
    region = plan.grid.region(index)
    labels = {
        name: value for name, value in plan.coordinates().items() if isinstance(value, list | np.ndarray)
    }
    return {name: value[region.get(name, slice(None))] for name, value in labels.items()}


def empty_arrays(plan: Plan, shape: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of every sweep variable over so many points, holding what stands where nothing was simulated."""
    lengths = {
        name: len(value) for name, value in plan.coordinates().items() if isinstance(value, list | np.ndarray)
    }
    return {
        declared.name: np.full(
            (*shape, *(lengths[dim] for dim in declared.dims)), declared.fill, declared.dtype
        )
        for declared in SWEEP_VARIABLES
    }


def _put(
    arrays: Mapping[str, NDArray[Any]],
    place: tuple[int, ...],
    results: Mapping[str, NDArray[Any]],
    ops: Sequence[str],
    own_ops: Sequence[str],
) -> None:
    """Enter one point's results; the chip's operation classes go to their places among those of all chips."""
    columns = [ops.index(op) for op in own_ops]
    arrays[VALID.name][place] = True
    for declared in SWEEP_VARIABLES:
        if declared is VALID:
            continue
        target = arrays[declared.name][place]
        if declared.dims[-1] == "op":
            target[..., columns] = results[declared.name]
        else:
            target[...] = results[declared.name]

"""Checks the values of every axis on every chip before anything runs. Of long axes it checks an evenly spaced sample."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from warpsim.arguments import InvalidPoint
from warpsim.sweeps.axes import evenly_spaced
from warpsim.sweeps.space import BuildCache, Space, build_kernel

_VALUES = 100
"""Values of an axis that are checked, at most."""


def check_points(space: Space) -> None:
    """Builds kernels with all arguments, and a point for every value of every other axis on every chip.

    Raises:
        TypeError, ValueError: a value is wrong, or fits no chip. A value that fits some chips only is allowed.
    """
    cache = BuildCache()
    for position in space.kernel_positions():
        build_kernel(space.at(position))
    for positions in _value_by_value(space):
        refusals: list[InvalidPoint] = []
        for position in positions:
            try:
                cache.gpu(space.at(position))
            except InvalidPoint as error:
                refusals.append(error)
                continue
            with suppress(InvalidPoint):
                space.point(position, cache)
        if len(refusals) == len(positions):
            raise ValueError(str(refusals[0]))


def _value_by_value(space: Space) -> Iterator[list[tuple[int, ...]]]:
    """Yields, for every value of every axis, its positions on all chips with the first value of all other axes."""
    axes = list(space.axes.values())
    chips = next((number for number, axis in enumerate(axes) if "gpu" in axis.columns), None)
    rows = [()] if chips is None else [(chips, i) for i in evenly_spaced(len(axes[chips]), _VALUES)]
    changes = [
        (),
        *((number, i) for number, axis in enumerate(axes) if number != chips for i in evenly_spaced(len(axis), _VALUES)),
    ]
    for change in changes:
        positions = []
        for row in rows:
            position = [0] * len(axes)
            for number, i in filter(None, (row, change)):
                position[number] = i
            positions.append(tuple(position))
        yield positions

"""What is refused before anything runs: every value of every axis, on every chip; of long axes, some of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.sweeps.points import Parts, build_kernel
from warpsim.sweeps.settings import is_program

if TYPE_CHECKING:
    from warpsim.sweeps.plan import Plan

_VALUES = 100
"""Values of an axis that are tried."""

_KERNELS = 256
"""Combinations of a kernel's arguments that are built."""


def few(length: int, most: int) -> list[int]:
    """Indices of a sequence: all, or `most` of them evenly spaced, with the first and the last."""
    return list(range(length)) if length <= most else [i * (length - 1) // (most - 1) for i in range(most)]


def check_points(plan: Plan) -> None:
    """Build kernels of all arguments, and a point for every value of every other axis on every chip.

    Raises:
        TypeError, ValueError: one is wrong. What some chip cannot do is not: those points are NaN.
    """
    parts = Parts()
    for place in kernel_places(plan):
        build_kernel(plan.at(place))
    for places in _alternatives(plan):
        refused: list[InvalidPoint] = []
        for place in places:
            try:
                parts.gpu(plan.at(place))
            except InvalidPoint as error:
                refused.append(error)
                continue
            with suppress(InvalidPoint):
                plan.point(place, parts)
        if len(refused) == len(places):
            raise ValueError(str(refused[0]))


def kernel_places(plan: Plan) -> Iterator[tuple[int, ...]]:
    """Places on the axes with every combination of what a kernel is made of; of many, some."""
    axes = list(plan.axes.values())
    shape = tuple(len(axis) if any(map(is_program, axis.columns)) else 1 for axis in axes)
    for index in few(math.prod(shape), _KERNELS):
        yield tuple(int(i) for i in np.unravel_index(index, shape)) if shape else ()


def _alternatives(plan: Plan) -> Iterator[list[tuple[int, ...]]]:
    """Every value of every axis with the first of the others: its places on all chips."""
    axes = list(plan.axes.values())
    chips = next((number for number, axis in enumerate(axes) if "gpu" in axis.columns), None)
    rows = [()] if chips is None else [(chips, i) for i in few(len(axes[chips]), _VALUES)]
    changed = [(), *((number, i) for number, axis in enumerate(axes) if number != chips for i in few(len(axis), _VALUES))]
    for change in changed:
        places = []
        for row in rows:
            place = [0] * len(axes)
            for number, i in filter(None, (row, change)):
                place[number] = i
            places.append(tuple(place))
        yield places

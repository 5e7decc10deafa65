"""Checks the values of every axis on every chip before anything runs. Of long axes it checks an evenly spaced sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise, product

from warpsim.arguments import InvalidPoint, NoWholeBlocks
from warpsim.store.grid import MAX_POINTS
from warpsim.sweeps.axes import Axis, evenly_spaced
from warpsim.sweeps.settings import is_program, label
from warpsim.sweeps.space import BuildCache, Space, build_kernel

_VALUES = 100
"""Values of an axis that are checked, at most."""

_COMBINATIONS = 4_000
"""Further points of a plan among which those that fit are looked for, at most. Where there are more, one of them may fit."""

_ALWAYS_FIT = frozenset({"scheduler", "sms", "warmup", "cycles", "seed", "replicates"})
"""Settings that do not matter for whether a chip can hold a point."""

_OF_BLOCKS = frozenset({"warps", "warps_per_scheduler", "block_warps"})
"""Settings that must go together so that warps are whole blocks."""

_REASONS = 3
"""Reasons in a message, at most."""

Change = tuple[int, int] | None
"""Number of an axis and index of the value on it; None: the first value of all axes."""

_Reasons = dict[str, bool]
"""Why points do not fit -> whether a chip could hold one if its warps were whole blocks."""


def check_points(space: Space) -> None:
    """Builds kernels with all arguments, and a point for every value of every other axis on every chip.

    Raises:
        TypeError, ValueError: a value is wrong or fits no chip, or there are too many points. A value that fits some chips only
            is allowed.
    """
    if space.points > MAX_POINTS:
        raise ValueError(f"{space.points} points: must be at most {MAX_POINTS}")
    cache = BuildCache()
    for position in space.kernel_positions():
        build_kernel(space.at(position))
    for _, positions in _value_by_value(space):
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


def check_fits(space: Space) -> None:
    """Looks, for every value of every axis, for a point with it that a chip can hold.

    A value that follows from words need not have one: "all up to the chip's limit" may be more than a large kernel allows.
    Neither need a chip, nor a number between others that fit, nor the end of a range of warps that some chip could hold if they
    were whole blocks, such as 59 of 1 to 59.

    Raises:
        ValueError: no chip can hold any point, or any point with some value.
    """
    cache, axes = BuildCache(), list(space.axes.values())
    fitting: list[tuple[int, int]] = []
    unfit: list[tuple[Change, _Reasons]] = []
    for change, positions in _value_by_value(space):
        axis = axes[change[0]] if change else None
        if axis is not None and (axis.words or _ALWAYS_FIT.issuperset(axis.columns)):
            continue
        reasons: _Reasons = {}
        if not _some_fit(space, positions, cache, reasons):
            unfit.append((change, reasons))
        elif change:
            fitting.append(change)
    refused, left = [], _COMBINATIONS
    for change, reasons in unfit:
        if _is_between(axes, change, fitting):
            continue
        count, positions_elsewhere = _elsewhere(space, change)
        if count > left:
            continue
        left -= count
        if not _some_fit(space, positions_elsewhere, cache, reasons):
            refused.append((change, reasons))
        elif change:
            fitting.append(change)
    for change, reasons in refused:
        if _is_between(axes, change, fitting) or _ends_range(axes, change, fitting, reasons):
            continue
        why = list(reasons)
        what = _described(axes[change[0]], change[1]) if change else "no point of the plan"
        more = [f"and {len(why) - _REASONS} more reasons"] if len(why) > _REASONS else []
        raise ValueError(f"{what}: fits no chip: {'; '.join([*why[:_REASONS], *more])}")


def _is_between(axes: list[Axis], change: Change, fitting: Iterable[tuple[int, int]]) -> bool:
    """Whether a value is a number that lies between those of its axis that fit."""
    return len(_sides_that_fit(axes, change, fitting)) == 2


def _ends_range(axes: list[Axis], change: Change, fitting: Iterable[tuple[int, int]], reasons: _Reasons) -> bool:
    """Whether a value is at the end of a range of warps, and some chip could hold it, but for want of whole blocks."""
    if change is None or not _OF_BLOCKS.issuperset(axes[change[0]].columns) or not _sides_that_fit(axes, change, fitting):
        return False
    (values,) = axes[change[0]].columns.values()
    is_range = len(values) > 2 and len({b - a for a, b in pairwise(values)}) == 1
    return is_range and any(reasons.values())


def _sides_that_fit(axes: list[Axis], change: Change, fitting: Iterable[tuple[int, int]]) -> set[bool]:
    """Returns on which sides of a value, below it (True) or above, numbers of its axis fit."""
    if change is None:
        return set()
    number, index = change
    (values, *more) = axes[number].columns.values()
    if more or not all(isinstance(value, int | float) for value in values):
        return set()
    return {values[i] < values[index] for other, i in fitting if other == number}


def _some_fit(space: Space, positions: Iterable[tuple[int, ...]], cache: BuildCache, reasons: _Reasons) -> bool:
    """Whether a chip can hold one of some points; else adds the reasons."""
    for position in positions:
        try:
            space.point(position, cache)
        except InvalidPoint as error:
            reasons[str(error)] = isinstance(error, NoWholeBlocks)
            continue
        except ValueError:  # whatever is wrong with this point, the sweep will say
            pass
        return True
    return False


def _elsewhere(space: Space, change: Change) -> tuple[int, Iterator[tuple[int, ...]]]:
    """Returns the number of positions with a value, and these; of settings that always fit, the first value alone."""
    axes = list(space.axes.values())
    choices = [[0] if _ALWAYS_FIT.issuperset(axis.columns) else range(len(axis)) for axis in axes]
    if change:
        choices[change[0]] = [change[1]]
    order = sorted(range(len(axes)), key=lambda number: not any(map(is_program, axes[number].columns)))  # kernels once each
    positions = (
        tuple(index for _, index in sorted(zip(order, indices, strict=True)))
        for indices in product(*(choices[number] for number in order))
    )
    return math.prod(map(len, choices)), positions


def _described(axis: Axis, index: int) -> str:
    return ", ".join(f"{name} = {label(name, value)}" for name, value in axis.at(index).items())


def _value_by_value(space: Space) -> Iterator[tuple[Change, list[tuple[int, ...]]]]:
    """Yields, for every value of every axis, its positions on all chips with the first value of all other axes."""
    axes = list(space.axes.values())
    chips = next((number for number, axis in enumerate(axes) if "gpu" in axis.columns), None)
    rows = [()] if chips is None else [(chips, i) for i in evenly_spaced(len(axes[chips]), _VALUES)]
    changes: list[Change] = [
        None,
        *((number, i) for number, axis in enumerate(axes) if number != chips for i in evenly_spaced(len(axis), _VALUES)),
    ]
    for change in changes:
        positions = []
        for row in rows:
            position = [0] * len(axes)
            for number, i in filter(None, (row, change)):
                position[number] = i
            positions.append(tuple(position))
        yield change, positions

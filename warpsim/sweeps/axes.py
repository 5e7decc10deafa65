"""The axes of a sweep: a setting with several values, settings that run together, or a list of points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.sweeps.derived import NAMES as MAY_BE_DERIVED
from warpsim.sweeps.settings import DEFAULTS, NEVER_AXES, RESERVED, column, dimension, label, scalar

POINT = "point"
"""Dimension of a list of points."""


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep.

    Attributes:
        name: the dimension.
        columns: setting -> its values along the axis; all columns are of one length.
    """

    name: str
    columns: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def single(self) -> bool:
        """Whether the axis is one setting, whose values are its labels; else it is labelled 0, 1, 2, ..."""
        return [dimension(name) for name in self.columns] == [self.name]

    def at(self, index: int) -> dict[str, Any]:
        """Setting -> its value at one place of the axis."""
        return {name: values[index] for name, values in self.columns.items()}

    def labels(self) -> Sequence[Any]:
        """Labels of the dimension."""
        if not self.single:
            return range(len(self))
        ((name, values),) = self.columns.items()
        return [label(name, value) for value in values]

    def rows(self) -> list[tuple[Any, ...]]:
        """The labels of all settings, place by place: what identifies a place."""
        columns = [[label(name, value) for value in values] for name, values in self.columns.items()]
        return list(zip(*columns, strict=True))

    def taken(self, order: Sequence[int]) -> Axis:
        """The axis with its places in another order."""
        return Axis(self.name, {name: tuple(values[i] for i in order) for name, values in self.columns.items()})


def read_axes(settings: Mapping[str, Any]) -> tuple[dict[str, Axis], dict[str, Any]]:
    """Sort settings into axes and single values.

    A list is an axis. `zip = {name: [settings]}` makes those settings one axis; `points = [{setting: value}, ...]`
    is a list of points, the axis `point`.

    Returns:
        Dimension -> axis, in the order written; setting -> value, for all that is no axis. An axis in words has the words
        as its one value.

    Raises:
        TypeError, ValueError: a value is wrong, or lists that run together differ in length.
    """
    given = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in settings.items()}
    groups = _groups(given.pop("zip", {}))
    if "points" in given:
        given = _with_points(given, groups)
    taken = [group for group, names in groups.items() if (group in given or group in DEFAULTS) and names != [group]]
    if taken:
        raise ValueError(f"zip: {taken[0]} is the name of a setting; choose another")
    group_of = {name: group for group, names in groups.items() for name in names}
    missing = [name for name in group_of if not isinstance(given.get(name), list | tuple | range)]
    if missing:
        raise ValueError(f"zip: {', '.join(missing)}: must each be a list of values")
    axes: dict[str, Axis] = {}
    single: dict[str, Any] = {}
    for name, value in given.items():
        if name in MAY_BE_DERIVED and isinstance(value, str):
            axes[name] = Axis(name, {name: (value,)})
            continue
        if not isinstance(value, list | tuple | range):
            single[name] = scalar(name, value)
            continue
        if name in NEVER_AXES:
            raise TypeError(f"{name} = {value!r}: must be one number; it cannot be an axis")
        group = group_of.get(name)
        if group is None:
            axis = Axis(dimension(name), {name: column(name, value)})
        elif group not in axes:
            axis = Axis(group, {member: column(member, given[member]) for member in groups[group]})
        else:
            continue
        _check(axis, value)
        axes[axis.name] = axis
    return axes, single


def _groups(groups: Any) -> dict[str, list[str]]:
    if not isinstance(groups, Mapping) or not all(isinstance(names, list | tuple) for names in groups.values()):
        raise TypeError(f"zip = {groups!r}: must be a table, such as size = ['alpha', 'ilp']")
    result = {str(group): [str(name) for name in names] for group, names in groups.items()}
    for group, names in result.items():
        if group in RESERVED or dimension(group) != group:
            raise ValueError(f"zip: {group} is the name of something else in a result; choose another")
        if not names:
            raise ValueError(f"zip: {group} = []: must be a list of settings")
    twice = [name for name, n in Counter(name for names in result.values() for name in names).items() if n > 1]
    if twice:
        raise ValueError(f"zip: {', '.join(twice)}: stands twice")
    return result


def _with_points(given: Mapping[str, Any], groups: dict[str, list[str]]) -> dict[str, Any]:
    """Settings with the points in columns, at their place, and a group of them."""
    points = given["points"]
    tables = isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points)
    if not tables or not points:
        raise TypeError(f"points = {points!r}: must be a list of tables, each with the same settings")
    names = list(points[0])
    for number, point in enumerate(points):
        if set(point) != set(names):
            raise ValueError(f"points[{number}]: has {', '.join(point)}; must have {', '.join(names)}, as the first")
    both = [name for name in names if name in given or name in ("zip", "points")]
    if both or not names:
        raise ValueError(f"points: {', '.join(both) or 'no settings'}: must stand in the points alone")
    groups[POINT] = names
    result: dict[str, Any] = {}
    for name, value in given.items():
        result |= {own: [point[own] for point in points] for own in names} if name == "points" else {name: value}
    return result


def _check(axis: Axis, written: Any) -> None:
    lengths = {name: len(values) for name, values in axis.columns.items()}
    if len({*lengths.values()}) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"zip: {axis.name}: the lists must be of one length; {found}")
    rows = axis.rows()
    if len({*rows}) == len(rows):
        return
    twice = sorted({", ".join(map(str, row)) for row, n in Counter(rows).items() if n > 1})
    name = f"{axis.name} = {written!r}" if axis.single else axis.name
    raise ValueError(f"{name}: {'; '.join(twice[:5])} stands twice on the axis")

"""Axes of a sweep: a setting with several values, settings that vary together, or a list of points."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import Kernel
from warpsim.sweeps.derived import DERIVABLE, derived_union
from warpsim.sweeps.settings import DEFAULTS, OBJECTS, RESERVED, SWEEP_WIDE, checked_value, checked_values, dimension, label

POINT = "point"
"""Dimension of a list of points."""


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep.

    Attributes:
        name: the dimension.
        columns: setting -> its values along the axis; all columns have the same length.
        words: the words from which the values were derived; empty where they were given as a list.
    """

    name: str
    columns: Mapping[str, tuple[Any, ...]]
    words: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def single(self) -> bool:
        """Whether the axis is one setting, labelled by its values. Other axes are labelled 0, 1, 2, ..."""
        return [dimension(name) for name in self.columns] == [self.name]

    def at(self, index: int) -> dict[str, Any]:
        """Returns setting -> value at one index of the axis."""
        return {name: values[index] for name, values in self.columns.items()}

    def labels(self) -> Sequence[Any]:
        """Returns the labels of the dimension."""
        if not self.single:
            return range(len(self))
        ((name, values),) = self.columns.items()
        return [label(name, value) for value in values]

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns the labels of all settings at each index; rows are unique along the axis."""
        columns = [[label(name, value) for value in values] for name, values in self.columns.items()]
        return list(zip(*columns, strict=True))

    def reordered(self, order: Sequence[int]) -> Axis:
        """Returns the axis with the values of these indices, in this order."""
        return replace(self, columns={name: tuple(values[i] for i in order) for name, values in self.columns.items()})


def evenly_spaced(length: int, most: int) -> list[int]:
    """Returns indices of a sequence: all of them, or `most` evenly spaced ones that include the first and the last."""
    return list(range(length)) if length <= most else [i * (length - 1) // (most - 1) for i in range(most)]


def read_axes(settings: Mapping[str, Any]) -> tuple[dict[str, Axis], dict[str, Any]]:
    """Sorts settings into axes and single values.

    A list is an axis. `zip = {name: [settings]}` turns several lists into one axis; `points = [{setting: value}, ...]` is a
    list of points, the axis `point`. Words such as "all up to 8" are an axis of the values that they select on any of the chips.

    Returns:
        Dimension -> axis, in the order of the settings; and setting -> value for all other settings.

    Raises:
        TypeError, ValueError: a value is wrong, `gpu` or `kernel` is missing, or lists of one axis differ in length.
    """
    given = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in settings.items()}
    groups = _read_groups(given.pop("zip", {}))
    if "points" in given:
        given = _with_point_columns(given, groups)
    conflicts = [group for group, names in groups.items() if (group in given or group in DEFAULTS) and names != [group]]
    if conflicts:
        raise ValueError(f"zip: {conflicts[0]} is the name of a setting; choose another")
    group_of = {name: group for group, names in groups.items() for name in names}
    missing = [name for name in group_of if not isinstance(given.get(name), list | tuple | range)]
    if missing:
        raise ValueError(f"zip: {', '.join(missing)}: must each be a list of values")
    axes: dict[str, Axis] = {}
    single: dict[str, Any] = {}
    for name, value in given.items():
        if name in DERIVABLE and isinstance(value, str):
            axes[name] = Axis(name, {name: ()}, words=value)
            continue
        if not isinstance(value, list | tuple | range):
            single[name] = checked_value(name, value)
            continue
        if name in SWEEP_WIDE:
            raise TypeError(f"{name} = {value!r}: must be one number; it cannot be an axis")
        group = group_of.get(name)
        if group is None:
            axis = Axis(dimension(name), {name: checked_values(name, value)})
        elif group not in axes:
            axis = Axis(group, {member: checked_values(member, given[member]) for member in groups[group]})
        else:
            continue
        _check(axis, value)
        axes[axis.name] = axis
    for name in OBJECTS:
        if name not in given:
            raise TypeError(f"{name}: is missing; a plan needs gpu and kernel")
    return _with_words_resolved(axes, single), single


def _with_words_resolved(axes: dict[str, Axis], single: Mapping[str, Any]) -> dict[str, Axis]:
    if not any(axis.words for axis in axes.values()):
        return axes
    chips = _chips(axes, single)
    return {
        name: replace(axis, columns={name: tuple(derived_union(name, axis.words, chips))}) if axis.words else axis
        for name, axis in axes.items()
    }


def _chips(axes: Mapping[str, Axis], single: Mapping[str, Any]) -> list[Gpu]:
    """Returns the chips of a sweep, with every combination of the fields of an SM that it changes."""
    values = {name: (value,) for name, value in single.items()}
    for axis in axes.values():
        values |= axis.columns
    fields = {name: dict.fromkeys(column) for name, column in values.items() if name.startswith("gpu.sm.")}
    combinations = [dict(zip(fields, chosen, strict=True)) for chosen in itertools.product(*fields.values())]
    gpus = {gpu.name: gpu for gpu in values["gpu"]}
    return [
        changed_gpu(gpu, {name.removeprefix("gpu."): value for name, value in changes.items()})
        for gpu in gpus.values()
        for changes in combinations
    ]


def _read_groups(groups: Any) -> dict[str, list[str]]:
    if not isinstance(groups, Mapping) or not all(isinstance(names, list | tuple) for names in groups.values()):
        raise TypeError(f"zip = {groups!r}: must be a table, such as size = ['alpha', 'ilp']")
    result = {str(group): [str(name) for name in names] for group, names in groups.items()}
    for group, names in result.items():
        if group in RESERVED or dimension(group) != group:
            raise ValueError(f"zip: {group} is the name of a variable or dimension of a result; choose another")
        if not names:
            raise ValueError(f"zip: {group} = []: must be a list of settings")
    repeated = [name for name, n in Counter(name for names in result.values() for name in names).items() if n > 1]
    if repeated:
        raise ValueError(f"zip: {', '.join(repeated)}: is given twice")
    return result


def _with_point_columns(given: Mapping[str, Any], groups: dict[str, list[str]]) -> dict[str, Any]:
    """Replaces `points` by one list for each of its settings, and adds their group to `groups`."""
    points = given["points"]
    tables = isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points)
    if not tables or not points:
        raise TypeError(f"points = {points!r}: must be a list of tables, each with the same settings")
    names = list(points[0])
    for number, point in enumerate(points):
        if set(point) != set(names):
            raise ValueError(f"points[{number}]: has {', '.join(point)}; must have {', '.join(names)}, as the first")
    conflicts = [name for name in names if name in given or name in ("zip", "points")]
    if conflicts or not names:
        raise ValueError(f"points: {', '.join(conflicts) or 'no settings'}: must be given in the points only")
    groups[POINT] = names
    result: dict[str, Any] = {}
    for name, value in given.items():
        result |= {own: [point[own] for point in points] for own in names} if name == "points" else {name: value}
    return result


def _check(axis: Axis, given: Any) -> None:
    lengths = {name: len(values) for name, values in axis.columns.items()}
    if len({*lengths.values()}) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"zip: {axis.name}: the lists must have the same length; {counts}")
    rows = axis.rows()
    if len({*rows}) == len(rows):
        return
    repeated = sorted({", ".join(map(str, row)) for row, n in Counter(rows).items() if n > 1})
    values = [label(axis.name, value) if isinstance(value, Gpu | Kernel) else value for value in given]
    name = f"{axis.name} = {values!r}" if axis.single else axis.name
    raise ValueError(f"{name}: {'; '.join(repeated[:5])} is given twice on the axis")

"""The points of a sweep: the values of every setting, and the point and the random streams at each position on the axes."""

from __future__ import annotations

import copy
import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Self

import numpy as np

from warpsim.arguments import InvalidPoint, did_you_mean
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.whatif import changed_gpu, check_fields_act, check_stages
from warpsim.kernels import Kernel, load_kernel
from warpsim.kernels.files import UnknownArgumentsError
from warpsim.kernels.whatif import changed_kernel
from warpsim.results.schema import result_coordinates, result_ops
from warpsim.simulation.point import DEFAULTS as POINT_DEFAULTS
from warpsim.simulation.point import Point, make_point
from warpsim.sweeps.axes import Axis, evenly_spaced, read_axes
from warpsim.sweeps.derived import derived_values
from warpsim.sweeps.replicates import read_replicates, recorded
from warpsim.sweeps.settings import (
    DEFAULTS,
    OBJECTS,
    SWEEP_WIDE,
    StoredKernel,
    dimension,
    flattened,
    is_argument,
    is_kernel_file,
    is_program,
    label,
    to_json,
)

COMMON = ("scheduler",)
"""Default of `common`: scheduling policies are compared with common random numbers."""

SETTINGS = (*OBJECTS, *DEFAULTS, "common", "zip", "points", "tile_points")
"""Names that a plan accepts besides arguments of kernels and fields of chips and kernels."""

_OF_SIMULATE = ("launch", "threads", "trace", "engine")
"""Arguments of `simulate` that are no settings of a plan."""

_POINT_SETTINGS = ("block_warps", *(name for name in POINT_DEFAULTS if name != "replicates"))
"""Settings that are passed to `make_point` unchanged."""

_CACHE_SIZE = 64
"""Chips and kernels in a BuildCache, at most."""

_SOME = 300  # points that `some_points` examines
_OF_RUNS = frozenset({"scheduler", "memory", "sms", "warmup", "seed", "replicates"})  # no matter for the occupancy
_KERNELS = 256
"""Combinations of kernel arguments in `kernel_positions`, at most."""


class BuildCache:
    """Keeps the chips and kernels that were built last, because neighbouring points share them, in any thread.

    `check` is called with the settings and the kernel of a point whenever a kernel of a file is built.
    """

    def __init__(self, check: Callable[[Mapping[str, Any], Kernel], None] = lambda values, kernel: None) -> None:
        self._check = check
        self._built: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()

    def gpu(self, values: Mapping[str, Any]) -> Gpu:
        """Returns the chip of a point, with the fields that its settings change."""
        fields = {name.removeprefix("gpu."): values[name] for name in values if name.startswith("gpu.")}
        base: Gpu = values["gpu"]
        check_fields_act(fields, values["memory"])
        gpu: Gpu = self._get((base.name, *fields.items()), lambda: changed_gpu(base, fields))
        check_stages(gpu, fields, values["memory"])
        return gpu

    def kernel(self, values: Mapping[str, Any]) -> Kernel:
        """Returns the kernel of a point, with its arguments and the fields that its settings change."""
        key = tuple((name, label(name, values[name])) for name in values if is_program(name))
        kernel: Kernel = self._get(key, lambda: self._built_kernel(values))
        return kernel

    def _built_kernel(self, values: Mapping[str, Any]) -> Kernel:
        kernel = build_kernel(values)
        if is_kernel_file(values["kernel"]):
            self._check(values, kernel)
        return kernel

    def _get(self, key: tuple[Any, ...], build: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._built:
                if len(self._built) >= _CACHE_SIZE:
                    del self._built[next(iter(self._built))]
                self._built[key] = build()
            return self._built[key]


def build_kernel(values: Mapping[str, Any]) -> Kernel:
    """Builds the kernel of a point from its settings.

    Raises:
        TypeError: arguments are given for a Kernel object.
        ValueError: an argument or a field is wrong.
    """
    kernel = values["kernel"].kernel if isinstance(values["kernel"], StoredKernel) else values["kernel"]
    arguments = {name: value for name, value in values.items() if is_argument(name)}
    if not isinstance(kernel, Kernel):
        try:
            kernel = load_kernel(kernel, **arguments)
        except UnknownArgumentsError as error:
            of_simulate = [name for name in arguments if name in _OF_SIMULATE and name not in error.allowed]
            if of_simulate:
                raise TypeError(f"{of_simulate[0]}: is an argument of simulate, and no setting of a plan") from None
            raise UnknownArgumentsError(error.kernel, arguments, error.allowed, others=SETTINGS) from None
    elif arguments:
        name = next(iter(arguments))
        hint = did_you_mean(name, SETTINGS)
        raise TypeError(f"{name}: is not a setting of a plan{hint}; a Kernel object takes no arguments")
    fields = {name.removeprefix("kernel."): values[name] for name in values if name.startswith("kernel.")}
    return changed_kernel(kernel, fields)


class Space:
    """The points of a sweep.

    A *position* is a tuple with the index of a value on each axis. Points are numbered with the last axis running fastest.

    Args:
        settings: those of `Plan`, except `tile_points`.

    Attributes:
        axes: dimension -> Axis.
        settings: setting -> value, for every setting that is not on an axis, including defaults.
        common: settings along which points share random numbers.
        replicates: the number of replicates of a point, or the rule that determines it.

    Raises:
        TypeError: `gpu` or `kernel` is missing, or a value has the wrong type.
        ValueError: a value is not allowed.
    """

    axes: Mapping[str, Axis]
    settings: Mapping[str, Any]

    def __init__(self, settings: Mapping[str, Any]) -> None:
        given = flattened(settings)
        common = given.pop("common", COMMON)
        self.replicates = read_replicates(given.pop("replicates", DEFAULTS["replicates"]))
        self.axes, single = read_axes(given)
        self._axis_of = {name: axis.name for axis in self.axes.values() for name in axis.columns}
        values = DEFAULTS | single | {"replicates": recorded(self.replicates)}
        self.settings = {name: value for name, value in values.items() if name not in self._axis_of}
        if all(name in self._axis_of or self.settings[name] is not None for name in ("warps", "warps_per_scheduler")):
            raise ValueError("warps, warps_per_scheduler: only one of the two may be given")
        self.common = self._read_common(common)
        if any(self.gpus[gpu.name] != gpu for gpu in self.values("gpu")):
            raise ValueError(f"gpu: two different chips have the same name; the names are {', '.join(self.gpus)}")
        kernels = {label("kernel", kernel): kernel for kernel in self.values("kernel")}
        if any(kernels[label("kernel", kernel)] != kernel for kernel in self.values("kernel")):
            raise ValueError(f"kernel: two different kernels have the same name; the names are {', '.join(kernels)}")

    def _with_axes(self, axes: Mapping[str, Axis]) -> Self:
        """Returns a copy with other values on the axes, which must have the same names and settings."""
        other = copy.copy(self)
        for kind in type(self).__mro__:
            for name, member in vars(kind).items():
                if isinstance(member, cached_property):
                    vars(other).pop(name, None)
        other.axes = dict(axes)
        return other

    @property
    def names(self) -> list[str]:
        """Names of all settings."""
        return [*self.settings, *self._axis_of]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values on each axis."""
        return tuple(len(axis) for axis in self.axes.values())

    @property
    def points(self) -> int:
        """Number of points."""
        return math.prod(self.sizes)

    @property
    def words(self) -> Mapping[str, str]:
        """Setting -> the words from which its values were derived."""
        return {name: axis.words for name, axis in self.axes.items() if axis.words}

    @cached_property
    def gpus(self) -> dict[str, Gpu]:
        """Name -> chip, before its fields are changed."""
        return {gpu.name: gpu for gpu in self.values("gpu")}

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """Labels of the dimension `op`: the operation classes of all chips."""
        return result_ops(self.gpus.values())

    def values(self, name: str) -> tuple[Any, ...]:
        """Returns the values of a setting: those along its axis, or its single value."""
        axis = self._axis_of.get(name)
        return (self.settings[name],) if axis is None else self.axes[axis].columns[name]

    def position(self, number: int) -> tuple[int, ...]:
        """Returns the position of a point from its number."""
        return tuple(map(int, np.unravel_index(number, self.sizes)))

    def sample(self, most: int) -> list[tuple[int, ...]]:
        """Returns the positions of all points, or of `most` evenly spaced ones."""
        return [self.position(number) for number in evenly_spaced(self.points, most)]

    def some_points(self) -> Iterator[Point]:
        """Yields points, many enough to meet every chip and occupancy of most plans: the first value along other axes."""
        cache, axes = BuildCache(), self.axes.values()
        shape = tuple(1 if _OF_RUNS.issuperset(axis.columns) else len(axis) for axis in axes)
        for number in evenly_spaced(math.prod(shape), _SOME):
            with suppress(ValueError):
                yield self.point(tuple(map(int, np.unravel_index(number, shape))), cache)

    def kernel_positions(self) -> Iterator[tuple[int, ...]]:
        """Yields positions that cover the combinations of kernels, arguments and fields, or an evenly spaced sample."""
        axes = self.axes.values()
        shape = tuple(len(axis) if any(map(is_program, axis.columns)) else 1 for axis in axes)
        for number in evenly_spaced(math.prod(shape), _KERNELS):
            yield tuple(map(int, np.unravel_index(number, shape)))

    def at(self, position: tuple[int, ...]) -> dict[str, Any]:
        """Returns setting -> value at a position."""
        values = dict(self.settings)
        for axis, i in zip(self.axes.values(), position, strict=True):
            values |= axis.at(i)
        return values

    def point(self, position: tuple[int, ...], cache: BuildCache | None = None) -> Point:
        """Builds the point at a position, with the largest number of replicates that it can get.

        Args:
            position: index of the value on each axis.
            cache: chips and kernels of other points of this sweep.

        Raises:
            InvalidPoint: the chip cannot hold the point, or the value of a derived axis is not one of this chip's values.
            ValueError, TypeError: the combination of settings is wrong.
        """
        values, cache = self.at(position), cache or BuildCache()
        gpu, kernel = cache.gpu(values), cache.kernel(values)
        for name, axis in self.axes.items():
            if axis.words and values[name] not in derived_values(name, axis.words, gpu):
                raise InvalidPoint(f"{name} = {values[name]}: is not among '{axis.words}' on {gpu.name}")
        per_scheduler = values["warps_per_scheduler"]
        warps = values["warps"] if per_scheduler is None else per_scheduler * gpu.sm.schedulers
        given = {name: values[name] for name in _POINT_SETTINGS}
        return make_point(gpu, kernel, warps=warps, replicates=self.replicates.most, **given)

    def streams(self, position: tuple[int, ...]) -> bytes | None:
        """Returns what the seeds of a point are hashed from: all its settings by value, except the common ones.

        None if `common` has its default; the seeds are then hashed from the point's own identity, as in `simulate`.
        """
        if self.common == COMMON:
            return None
        values = {name: value for name, value in self.at(position).items() if name not in (*self.common, "replicates")}
        if not any(map(is_program, self.common)):  # then the kernel can be built, and enters by value
            program = build_kernel(values).identity()
            values = {name: value for name, value in values.items() if not is_program(name)} | {"kernel program": program}
        by_value = {name: _by_value(name, value) for name, value in values.items()}
        return json.dumps(by_value, sort_keys=True).encode()

    def describe(self, position: tuple[int, ...]) -> str:
        """Returns a position as text, such as "gpu=kepler, alpha=32, warps=64"."""
        values = self.at(position)
        return ", ".join(f"{name}={label(name, values[name])}" for name in self._axis_of) or "the only point"

    def coordinates(self) -> dict[str, Any]:
        """Returns the coordinates of the result: name -> labels of that dimension, (dimensions, labels), or a scalar."""
        return dict(self._coordinates)

    @cached_property
    def _coordinates(self) -> dict[str, Any]:
        coordinates: dict[str, Any] = {
            dimension(name): label(name, value)
            for name, value in self.settings.items()
            if name not in SWEEP_WIDE and value is not None
        }
        for axis in self.axes.values():
            coordinates[axis.name] = list(axis.labels())
            if not axis.single:
                columns = {dimension(name): [label(name, value) for value in values] for name, values in axis.columns.items()}
                coordinates |= {name: ((axis.name,), labels) for name, labels in columns.items()}
        coordinates |= result_coordinates(self.replicates.most, self.ops)
        if "warps_per_scheduler" in coordinates:
            coordinates["warps"] = self._warps()
        return coordinates

    def _warps(self) -> Any:
        """Returns the occupancy in warps per SM where it is given per scheduler."""
        needed = [name for name in self.names if name in ("gpu", "gpu.sm.schedulers", "warps_per_scheduler")]
        axes = [axis for name, axis in self.axes.items() if any(self._axis_of.get(own) == name for own in needed)]
        warps = np.empty([len(axis) for axis in axes], dtype=int)
        values = {name: self.settings[name] for name in needed if name in self.settings}
        for position in itertools.product(*map(range, warps.shape)):
            for axis, i in zip(axes, position, strict=True):
                values |= axis.at(i)
            schedulers = values.get("gpu.sm.schedulers", values["gpu"].sm.schedulers)
            warps[position] = values["warps_per_scheduler"] * schedulers
        return (tuple(axis.name for axis in axes), warps) if axes else int(warps)

    def _read_common(self, common: Any) -> tuple[str, ...]:
        """Checks `common`, which names settings or axes; returns the names of settings."""
        names: Sequence[Any] = [common] if isinstance(common, str) else common
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"common = {common!r}: must be the names of settings")
        members = {axis.name: list(axis.columns) for axis in self.axes.values()}
        settings = dict.fromkeys(member for name in names for member in members.get(name, [name]))
        allowed = [name for name in self.names if name not in ("seed", *SWEEP_WIDE)]
        wrong = [name for name in settings if name not in allowed]
        if wrong:
            raise ValueError(f"common = {common!r}: {wrong[0]}: must be one of {', '.join(allowed)}")
        return tuple(sorted(settings))


def _by_value(name: str, value: Any) -> Any:
    """Returns the value of a setting in JSON types, a chip without its labels."""
    if isinstance(value, Gpu):
        return value.identity()
    return value if isinstance(value, dict) else to_json(label(name, value))

"""A sweep: axes over chips, kernels and settings, and the points that they span."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.batch.record import decoded, encoded
from warpsim.gpu import Gpu, load_gpu
from warpsim.kernels import Kernel, list_kernels, load_kernel
from warpsim.store.grid import TileGrid, tile_grid
from warpsim.store.provenance import attributes, dump, load, provenance, read_call, software
from warpsim.store.schema import SWEEP_VARIABLES, result_coordinates, result_ops

if TYPE_CHECKING:
    from warpsim.simulation import Point
    from warpsim.store.zarr_store import Layout

DEFAULTS: dict[str, Any] = {
    "warps": None,
    "warps_per_scheduler": None,
    "block_warps": None,
    "scheduler": "lrr",
    "memory": "queue",
    "replicates": 1,
    "seed": 2016,
    "sms": None,
    "warmup": 20_000,
    "cycles": 100_000,
}
"""Settings of a plan that may be left out. They are those of `simulate`, but for `warps_per_scheduler`."""

NEVER_AXES = ("replicates", "cycles", "common")
"""Settings that hold for the whole sweep: its results have one number of replicates and one window."""

COMMON = ("scheduler",)
"""Settings whose points share random numbers: a point's seeds do not depend on its policy."""

_POINT_SETTINGS = ("block_warps", "scheduler", "memory", "replicates", "seed", "sms", "warmup", "cycles")
_INTEGERS = ("warps", "warps_per_scheduler", "block_warps", "replicates", "sms", "cycles")


class Plan:
    """A sweep over chips, kernels and settings.

    A list is an axis, a dimension of the result, in the order in which it was written. Anything else holds
    for all points.

        Plan(gpu=["fermi", "kepler"], kernel="mix", alpha=[0, 1, 4], warps=[8, 16, 48], replicates=8)

    Settings:
        gpu: chip: a name, a path, or a Gpu.
        kernel: a name, a path, or a Kernel.
        warps: occupancy in warps per SM; left out, as many as fit. Points that a chip cannot hold are NaN.
        warps_per_scheduler: occupancy in warps per scheduler, in place of `warps`.
        block_warps, scheduler, memory, seed, sms, warmup: as in `simulate`.
        replicates, cycles: as in `simulate`; the same for all points.
        common: settings whose points share random numbers; ("scheduler",).

    Any other setting is an argument of the kernel's builder, such as `alpha` or `ilp`. A builder's argument
    that bears the name of something in a result, such as `op`, becomes the dimension `kernel_op`.

    Attributes:
        axes: axis (the dimension's name) -> its values as given.
        settings: everything that is no axis, with the defaults.

    Raises:
        TypeError: `gpu` or `kernel` is missing, or a value has a wrong type.
        ValueError: a value is not allowed; the message names setting, value and what is allowed.
    """

    def __init__(self, **settings: Any) -> None:
        for name in ("gpu", "kernel"):
            if name not in settings:
                raise TypeError(f"{name}: is missing; a plan needs gpu and kernel")
        common = settings.pop("common", COMMON)
        if tuple([common] if isinstance(common, str) else common) != COMMON:
            raise ValueError(
                f"common = {common!r}: must be {list(COMMON)}; policies alone can share random numbers"
            )
        if settings.get("warps") is not None and settings.get("warps_per_scheduler") is not None:
            raise ValueError("warps, warps_per_scheduler: only one of the two may be given")
        self.axes: dict[str, tuple[Any, ...]] = {}
        self.settings: dict[str, Any] = dict(DEFAULTS)
        self._arguments = {
            _dimension(name): name for name in settings if name not in ("gpu", "kernel", *DEFAULTS)
        }
        for name, value in settings.items():
            self._add(name, value)
        self._gpus = {gpu.name: gpu for gpu in self._values("gpu")}
        self._check()

    def _add(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        dimension = _dimension(name) if name in self._arguments.values() else name
        if not isinstance(value, list | tuple | range):
            self.settings[dimension] = _scalar(name, value)
            return
        if name in NEVER_AXES:
            raise TypeError(f"{name} = {value!r}: must be one number; it cannot be an axis")
        values = tuple(_scalar(name, item) for item in value)
        if not values:
            raise ValueError(f"{name} = []: an axis needs at least one value")
        if None in values:
            raise TypeError(f"{name} = {value!r}: None cannot stand on an axis")
        kinds = {
            "number" if isinstance(item, int | float) and not isinstance(item, bool) else type(item)
            for item in values
        }
        if len(kinds) > 1 and name not in ("gpu", "kernel"):
            raise TypeError(f"{name} = {value!r}: the values of an axis must be of one kind")
        names = [_label(name, item) for item in values]
        twice = sorted({str(item) for item in names if names.count(item) > 1})
        if twice:
            raise ValueError(f"{name} = {value!r}: {', '.join(twice)} stands twice on the axis")
        self.axes[dimension] = values
        self.settings.pop(dimension, None)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a TOML file: the same settings, one key each.

        Paths of chips and kernels in it are relative to the file's folder.

        Raises:
            ValueError: the file cannot be read, is no TOML, or holds a wrong plan; with the file's name.
            TypeError: a value in it has a wrong type.
        """
        file = Path(path)
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{file}: {error}") from None
        for name in ("gpu", "kernel"):
            if name in settings:
                settings[name] = _beside(file, settings[name])
        try:
            return cls(**settings)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{file}: {error}") from None

    @classmethod
    def from_provenance(cls, text: str) -> Plan:
        """The plan of a sweep's result, from its attribute `provenance`.

        Chips, and kernels that do not come with the package, are those of that time.

        Raises:
            ValueError: the text is not the provenance of a sweep, or a kernel is another one now.
        """
        record = read_call(text, "sweep")
        settings = {name: decoded(value) for name, value in record["settings"].items()}
        known = {name: load(Gpu, value) for name, value in record["gpus"].items()}
        own = {item["name"]: load(Kernel, item["program"]) for item in record["kernels"] if "program" in item}
        for setting, objects in (("gpu", known), ("kernel", own)):
            names = settings[setting]
            many = isinstance(names, list)
            settings[setting] = (
                [objects.get(name, name) for name in names] if many else objects.get(names, names)
            )
        plan = cls(**settings)
        if plan.record()["kernels"] != record["kernels"]:
            raise ValueError(
                "provenance: a kernel of the sweep has changed since; its name now stands for another program"
            )
        return plan

    @cached_property
    def grid(self) -> TileGrid:
        """The axes, and their division into tiles."""
        return tile_grid(list(self.axes), [len(values) for values in self.axes.values()])

    @property
    def ops(self) -> tuple[str, ...]:
        """Labels of the dimension `op`: the operation classes of all chips of the plan."""
        return result_ops(self._gpus.values())

    def tiles(self) -> range:
        """The indices of the tiles."""
        return range(len(self.grid))

    def places(self, tile: int) -> Iterator[tuple[int, ...]]:
        """The places of a tile's points on the axes, the last axis running fastest."""
        return itertools.product(*(range(part.start, part.stop) for part in self.grid.region(tile).values()))

    def point(self, place: tuple[int, ...], kernels: dict[Any, Kernel] | None = None) -> Point:
        """The point at a place on the axes.

        Args:
            place: index of the value on each axis.
            kernels: kernels built so far, which are taken from here and added to.

        Raises:
            InvalidPoint: the chip cannot hold it.
            ValueError, TypeError: the combination of settings is wrong.
        """
        kernels = {} if kernels is None else kernels
        values = self._at(place)
        programs = ("kernel", *self._arguments)
        key = tuple(i for axis, i in zip(self.axes, place, strict=True) if axis in programs)
        if key not in kernels:
            kernels[key] = self._kernel(values)
        return self._point(values, kernels[key])

    def describe(self, place: tuple[int, ...]) -> str:
        """A place on the axes in words, such as "gpu=kepler, alpha=32, warps=64"."""
        values = self._at(place)
        return ", ".join(f"{name}={_label(name, values[name])}" for name in self.axes) or "the only point"

    def coordinates(self) -> dict[str, Any]:
        """Coordinates of the result: name -> labels of that dimension, (dimensions, labels), or a scalar."""
        coordinates: dict[str, Any] = {
            name: _label(name, value)
            for name, value in self.settings.items()
            if name not in NEVER_AXES and value is not None
        }
        coordinates |= {name: [_label(name, value) for value in values] for name, values in self.axes.items()}
        coordinates |= result_coordinates(self.settings["replicates"], self.ops)
        if "warps_per_scheduler" in coordinates:
            schedulers = np.array([gpu.sm.schedulers for gpu in self._gpus.values()])
            dims = tuple(name for name in ("gpu", "warps_per_scheduler") if name in self.axes)
            warps = np.multiply.outer(schedulers, np.array(coordinates["warps_per_scheduler"]))
            coordinates["warps"] = (dims, warps if "gpu" in self.axes else warps[0])
        return coordinates

    def record(self) -> dict[str, Any]:
        """The plan in JSON types, by value: two plans with the same record give the same results.

        A kernel that comes with the package is held by name, arguments and digest; others by program too.
        """
        settings = {name: encoded(_label(name, value)) for name, value in self.settings.items()}
        settings |= {
            name: [encoded(_label(name, value)) for value in values] for name, values in self.axes.items()
        }
        return {
            "axes": list(self.axes),
            "settings": {self._arguments.get(name, name): value for name, value in settings.items()},
            "gpus": {name: dump(gpu) for name, gpu in self._gpus.items()},
            "kernels": self._kernel_records,
            "tile_shape": list(self.grid.shape),
            "warpsim": software()["warpsim"],
        }

    def layout(self) -> Layout:
        """What a store for this plan is made from."""
        from warpsim.store.zarr_store import Layout

        return Layout(self.grid, self.coordinates(), self.attributes())

    def attributes(self) -> dict[str, str]:
        """Attributes of the sweep's result: `source`, `history`, `provenance`."""
        entry = f"sweep of {self.grid.points} points, {self.settings['replicates']} replicates each"
        return attributes(provenance("sweep", self.record()), entry)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(values)}" for name, values in self.axes.items())
        return f"<warpsim.Plan ({sizes}) {self.grid.points} points, {len(self.grid)} tiles>"

    def _values(self, name: str) -> tuple[Any, ...]:
        return self.axes[name] if name in self.axes else (self.settings[name],)

    def _at(self, place: tuple[int, ...]) -> dict[str, Any]:
        return self.settings | {name: self.axes[name][i] for name, i in zip(self.axes, place, strict=True)}

    def _kernel(self, values: Mapping[str, Any]) -> Kernel:
        kernel = values["kernel"]
        arguments = {argument: values[name] for name, argument in self._arguments.items()}
        if not isinstance(kernel, Kernel):
            return load_kernel(kernel, **arguments)
        if arguments:
            raise TypeError(
                f"{next(iter(arguments))}: is no setting of a plan, and a Kernel object takes no arguments"
            )
        return kernel

    def _point(self, values: Mapping[str, Any], kernel: Kernel) -> Point:
        from warpsim.simulation import make_point

        gpu = values["gpu"]
        per_scheduler = values["warps_per_scheduler"]
        warps = values["warps"] if per_scheduler is None else per_scheduler * gpu.sm.schedulers
        return make_point(gpu, kernel, warps=warps, **{name: values[name] for name in _POINT_SETTINGS})

    def _check(self) -> None:
        """Build every kernel once, and one point for every value of every other axis, on every chip."""
        from warpsim.residency import InvalidPoint

        self._kernel_records: list[dict[str, Any]] = []
        names = [name for name in ("kernel", *self._arguments) if name in self.axes]
        kernel = None
        for combination in itertools.product(*(self.axes[name] for name in names)):
            values = self.settings | dict(zip(names, combination, strict=True))
            built = self._kernel(values)
            kernel = kernel or built
            self._kernel_records.append(self._kernel_record(values, built))
        assert kernel is not None
        first = self.settings | {name: values[0] for name, values in self.axes.items()}
        changes: list[dict[str, Any]] = [{}]
        changes += [
            {axis: value} for axis in self.axes if axis not in ("gpu", *names) for value in self.axes[axis]
        ]
        for gpu, change in itertools.product(self._values("gpu"), changes):
            with suppress(InvalidPoint):
                self._point({**first, "gpu": gpu, **change}, kernel)

    def _kernel_record(self, values: Mapping[str, Any], kernel: Kernel) -> dict[str, Any]:
        program = dump(kernel)
        record: dict[str, Any] = {"name": _label("kernel", values["kernel"])}
        record |= {name: encoded(_label(name, values[name])) for name in self._arguments}
        record["sha256"] = hashlib.sha256(json.dumps(program, sort_keys=True).encode()).hexdigest()
        if values["kernel"] not in list_kernels():
            record["program"] = program
        return record


def _dimension(argument: str) -> str:
    """The dimension of a builder's argument: its name, unless a result has another use for that name."""
    taken = {declared.name for declared in SWEEP_VARIABLES} | {
        dim for declared in SWEEP_VARIABLES for dim in declared.dims
    }
    return f"kernel_{argument}" if argument in taken else argument


def _scalar(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if name == "gpu":
        return value if isinstance(value, Gpu) else load_gpu(value)
    if name == "kernel" and not isinstance(value, str | os.PathLike | Kernel):
        raise TypeError(f"kernel = {value!r}: must be a name, a path or a Kernel")
    if isinstance(value, dict):
        raise TypeError(f"{name} = {value!r}: must be a value or a list of values, not a table")
    if name in _INTEGERS and value is not None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} = {value!r}: must be an integer")
        if value < 1:
            raise ValueError(f"{name} = {value!r}: must be at least 1")
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name} = nan: must be a number")
    return value


def _label(name: str, value: Any) -> Any:
    """The label of a value on its axis: chips and kernels by name."""
    if isinstance(value, Gpu | Kernel):
        return value.name
    return Path(value).stem if name == "kernel" else value


def _beside(file: Path, value: Any) -> Any:
    """A path in a plan's file, relative to that file's folder; a name stays a name."""
    if isinstance(value, list):
        return [_beside(file, item) for item in value]
    near = file.parent / value if isinstance(value, str) else None
    return str(near) if near is not None and near.suffix and near.is_file() else value

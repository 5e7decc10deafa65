"""A sweep: axes over chips, kernels and settings, and the points that they span."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel, list_kernels
from warpsim.results.provenance import attributes, dump, load, provenance, read_call, software
from warpsim.results.schema import result_coordinates, result_ops
from warpsim.store.grid import TileGrid, tile_grid
from warpsim.sweeps.axes import Axis, read_axes
from warpsim.sweeps.check import check_points, kernel_places
from warpsim.sweeps.cost import tile_room
from warpsim.sweeps.derived import NAMES as MAY_BE_DERIVED
from warpsim.sweeps.derived import derived_on
from warpsim.sweeps.points import Parts, build_kernel, build_point, checked_common, streams
from warpsim.sweeps.record import decoded, encoded
from warpsim.sweeps.replicates import read_replicates, recorded
from warpsim.sweeps.settings import (
    DEFAULTS,
    NEVER_AXES,
    HeldKernel,
    beside,
    dimension,
    flat,
    integer,
    is_argument,
    is_program,
    label,
)

if TYPE_CHECKING:
    from warpsim.simulation.point import Point
    from warpsim.store.zarr_store import Layout

COMMON = ("scheduler",)
"""Settings whose points share random numbers, unless a plan says otherwise: seeds do not depend on the policy."""


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
        cycles: as in `simulate`; the same for all points.
        replicates: a number, the same for all points; or {"rtol": 0.01, "least": 8, "most": 64}: until half the width of the 95 %
            interval of the mean is at most `rtol` of it (`warpsim.sweeps.replicates`).
        common: settings or axes whose points share random numbers; ["scheduler"].
        tile_points: points of a tile at most; left out, so many as take about a minute.
        zip: axes of several settings that run together: {"size": ["alpha", "ilp"]}.
        points: a list of points, each a table of the same settings; the axis `point`.

    `warps`, `warps_per_scheduler` and `block_warps` may be words: "multiples of schedulers up to the chip's limit",
    "powers of 2 up to 32" (`warpsim.sweeps.derived`); a point whose chip does not have that value is NaN.

    "gpu.KEY" changes a field of the chip, such as "gpu.alu.latency_cycles" or "gpu.memory.latency_cycles", with the keys
    of its file; "kernel.registers_per_thread" and "kernel.shared_bytes_per_block" the kernel's resources. In a file,
    `gpu.name = "kepler"` allows `gpu.alu.latency_cycles = [4, 6, 9]` beside it.

    Any other setting is an argument of the kernel's builder, such as `alpha` or `ilp`. A builder's argument
    that bears the name of something in a result, such as `op`, becomes the dimension `kernel_op`.

    Attributes:
        axes: dimension -> its axis.
        settings: setting -> value, for everything that is no axis, with the defaults.
        common: the settings whose points share random numbers.
        replicates: how many a point gets.

    Raises:
        TypeError: `gpu` or `kernel` is missing, or a value has a wrong type.
        ValueError: a value is not allowed; the message names setting, value and what is allowed.
    """

    def __init__(self, **settings: Any) -> None:
        given = flat(settings)
        common = given.pop("common", COMMON)
        if not isinstance(given.get("replicates"), list | tuple | range):  # which read_axes refuses
            self.replicates = read_replicates(given.get("replicates", 1))
            given["replicates"] = None
        words: dict[str, str] = given.pop("derived", {})  # of a plan that is made again, whose values are there already
        shape: list[int] | None = given.pop("tile_shape", None)  # the same
        self._tile_shape = None if shape is None else tuple(shape)
        room = given.pop("tile_points", None)
        self._tile_points = None if room is None else integer("tile_points", room)
        self.axes: dict[str, Axis]
        self.axes, single = read_axes(given)
        self.settings: dict[str, Any] = DEFAULTS | single | {"replicates": recorded(self.replicates)}
        groups = {axis.name: list(axis.columns) for axis in self.axes.values()}
        self._axis_of = {name: axis for axis, names in groups.items() for name in names}
        for name in self._axis_of:
            self.settings.pop(name, None)
        for name in ("gpu", "kernel"):
            if name not in self._names:
                raise TypeError(f"{name}: is missing; a plan needs gpu and kernel")
        if all(name in self._axis_of or self.settings[name] is not None for name in ("warps", "warps_per_scheduler")):
            raise ValueError("warps, warps_per_scheduler: only one of the two may be given")
        self.common = checked_common(common, self._names, groups)
        self._gpus = {gpu.name: gpu for gpu in self.values("gpu")}
        if any(self._gpus[gpu.name] != gpu for gpu in self.values("gpu")):
            raise ValueError(f"gpu: two chips bear one of the names {', '.join(self._gpus)}")
        self._words = self._derive() | words
        check_points(self)

    def _derive(self) -> dict[str, str]:
        """Give the axes that are in words their values; returns these words."""
        words = {name: self.axes[name].columns[name][0] for name in MAY_BE_DERIVED if name in self.axes}
        words = {name: text for name, text in words.items() if isinstance(text, str)}
        chips = self._changed_chips() if words else []
        for name, text in words.items():
            self.axes[name] = Axis(name, {name: tuple(derived_on(name, text, chips))})
        return words

    def _changed_chips(self) -> list[Gpu]:
        """The chips of the plan, with every combination of the fields of an SM that it changes."""
        names = [name for name in self._names if name == "gpu" or name.startswith("gpu.sm.")]
        columns = [list(dict.fromkeys(self.values(name))) if name != "gpu" else [*self._gpus.values()] for name in names]
        parts = Parts()
        return [parts.gpu(dict(zip(names, values, strict=True))) for values in itertools.product(*columns)]

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
        except OSError as error:
            raise ValueError(f"{file}: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{file}: {error}") from None
        for name in ("derived", "tile_shape"):  # what a plan that is made again has
            if name in settings:
                raise ValueError(f"{file}: {name}: is no setting")
        points = settings.get("points")
        for table in [settings, *(points if isinstance(points, list) else [])]:
            for name in ("gpu", "kernel"):
                if isinstance(table, dict) and name in table:
                    table[name] = beside(file, table[name])
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
            ValueError: the text is not the provenance of a sweep, or a kernel is another one now, or it came from a file that
                takes arguments, and is not part of the package: then the text does not hold its programs.
        """
        record = read_call(text, "sweep")
        settings = {name: decoded(value) for name, value in record["settings"].items()}
        known = {name: load(Gpu, value) for name, value in record["gpus"].items()}
        own = {name: HeldKernel(name, load(Kernel, program)) for name, program in record["programs"].items()}
        kernels = settings["kernel"] if isinstance(settings["kernel"], list) else [settings["kernel"]]
        lost = [name for name in kernels if name not in own and name not in list_kernels()]
        if lost:
            raise ValueError(
                f"provenance: the kernel {lost[0]!r} came from a file that is not part of warpsim, with arguments; "
                "a result does not hold its programs, so that only a plan that names this file makes its points again"
            )
        for setting, objects in (("gpu", known), ("kernel", own)):
            names = settings[setting]
            many = isinstance(names, list)
            settings[setting] = [objects.get(name, name) for name in names] if many else objects.get(names, names)
        together = {axis: names for axis, names in record["axes"].items() if [dimension(name) for name in names] != [axis]}
        others = {name: record[name] for name in ("derived", "common", "tile_shape")}
        plan = cls(**settings, zip=together, **others)
        if plan.record()["kernels"] != record["kernels"]:
            raise ValueError("provenance: a kernel of the sweep has changed since; its name now stands for another program")
        return plan

    @cached_property
    def grid(self) -> TileGrid:
        """The axes, and their division into tiles: a function of the plan alone, the same on every machine."""
        if self._tile_shape is not None:
            return TileGrid(tuple(self.axes), self.sizes, self._tile_shape)
        return tile_grid(tuple(self.axes), self.sizes, self._tile_points or tile_room(self))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values on each axis."""
        return tuple(len(axis) for axis in self.axes.values())

    @property
    def points(self) -> int:
        """Number of points of the sweep."""
        return math.prod(self.sizes)

    @property
    def ops(self) -> tuple[str, ...]:
        """Labels of the dimension `op`: the operation classes of all chips of the plan."""
        return result_ops(self._gpus.values())

    @property
    def words(self) -> Mapping[str, str]:
        """Derived setting -> the words that it was given in."""
        return self._words

    def values(self, name: str) -> tuple[Any, ...]:
        """The values of a setting: those along its axis, or the only one."""
        axis = self._axis_of.get(name)
        return (self.settings[name],) if axis is None else self.axes[axis].columns[name]

    def arranged(self, axes: Mapping[str, Axis], tile_shape: Sequence[int]) -> Plan:
        """The same sweep with the values of its axes in another order, and with tiles of this shape: those of a store."""
        plan = copy.copy(self)
        for name in ("grid", "_kernel_digests", "_programs"):
            vars(plan).pop(name, None)
        plan.axes, plan._tile_shape = dict(axes), tuple(tile_shape)
        plan._gpus = {gpu.name: gpu for gpu in plan.values("gpu")}
        return plan

    def tiles(self) -> range:
        """The indices of the tiles."""
        return range(len(self.grid))

    def places(self, tile: int) -> Iterator[tuple[int, ...]]:
        """The places of a tile's points on the axes, the last axis running fastest."""
        return itertools.product(*(range(part.start, part.stop) for part in self.grid.region(tile).values()))

    def place(self, index: int) -> tuple[int, ...]:
        """The place of a point on the axes, by its number; the last axis runs fastest."""
        return tuple(int(i) for i in np.unravel_index(index, self.sizes)) if self.sizes else ()

    def at(self, place: tuple[int, ...]) -> dict[str, Any]:
        """Every setting -> its value at a place on the axes."""
        values = dict(self.settings)
        for axis, i in zip(self.axes.values(), place, strict=True):
            values |= axis.at(i)
        return values

    def point(self, place: tuple[int, ...], parts: Parts | None = None) -> Point:
        """The point at a place on the axes, with the most replicates that it may get.

        Args:
            place: index of the value on each axis.
            parts: chips and kernels built so far.

        Raises:
            InvalidPoint: the chip cannot hold it.
            ValueError, TypeError: the combination of settings is wrong.
        """
        return build_point(self.at(place), self._words, self.replicates.most, parts or Parts())

    def streams(self, place: tuple[int, ...]) -> bytes | None:
        """What the random streams of a point depend on; None: on the point itself, as in `simulate`."""
        return None if self.common == COMMON else streams(self.at(place), self.common)

    def describe(self, place: tuple[int, ...]) -> str:
        """A place on the axes in words, such as "gpu=kepler, alpha=32, warps=64"."""
        values = self.at(place)
        return ", ".join(f"{name}={label(name, values[name])}" for name in self._axis_of) or "the only point"

    def coordinates(self) -> dict[str, Any]:
        """Coordinates of the result: name -> labels of that dimension, (dimensions, labels), or a scalar."""
        coordinates: dict[str, Any] = {
            dimension(name): label(name, value)
            for name, value in self.settings.items()
            if name not in NEVER_AXES and value is not None
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
        """Occupancy in warps per SM where it is given per scheduler."""
        needed = [name for name in self._names if name in ("gpu", "gpu.sm.schedulers", "warps_per_scheduler")]
        axes = [axis for name, axis in self.axes.items() if any(self._axis_of.get(own) == name for own in needed)]
        warps = np.empty([len(axis) for axis in axes], dtype=int)
        values = {name: self.settings[name] for name in needed if name in self.settings}
        for place in np.ndindex(warps.shape):
            for axis, i in zip(axes, place, strict=True):
                values |= axis.at(i)
            schedulers = values.get("gpu.sm.schedulers", values["gpu"].sm.schedulers)
            warps[place] = values["warps_per_scheduler"] * schedulers
        return (tuple(axis.name for axis in axes), warps) if axes else int(warps)

    def record(self) -> dict[str, Any]:
        """The plan in JSON types, by value: two plans with the same record give the same results.

        A kernel that comes with the package is held by name, arguments and digest; others by program too. Of many
        combinations of arguments, the digests of some are held.
        """
        settings = {name: encoded(label(name, value)) for name, value in self.settings.items()}
        for axis in self.axes.values():
            for name, values in axis.columns.items():
                settings[name] = [encoded(label(name, value)) for value in values]
        return {
            "axes": {axis.name: list(axis.columns) for axis in self.axes.values()},
            "settings": settings,
            "derived": dict(self._words),
            "common": list(self.common),
            "gpus": {name: dump(gpu) for name, gpu in self._gpus.items()},
            "kernels": self._kernel_digests,
            "programs": self._programs,
            "tile_shape": list(self.grid.shape),
            "warpsim": software()["warpsim"],
        }

    @cached_property
    def _kernel_digests(self) -> list[dict[str, Any]]:
        digests = []
        for place in kernel_places(self):
            values = self.at(place)
            program = json.dumps(dump(build_kernel(values)), sort_keys=True).encode()
            made_of = {name: encoded(label(name, value)) for name, value in values.items() if is_program(name)}
            digests.append({**made_of, "sha256": hashlib.sha256(program).hexdigest()})
        return digests

    @cached_property
    def _programs(self) -> dict[str, Any]:
        """The programs of kernels that do not come with the package and take no arguments."""
        if any(is_argument(name) for name in self._names):
            return {}
        own = {label("kernel", kernel): kernel for kernel in self.values("kernel")}
        packaged = list_kernels()
        return {name: dump(build_kernel({"kernel": kernel})) for name, kernel in own.items() if kernel not in packaged}

    def layout(self) -> Layout:
        """What a store for this plan is made from."""
        from warpsim.store.zarr_store import Layout

        return Layout(self.grid, self.coordinates(), self.attributes())

    def attributes(self) -> dict[str, str]:
        """Attributes of the sweep's result: `source`, `history`, `provenance`."""
        rule = self.replicates
        number = f"{rule.most}" if rule.fixed else f"{rule.least} to {rule.most}"
        entry = f"sweep of {self.points} points, {number} replicates each"
        return attributes(provenance("sweep", self.record()), entry)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(axis)}" for name, axis in self.axes.items())
        return f"<warpsim.Plan ({sizes}) {self.grid.points} points, {len(self.grid)} tiles>"

    @property
    def _names(self) -> list[str]:
        """The settings."""
        return [*self.settings, *self._axis_of]

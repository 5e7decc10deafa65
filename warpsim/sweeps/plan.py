"""Plan: the points of a sweep, cut into tiles, with the record by which a store recognises them."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from warpsim.arguments import integer, refusing_malformed
from warpsim.hardware.files import names_only
from warpsim.hardware.gpu import Gpu, described_with_table
from warpsim.kernels import Kernel, list_kernels
from warpsim.results.provenance import attributes, dump, load, provenance, read_call, software
from warpsim.store.grid import Layout, TileGrid, tile_grid
from warpsim.sweeps.axes import Axis
from warpsim.sweeps.check import check_fits, check_points
from warpsim.sweeps.cost import tile_points
from warpsim.sweeps.settings import StoredKernel, dimension, from_json, is_argument, is_program, label, resolve_paths, to_json
from warpsim.sweeps.space import Space, build_kernel

LARGEST_FILE = 50_000_000
"""Characters of the file of a plan, at most: a device without an end, such as /dev/zero, is refused."""


class LostKernelError(ValueError):
    """A result does not hold a kernel of a file with arguments; only a plan that names the file can repeat its points."""


class Plan(Space):
    """A sweep over chips, kernels and settings.

    A list is an axis, which becomes a dimension of the result; axes keep the order in which they are written. Any other value
    holds for all points.

        Plan(gpu=["fermi", "kepler"], kernel="mix", alpha=[0, 1, 4], warps=[8, 16, 48], replicates=8)

    Settings:
        gpu: chip: a name, a path, or a Gpu.
        kernel: a name, a path, or a Kernel.
        warps: occupancy in warps per SM; by default as many as fit. Points that a chip cannot hold are NaN in the result.
        warps_per_scheduler: occupancy in warps per scheduler, instead of `warps`.
        block_warps, scheduler, memory, seed, sms, warmup: as in `simulate`.
        cycles: as in `simulate`; the same for all points.
        replicates: the number for every point; or {"rtol": 0.01, "least": 8, "most": 64}, which adds replicates until the
            half-width of the 95 % confidence interval of the mean is at most `rtol` of the mean (`warpsim.sweeps.replicates`).
        common: settings or axes along which points share random numbers (common random numbers); default ["scheduler"].
        tile_points: maximum number of points in a tile; by default as many as take about a minute.
        zip: axes made of several settings that vary together: {"size": ["alpha", "ilp"]}.
        points: a list of points, each a table of the same settings; they form the axis `point`.

    `warps`, `warps_per_scheduler` and `block_warps` may be given in words: "multiples of schedulers up to the chip's limit",
    "powers of 2 up to 32" (`warpsim.sweeps.derived`). A point is NaN if its value is not among those of its chip.

    "gpu.KEY" changes a field of the chip, such as "gpu.alu.latency_cycles" or "gpu.memory.bandwidth_gbs", with the keys
    of its file; "kernel.registers_per_thread" and "kernel.shared_bytes_per_block" change the kernel's resources. In a file,
    `gpu.name = "kepler"` names the chip whose fields are changed.

    Any other setting is an argument of the kernel's builder, such as `alpha` or `ilp`. If a result already uses the argument's
    name, as for `op`, its dimension is `kernel_op`.

    Attributes:
        axes: dimension -> Axis.
        settings: setting -> value, for every setting that is not on an axis, including defaults.
        common: settings along which points share random numbers.
        replicates: the number of replicates of a point, or the rule that determines it.

    Raises:
        TypeError: `gpu` or `kernel` is missing, or a value has the wrong type.
        ValueError: a value is not allowed; the message names the setting, the value and what is allowed.
    """

    _tile_points: int | None = None
    _tile_shape: tuple[int, ...] | None = None

    def __init__(self, **settings: Any) -> None:
        self._read_settings(settings)
        with refusing_malformed("plan"):
            check_fits(self)

    def _read_settings(self, settings: dict[str, Any]) -> None:
        with refusing_malformed("plan"):
            points = settings.pop("tile_points", None)
            self._tile_points = None if points is None else integer("tile_points", points)
            super().__init__(settings)
            check_points(self)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a plan from a TOML file with the same settings, one key each.

        Paths of chips and kernels in the file are relative to its folder.

        Raises:
            ValueError: the file cannot be read, is not TOML, or holds a wrong plan; the message starts with the file's name.
            TypeError: a value has the wrong type.
        """
        file = Path(path)
        try:
            with file.open(encoding="utf-8-sig") as opened:
                text = opened.read(LARGEST_FILE + 1)
            if len(text) > LARGEST_FILE:
                raise ValueError(f"has more than {LARGEST_FILE} characters")
            settings = tomllib.loads(text)
        except OSError as error:
            raise ValueError(f"{file}: {error.strerror}") from None
        except RecursionError:
            raise ValueError(f"{file}: is nested too deeply") from None
        except ValueError as error:  # text that is not UTF-8 or not TOML, and numbers that Python does not read
            raise ValueError(f"{file}: {error}") from None
        points = settings.get("points")
        for table in [settings, *(points if isinstance(points, list) else [])]:
            for name in ("gpu", "kernel"):
                if isinstance(table, dict) and name in table:
                    table[name] = resolve_paths(file, table[name])
        try:
            return cls(**settings)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{file}: {error}") from None

    @classmethod
    def from_provenance(cls, text: str) -> Self:
        """Restores the plan of a sweep's result from the attribute `provenance`.

        Chips, and kernels that are not part of the package, are restored as they were in the sweep. No file that the text names
        is opened.

        Raises:
            ValueError: the text is not the provenance of a sweep, or names a file; a kernel has changed since; or a kernel came
                from a file that takes arguments and is not part of the package, so that the text does not hold its programs.
        """
        record = read_call(text, "sweep")
        with refusing_malformed("provenance", any_type=True), names_only():
            return cls._read(record)

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> Self:
        """Returns the plan of a record of `record()`."""
        settings = {name: from_json(value) for name, value in record["settings"].items()}
        tables = record.get("own_tables", {})
        described = {name: described_with_table(value, tables.get(name)) for name, value in record["gpus"].items()}
        gpus = {name: load(Gpu, value) for name, value in described.items()}
        programs = {name: StoredKernel(name, load(Kernel, program)) for name, program in record["programs"].items()}
        kernels = settings["kernel"] if isinstance(settings["kernel"], list) else [settings["kernel"]]
        lost = [name for name in kernels if name not in programs and name not in list_kernels()]
        if lost:
            raise LostKernelError(
                f"provenance: the kernel {lost[0]!r} came from a file with arguments that is not part of warpsim; "
                "a result does not hold its programs, so only a plan that names this file can repeat its points"
            )
        for setting, objects in (("gpu", gpus), ("kernel", programs)):
            names = settings[setting]
            many = isinstance(names, list)
            settings[setting] = [objects.get(name, name) for name in names] if many else objects.get(names, names)
        settings["zip"] = {axis: names for axis, names in record["axes"].items() if [*map(dimension, names)] != [axis]}
        settings["common"] = record["common"]
        plan = cls._restored(settings, record["derived"], record["tile_shape"])
        now = plan.record()
        if now["kernels"] != record["kernels"] and plan._digests(with_labels=True) != record["kernels"]:
            raise ValueError("provenance: a kernel of the sweep has changed since; its name now refers to another program")
        changed = [name for name, table in record.get("latency_tables", {}).items() if now["latency_tables"][name] != table]
        if changed:
            raise ValueError(f"provenance: the table of latencies of {changed[0]} has changed since")
        return plan

    @classmethod
    def _restored(cls, settings: Mapping[str, Any], words: Mapping[str, str], tile_shape: Sequence[int]) -> Self:
        """Makes the plan of a record, in which derived axes are lists of values beside their words."""
        plan = cls.__new__(cls)
        plan._read_settings(dict(settings))  # values of a sweep that fit no chip were allowed in earlier versions
        axes = {name: replace(axis, words=words.get(name, "")) for name, axis in plan.axes.items()}
        return plan.rearranged(axes, tile_shape)

    def rearranged(self, axes: Mapping[str, Axis], tile_shape: Sequence[int]) -> Self:
        """Returns the same sweep with its axes in the order of a store, and with the shape of the store's tiles."""
        plan = self._with_axes(axes)
        plan._tile_shape = tuple(tile_shape)
        return plan

    @cached_property
    def grid(self) -> TileGrid:
        """The axes and their division into tiles, which depends on the plan alone and is the same on every machine."""
        if self._tile_shape is not None:
            return TileGrid(tuple(self.axes), self.sizes, self._tile_shape)
        return tile_grid(tuple(self.axes), self.sizes, self._tile_points or tile_points(self))

    def tiles(self) -> range:
        """Returns the indices of the tiles."""
        return range(len(self.grid))

    def positions(self, tile: int) -> Iterator[tuple[int, ...]]:
        """Yields the positions of a tile's points on the axes, with the last axis running fastest."""
        return itertools.product(*(range(part.start, part.stop) for part in self.grid.region(tile).values()))

    def record(self) -> dict[str, Any]:
        """Returns the plan by value, in JSON types: two plans with the same record give the same results.

        A kernel of the package is recorded by name, arguments and digest; any other kernel by its program as well. If there are
        many combinations of arguments, the record holds the digests of a sample.
        """
        settings = {name: to_json(label(name, value)) for name, value in self.settings.items()}
        for axis in self.axes.values():
            for name, values in axis.columns.items():
                settings[name] = [to_json(label(name, value)) for value in values]
        return {
            "axes": {axis.name: list(axis.columns) for axis in self.axes.values()},
            "settings": settings,
            "derived": dict(self.words),
            "common": list(self.common),
            "gpus": {name: dump(gpu) for name, gpu in self.gpus.items()},
            "latency_tables": {name: gpu.latency_table for name, gpu in self.gpus.items()},
            "own_tables": {name: gpu.own_table for name, gpu in self.gpus.items() if gpu.own_table is not None},
            "kernels": self._kernel_digests,
            "programs": self._programs,
            "tile_shape": list(self.grid.shape),
            "warpsim": software()["warpsim"],
        }

    @cached_property
    def _kernel_digests(self) -> list[dict[str, Any]]:
        return self._digests()

    def _digests(self, *, with_labels: bool = False) -> list[dict[str, Any]]:
        """Returns the parameters and the digest of each kernel; with labels as warpsim 0.1 computed the digests."""
        digests = []
        for position in self.kernel_positions():
            values = self.at(position)
            kernel = build_kernel(values)
            program = dump(kernel) if with_labels else kernel.identity()
            digests.append({**_parameters(values), "sha256": _digest(program)})
        return digests

    def check_unchanged(self, values: Mapping[str, Any], kernel: Kernel) -> None:
        """Checks that a kernel of a file, which was built again, is that of the record of this plan.

        Raises:
            ValueError: the file has changed.
        """
        parameters = _parameters(values)
        recorded = [digest["sha256"] for digest in self._kernel_digests if digest | parameters == digest]
        if recorded and _digest(kernel.identity()) not in recorded:
            reason = "has changed since the sweep began; sweep again with the former file, or into a new store"
            raise ValueError(f"kernel: {values['kernel']} {reason}")

    @cached_property
    def _programs(self) -> dict[str, Any]:
        """The programs of kernels that are not part of the package and take no arguments."""
        if any(is_argument(name) for name in self.names):
            return {}
        kernels = {label("kernel", kernel): kernel for kernel in self.values("kernel")}
        packaged = list_kernels()
        return {name: dump(build_kernel({"kernel": kernel})) for name, kernel in kernels.items() if kernel not in packaged}

    def layout(self) -> Layout:
        """Returns the layout of a store for this plan."""
        return Layout(self.grid, self.coordinates(), self.attributes())

    def attributes(self) -> dict[str, str]:
        """Returns the attributes of the sweep's result: `source`, `history`, `provenance`."""
        rule = self.replicates
        number = f"{rule.most}" if rule.fixed else f"{rule.least} to {rule.most}"
        entry = f"sweep of {self.points} points, {number} replicates each"
        return attributes(provenance("sweep", self.record()), entry)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(axis)}" for name, axis in self.axes.items())
        return f"<warpsim.Plan ({sizes}), points: {self.points}, tiles: {len(self.grid)}>"


def _parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a point on which its kernel depends, in JSON types."""
    return {name: to_json(label(name, value)) for name, value in values.items() if is_program(name)}


def _digest(program: Any) -> str:
    return hashlib.sha256(json.dumps(program, sort_keys=True).encode()).hexdigest()

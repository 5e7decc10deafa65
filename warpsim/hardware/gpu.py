"""Chips: validated, frozen models of the files params/gpus/NAME.toml.

The fields of `Gpu` are the keys of the file. Their names contain the units, and the file gives the source of every
value in a comment. V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from warpsim import units
from warpsim.arguments import refusing_malformed, shortened
from warpsim.hardware import architectures, consistency, file_errors, operations
from warpsim.hardware import files as params
from warpsim.hardware.core import Core
from warpsim.hardware.fields import Between, Bytes, Count, Cycles, MustBe, Name, NamedModel, NotNegative, StrictModel
from warpsim.hardware.latency import is_restored, load_distribution, restored_table, table_by_value
from warpsim.hardware.memo import kept_by_object
from warpsim.hardware.memory import Memory
from warpsim.hardware.operations import Op, Unit

GPU_LABELS = ("name", "title", "architecture", "generation", "year")
"""Fields of a chip that no simulation reads."""

_log = logging.getLogger(__name__)

class GpuFileError(file_errors.ParamsFileError):
    """All errors of the description of a chip, with one line for each."""


class Sm(StrictModel):
    """Resources of one SM, and the granularity of their allocation (V 2.11, 5.7).

    Registers are rounded up to `register_granularity`, for each warp or for the whole block (`register_allocation`). Those of
    whole blocks are for warps rounded up to `warp_granularity`; those of warps belong to as many sub-partitions. Shared memory
    plus `shared_overhead_bytes` is rounded up to `shared_granularity_bytes`.

    Attributes:
        schedulers: warp schedulers.
        max_warps: resident warps, at most.
        max_blocks: resident thread blocks, at most.
        max_block_warps: warps of a thread block, at most.
        registers: 32-bit registers.
        max_registers_per_thread: of these, that a thread can have.
        register_granularity: registers, by which an allocation grows.
        register_allocation: whether a warp or the whole block gets an allocation of its own.
        warp_granularity: warps, by which the warps of a block are rounded up.
        shared_bytes: bytes of shared memory.
        max_shared_bytes_per_block: of these, that a block can have.
        shared_granularity_bytes: bytes, by which an allocation of shared memory grows.
        shared_overhead_bytes: bytes that the system takes for each block.
    """

    schedulers: Annotated[int, Between(1, units.MAX_SCHEDULERS)]
    max_warps: Annotated[int, Between(1, units.MAX_WARPS)]
    max_blocks: Count
    max_block_warps: Count
    registers: Count
    max_registers_per_thread: Count
    register_granularity: Count
    register_allocation: Literal["warp", "block"]
    warp_granularity: Count
    shared_bytes: Bytes
    max_shared_bytes_per_block: Bytes
    shared_granularity_bytes: Count
    shared_overhead_bytes: Bytes


class Issue(StrictModel):
    """Issue interval of a scheduler, and the number of instructions of one warp that it can issue in one cycle (V Table 2.8)."""

    interval_cycles: Count
    width: Annotated[int, Between(1, 2)]


class Shared(StrictModel):
    """Banks of the shared memory, and the number of lanes served in one pass (V Table 2.5, 2.6)."""

    banks: Count
    bank_bytes: Literal[4, 8]
    lanes_per_pass: Literal[16, 32]


class Gpu(NamedModel):
    """A chip.

    Attributes:
        name: its name in params/gpus, or in messages.
        title: its name in figures.
        architecture: the file of defaults and the machine code, such as sm_90; None: the file states everything, and there is no
            machine code.
        generation: the family of chips, such as Kepler.
        year: in which the chip came out.
        sms: SMs of the chip.
        clock_ghz: clock of its SMs, in which all cycles are counted.
        block_launch_cycles: from the end of a block to the start of its successor (V 3.7).
        warp_launch_cycles: by which the warps of a block start to issue one after another; 0: any number start together.
        launch_interval_cycles: by which blocks of the whole chip start one after another; 0: any number start together.
        grid_launch_cycles: from the launch of a grid to its first blocks.
        sm: resources of an SM.
        issue: issue of its schedulers.
        shared: its shared memory.
        ops: operation classes, by name.
        memory: the memory that all SMs share.
        units: execution units that several classes share, by name.
        core: options of today's cores.
    """

    title: Name
    architecture: Name | None = None
    generation: Name
    year: Count
    sms: Annotated[int, Between(1, 1024)]
    clock_ghz: Annotated[float, Field(ge=1e-3, le=100, allow_inf_nan=False), MustBe("a number from 0.001 to 100, in GHz")]
    block_launch_cycles: Cycles
    warp_launch_cycles: Cycles = 0
    launch_interval_cycles: NotNegative = 0.0
    grid_launch_cycles: Cycles = 0
    sm: Sm
    issue: Issue
    shared: Shared
    ops: dict[str, Op]
    memory: Memory
    units: dict[str, Unit] = Field(default_factory=dict)
    core: Core = Field(default_factory=Core)

    @model_validator(mode="before")
    @classmethod
    def _scopes_of_units(cls, data: Any) -> Any:
        return operations.with_scopes(data)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = list(consistency.inconsistencies(self.model_dump()))
        if problems:
            raise GpuFileError(self.name, problems)
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "gpu") -> Self:
        """Validates a description, such as a parsed file or the result of `to_dict`.

        What it leaves out is taken from its architecture, where it names one (`architectures.complete`).

        Raises:
            GpuFileError: the description has errors; the message has a line for each, which starts with `source`.
            TypeError: the description is not a table.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"{source} = {file_errors.format_value(data)}: must be a table")
        with refusing_malformed(source):
            return cls._validated(data, source)

    @classmethod
    def _validated(cls, data: Mapping[str, Any], source: str) -> Self:
        if not isinstance(data.get("architecture"), str | None):
            given, known = file_errors.format_value(data["architecture"]), ", ".join(architectures.list_architectures())
            raise GpuFileError(source, [(("architecture",), f" = {given}: must be one of {known}")])
        try:
            data, defaults = architectures.complete(data)
        except ValueError as error:
            place = f" = {file_errors.format_value(data['architecture'])}: {error}"
            raise GpuFileError(source, [(("architecture",), place)]) from None
        if defaults and not source.startswith(str(params.params_dir())):  # the files of the package are documented
            text = "%s: %d values are those of %s, follow by rules, or are assumed; `warpsim gpus FILE` lists them"
            _log.info(text, source, len(defaults), data["architecture"])
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            of_fields = [problem for problem in file_errors.problems(cls, error) if problem[0]]
            found = [*of_fields, *consistency.inconsistencies(operations.with_scopes(data))]
            raise GpuFileError(source, [*_hint_at_architecture(data), *found]) from None

    def to_dict(self) -> dict[str, Any]:
        """Returns the description in JSON types; intervals are exact fractions as text.

        Options that are off are left out, unless the chip names an architecture, whose defaults could turn them on.
        """
        parts = self.model_dump(mode="json")
        parts["ops"] = operations.without_scopes(parts["ops"])
        return parts if self.architecture else _without_options_that_are_off(parts)

    def identity(self) -> dict[str, Any]:
        """Returns the chip in JSON types without what is only for people: names, titles, years, errors of fits.

        The table of latency quantiles is represented by a hash of its numbers.
        """
        parts = _without_labels(self)
        return parts | {"memory": parts["memory"] | {"distribution": self.latency_table}}

    @property
    def latency_table(self) -> str:
        """A hash of the numbers of the table of latency quantiles."""
        return load_distribution(self.memory.distribution).digest

    @property
    def own_table(self) -> dict[str, Any] | None:
        """The table of latency quantiles in JSON types; None if it is part of the package."""
        return table_by_value(self.memory.distribution)

    def __getstate__(self) -> dict[Any, Any]:
        """Returns what a pickle holds: also a table of latencies that no file has, but only the memory of this process."""
        return {**super().__getstate__(), "table": self.own_table if is_restored(self.memory.distribution) else None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        if state["table"] is not None:
            restored_table(state["table"])
        super().__setstate__(state)

    @property
    def bandwidth_bytes_per_cycle(self) -> float:
        """Sustained memory bandwidth of the whole chip, in bytes per clock cycle."""
        return units.gbs_to_bytes_per_cycle(self.memory.bandwidth_gbs, self.clock_ghz)

    @property
    def cold_constants_cycles(self) -> int:
        """From an SM's first block in a finite grid until its warps have the constants that they read first."""
        where = self.core.cold_constants
        if where is None:
            return 0
        return self.memory.latency_cycles if where == "dram" else self.memory.cycles_to_l2

    @property
    def issue_ipc(self) -> float:
        """Issue bound of one SM without dual issue, in instructions per cycle (V Table 4.1, issue_thru)."""
        return self.sm.schedulers / self.issue.interval_cycles

    def unit_of(self, op: str) -> str:
        """Returns the name of the unit of an operation class: that of the class, if it shares no unit."""
        return self.ops[op].unit or op

    def has_queue(self, op: str) -> bool:
        """Returns whether the unit of an operation class has queues."""
        unit = self.units.get(self.unit_of(op))
        return unit is not None and unit.queue is not None

    def uses_ports(self, op: str) -> bool:
        """Returns whether instructions of a class pass the register ports in order."""
        return self.ops[op].fixed_latency and (self.ops[op].scope == "scheduler" or not self.has_queue(op))

    def units_per_sm(self, op: str) -> int:
        """Returns the number of units of an operation class in one SM."""
        return self.sm.schedulers if self.ops[op].scope == "scheduler" else 1

    def unit_ipc(self, op: str) -> float:
        """Returns the rate of the units of an operation class in one SM, without conflicts, in instructions per cycle."""
        return float(self.units_per_sm(op) / self.ops[op].interval_cycles)


def _hint_at_architecture(data: Mapping[str, Any]) -> Iterator[file_errors.Problem]:
    """Yields that a file may name an architecture, where it names none and leaves out whole tables."""
    if "architecture" not in data and not {"issue", "shared", "ops"} & set(data):
        known = ", ".join(architectures.list_architectures())
        yield ("architecture",), f" is missing: with one of {known}, a file leaves out what all its chips have in common"


@kept_by_object
def _without_labels(gpu: Gpu) -> dict[str, Any]:
    """Returns a chip in JSON types without what is only for people."""
    parts = _without_options_that_are_off(gpu.to_dict())
    for label in GPU_LABELS:
        del parts[label]
    del parts["memory"]["measured"], parts["memory"]["queue"]["fit_rms_percent"]
    return parts


def _without_options_that_are_off(parts: dict[str, Any]) -> dict[str, Any]:
    """Returns a dump of a chip without the options of newer chips that it does not use."""
    off = Core().model_dump(mode="json")
    core = {key: value for key, value in parts["core"].items() if value != off[key]} if "core" in parts else {}
    options = ("store_drain_cycles", "writes", "l2_far_latency_cycles", "l2_store_gbs", "atomic_interval_cycles")
    memory = {key: value for key, value in parts["memory"].items() if key not in options or value is not None}
    defaults: dict[str, Any] = {"unit": None, "operand_cycles": 1, "rates": {}}
    ops = {
        name: {key: value for key, value in op.items() if key not in defaults or value != defaults[key]}
        for name, op in parts["ops"].items()
    }
    kept = {**parts, "ops": ops, "memory": memory, "core": core}
    optional = ("units", "core", "warp_launch_cycles", "launch_interval_cycles", "grid_launch_cycles")
    return {key: value for key, value in kept.items() if key not in optional or value}


def list_gpus() -> list[str]:
    """Returns the names of the chips in the package."""
    return params.list_names("gpus")


def as_gpu(gpu: Gpu | str | os.PathLike[str]) -> Gpu:
    """Returns a chip given as a Gpu, a name or a file.

    Raises:
        TypeError: it is something else.
        ValueError: the chip or file does not exist, or has errors.
    """
    if isinstance(gpu, Gpu):
        return gpu
    if not isinstance(gpu, str | os.PathLike):
        raise TypeError(f"gpu = {gpu!r}: must be a Gpu (from load_gpu), or the name or file of a chip")
    return load_gpu(gpu)


def described_with_table(described: Mapping[str, Any], table: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the description of a chip in the record of a result, with the record's table of latencies instead of a file.

    Args:
        described: the description, as `Gpu.to_dict` returns it.
        table: the chip's `own_table`; None: the description names a table of the package.

    Raises:
        ValueError: the description is no table.
    """
    if not isinstance(described, Mapping):
        raise ValueError(f"gpu = {shortened(repr(described))}: must be the description of a chip")
    if table is None:
        return dict(described)
    return {**described, "memory": {**described["memory"], "distribution": restored_table(table)}}


def load_gpu(name_or_path: str | os.PathLike[str]) -> Gpu:
    """Loads a chip by its name in params/gpus, or from a file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: the chip or file does not exist.
        GpuFileError: the file has errors; the message lists all of them. Parameters of the memory model `queue` that belong to
            another chip are an error too.
    """
    path = params.resolve("gpus", name_or_path)
    return gpu_of_file(params.read_toml(path, GpuFileError), path)


def gpu_of_file(data: Mapping[str, Any], path: Path) -> Gpu:
    """Returns the chip that the parsed content of a file describes, with the checks and errors of `load_gpu`."""
    gpu = Gpu.from_dict(_with_table_beside(data, path), source=str(path))
    problems = [*consistency.of_memory(gpu.memory), *consistency.beyond_the_sms(gpu.memory, gpu.sms, gpu.clock_ghz)]
    if problems:
        raise GpuFileError(str(path), problems)
    return gpu


def _with_table_beside(data: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Returns a description whose table of latencies is named by its full path, where it lies beside the chip's file."""
    name = consistency.value_at(data, "memory.distribution")
    if not is_beside(path, name):
        return data
    return {**data, "memory": {**data["memory"], "distribution": str((path.parent / name).resolve())}}


def is_beside(path: Path, distribution: object) -> bool:
    """Returns whether a table of latencies is named by its path from the folder of a chip's file."""
    return isinstance(distribution, str) and distribution.endswith(".csv") and params.is_file(path.parent / distribution)

"""A chip: what params/gpus/NAME.toml says, validated and frozen.

The fields of `Gpu` are the keys of the file. Units are in the names; a file gives the source of every value
beside it. V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from warpsim import units
from warpsim.hardware import files as params
from warpsim.hardware.latency import load_distribution

REQUIRED_OPS = ("alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit")
"""The operation classes that every chip describes; a file may add more."""

_FITTED = "fitted: experiments/memory_contention"


class GpuFileError(params.ParamsFileError):
    """All the errors of a chip's description, a line each."""


def _fraction(value: object) -> Fraction:
    """Read an interval; a float means the decimal that is written, and text is exact."""
    if isinstance(value, str) and not re.fullmatch(r"\d+(\.\d+)?|\d+/[1-9]\d*", value):
        raise ValueError("not a fraction")
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
        raise ValueError("not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not finite")
    exact = Fraction(repr(value) if isinstance(value, float) else value)
    if exact <= 0:
        raise ValueError("not above 0")
    return exact


Count = Annotated[int, Field(ge=1)]
Cycles = Annotated[int, Field(ge=0)]
Bytes = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1)]
Interval = Annotated[
    Fraction,
    PlainValidator(_fraction),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"examples": ['a number above 0, or an exact fraction such as "2/3"']}),
]
Terms = Annotated[
    tuple[tuple[NotNegative, Positive], ...],
    BeforeValidator(lambda value: tuple(map(tuple, value)) if isinstance(value, list) else value),
]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Sm(_Part):
    """Limits of one SM, and the units in which they are handed out (V 2.11, 5.7).

    A block's registers are rounded up to `register_granularity`, for each warp or for the block as a whole,
    after its warps were rounded up to `warp_granularity`. Its shared memory is rounded up to
    `shared_granularity_bytes`, with `shared_overhead_bytes` added before.
    """

    schedulers: Annotated[int, Field(ge=1, le=8)]
    max_warps: Annotated[int, Field(ge=1, le=64)]
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


class Issue(_Part):
    """How often a scheduler issues, and how many instructions of one warp at a time (V Table 2.8)."""

    interval_cycles: Count
    width: Annotated[int, Field(ge=1, le=2)]


class Shared(_Part):
    """Shared memory: its banks, and how many lanes of a warp it serves in one pass (V Table 2.5, 2.6)."""

    banks: Count
    bank_bytes: Literal[4, 8]
    lanes_per_pass: Literal[16, 32]


class Op(_Part):
    """An operation class.

    `latency_cycles` is the register dependency latency, or `latency_to[op]` where the consumer is of that
    class; loads and stores take theirs from the memory system. `conflict_latency_cycles` is added for each
    further way of a bank conflict. `interval_cycles` is how long a warp instruction occupies its unit, of
    which each scheduler or the SM (`scope`) has one. `issue_slots` are the issue cycles it takes.
    `gap_cycles` is the least distance to the warp's next issue; of a taken branch it is `taken_gap_cycles`,
    where that is given. `pipe` names its stalls.
    """

    latency_cycles: Cycles
    interval_cycles: Interval
    scope: Literal["scheduler", "sm"]
    gap_cycles: Count
    pipe: Literal["math", "mio", "lg", "none"]
    issue_slots: Count = 1
    latency_to: dict[str, Cycles] = Field(default_factory=dict)
    conflict_latency_cycles: Cycles = 0
    taken_gap_cycles: Count | None = None

    def latency_for(self, consumer: str) -> int:
        """Return the register dependency latency that an instruction of class `consumer` sees, in cycles."""
        return self.latency_to.get(consumer, self.latency_cycles)


class Queue(_Part):
    """Fitted parameters of the memory model `queue`: two stages in series, rates of the whole chip, beside the sustained rate.

    Attributes:
        latency_offset_cycles: mean latency of the idle system, less `Memory.latency_cycles`.
        crossbar_servers: servers of the first stage.
        crossbar_gbs: rate of the first stage, all servers together.
        dram_servers: servers of the second stage.
        dram_gbs: rate of the second stage, all servers together.
        fit_rms_percent: error of the fit; None before there was one.
    """

    latency_offset_cycles: Finite
    crossbar_servers: Count
    crossbar_gbs: Positive
    dram_servers: Count
    dram_gbs: Positive
    fit_rms_percent: NotNegative | None = None


class Contention(_Part):
    """Mean memory latency a + b x / (c - x) in cycles, x the chip's throughput in GB/s (V 6.4, Table 6.5).

    `refined` are the terms [b, c] of a better fit with `refined_a_cycles` in place of a, where V gives one.
    """

    a_cycles: Positive
    b_cycles: NotNegative
    c_gbs: Positive
    refined_a_cycles: Positive | None = None
    refined: Terms | None = None


class Memory(_Part):
    """The memory system, of the whole chip.

    `latency_cycles` is the unloaded latency of a coalesced load (V Table 6.2); every memory model starts from it.
    `bandwidth_gbs` is the sustained rate. A coalesced 32-bit access is 128 / `transaction_bytes` transactions; each extra one
    adds `transaction_latency_cycles`. One transaction of an access that does not coalesce moves
    `divergent_transaction_bytes`, in effect. `loads_per_warp`, `loads_per_sm` and `stores_per_sm` limit the
    loads, and the stores, in flight (None: no limit). `l1_latency_cycles` and `l2_latency_cycles` are None
    where unknown. `distribution` names the latency quantiles, a file of params/latency or a path; `measured`
    says whether they were measured on this chip, and `measured_latency_cycles` the `latency_cycles` of that chip:
    the memory model `measured` shifts all quantiles by the difference (left out: no difference).
    """

    latency_cycles: Count
    pin_bandwidth_gbs: Positive
    bandwidth_gbs: Positive
    transaction_bytes: Literal[32, 64, 128]
    coalescing: Literal["half-warp-ordered", "half-warp", "warp"]
    transaction_latency_cycles: NotNegative
    divergent_transaction_bytes: Positive
    loads_per_warp: Count | None = None
    loads_per_sm: Count | None = None
    stores_per_sm: Count | None = None
    l1_latency_cycles: Count | None = None
    l2_latency_cycles: Count | None = None
    distribution: Name
    measured: bool
    measured_latency_cycles: Count | None = None
    queue: Queue
    contention: Contention

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fills in the latency at which quantiles were measured, and reads the queue's latency of files of warpsim 0.1."""
        if not isinstance(data, Mapping) or not _is_number(data.get("latency_cycles")):
            return data
        data = dict(data)
        if data.get("measured") is True:
            data.setdefault("measured_latency_cycles", data["latency_cycles"])
        queue = data.get("queue")
        if isinstance(queue, Mapping) and _is_number(queue.get("base_latency_cycles")):
            base = queue["base_latency_cycles"]
            kept = {key: value for key, value in queue.items() if key != "base_latency_cycles"}
            data["queue"] = {"latency_offset_cycles": float(base - data["latency_cycles"]), **kept}
        return data

    @property
    def queue_latency_cycles(self) -> float:
        """Mean unloaded latency of the memory model `queue`, in cycles."""
        return self.latency_cycles + self.queue.latency_offset_cycles

    @property
    def measured_shift_cycles(self) -> int:
        """What the memory model `measured` adds to the measured latencies, in cycles."""
        return self.latency_cycles - (self.measured_latency_cycles or self.latency_cycles)


class Gpu(_Part):
    """A chip. `block_launch_cycles` is the time from a block's end to its successor's start (V 3.7)."""

    name: Name
    title: Name
    generation: Name
    year: Count
    sms: Count
    clock_ghz: Positive
    block_launch_cycles: Cycles
    sm: Sm
    issue: Issue
    shared: Shared
    ops: dict[str, Op]
    memory: Memory

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = list(_inconsistencies(self.model_dump()))
        if found:
            raise GpuFileError(self.name, found)
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "gpu") -> Self:
        """Validate a description, such as a parsed file or `to_dict`'s result.

        Raises:
            GpuFileError: with every error; each line starts with `source`.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            found = [*params.problems(cls, error), *_inconsistencies(data)]
            raise GpuFileError(source, found) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the description in JSON types; intervals are exact fractions as text."""
        return self.model_dump(mode="json")

    def identity(self) -> dict[str, Any]:
        """Returns what a simulation depends on, in JSON types: no names, titles, years, or errors of fits.

        The table of latency quantiles is given by its numbers.
        """
        parts = self.to_dict()
        for label in ("name", "title", "generation", "year"):
            del parts[label]
        del parts["memory"]["measured"], parts["memory"]["queue"]["fit_rms_percent"]
        parts["memory"]["distribution"] = load_distribution(self.memory.distribution).identity()
        return parts

    @property
    def bandwidth_bytes_per_cycle(self) -> float:
        """Sustained memory rate of the whole chip, in bytes per clock cycle."""
        return units.gbs_to_bytes_per_cycle(self.memory.bandwidth_gbs, self.clock_ghz)

    @property
    def issue_ipc(self) -> float:
        """Issue bound of one SM without dual issue, in instructions per cycle (V Table 4.1, issue_thru)."""
        return self.sm.schedulers / self.issue.interval_cycles

    def unit_ipc(self, op: str) -> float:
        """Return the rate of a class's units in one SM, without conflicts, in instructions per cycle."""
        unit = self.ops[op]
        return float((self.sm.schedulers if unit.scope == "scheduler" else 1) / unit.interval_cycles)


def list_gpus() -> list[str]:
    """Return the names of the chips that come with the package."""
    return params.list_names("gpus")


def load_gpu(name_or_path: str | os.PathLike[str]) -> Gpu:
    """Load a chip by its name in params/gpus, or from a file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: there is no such chip or file.
        GpuFileError: the file has errors; all of them are listed.
    """
    path = params.resolve("gpus", name_or_path)
    return Gpu.from_dict(params.read_toml(path, GpuFileError), source=str(path))


def write_queue_parameters(path: str | os.PathLike[str], queue: Queue) -> None:
    """Write a fit into the table [memory.queue] of a chip's file; every other line stays as it is.

    The comments of the table stay too, but for what follows "start value": that becomes "fitted:
    experiments/memory_contention". `fit_rms_percent` is added where the table has none, and taken out where
    the fit has none. The file is replaced in one step, and only by a file that loads with these parameters.

    Raises:
        ValueError: the file has no table [memory.queue], or does not load.
    """
    file = Path(path)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if re.match(r"\s*\[memory\.queue\]", line)]
    if not starts:
        raise ValueError(f"{file}: there is no table [memory.queue]")
    first = starts[0] + 1
    last = next((i for i in range(first, len(lines)) if lines[i].lstrip().startswith("[")), len(lines))

    left = queue.model_dump(exclude_none=True)
    table: list[str] = []
    end = column = 0  # of the last value: a new key follows it, not the blank lines at the end
    for line in lines[first:last]:
        found = re.match(r"(?P<value>(?P<key>\w+)\s*=\s*[^#\s]+\s*)(?P<comment>#.*)?$", line)
        if not found:
            table.append(line)
        elif found["key"] in left:
            comment = re.sub(r"start value.*", _FITTED, found["comment"] or "")
            column = len(found["value"])
            value = f"{found['key']} = {left.pop(found['key'])}  ".ljust(column)
            table.append(f"{value}{comment}".rstrip() + "\n")
            end = len(table)
    table[end:end] = [f"{key} = {value}  ".ljust(column) + f"# {_FITTED}\n" for key, value in left.items()]

    text = "".join([*lines[:first], *table, *lines[last:]])
    try:
        written = Gpu.from_dict(tomllib.loads(text), source=str(file)).memory.queue
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: not a TOML file after the change: {error}") from error
    if written != queue:
        raise ValueError(f"{file}: the table [memory.queue] is not one plain value to a line")
    new = file.with_name(file.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


_AT_MOST = (
    ("sm.schedulers", "sm.max_warps"),
    ("sm.max_block_warps", "sm.max_warps"),
    ("sm.max_shared_bytes_per_block", "sm.shared_bytes"),
    ("sm.max_registers_per_thread", "sm.registers"),
    ("memory.bandwidth_gbs", "memory.pin_bandwidth_gbs"),
)


def _inconsistencies(data: Mapping[str, Any]) -> Iterator[params.Problem]:
    """Yield what contradicts itself in a description, whose single values may be wrong or missing too."""
    for small, large in _AT_MOST:
        low, high = _at(data, small), _at(data, large)
        if _is_number(low) and _is_number(high) and low > high:
            yield tuple(small.split(".")), f" = {low}: at most {large} = {high}"
    fit, terms = _at(data, "memory.contention.refined_a_cycles"), _at(data, "memory.contention.refined")
    if (fit is None) != (terms is None):
        text = f" = {params.show(terms)}: together with refined_a_cycles, or neither"
        yield ("memory", "contention", "refined"), text
    latency, offset = _at(data, "memory.latency_cycles"), _at(data, "memory.queue.latency_offset_cycles")
    if _is_number(latency) and _is_number(offset) and latency + offset <= 0:
        yield ("memory", "queue", "latency_offset_cycles"), f" = {offset}: above -{latency}, the chip's memory.latency_cycles"
    distribution = _at(data, "memory.distribution")
    if isinstance(distribution, str) and distribution:
        try:
            params.resolve("latency", distribution)
        except ValueError as error:
            yield ("memory", "distribution"), f" = {params.show(distribution)}: {error}"

    ops = data.get("ops")
    if not isinstance(ops, Mapping):
        return
    for name in REQUIRED_OPS:
        if name not in ops:
            yield ("ops", name), " is missing: every chip has " + ", ".join(REQUIRED_OPS)
    for name, op in ops.items():
        if not isinstance(op, Mapping):
            continue
        if name in ("load", "store"):
            if op.get("pipe") not in (None, "lg"):
                yield ("ops", name, "pipe"), f" = {params.show(op['pipe'])}: 'lg', since it accesses global memory"
            if op.get("latency_to"):
                yield ("ops", name, "latency_to"), ": left out, since the latency is the memory's"
        consumers = op.get("latency_to")
        for consumer, cycles in consumers.items() if isinstance(consumers, Mapping) else ():
            if consumer not in ops:
                text = f" = {params.show(cycles)}: the key is one of {', '.join(ops)}"
                yield ("ops", name, "latency_to", consumer), text
        for key, owner in (("taken_gap_cycles", "branch"), ("conflict_latency_cycles", "smem")):
            if name != owner and op.get(key):
                yield ("ops", name, key), f" = {params.show(op[key])}: only for ops.{owner}"


def _at(data: Any, dotted: str) -> Any:
    for key in dotted.split("."):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

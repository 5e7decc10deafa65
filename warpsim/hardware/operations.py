"""Operation classes of a chip, and the execution units that they use.

V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from warpsim import units
from warpsim.hardware.fields import Between, Count, Cycles, Interval, StrictModel
from warpsim.hardware.file_errors import Problem, format_value

Scope = Literal["scheduler", "sm"]


Pipe = Literal["math", "mio", "lg", "none", "tex", "branch", "imc", "membar", "sleep"]

MatrixType = Literal["f16", "f16_f32", "tf32", "f64", "s8", "s4", "b1", "f8", "f8_f32", "f4"]
"""Operands of a matrix instruction, of which bf16 counts as f16, and where they differ in time, its sums."""

MOST_QUEUED = 64
"""Largest number of entries of a unit's queue."""


class Unit(StrictModel):
    """An execution unit that a class names, so that several classes can share it, or so that it can have a queue.

    Attributes:
        scope: whether each scheduler or the SM has one.
        queue: entries of the queue that each scheduler has in front of the unit; None: there is no queue, and an instruction
            issues only when the unit is free.
        lead_cycles: cycles from an issue until the instruction can leave the queue.
        address_cycles: cycles between two instructions of a scheduler that leave the queue; 0: any number at once.
    """

    scope: Scope
    queue: Annotated[int, Between(1, MOST_QUEUED)] | None = None
    lead_cycles: Cycles = 0
    address_cycles: Cycles = 0

    @model_validator(mode="after")
    def _fields_agree(self) -> Unit:
        if self.queue is None and (self.lead_cycles or self.address_cycles):
            given = f"{self.lead_cycles}, {self.address_cycles}"
            raise ValueError(f"lead_cycles, address_cycles = {given}: must be left out without queue")
        return self


class Op(StrictModel):
    """An operation class.

    Attributes:
        latency_cycles: register dependency latency. The memory system determines that of loads and stores.
        interval_cycles: time for which a warp instruction occupies its unit.
        unit: name of the unit in `Gpu.units` that the class shares with other classes; None: a unit of its own.
        scope: whether each scheduler or the SM has one unit. A class that names a unit takes the unit's scope.
        gap_cycles: minimum number of cycles to the next issue of the same warp.
        pipe: pipeline whose stall states the class causes.
        issue_slots: issue slots that an instruction takes, each of `issue.interval_cycles` cycles.
        latency_to: consumer class -> register dependency latency, if it differs from `latency_cycles`.
        conflict_latency_cycles: latency added for each way of a bank conflict beyond the first.
        taken_gap_cycles: `gap_cycles` of a taken branch; None: the same.
        operand_cycles: cycles from an issue until its operands have been read, for dependence counters.
        rates: of a class of matrix instructions, type of the operands and sums -> multiply-adds per cycle of a unit.
    """

    latency_cycles: Cycles
    interval_cycles: Interval
    unit: str | None = None
    scope: Scope
    gap_cycles: Count
    pipe: Pipe
    issue_slots: Annotated[int, Between(1, 10_000)] = 1
    latency_to: dict[str, Cycles] = Field(default_factory=dict)
    conflict_latency_cycles: Cycles = 0
    taken_gap_cycles: Count | None = None
    operand_cycles: Count = 1
    rates: dict[MatrixType, Interval] = Field(default_factory=dict)

    @property
    def fixed_latency(self) -> bool:
        """Whether the pipeline holds an instruction of the class until it has all register ports (docs/model.md, section 3)."""
        return self.pipe in ("math", "none", "branch")

    def latency_for(self, consumer: str) -> int:
        """Returns the register dependency latency for an instruction of class `consumer`, in cycles."""
        return self.latency_to.get(consumer, self.latency_cycles)


def with_scopes(data: Any) -> Any:
    """Returns the description of a chip in which each class that names a unit has the unit's scope."""
    if not isinstance(data, Mapping) or not isinstance(data.get("ops"), Mapping) or not isinstance(data.get("units"), Mapping):
        return data
    ops = dict(data["ops"])
    for name, op in ops.items():
        unit = data["units"].get(op.get("unit")) if isinstance(op, Mapping) and isinstance(op.get("unit"), str) else None
        if isinstance(unit, Mapping) and "scope" in unit:
            ops[name] = {"scope": unit["scope"], **op}
    return {**data, "ops": ops}


def without_scopes(ops: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns a dump of the operation classes in which those that name a unit leave their scope to it."""
    return {
        name: {key: value for key, value in op.items() if key != "scope" or op["unit"] is None} for name, op in ops.items()
    }


def inconsistencies(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields contradictions between the operation classes of a description. Fields can be wrong or missing."""
    ops = data.get("ops")
    if not isinstance(ops, Mapping):
        return
    for name in units.OPS:
        if name not in ops:
            yield ("ops", name), " is missing: every chip must have " + ", ".join(units.OPS)
    declared = data.get("units")
    yield from _unit_problems(ops, declared if isinstance(declared, Mapping) else {})
    for name, op in ops.items():
        if not isinstance(op, Mapping):
            continue
        if name in units.ATOMIC_OPS and _interval_of_atomics(data) is None:
            yield ("memory", "atomic_interval_cycles"), f" is missing: it is needed for ops.{name}"
        if name in units.MEMORY_OPS:
            pipe = "tex" if name == "texture" else "lg"
            if op.get("pipe") not in (None, pipe):
                yield ("ops", name, "pipe"), f" = {format_value(op['pipe'])}: must be {pipe!r} for {name}"
            if op.get("latency_to"):
                yield ("ops", name, "latency_to"), ": must be left out, since the memory system determines the latency"
        if op.get("rates") and op.get("latency_to"):
            yield ("ops", name, "latency_to"), ": must be left out of a class with rates"
        consumers = op.get("latency_to")
        for consumer, cycles in consumers.items() if isinstance(consumers, Mapping) else ():
            if consumer not in ops:
                text = f" = {format_value(cycles)}: the key must be one of {', '.join(ops)}"
                yield ("ops", name, "latency_to", consumer), text
        for key, owner in (("taken_gap_cycles", "branch"), ("conflict_latency_cycles", "smem")):
            if name != owner and op.get(key):
                yield ("ops", name, key), f" = {format_value(op[key])}: must be left out, since only ops.{owner} has it"


def _interval_of_atomics(data: Mapping[str, Any]) -> Any:
    memory = data.get("memory")
    return memory.get("atomic_interval_cycles") if isinstance(memory, Mapping) else 0


def _unit_problems(ops: Mapping[str, Any], declared: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields contradictions between the operation classes and the declared units."""
    named = {name: op.get("unit") for name, op in ops.items() if isinstance(op, Mapping)}
    for name, unit in named.items():
        if unit is None or not isinstance(unit, str):
            continue
        if unit not in declared:
            allowed = f"one of {', '.join(declared)}" if declared else "left out, since the chip has no table [units]"
            yield ("ops", name, "unit"), f" = {format_value(unit)}: must be {allowed}"
        elif isinstance(declared[unit], Mapping) and ops[name].get("scope") != declared[unit].get("scope"):
            scope = format_value(ops[name].get("scope"))
            yield ("ops", name, "scope"), f" = {scope}: must be left out, or that of units.{unit}"
    for unit in declared:
        if unit in named and named[unit] != unit:
            yield ("units", unit), f": must have another name than the class ops.{unit}, which does not use it"

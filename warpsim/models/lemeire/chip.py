"""Chips of the pipeline model: the pipelines of a compute unit, and two latencies for each instruction.

A compute unit is an SM, and a group is a thread block. The chips of the paper are files in params/pipelines. `timing` derives the
latencies of any other chip as the paper's micro-benchmarks would measure them. L is Lemeire et al. (docs/bibliography.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from warpsim.hardware import file_errors
from warpsim.hardware import files as params
from warpsim.hardware.fields import Count, Name, Positive, StrictModel
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction
from warpsim.models.parts.costs import cost, issue_uses
from warpsim.units import MEMORY_OPS

WITHOUT_RESULT = "store"
"""Operation class that completes as soon as it has issued, so that nothing waits for it (L III.C)."""

_GLOBAL_MEMORY = "global memory"


class PipelinesFileError(file_errors.ParamsFileError):
    """All errors of a file of params/pipelines, one per line."""


class Op(StrictModel):
    """An operation class: pipeline, issue latency (lambda of L) and completion latency (Lambda of L)."""

    pipeline: Name
    issue_cycles: Positive
    completion_cycles: Positive


class Pipelines(StrictModel):
    """A chip as L describes it: Table I, the latencies of Tables II and III, and the limits of groups per unit."""

    name: Name
    title: Name
    generation: Name
    compute_units: Count
    compute_elements: Count
    clock_ghz: Positive
    max_warps: Count
    max_groups: Count
    max_group_warps: Count
    shared_bytes: Count
    max_shared_bytes_per_group: Count
    shared_granularity_bytes: Count
    ops: dict[str, Op]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "pipelines") -> Self:
        """Validates a chip, such as the content of a file.

        Raises:
            PipelinesFileError: the data has errors; it lists all of them, and each line starts with `source`.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            raise PipelinesFileError(source, file_errors.problems(cls, error)) from None


Chip = Gpu | Pipelines
"""Chips that the pipeline model accepts."""


def list_pipelines() -> list[str]:
    """Returns the names of the chips in params/pipelines."""
    return params.list_names("pipelines")


def load_pipelines(name_or_path: str | os.PathLike[str]) -> Pipelines:
    """Loads a chip by its name in params/pipelines, or from a file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: there is no such chip or file.
        PipelinesFileError: the file has errors; it lists all of them.
    """
    path = params.resolve("pipelines", name_or_path)
    return Pipelines.from_dict(params.read_toml(path, PipelinesFileError), source=str(path))


class Timing(NamedTuple):
    """Pipeline of an instruction, and its issue and completion latencies in cycles."""

    pipeline: str
    issue: float
    completion: float


def timing(chip: Chip, instruction: Instruction) -> Timing:
    """Returns the two latencies of an instruction (L III.B).

    For a `Gpu` they are what a benchmark of many such instructions would measure. The issue latency is the longest time for
    which an instruction holds any resource of the SM (unit, schedulers, share of the memory system). The completion latency
    is that of the chip file, or the gap of a branch.

    Raises:
        ValueError: the chip lacks the operation class, or the latency of a cache that the kernel hits.
    """
    if isinstance(chip, Pipelines):
        if instruction.op not in chip.ops:
            raise ValueError(f"op = {instruction.op!r}: {chip.name} has {', '.join(chip.ops)}")
        op = chip.ops[instruction.op]
        if instruction.ways > 1:
            raise ValueError(f"ways = {instruction.ways}: must be 1 on {chip.name}, where bank conflicts are operation classes")
        return Timing(op.pipeline, op.issue_cycles, op.completion_cycles)
    spent = cost(chip, instruction, float(chip.memory.latency_cycles))
    uses = [*spent.uses, *issue_uses(chip, "issue", spent.slots, spent.reissues)]
    held: dict[str, float] = {}
    for use, number in uses:
        held[use.resource] = held.get(use.resource, 0.0) + use.cycles * number
    issue = max(held.values())
    pipeline = _GLOBAL_MEMORY if instruction.op in MEMORY_OPS else chip.unit_of(instruction.op)
    if instruction.op == WITHOUT_RESULT:
        return Timing(pipeline, issue, issue)
    latency = spent.latency[""]
    return Timing(pipeline, issue, max(latency, spent.gap) if instruction.op == "branch" else latency)


def unit_limits(chip: Chip) -> tuple[int, int, int]:
    """Returns the largest numbers of warps, of groups, and of warps per group on a compute unit."""
    if isinstance(chip, Pipelines):
        return chip.max_warps, chip.max_groups, chip.max_group_warps
    return chip.sm.max_warps, chip.sm.max_blocks, chip.sm.max_block_warps


def configurations(chip: Pipelines) -> list[tuple[int, int]]:
    """Returns the pairs (warps of a group, resident groups) that L IV.A explores.

    Group sizes are powers of two from 32 threads. The local memory of a group determines the number of resident groups, and
    numbers that no allocation gives are left out. This is an assumption; it reproduces the printed numbers of combinations.
    """
    warps, groups, group_warps = unit_limits(chip)
    fit = set(_resident_groups(chip))
    sizes = (2**k for k in range(group_warps.bit_length()))
    return [(size, n) for size in sizes for n in range(1, min(groups, warps // size) + 1) if n in fit]


def _resident_groups(chip: Pipelines) -> Iterator[int]:
    unit = chip.shared_granularity_bytes
    for size in range(unit, chip.max_shared_bytes_per_group + 1, unit):
        yield min(chip.max_groups, chip.shared_bytes // size)

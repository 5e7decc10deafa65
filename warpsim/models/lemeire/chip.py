"""What the pipeline model knows of a chip: the pipelines of a compute unit, and two latencies of each instruction.

L is Lemeire et al., the pipeline performance model. A compute unit is an SM, a group a thread block. The chips of
L are files in params/pipelines; any other chip is seen as L's micro-benchmarks would find it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from warpsim.hardware import files as params
from warpsim.hardware.fields import Count, Name, Positive, StrictModel
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction
from warpsim.kernels.statements import MEMORY_OPS
from warpsim.models.parts.costs import cost, issue_uses

WITHOUT_RESULT = "store"
"""The class of which nothing waits for the completion (L III.C: complete as soon as it has been issued)."""

_GLOBAL_MEMORY = "global memory"


class PipelinesFileError(params.ParamsFileError):
    """All the errors of a file of params/pipelines, a line each."""


class Op(StrictModel):
    """An operation class: its pipeline, its issue latency (L: lambda) and its completion latency (L: Lambda)."""

    pipeline: Name
    issue_cycles: Positive
    completion_cycles: Positive


class Pipelines(StrictModel):
    """A chip in the terms of L: Table I, the latencies of Tables II and III, and how many groups a unit holds."""

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
        """Validate a description, such as a parsed file.

        Raises:
            PipelinesFileError: with every error; each line starts with `source`.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            raise PipelinesFileError(source, params.problems(cls, error)) from None


Chip = Gpu | Pipelines
"""What the pipeline model takes as a chip."""


def list_pipelines() -> list[str]:
    """Return the names of the chips in params/pipelines."""
    return params.list_names("pipelines")


def load_pipelines(name_or_path: str | os.PathLike[str]) -> Pipelines:
    """Load a chip by its name in params/pipelines, or from a file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: there is no such chip or file.
        PipelinesFileError: the file has errors; all of them are listed.
    """
    path = params.resolve("pipelines", name_or_path)
    return Pipelines.from_dict(params.read_toml(path, PipelinesFileError), source=str(path))


class Timing(NamedTuple):
    """An instruction on a chip: its pipeline, and its issue and completion latencies in cycles."""

    pipeline: str
    issue: float
    completion: float


def timing(chip: Chip, instruction: Instruction) -> Timing:
    """Return the two latencies of an instruction (L III.B).

    Of a `Gpu` they are those that a benchmark of many such instructions would find: the issue latency is the
    longest that one holds any resource of the SM (unit, schedulers, share of the memory system), the completion
    latency that of the chip's file, of a branch its gap.

    Raises:
        ValueError: the chip lacks the operation class, or the latency of a cache that is hit.
    """
    if isinstance(chip, Pipelines):
        if instruction.op not in chip.ops:
            raise ValueError(f"op = {instruction.op!r}: {chip.name} has {', '.join(chip.ops)}")
        op = chip.ops[instruction.op]
        if instruction.ways > 1:
            raise ValueError(f"ways = {instruction.ways}: 1 on {chip.name}, whose conflicts are classes of their own")
        return Timing(op.pipeline, op.issue_cycles, op.completion_cycles)
    spent = cost(chip, instruction, float(chip.memory.latency_cycles))
    uses = [*spent.uses, *issue_uses(chip, "issue", spent.slots, spent.reissues)]
    held: dict[str, float] = {}
    for use, number in uses:
        held[use.resource] = held.get(use.resource, 0.0) + use.cycles * number
    issue = max(held.values())
    pipeline = _GLOBAL_MEMORY if instruction.op in MEMORY_OPS else instruction.op
    if instruction.op == WITHOUT_RESULT:
        return Timing(pipeline, issue, issue)
    latency = spent.latency[""]
    return Timing(pipeline, issue, max(latency, spent.gap) if instruction.op == "branch" else latency)


def unit_limits(chip: Chip) -> tuple[int, int, int]:
    """Return the warps, the groups and the warps of a group that a compute unit holds at most."""
    if isinstance(chip, Pipelines):
        return chip.max_warps, chip.max_groups, chip.max_group_warps
    return chip.sm.max_warps, chip.sm.max_blocks, chip.sm.max_block_warps


def configurations(chip: Pipelines) -> list[tuple[int, int]]:
    """Return the (warps of a group, groups at a time) that L IV.A explores.

    Group sizes are powers of two from 32 threads. How many groups are resident is set by the local memory that
    each takes (assumed; it is what makes the printed numbers of combinations come out), so that numbers which no
    allocation gives are left out.
    """
    warps, groups, group_warps = unit_limits(chip)
    fit = set(_resident_groups(chip))
    sizes = (2**k for k in range(group_warps.bit_length()))
    return [(size, n) for size in sizes for n in range(1, min(groups, warps // size) + 1) if n in fit]


def _resident_groups(chip: Pipelines) -> Iterator[int]:
    unit = chip.shared_granularity_bytes
    for size in range(unit, chip.max_shared_bytes_per_group + 1, unit):
        yield min(chip.max_groups, chip.shared_bytes // size)

"""The pipeline model of Lemeire et al.: a compute unit is a few pipelines, and an instruction has two latencies.

Source: J. G. Cornelis, J. Lemeire, The pipeline performance model: a generic executable performance model for GPUs, PDP 2019 (L).
V is Volkov 2016. Both are in docs/bibliography.md.

The issue latency (lambda) is the least time between two independent instructions on their pipeline. The completion latency
(Lambda) is the time until the result can be used. A kernel is its instruction dependence graph (`lemeire.graph`), which
Algorithm 1 executes (`lemeire.events`). Equation 1 is the closed form for a chain of dependent instructions.

Assumptions: An instruction issues as soon as its dependences are complete, in any order within a warp. Pipelines share nothing.
Both latencies are constant. A new group replaces a completed group at once. The paper leaves some rules open; here each
pipeline issues the instruction that has been ready for longest, completions come before issues at equal times, a barrier
completes when all warps of the group have completed it, a branch delays the instructions after it, and nothing waits for a
store.

Limits: The model fails at low occupancy, where the time of a warp alone matters. It leaves out the launch of the next block (it
finds 355 of the 544 cycles of the vector add in V 3.8), ILP latencies and the order of issue (matrix multiplication is 40 % too
fast on Kepler). It fails where the issue rate limits throughput, because Algorithm 1 has no such limit (L IV.A). It reaches the
peak of memory throughput at too low an occupancy, because memory latency grows with the load (L Figure 2: up to 12 % on
average). It fails where the several schedulers of an SM matter (L IV.B). A pipeline that finds no instruction retries one cycle
later, so it may start a fraction of a cycle late if the issue latency is below one cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim import units
from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.lemeire.chip import (
    Chip,
    Pipelines,
    Timing,
    configurations,
    list_pipelines,
    load_pipelines,
    timing,
    unit_limits,
)
from warpsim.models.lemeire.graph import Node, dependence_graph, dependences, draw
from warpsim.models.parts.common import accepts_names, axis, quantity, result

if TYPE_CHECKING:
    from warpsim.models.lemeire.events import Program

__all__ = [
    "LATENCY",
    "Pipelines",
    "Timing",
    "bottleneck",
    "configurations",
    "dependence_graph",
    "draw",
    "equation_1",
    "execution_cycles",
    "execution_time",
    "list_pipelines",
    "load_pipelines",
    "needed_warps",
    "throughput",
    "timing",
]

LATENCY = "latency"
"""Value of `bottleneck` if no pipeline is busy all the time."""

RETRY_CYCLES = 1.0
"""Cycles after which a pipeline that has found no instruction retries (L Algorithm 1)."""

_BUSY = 0.95
_ISSUES = 20_000  # issues in the shorter of two runs, roughly
_MIN_WAVES, _MAX_WAVES = 8, 500


def equation_1(
    issue_cycles: float, completion_cycles: float, *, warps: ArrayLike | xr.DataArray, instructions: int
) -> xr.DataArray:
    """Returns the cycles that W warps of N dependent instructions each take on one pipeline (L equation 1).

    t = N Lambda + (W - 1) lambda if W < Lambda / lambda, otherwise Lambda + (N W - 1) lambda.

    Args:
        issue_cycles: lambda, above 0.
        completion_cycles: Lambda, above 0.
        warps: W, a number or an array of numbers, at least 1.
        instructions: N, at least 1.

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: an argument is out of its range.
    """
    for name, value, least in (("issue_cycles", issue_cycles, 0), ("completion_cycles", completion_cycles, 0)):
        if not value > least:
            raise ValueError(f"{name} = {value!r}: must be above {least}")
    if instructions < 1:
        raise ValueError(f"instructions = {instructions!r}: must be at least 1")
    w = axis("warps", warps, at_least=1)
    few = instructions * completion_cycles + (w - 1) * issue_cycles
    many = completion_cycles + (instructions * w - 1) * issue_cycles
    return quantity(xr.where(w < completion_cycles / issue_cycles, few, many), "cycles", "time of all warps")


@accepts_names
def execution_cycles(
    gpu: Chip,
    kernel: Kernel,
    *,
    groups: int,
    resident_groups: int,
    group_warps: int,
    repetitions: int = 1,
    retry_cycles: float = RETRY_CYCLES,
) -> float:
    """Returns the cycles that one compute unit needs for some groups of warps (L Algorithm 1).

    Args:
        gpu: a `Pipelines`, or a `Gpu`, whose latencies `timing` derives.
        kernel: any kernel that all warps execute alike.
        groups: groups that the unit executes (N of L).
        resident_groups: resident groups (M of L).
        group_warps: warps of a group.
        repetitions: repetitions of an endless loop.
        retry_cycles: cycles after which a pipeline that has found no instruction retries.

    Raises:
        ValueError: a count is below 1, `retry_cycles` is below 1/5040, or the chip lacks an operation class.
        NotCoveredError: warps may take different paths.
    """
    program = _programmed(gpu, kernel, repetitions)
    return _run(program, groups, resident_groups, group_warps, retry_cycles)[0]


@accepts_names
def execution_time(
    gpu: Chip,
    kernel: Kernel,
    *,
    blocks: int,
    warps: int,
    block_warps: int | None = None,
    retry_cycles: float = RETRY_CYCLES,
) -> float:
    """Returns the time of a grid in seconds (L III.D), with ceil(blocks / compute units) groups per unit.

    Args:
        gpu: a `Pipelines` or a `Gpu`.
        kernel: any kernel that all warps execute alike, and that ends.
        blocks: blocks of the whole grid.
        warps: warps per compute unit.
        block_warps: warps of a block; left out, the smallest that divides `warps` within the limits of the chip.
        retry_cycles: as for `execution_cycles`.

    Raises:
        ValueError: the kernel is endless, or `warps` is not a multiple of the block; otherwise as
            `execution_cycles`.
    """
    if kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: must end, but has an endless loop")
    size = _block_warps(gpu, warps, block_warps)
    groups = math.ceil(blocks / _compute_units(gpu))
    cycles = execution_cycles(
        gpu, kernel, groups=groups, resident_groups=int(warps) // size, group_warps=size, retry_cycles=retry_cycles
    )
    return cycles / (gpu.clock_ghz * 1e9)


@accepts_names
def throughput(
    gpu: Chip,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    block_warps: int | None = None,
    retry_cycles: float = RETRY_CYCLES,
) -> xr.Dataset:
    """Returns the throughput of Algorithm 1 in the steady state, at one or several occupancies.

    It is the difference in work of two runs over the difference of their times. One run is twice as long as the other, in
    groups or in repetitions of an endless loop.

    Args:
        gpu: a `Gpu`, or a `Pipelines`.
        kernel: any kernel that all warps execute alike.
        warps: warps per compute unit, whole numbers, at least 1.
        block_warps: as for `execution_time`.
        retry_cycles: as for `execution_cycles`.

    Returns:
        A Dataset over `warps` with `ipc(op)` and `throughput(op)` as from `simulate`, but without the exit; `bandwidth` (only
        for a `Gpu`, since the classes of L have no bytes); `busy(pipeline)`, the fraction of time that each pipeline is busy;
        and `bottleneck`.

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: as `execution_time`.
        NotCoveredError: warps may take different paths.
    """
    occupancy = axis("warps", warps, at_least=0, finite=False)  # each has to be a whole number
    points = [_steady(gpu, kernel, n, block_warps, retry_cycles) for n in occupancy.values.flat]

    def over(values: list[float] | list[str]) -> xr.DataArray:
        return xr.DataArray(np.array(values).reshape(occupancy.shape), dims=occupancy.dims, coords=occupancy.coords)

    ops = dict.fromkeys(op for point in points for op in point.ipc)
    lines = dict.fromkeys(line for point in points for line in point.busy)
    busy = [over([point.busy[line] for point in points]).expand_dims(pipeline=[line]) for line in lines]
    others = {"bottleneck": quantity(over([point.bottleneck for point in points]), "1", "bound that binds")}
    if busy:
        others["busy"] = quantity(xr.concat(busy, "pipeline"), "1", "fraction of time that a pipeline is busy")
    if isinstance(gpu, Gpu):
        gbs = [units.bytes_per_cycle_to_gbs(point.requested_bytes * gpu.sms, gpu.clock_ghz) for point in points]
        others["bandwidth"] = over(gbs)
    return result(gpu, {op: over([p.ipc[op] for p in points]) for op in ops}, others, source="warpsim.models.pipeline, L IV.A")


@accepts_names
def bottleneck(
    gpu: Chip, kernel: Kernel, *, warps: int, block_warps: int | None = None, retry_cycles: float = RETRY_CYCLES
) -> str:
    """Returns the pipeline that is busy for at least 95 % of the time, or "latency" if there is none.

    L IV.C has no number. Even a pipeline that all warps wait for is idle at times, when groups end.

    Arguments and errors are those of `throughput`.
    """
    return _steady(gpu, kernel, warps, block_warps, retry_cycles).bottleneck


@accepts_names
def needed_warps(gpu: Chip, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Returns the warps per compute unit that attain a fraction of the throughput of the busiest pipeline.

    For a chain it is Lambda / lambda, where the two lines of equation 1 meet. For other kernels it is the time of a warp alone
    over its time on the busiest pipeline. Algorithm 1 may need more warps, because they compete for pipelines.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1; otherwise as `throughput`.
        NotCoveredError: warps may take different paths.
    """
    from warpsim.models.lemeire.events import TICKS

    check_fraction(fraction)
    return fraction / max(_steady(gpu, kernel, 1, 1, 1 / TICKS).busy.values())  # pipelines retry at once


@dataclass(frozen=True)
class _Programmed:
    """A dependence graph on a chip, ready to run; `lines` are the names of the pipelines."""

    nodes: list[Node]
    program: Program
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Steady:
    """Rates per cycle and compute unit in the steady state."""

    ipc: dict[str, float]
    busy: dict[str, float]
    requested_bytes: float

    @property
    def bottleneck(self) -> str:
        line = max(self.busy, key=self.busy.__getitem__, default=LATENCY)
        return line if self.busy.get(line, 0.0) >= _BUSY else LATENCY


def _steady(chip: Chip, kernel: Kernel, warps: float, block_warps: int | None, retry_cycles: float) -> _Steady:
    size = _block_warps(chip, warps, block_warps)
    resident = int(warps) // size
    once = _programmed(chip, kernel, 1)
    if not once.nodes:
        raise ValueError(f"kernel = {kernel.name}: must have at least one instruction")
    waves = min(max(_MIN_WAVES, math.ceil(_ISSUES / (len(once.nodes) * warps))), _MAX_WAVES)

    def run(times: int) -> tuple[float, NDArray[np.float64]]:
        if kernel.endless:
            return _run(_programmed(chip, kernel, times), resident, resident, size, retry_cycles)
        return _run(once, times * resident, resident, size, retry_cycles)

    (short, taken_before), (long, taken) = run(waves), run(2 * waves)
    rate = waves * warps / (long - short)  # of warps, or of repetitions
    if kernel.endless:  # both runs execute the instructions before the loop once
        nodes = _programmed(chip, kernel, 2).nodes[len(once.nodes) :]
    else:
        nodes = once.nodes
    ipc: dict[str, float] = {}
    requested = 0.0
    for node in nodes:
        instruction = node.instruction
        ipc[instruction.op] = ipc.get(instruction.op, 0.0) + rate
        if instruction.op in ("load", "store") and instruction.access is not None:
            own = instruction.cost.requested_bytes if instruction.cost else None
            requested += rate * (units.WARP_LANES * instruction.access.bytes_per_thread if own is None else own)
    busy = (taken - taken_before) / (long - short)
    return _Steady(ipc, dict(zip(once.lines, busy.tolist(), strict=True)), requested)


def _programmed(chip: Chip, kernel: Kernel, repetitions: int) -> _Programmed:
    """Unrolls a kernel for a chip."""
    from warpsim.models.lemeire.events import TICKS, Program

    nodes = dependences(kernel, repetitions=repetitions)
    timings = {id(node.instruction): timing(chip, node.instruction) for node in nodes}
    lines = tuple(dict.fromkeys(t.pipeline for t in timings.values()))
    befores = [list(dict.fromkeys(before for before, _ in node.after)) for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    for number, before in enumerate(befores):
        for node in before:
            after[node].append(number)
    own = [timings[id(node.instruction)] for node in nodes]
    program = Program(
        np.array([lines.index(t.pipeline) for t in own], np.int64),
        np.array([max(1, round(t.issue * TICKS)) for t in own], np.int64),
        np.array([max(1, round(t.completion * TICKS)) for t in own], np.int64),
        np.array([node.instruction.op == "barrier" for node in nodes], np.bool_),
        np.array([len(before) for before in befores], np.int64),
        np.cumsum([0, *map(len, after)], dtype=np.int64),
        np.array([number for numbers in after for number in numbers], np.int64),
    )
    return _Programmed(nodes, program, lines)


def _run(
    program: _Programmed, groups: int, resident: int, group_warps: int, retry_cycles: float
) -> tuple[float, NDArray[np.float64]]:
    """Returns the cycles of a run, and the busy cycles of each pipeline."""
    from warpsim.models.lemeire import events as pipeline_events

    for name, value in (("groups", groups), ("resident_groups", resident), ("group_warps", group_warps)):
        if value < 1:
            raise ValueError(f"{name} = {value!r}: must be at least 1")
    retry = round(retry_cycles * pipeline_events.TICKS)
    if retry < 1:
        raise ValueError(f"retry_cycles = {retry_cycles!r}: must be at least 1/{pipeline_events.TICKS}")
    end, taken = pipeline_events.run(
        program.program,
        pipelines=len(program.lines),
        group_warps=group_warps,
        resident=resident,
        groups=groups,
        retry=retry,
    )
    return end / pipeline_events.TICKS, taken / pipeline_events.TICKS


def _compute_units(chip: Chip) -> int:
    return chip.compute_units if isinstance(chip, Pipelines) else chip.sms


def _block_warps(chip: Chip, warps: float, block_warps: int | None) -> int:
    """Returns the warps of a block: as given, or the smallest number that divides `warps` within the limits of the chip."""
    if not float(warps).is_integer() or warps < 1:
        raise ValueError(f"warps = {warps:g}: must be a whole number from 1")
    most_warps, most_groups, most = unit_limits(chip)
    if block_warps is not None:
        if block_warps < 1 or warps % block_warps:
            raise ValueError(f"block_warps = {block_warps!r}: must divide warps = {int(warps)}")
        return block_warps
    fit = [size for size in range(1, most + 1) if warps % size == 0 and warps // size <= most_groups]
    if not fit or warps > most_warps:
        raise ValueError(
            f"warps = {int(warps)}: must be at most {most_warps} on {chip.name},"
            f" in at most {most_groups} blocks of at most {most} warps"
        )
    return fit[0]

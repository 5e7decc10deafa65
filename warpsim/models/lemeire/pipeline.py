"""The pipeline model of Lemeire et al. (L): a compute unit is a few pipelines, an instruction has two latencies.

L is Lemeire et al., the pipeline performance model. The issue latency (lambda) is the least time between two
independent instructions on their pipeline, the completion latency (Lambda) the time until the result can be used.
A kernel is its instruction dependence graph (`pipeline_graph`), and Algorithm 1 runs it (`pipeline_events`).

Assumed: an instruction issues as soon as what it depends on is complete, in any order within a warp; pipelines do
not share anything; both latencies are constants; a group that completes is replaced at once. Where L is silent:
each pipeline takes the instruction that has been ready for longest; at equal times completions come before issues;
a barrier is complete when it is for all warps of the group; a branch delays what follows it, a store nobody.

It fails at low occupancy, where a warp's own time counts: it leaves out the launch of the next block (of the 544 cycles of
the vector add, V 3.8, it finds 355), ILP latencies and the order of issue (matrix multiplication is 40 % too fast on
Kepler). It fails where warps are limited by the number of instructions issued per cycle (Algorithm 1 leaves the limit
out, L IV.A); for memory, whose latency grows with the load, so that the peak is reached too early (L Figure 2: up to 12 %
on average); and where the several schedulers of an SM matter (L IV.B). A pipeline that finds nothing looks again a cycle
later, so that where the issue latency is below one cycle it may start late by a part of a cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim import units
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
from warpsim.models.parts.common import axis, check_fraction, quantity, result

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
"""What `bottleneck` says where no pipeline is taken all the time."""

RETRY_CYCLES = 1.0
"""After how many cycles a pipeline that has found no instruction looks again (L Algorithm 1)."""

_BUSY = 0.95
_ISSUES = 20_000  # that the shorter of two runs aims at
_MIN_WAVES, _MAX_WAVES = 8, 500


def equation_1(
    issue_cycles: float, completion_cycles: float, *, warps: ArrayLike | xr.DataArray, instructions: int
) -> xr.DataArray:
    """Return the time of W warps of N dependent instructions each on one pipeline (L equation 1), in cycles.

    t = N Lambda + (W - 1) lambda if W < Lambda / lambda, otherwise Lambda + (N W - 1) lambda.

    Args:
        issue_cycles: lambda, above 0.
        completion_cycles: Lambda, above 0.
        warps: W, a number or an array of numbers, at least 1.
        instructions: N, at least 1.

    Raises:
        TypeError: `warps` are no numbers.
        ValueError: an argument is out of its range.
    """
    for name, value, least in (("issue_cycles", issue_cycles, 0), ("completion_cycles", completion_cycles, 0)):
        if not value > least:
            raise ValueError(f"{name} = {value!r}: above {least}")
    if instructions < 1:
        raise ValueError(f"instructions = {instructions!r}: at least 1")
    w = axis("warps", warps, at_least=1)
    few = instructions * completion_cycles + (w - 1) * issue_cycles
    many = completion_cycles + (instructions * w - 1) * issue_cycles
    return quantity(xr.where(w < completion_cycles / issue_cycles, few, many), "cycles", "time of all warps")


def execution_cycles(
    chip: Chip,
    kernel: Kernel,
    *,
    groups: int,
    resident_groups: int,
    group_warps: int,
    repetitions: int = 1,
    retry_cycles: float = RETRY_CYCLES,
) -> float:
    """Return the cycles that one compute unit takes for groups of warps (L Algorithm 1).

    Args:
        chip: a `Pipelines`, or a `Gpu` (`timing` says how it is seen).
        kernel: any kernel that all warps execute alike.
        groups: groups that the unit executes (L: N).
        resident_groups: groups at a time (L: M).
        group_warps: warps of a group.
        repetitions: of an endless loop.
        retry_cycles: after which a pipeline that has found no instruction looks again.

    Raises:
        ValueError: a count is below 1, `retry_cycles` is below 1/5040, or the chip lacks an operation class.
        NotCoveredError: warps may take different paths.
    """
    program = _programmed(chip, kernel, repetitions)
    return _run(program, groups, resident_groups, group_warps, retry_cycles)[0]


def execution_time(
    chip: Chip,
    kernel: Kernel,
    *,
    blocks: int,
    warps: int,
    block_warps: int | None = None,
    retry_cycles: float = RETRY_CYCLES,
) -> float:
    """Return the time of a grid, in seconds (L III.D): N = ceil(blocks / units) groups on a unit, by the clock.

    Args:
        chip: a `Pipelines` or a `Gpu`.
        kernel: any kernel that all warps execute alike, and that ends.
        blocks: of the whole grid.
        warps: occupancy, in warps per unit.
        block_warps: warps of a block; left out: the smallest that makes `warps` within the chip's limits.
        retry_cycles: as for `execution_cycles`.

    Raises:
        ValueError: the kernel ends in an endless loop, or `warps` is no multiple of the block; otherwise as
            `execution_cycles`.
    """
    if kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: one that ends")
    size = _block_warps(chip, warps, block_warps)
    groups = math.ceil(blocks / _compute_units(chip))
    cycles = execution_cycles(
        chip, kernel, groups=groups, resident_groups=int(warps) // size, group_warps=size, retry_cycles=retry_cycles
    )
    return cycles / (chip.clock_ghz * 1e9)


def throughput(
    gpu: Chip,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    block_warps: int | None = None,
    retry_cycles: float = RETRY_CYCLES,
) -> xr.Dataset:
    """Return the throughput at an occupancy, or at an array of them: that of Algorithm 1 in the steady state.

    It is the work between the ends of two runs, one twice as long as the other (in groups, or in repetitions of an
    endless loop), over the difference of their times.

    Args:
        gpu: a `Gpu`, or a `Pipelines`.
        kernel: any kernel that all warps execute alike.
        warps: warps per compute unit, whole numbers, at least 1.
        block_warps: as for `execution_time`.
        retry_cycles: as for `execution_cycles`.

    Returns:
        A Dataset over `warps` with `ipc(op)` and `throughput(op)` as from `simulate`, but without the exit;
        `bandwidth` (of a `Gpu` alone: L's classes do not say bytes); `busy(pipeline)`, the fraction of time for
        which each pipeline is taken; and `bottleneck`.

    Raises:
        TypeError: `warps` are no numbers.
        ValueError: as `execution_time`.
        NotCoveredError: warps may take different paths.
    """
    occupancy = axis("warps", warps, at_least=0)
    points = [_steady(gpu, kernel, n, block_warps, retry_cycles) for n in occupancy.values.flat]

    def over(values: list[float] | list[str]) -> xr.DataArray:
        return xr.DataArray(np.array(values).reshape(occupancy.shape), dims=occupancy.dims, coords=occupancy.coords)

    ops = dict.fromkeys(op for point in points for op in point.ipc)
    lines = dict.fromkeys(line for point in points for line in point.busy)
    busy = [over([point.busy[line] for point in points]).expand_dims(pipeline=[line]) for line in lines]
    others = {"bottleneck": quantity(over([point.bottleneck for point in points]), "1", "bound that binds")}
    if busy:
        others["busy"] = quantity(xr.concat(busy, "pipeline"), "1", "fraction of time for which a pipeline is taken")
    if isinstance(gpu, Gpu):
        gbs = [units.bytes_per_cycle_to_gbs(point.requested_bytes * gpu.sms, gpu.clock_ghz) for point in points]
        others["bandwidth"] = over(gbs)
    return result(gpu, {op: over([p.ipc[op] for p in points]) for op in ops}, others, source="warpsim.models.pipeline, L IV.A")


def bottleneck(
    gpu: Chip, kernel: Kernel, *, warps: int, block_warps: int | None = None, retry_cycles: float = RETRY_CYCLES
) -> str:
    """Return the pipeline that is taken for at least 95 % of the time, or "latency" where none is.

    L IV.C calls it the bottleneck without a number; a pipeline that all warps wait for is idle at times, as groups end.

    Arguments and errors are those of `throughput`.
    """
    return _steady(gpu, kernel, warps, block_warps, retry_cycles).bottleneck


def needed_warps(gpu: Chip, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Return the warps per compute unit that attain a fraction of what the busiest pipeline allows.

    Of a chain it is Lambda / lambda, where the two lines of equation 1 meet; of any kernel, likewise, the time of a
    warp alone over the time for which it takes the busiest pipeline. Algorithm 1 may need more, as warps collide.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1; otherwise as `throughput`.
        NotCoveredError: warps may take different paths.
    """
    from warpsim.models.lemeire.events import TICKS

    check_fraction(fraction)
    return fraction / max(_steady(gpu, kernel, 1, 1, 1 / TICKS).busy.values())  # as if the pipelines looked at once


@dataclass(frozen=True)
class _Programmed:
    """A dependence graph on a chip, ready to run; `lines` are the names of the pipelines."""

    nodes: list[Node]
    program: Program
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Steady:
    """Rates per cycle and unit in the steady state."""

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
        raise ValueError(f"kernel = {kernel.name}: at least one instruction")
    waves = min(max(_MIN_WAVES, math.ceil(_ISSUES / (len(once.nodes) * warps))), _MAX_WAVES)

    def run(times: int) -> tuple[float, NDArray[np.float64]]:
        if kernel.endless:
            return _run(_programmed(chip, kernel, times), resident, resident, size, retry_cycles)
        return _run(once, times * resident, resident, size, retry_cycles)

    (short, taken_before), (long, taken) = run(waves), run(2 * waves)
    rate = waves * warps / (long - short)  # of warps, or of repetitions
    if kernel.endless:  # what stands before the loop has happened once, in both
        nodes = _programmed(chip, kernel, 2).nodes[len(once.nodes) :]
    else:
        nodes = once.nodes
    ipc: dict[str, float] = {}
    requested = 0.0
    for node in nodes:
        instruction = node.instruction
        ipc[instruction.op] = ipc.get(instruction.op, 0.0) + rate
        if instruction.op in ("load", "store") and instruction.access is not None:
            requested += rate * units.WARP_LANES * instruction.access.bytes_per_thread
    busy = (taken - taken_before) / (long - short)
    return _Steady(ipc, dict(zip(once.lines, busy.tolist(), strict=True)), requested)


def _programmed(chip: Chip, kernel: Kernel, repetitions: int) -> _Programmed:
    """Return a kernel that is unrolled for a chip."""
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
    """Return the cycles of a run, and those for which each pipeline was taken."""
    from warpsim.models.lemeire import events as pipeline_events

    for name, value in (("groups", groups), ("resident_groups", resident), ("group_warps", group_warps)):
        if value < 1:
            raise ValueError(f"{name} = {value!r}: at least 1")
    retry = round(retry_cycles * pipeline_events.TICKS)
    if retry < 1:
        raise ValueError(f"retry_cycles = {retry_cycles!r}: at least 1/{pipeline_events.TICKS}")
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
    """Return the warps of a block: as given, or the smallest of which a whole number makes `warps`."""
    if not float(warps).is_integer() or warps < 1:
        raise ValueError(f"warps = {warps:g}: a whole number, at least 1, since this model runs warps one by one")
    most_warps, most_groups, most = unit_limits(chip)
    if block_warps is not None:
        if block_warps < 1 or warps % block_warps:
            raise ValueError(f"block_warps = {block_warps!r}: a divisor of warps = {int(warps)}")
        return block_warps
    fit = [size for size in range(1, most + 1) if warps % size == 0 and warps // size <= most_groups]
    if not fit or warps > most_warps:
        raise ValueError(
            f"warps = {int(warps)}: at most {most_warps}, in at most {most_groups} blocks of at most {most} warps, on {chip.name}"
        )
    return fit[0]

"""Simulates a launch: the whole grid where it is short, and otherwise samples of it.

A long launch is sampled, only as far as needed (`sampling.py`). Two samples of different length both hold the start and the end
of a launch; what the longer one has in addition is repeated for the rest of the work. Where no such samples are short enough, the
launch is a sequence of steady windows of an endless kernel with the same mix. With single rounds and with windows the last round
has as many blocks as are left for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels.program import Kernel
from warpsim.results.schema import STATES
from warpsim.results.statistics import half_width
from warpsim.simulation.api import Arrays, simulate_point, trace_point
from warpsim.simulation.endless import endless, whole_bodies_from
from warpsim.simulation.point import Point, make_point
from warpsim.simulation.sampling import ALL_BUT_WINDOWS, FEWEST_SMS, Part, of_sms, per_warp, samples_of
from warpsim.simulation.trace import Trace

REPLICATES = 3
"""Default number of replicates; an interval needs several."""

_RATHER_THAN_WINDOWS = 4
"""Factor of the budget up to which rounds or trips are simulated before windows, which differ most from whole launches."""

_REPEATS = 3
"""Repetitions of an endless kernel in a window, roughly."""

_FEWER_REPEATS = 4
"""Factor by which a window has fewer repetitions, at most, if that keeps the bodies of loops whole."""

_LONGER = 8
"""Factor by which a window is longer, at most, if warps repeat the kernel less than once in it."""

_SHORTEST_WINDOW, _WINDOW_IPC = 20_000, 2
"""Cycles of a window at least, and the instructions per cycle and SM for which the budget is divided."""


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates, and half the width of its 95 % interval; NaN with a single replicate, which has no interval."""

    mean: float
    half_width: float


@dataclass(frozen=True)
class SampledRun:
    """What samples of a launch say of all of it.

    Attributes:
        cycles: from the first block to the last one, float64[replicates].
        instructions: warp instructions per SM, float64[replicates].
        warp_cycles: per SM by state, float64[replicates, states].
        share: share of the launch's instructions that were simulated; 1: all.
        left_out: what was left out, as `sampled_within` knows it -> what was simulated, in words; empty: nothing.
        program: the kernel of the longest sample of the first part.
        line_warp_cycles: of that sample by instruction, int64[replicates, steps, states]; None: they were not asked for.
    """

    cycles: NDArray[np.float64]
    instructions: NDArray[np.float64]
    warp_cycles: NDArray[np.float64]
    share: float
    left_out: Mapping[str, str]
    program: Kernel
    line_warp_cycles: NDArray[Any] | None = None

    def by_state(self, over: NDArray[np.float64]) -> dict[str, Estimate]:
        """Returns the warp cycles per SM of each state that occurs, over a number of each replicate."""
        found = zip(STATES, self.warp_cycles.T, strict=True)
        return {state: estimate(cycles / over) for state, cycles in found if cycles.any()}


_Totals = dict[str, NDArray[np.float64]]


def sampled_run(
    gpu: Gpu, kernel: Kernel, launch: Launch, budget: int, settings: Mapping[str, Any], *, lines: bool = False, threads: int = 1
) -> SampledRun:
    """Simulates a launch with a resolved residency, without the constant cost of a launch.

    Args:
        gpu: the chip.
        kernel: the program.
        launch: a finite grid.
        budget: warp instructions that a replicate simulates at most, roughly.
        settings: further arguments of `make_point`.
        lines: whether to count warp cycles by instruction.
        threads: number of threads.

    Raises:
        ValueError: the chip cannot hold the launch, or an argument is not allowed.
    """
    gpu = gpu.model_copy(update={"grid_launch_cycles": 0})  # the cost is due once, for the whole launch
    samples = samples_of(gpu, kernel, launch, budget) or samples_of(gpu, kernel, launch, budget, _RATHER_THAN_WINDOWS)
    if samples is None:
        return _from_windows(gpu, kernel, launch, budget, settings, lines=lines, threads=threads)
    totals: _Totals = {}
    program, of_lines = kernel, None
    for part in samples.parts:
        chip, runs = gpu if part is samples.parts[0] else _with_warm_constants(gpu), []
        for sample in part.samples:
            point = make_point(
                chip, sample.kernel, launch=launch.model_copy(update={"blocks": sample.blocks}), sms=sample.sms, **settings
            )
            is_longest = sample is samples.parts[0].samples[-1]
            arrays = _simulated(point, lines=lines and is_longest, threads=threads)
            runs.append(_totals(arrays, sample.sms or gpu.sms))
            if is_longest:
                program, of_lines = point.kernel, arrays.get("line_warp_cycles")
        totals = _added(totals, _extended(runs, part))
    whole = (launch.blocks or 1) * launch.block_warps * per_warp(kernel, launch.block_warps)
    simulated = sum(sample.work * (sample.sms or gpu.sms) for part in samples.parts for sample in part.samples)
    return SampledRun(
        **totals, share=min(1.0, simulated / whole), left_out=samples.left_out, program=program, line_warp_cycles=of_lines
    )


def _with_warm_constants(gpu: Gpu) -> Gpu:
    """Returns a chip for a later part of a launch, in which the first warps of an SM find their constants."""
    return gpu.model_copy(update={"core": gpu.core.model_copy(update={"cold_constants": None})})


def _extended(runs: list[_Totals], part: Part) -> _Totals:
    """Returns the totals of a part: what the longer sample has more than the shorter one is repeated."""
    last = part.samples[-1]
    if len(runs) == 1:
        return {name: values * (part.times * part.work / last.work) for name, values in runs[0].items()}
    more = (part.work - last.work) / (last.work - part.samples[0].work)
    return {
        name: part.times * (values + np.maximum(0, values - runs[0][name]) * more) for name, values in runs[1].items()
    }


def _from_windows(
    gpu: Gpu, kernel: Kernel, launch: Launch, budget: int, settings: Mapping[str, Any], *, lines: bool, threads: int
) -> SampledRun:
    """Simulates steady windows: of full rounds of blocks, and of the last round, in which some SMs may have no block."""
    blocks, resident = launch.blocks or 1, launch.resident_blocks or 1
    rounds, rest = divmod(blocks, gpu.sms * resident)
    few = min(gpu.sms, blocks, FEWEST_SMS)
    per_block = launch.block_warps * per_warp(kernel, launch.block_warps)
    cycles = max(_SHORTEST_WINDOW, budget // (2 * few * _WINDOW_IPC))
    warps = resident * launch.block_warps
    factor = _WINDOW_IPC * cycles / warps / _REPEATS / per_warp(kernel, launch.block_warps)
    factor = max(factor, min(whole_bodies_from(kernel), _FEWER_REPEATS * factor))
    program, work_of_warp = endless(kernel, factor), factor * per_warp(kernel, launch.block_warps)
    window = dict(settings) | {"warmup": cycles // 2, "cycles": cycles}
    parts = [(resident, rounds, rounds * resident * per_block, gpu.sms)] if rounds else []
    if rest:
        held = -(-rest // gpu.sms)
        parts.append((held, 1, rest / gpu.sms * per_block, -(-rest // held)))
    totals: _Totals = {}
    of_lines, simulated = None, 0.0
    for number, (held, times, work, busy) in enumerate(parts):
        part = launch.model_copy(update={"blocks": None, "resident_blocks": held})
        sms = min(busy, FEWEST_SMS)
        chip = gpu.model_copy(update={"sms": busy})
        point = make_point(chip, program, launch=part, sms=None if sms == busy else sms, **window)
        arrays = _simulated(point, lines=lines and number == 0, threads=threads)
        repeats = float(arrays["instructions"].sum(axis=1).mean()) / sms / (held * launch.block_warps) / work_of_warp
        if repeats < 1:  # few instructions issue in a cycle, so that a longer window is in the budget
            longer = min(_LONGER, math.ceil(1 / repeats)) if repeats else _LONGER
            point = replace(point, warmup=longer * cycles // 2, cycles=longer * cycles)
            arrays = _simulated(point, lines=lines and number == 0, threads=threads)
        of_lines = arrays.get("line_warp_cycles", of_lines)
        issued = arrays["instructions"].sum(axis=1) / sms
        simulated += float(issued.mean()) * sms
        of_part = {
            "cycles": arrays["cycles"] / issued * times * held * per_block,
            "instructions": np.full_like(issued, work),
            "warp_cycles": arrays["warp_cycles"] / sms * (work / issued)[:, None],
        }
        totals = _added(totals, of_part)
    left_out = of_sms(gpu, few) | {ALL_BUT_WINDOWS: f"windows of {cycles} cycles"}
    share = min(1.0, simulated / (blocks * per_block))
    return SampledRun(**totals, share=share, left_out=left_out, program=program, line_warp_cycles=of_lines)


def _added(totals: _Totals, more: _Totals) -> _Totals:
    return {name: totals.get(name, 0.0) + values for name, values in more.items()}


def _simulated(point: Point, *, lines: bool, threads: int) -> Arrays:
    """Returns the variables of all replicates of a point; `lines`: with the warp cycles of each instruction."""
    return trace_point(point, Trace(states=True), threads)[0] if lines else simulate_point(point, threads)


def _totals(arrays: Mapping[str, NDArray[Any]], sms: int) -> _Totals:
    """Returns totals per SM: cycles, instructions, warp cycles by state; replicate first."""
    return {
        "cycles": arrays["cycles"],
        "instructions": arrays["instructions"].sum(axis=1) / sms,
        "warp_cycles": arrays["warp_cycles"] / sms,
    }


def estimate(values: NDArray[np.float64]) -> Estimate:
    """Returns the mean over replicates with its interval."""
    return Estimate(float(values.mean()), float(half_width(values)))

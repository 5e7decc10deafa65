"""How long a launch takes: what users ask of a kernel and a grid, answered by samples where the grid is large."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsim.arguments import integer
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.hardware.residency import Launch
from warpsim.hardware.whatif import at_clock
from warpsim.kernels.files import kernel_for
from warpsim.kernels.program import Kernel
from warpsim.simulation.point import Point, make_point
from warpsim.simulation.policies import REPLAYED, lists_policies
from warpsim.simulation.predictions import PredictionInterval, is_of_machine_code, prediction_interval
from warpsim.simulation.sampled_run import REPLICATES, Estimate, estimate, sampled_run
from warpsim.simulation.sampling import sampled_within

BUDGET = 30_000_000
"""Warp instructions that a replicate simulates at most, roughly: some seconds."""

_ARGUMENTS = (
    "gpu", "kernel", "blocks", "block_warps", "resident_blocks", "clock_ghz", "scheduler", "memory", "replicates", "seed",
    "budget",
)  # fmt: skip


@dataclass(frozen=True)
class LaunchTime:
    """How long a launch takes, each number with the 95 % interval of the replicates.

    Attributes:
        point: what was asked for, with the residency that follows.
        microseconds: elapsed time of the launch, with its constant cost.
        cycles: the same in cycles of the SMs.
        ipc: warp instructions per cycle and SM.
        warps: mean resident warps of an SM.
        warp_cycles: state -> its share of the warp cycles.
        share: share of the launch's instructions that were simulated; 1: all.
        sampling: what was simulated in place of the whole launch, in words; empty: all of it.
        sampled_within: relative difference from the time of the whole launch that such samples had at most where both were
            simulated; the intervals do not contain it.
        predicted: where a measurement of the time is to be expected, in us, for all errors of the model; None: such kernels, or
            launches as short as this one, have not been compared with measurements.
    """

    point: Point
    microseconds: Estimate
    cycles: Estimate
    ipc: Estimate
    warps: Estimate
    warp_cycles: Mapping[str, Estimate]
    share: float
    sampling: str
    sampled_within: float
    predicted: PredictionInterval | None


@lists_policies
def launch_time(
    gpu: Gpu | str | os.PathLike[str],
    kernel: Kernel | str | os.PathLike[str],
    blocks: int,
    *,
    block_warps: int | None = None,
    resident_blocks: int | None = None,
    clock_ghz: float | None = None,
    scheduler: str = REPLAYED,
    memory: str = Point.memory,
    replicates: int = REPLICATES,
    seed: int = Point.seed,
    budget: int = BUDGET,
    threads: int = 1,
    **arguments: Any,
) -> LaunchTime:
    """Simulates how long a launch takes. Of a large grid, samples are simulated: some SMs, rounds of blocks, or trips of loops.

    Args:
        gpu: the chip: a Gpu from `load_gpu`, or its name or file.
        kernel: the program of every warp: a Kernel from `load_kernel` or a builder, or its name or file.
        blocks: thread blocks of the grid.
        block_warps: warps of a block; may be left out where the kernel states them, as imported ones do.
        resident_blocks: resident blocks of an SM; left out: as many as fit.
        clock_ghz: clock of the SMs, such as that at which a profiler holds them; left out: that of the chip's file.
        scheduler: scheduling policy: {policies}.
        memory: memory model: "queue", "fixed" or "measured".
        replicates: independent repetitions, from which the intervals follow.
        seed: root of all randomness.
        budget: warp instructions that a replicate simulates at most, roughly.
        threads: number of threads. No number depends on it.
        arguments: arguments of the kernel's builder, such as `alpha=32`, if `kernel` is a name or a file.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: an argument's value is not allowed, or the chip cannot hold the launch.
    """
    kernel = kernel_for(kernel, arguments, (*_ARGUMENTS, "threads"))
    blocks, budget, threads = integer("blocks", blocks, 1), integer("budget", budget, 1), integer("threads", threads, 1)
    size = kernel.block_warps if block_warps is None else block_warps
    if size is None:
        raise ValueError("block_warps (--block-warps): must be given, since the kernel does not state the warps of its blocks")
    launch = Launch(blocks=blocks, block_warps=size, resident_blocks=resident_blocks)
    if clock_ghz is not None:
        gpu = at_clock(as_gpu(gpu), clock_ghz)
    settings: dict[str, Any] = {"scheduler": scheduler, "memory": memory, "replicates": replicates, "seed": seed}
    point = make_point(gpu, kernel, launch=launch, **settings)
    gpu = point.gpu
    run = sampled_run(gpu, kernel, point.launch, budget, settings, threads=threads)
    cycles, warp_cycles = run.cycles + gpu.grid_launch_cycles, run.warp_cycles.sum(axis=1)
    microseconds = estimate(cycles / gpu.clock_ghz / 1000)
    return LaunchTime(
        point=point,
        microseconds=microseconds,
        cycles=estimate(cycles),
        ipc=estimate(run.instructions / cycles),
        warps=estimate(warp_cycles / run.cycles),
        warp_cycles=run.by_state(warp_cycles),
        share=run.share,
        sampling=", ".join(run.left_out.values()),
        sampled_within=sampled_within(run.left_out),
        predicted=prediction_interval(microseconds.mean, "source") if is_of_machine_code(kernel) else None,
    )

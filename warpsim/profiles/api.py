"""What users call: `from_profile` reads a launch of a report, and its `replay` simulates it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

from warpsim.arguments import integer
from warpsim.hardware.gpu import Gpu, GpuFileError
from warpsim.hardware.residency import Launch, occupancy
from warpsim.kernels.program import Kernel
from warpsim.profiles.advice import Advice, advise
from warpsim.profiles.chip import chip_of
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.inputs import inputs_of
from warpsim.profiles.kernel import to_kernel
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch, Rule
from warpsim.profiles.measured import Measurements, measurements, warps_of_block
from warpsim.profiles.replay import BUDGET, Replay, replay
from warpsim.profiles.report import read_launch
from warpsim.profiles.whatif import changed
from warpsim.simulation.point import Point
from warpsim.simulation.policies import REPLAYED
from warpsim.simulation.sampled_run import REPLICATES

_POSITIVE = (
    "gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "gpu__time_duration.sum", "gpc__cycles_elapsed.avg.per_second",
    "sm__cycles_elapsed.avg", "device__attribute_multiprocessor_count", "launch__grid_size", "launch__block_size",
)  # fmt: skip
_MOST = 1e18
_CLOCKS = tuple(f"{unit}__cycles_elapsed.avg.per_second" for unit in ("dram", "lts"))
_SLOWEST = 1e6
"""Bounds of what a launch that took place has: a damaged report may state anything. Memories and L2 have clocks of 1 MHz at
least."""


@dataclass(frozen=True)
class Profile:
    """A profiled launch, ready for a simulation.

    Attributes:
        report: path of the report.
        number: of the launch in the report.
        kernel: the program, with the costs of each instruction.
        launch: the grid and its residency.
        gpu: the chip at its measured clocks.
        measured: what the profiler measured.
        code: the instructions with their counters.
        dram_bytes: that the launch moves: those that were measured, unless hit rates are changed.
        rules: what the profiler's own rules say.
        notes: what had to be assumed.
        inputs: counters of the report that the replay takes, in words; all else is predicted.
        profiled: what was read, of which the kernel is made; None: the kernel has been changed since.
        changed: whether this is another launch than the measured one, by `what_if`.
    """

    report: str
    number: int
    kernel: Kernel
    launch: Launch
    gpu: Gpu
    measured: Measurements
    code: tuple[ProfiledInstruction, ...]
    dram_bytes: float
    rules: tuple[Rule, ...]
    notes: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    profiled: ProfiledLaunch | None = None
    changed: bool = False

    def replay(
        self,
        *,
        scheduler: str = REPLAYED,
        memory: str = Point.memory,
        replicates: int = REPLICATES,
        seed: int = Point.seed,
        budget: int = BUDGET,
        lines: bool = False,
        threads: int = 1,
    ) -> Replay:
        """Simulates the launch; a long one is sampled.

        Args:
            scheduler: scheduling policy.
            memory: memory model.
            replicates: independent repetitions, from which the intervals follow.
            seed: root of all randomness.
            budget: warp instructions that a replicate simulates at most, roughly.
            lines: whether to find the warp cycles of each instruction, with a further run.
            threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
                of each are divided as well, with at least 16 SMs to a thread.

        Raises:
            ValueError: the chip cannot hold the launch, or an argument is not allowed.
        """
        return replay(
            self,
            scheduler=scheduler,
            memory=memory,
            replicates=replicates,
            seed=seed,
            budget=budget,
            lines=lines,
            threads=threads,
        )

    def what_if(
        self,
        *,
        resident_blocks: int | None = None,
        block_threads: int | None = None,
        latency: float = 1.0,
        bandwidth: float = 1.0,
        l1_hit: float | None = None,
        l2_hit: float | None = None,
        l1_size: float = 1.0,
        gpu: Gpu | str | None = None,
    ) -> Profile:
        """Returns the launch with changes. What was measured stays, for comparison.

        Args:
            resident_blocks: blocks of an SM.
            block_threads: threads of a block; the same warps are cut into other blocks, of which as many are resident as fit.
                Shared memory is divided in proportion, and the program stays.
            latency: factor of the latency of loads that DRAM serves; no load is faster than those that L2 serves.
            bandwidth: factor of the bandwidth of DRAM.
            l1_hit: share of the sectors of loads from global memory that L1 holds, in place of what was measured. Local loads hit
                at least as often.
            l2_hit: probability with which loads that missed L1 hit L2.
            l1_size: factor of the size of L1. Its misses change by the square root, a rule of thumb for average programs
                (Hartstein et al. 2006), since a profile holds no addresses.
            gpu: another chip that executes the same machine code, at its own clocks: of the same major compute capability, and
                no lower minor one. Hit rates stay those of the profiled chip.

        Raises:
            ProfileError: the chip does not execute the machine code, or a value is not allowed.
            TypeError: a value is of another type.
            ValueError: the chip cannot hold as many blocks.
        """
        return changed(
            self,
            resident_blocks=resident_blocks,
            block_threads=block_threads,
            latency=latency,
            bandwidth=bandwidth,
            l1_hit=l1_hit,
            l2_hit=l2_hit,
            l1_size=l1_size,
            gpu=gpu,
        )

    def advise(
        self,
        *,
        scheduler: str = REPLAYED,
        memory: str = Point.memory,
        replicates: int = REPLICATES,
        seed: int = Point.seed,
        budget: int = BUDGET,
        threads: int = 1,
    ) -> Advice:
        """Returns what limits the launch, what the profiler's rules claim, and what the simulation says each change would gain.

        Of a changed launch, as `what_if` returns it, shares are those of the simulation, as it was not measured.

        Args:
            scheduler: scheduling policy.
            memory: memory model.
            replicates: independent repetitions of each change.
            seed: root of all randomness.
            budget: warp instructions that a replicate simulates at most, roughly.
            threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
                of each are divided as well, with at least 16 SMs to a thread.

        Raises:
            ValueError: the chip cannot hold the launch, or an argument is not allowed.
        """
        return advise(
            self, scheduler=scheduler, memory=memory, replicates=replicates, seed=seed, budget=budget, threads=threads
        )


def from_profile(path: str | os.PathLike[str], launch: int = 0) -> Profile:
    """Reads a launch of an Nsight Compute report: kernel, launch, chip and measurements.

    Args:
        path: the report (.ncu-rep), with at least the sections that `--set full` collects of source counters, launch
            statistics, memory tables and speed of light.
        launch: number of the launch in the report, from 0.

    Raises:
        MissingReaderError: the package ncu-report is not installed.
        ProfileError: the report cannot be read, lacks a section, or holds a kernel that is not supported.
    """
    return profile_of(read_launch(path, integer("launch", launch, 0)))


def profile_of(one: ProfiledLaunch) -> Profile:
    """Returns a launch that was read, ready for a simulation.

    Raises:
        ProfileError: the report lacks a section, or the kernel is not supported.
    """
    for metric in _POSITIVE:
        value = one.metrics.get(metric)
        if isinstance(value, float) and math.isnan(value):
            why = "is no number: the profiler measured nothing of this launch"
            raise ProfileError(f"{one.report}, launch {one.number}: {metric} {why}")
        if isinstance(value, int | float) and not 0 < value < _MOST:
            raise ProfileError(f"{one.report}, launch {one.number}: {metric} = {value:g}: must be above 0 and below {_MOST:g}")
    for metric in _CLOCKS:
        if 0 < (one.get(metric) or 0.0) < _SLOWEST:
            raise ProfileError(
                f"{one.report}, launch {one.number}: {metric} = {one.metrics[metric]:g}: must be {_SLOWEST:g} at least"
            )
    try:
        gpu, of_chip = chip_of(one)
    except GpuFileError as error:
        raise ProfileError(f"{one.report}, launch {one.number}: its counters describe no chip: {error}") from None
    made = to_kernel(one, gpu)
    measured = measurements(one)
    kernel, launch = _launch(one, gpu, made.kernel)
    notes, inputs = (*of_chip, *_of_versions(one), *made.notes), inputs_of(one)
    return Profile(
        one.report, one.number, kernel, launch, gpu, measured, one.code, measured.dram_bytes, one.rules, notes, inputs, one
    )


def _of_versions(one: ProfiledLaunch) -> Iterator[str]:
    """Yields a note where several machine codes agree with a launch."""
    if one.versions > 1:
        yield f"{one.versions} different machine codes of {one.name} agree with the launch: the first in the report is taken"


def _launch(one: ProfiledLaunch, gpu: Gpu, kernel: Kernel) -> tuple[Kernel, Launch]:
    """Returns the launch with as many resident blocks as the profiler states, and the kernel with resources that allow them."""
    warps = warps_of_block(one)
    limits = [
        value
        for resource in ("blocks", "registers", "shared_mem", "warps")
        if (value := one.get(f"launch__occupancy_limit_{resource}")) is not None
    ]
    fits = occupancy(gpu, kernel, warps).blocks
    resident = max(1, round(min(limits, default=fits)))
    if fits < resident:
        smaller = {"registers_per_thread": 1, "shared_bytes_per_block": 0}
        kernel = kernel.model_copy(update=smaller)
        resident = min(resident, occupancy(gpu, kernel, warps).blocks)
    return kernel, Launch(blocks=round(one.need("launch__grid_size")), block_warps=warps, resident_blocks=resident)

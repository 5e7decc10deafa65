"""Simulates a profiled launch (`simulation/sampled_run.py`), and says what it finds in the terms of the profiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import integer
from warpsim.kernels.program import Kernel
from warpsim.kernels.steps import flatten
from warpsim.profiles.encodings import WORD_BYTES
from warpsim.profiles.guards import blocks_with_work
from warpsim.results.schema import STATES
from warpsim.simulation.predictions import PredictionInterval, prediction_interval
from warpsim.simulation.sampled_run import Estimate, SampledRun, estimate, sampled_run
from warpsim.simulation.sampling import sampled_within

if TYPE_CHECKING:
    from warpsim.profiles.api import Profile

BUDGET = 3_000_000
"""Warp instructions that a replicate simulates at most, roughly."""

_LATER = {"barrier": STATES.index("barrier"), "exit": STATES.index("drain")}
"""Class -> the state in which samples have the address of the next instruction."""


@dataclass(frozen=True)
class Line:
    """The warp cycles of an instruction, or of a source line, as shares of those of the launch.

    Attributes:
        shares: state -> the share in each replicate.
    """

    shares: Mapping[str, tuple[float, ...]]

    @property
    def share(self) -> Estimate:
        """The share of all states together."""
        return estimate(np.sum(list(self.shares.values()), axis=0))

    @property
    def states(self) -> dict[str, float]:
        """State -> its share, the mean over replicates."""
        return {state: float(np.mean(values)) for state, values in self.shares.items()}

    def __add__(self, other: Line) -> Line:
        sums = {
            state: tuple(a + b for a, b in zip(self.shares[state], values, strict=True)) if state in self.shares else values
            for state, values in other.shares.items()
        }
        return Line({**self.shares, **sums})


@dataclass(frozen=True)
class Replay:
    """What the simulation says of a launch.

    Attributes:
        cycles: elapsed, with the constant cost of a launch.
        ipc: warp instructions per cycle and SM.
        warps: mean resident warps of an SM that has blocks.
        dram_gbs: DRAM bytes per second, in GB/s; the bytes are those of `Profile.dram_bytes`.
        stalls: state -> warp cycles per issued instruction.
        lines: address of an instruction -> the warp cycles that belong to it; empty where they were not asked for. Cycles in
            which the stores of a warp that ends drain belong to the instruction behind its EXIT, as samples do.
        instructions: simulated over measured instructions of the whole launch.
        share: share of the launch's instructions that were simulated; 1: all.
        sampling: what was left out, in words; empty: nothing.
        sampled_within: relative difference from the cycles of the whole launch that such samples had at most where both were
            simulated; the intervals, which are those of the replicates, do not contain it.
        predicted: where a measurement of the launch's time is to be expected, in us, for all errors of the model; None: launches
            as short as this one have not been compared with measurements.
    """

    cycles: Estimate
    ipc: Estimate
    warps: Estimate
    dram_gbs: Estimate
    stalls: Mapping[str, Estimate]
    instructions: float
    share: float
    sampling: str
    lines: Mapping[int, Line] = field(default_factory=dict)
    sampled_within: float = 0.0
    predicted: PredictionInterval | None = None

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the states in the warp cycles."""
        total = sum(value.mean for value in self.stalls.values())
        return {state: value.mean / total for state, value in self.stalls.items()} if total else {}


def replay(
    profile: Profile,
    *,
    scheduler: str,
    memory: str,
    replicates: int,
    seed: int,
    budget: int = BUDGET,
    lines: bool = False,
    threads: int = 1,
) -> Replay:
    """Simulates a launch, as `Profile.replay` describes.

    Raises:
        ValueError: the chip cannot hold the launch, or an argument is not allowed.
    """
    budget, threads = integer("budget", budget, 1), integer("threads", threads, 1)
    kernel, launch = blocks_with_work(profile.kernel, profile.launch, profile.code)
    profile = replace(profile, kernel=kernel, launch=launch)
    settings = {"scheduler": scheduler, "memory": memory, "replicates": replicates, "seed": seed}
    run = sampled_run(profile.gpu, kernel, launch, budget, settings, lines=lines, threads=threads)
    of_lines = run.line_warp_cycles
    return _result(profile, run, {} if of_lines is None else _of_lines(run.program, of_lines, _end(profile)))


def _end(profile: Profile) -> int:
    """Returns the address of the EXIT by which most warps leave, behind which nothing was executed."""
    executed = [one for one in profile.code if one.executed]
    followed = {one.address - WORD_BYTES for one in executed}
    ends = [one for one in executed if "EXIT" in one.text and one.address not in followed]
    return (max(ends, key=lambda one: one.executed) if ends else executed[-1]).address


def _of_lines(kernel: Kernel, of_lines: NDArray[Any], end: int) -> dict[int, Line]:
    """Returns the warp cycles of the instructions of a kernel, by address, from int64[replicates, steps, states].

    What warps wait at a barrier, or for their stores to drain behind an EXIT, belongs to the instruction after it, as the
    profiler's samples do. The last step of a kernel is the EXIT at `end`.
    """
    cycles: dict[int, NDArray[np.float64]] = {}
    replicates, _, states = of_lines.shape
    none = np.zeros((replicates, states))
    held = none
    for number, step in enumerate(flatten(kernel).steps):
        one, spent = step.instruction, of_lines[:, number].astype(float)
        if one is not None and spent.any() and (one.comment.startswith("0x") or one.op == "exit"):
            address = int(one.comment.partition(" ")[0], 16) if one.comment else end
            later = none.copy()
            if one.op in _LATER:
                later[:, _LATER[one.op]] = spent[:, _LATER[one.op]]
            cycles[address] = cycles.get(address, none) + spent - later + held
            held = later
            if one.op == "exit":
                cycles[address + WORD_BYTES], held = cycles.get(address + WORD_BYTES, none) + later, none
    total = of_lines.sum(axis=(1, 2))
    return {
        address: Line({state: tuple((spent[:, i] / total).tolist()) for i, state in enumerate(STATES) if spent[:, i].any()})
        for address, spent in cycles.items()
        if spent.any()
    }


def _result(profile: Profile, run: SampledRun, lines: Mapping[int, Line]) -> Replay:
    cycles = run.cycles + profile.gpu.grid_launch_cycles
    occupied = min(1.0, (profile.launch.blocks or 1) / profile.gpu.sms)  # share of the SMs that have blocks
    return Replay(
        cycles=estimate(cycles),
        ipc=estimate(run.instructions / cycles),
        warps=estimate(run.warp_cycles.sum(axis=1) / run.cycles / occupied),
        dram_gbs=estimate(profile.dram_bytes / cycles * profile.gpu.clock_ghz),
        stalls=run.by_state(run.instructions),
        instructions=float(run.instructions.mean() * profile.gpu.sms / profile.measured.instructions),
        share=run.share,
        sampling=", ".join(run.left_out.values()),
        lines=lines,
        sampled_within=sampled_within(run.left_out),
        predicted=prediction_interval(float(cycles.mean()) / profile.gpu.clock_ghz / 1000, "report"),
    )

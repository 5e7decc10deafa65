"""Simulates a profiled launch: the whole grid where it is short, and otherwise samples of it.

A long launch is sampled, only as far as needed (`sampling.py`). Two samples of different length both hold the begin and the end
of a launch; what the longer one has in addition is repeated for the rest of the work. Where no such samples are short enough, the
launch is a sequence of steady windows of an endless kernel with the same mix. With single rounds and with windows the last round
has as many blocks as are left for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import integer
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels.program import Kernel
from warpsim.kernels.steps import flatten
from warpsim.profiles.encodings import WORD_BYTES
from warpsim.profiles.endless import endless
from warpsim.profiles.guards import blocks_with_work
from warpsim.profiles.sampling import ALL_BUT_WINDOWS, FEWEST_SMS, Part, Sample, of_sms, per_warp, sampled_within, samples_of
from warpsim.results.schema import STATES
from warpsim.results.statistics import half_width
from warpsim.simulation.api import Arrays, simulate_point, trace_point
from warpsim.simulation.point import Point, make_point
from warpsim.simulation.trace import Trace

if TYPE_CHECKING:
    from warpsim.profiles.api import Profile

REPLICATES = 3
"""Default number of replicates; an interval needs several."""

BUDGET = 3_000_000
"""Warp instructions that a replicate simulates at most, roughly."""

_REPEATS = 3
"""Repetitions of an endless kernel in a window, at least roughly."""

_LATER = {"barrier": STATES.index("barrier"), "exit": STATES.index("drain")}
"""Class -> the state in which samples have the address of the next instruction."""

_SHORTEST_WINDOW, _WINDOW_IPC = 20_000, 2
"""Cycles of a window at least, and the instructions per cycle and SM for which the budget is divided."""


@dataclass(frozen=True)
class Estimate:
    """A mean over replicates, and half the width of its 95 % interval; NaN with a single replicate, which has no interval."""

    mean: float
    half_width: float


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
        return _estimate(np.sum(list(self.shares.values()), axis=0))

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
    threads = integer("threads", threads, 1)
    kernel, launch = blocks_with_work(profile.kernel, profile.launch, profile.code)
    profile = replace(profile, kernel=kernel, launch=launch)
    gpu = profile.gpu.model_copy(update={"launch_microseconds": 0.0})  # the cost is added once, to the whole launch
    settings: dict[str, Any] = {"scheduler": scheduler, "memory": memory, "replicates": replicates, "seed": seed}
    samples = samples_of(gpu, profile.kernel, launch, budget)
    if samples is None:
        return _from_windows(profile, budget, settings, lines=lines, threads=threads)
    totals: dict[str, NDArray[np.float64]] = {}
    found: dict[int, Line] = {}
    for part in samples.parts:
        runs = []
        for sample in part.samples:
            point = _point(gpu, launch, sample, settings)
            with_lines = lines and sample is samples.parts[0].samples[-1]
            arrays = _simulated(point, lines=with_lines, threads=threads)
            runs.append(_totals(arrays, sample.sms or gpu.sms))
            found = _of_lines(point.kernel, arrays["line_warp_cycles"], _end(profile)) if with_lines else found
        of_part = _extended(runs, part)
        totals = {name: totals.get(name, 0.0) + values for name, values in of_part.items()}
    whole = (launch.blocks or 1) * launch.block_warps * per_warp(profile.kernel)
    simulated = sum(sample.work * (sample.sms or gpu.sms) for part in samples.parts for sample in part.samples)
    return replace(_result(profile, totals, samples.left_out, simulated / whole), lines=found)


def _extended(runs: list[dict[str, NDArray[np.float64]]], part: Part) -> dict[str, NDArray[np.float64]]:
    """Returns the totals of a part: what the longer sample has more than the shorter one is repeated."""
    last = part.samples[-1]
    if len(runs) == 1:
        return {name: values * (part.times * part.work / last.work) for name, values in runs[0].items()}
    more = (part.work - last.work) / (last.work - part.samples[0].work)
    return {
        name: part.times * (values + np.maximum(0, values - runs[0][name]) * more) for name, values in runs[1].items()
    }


def _from_windows(profile: Profile, budget: int, settings: Mapping[str, Any], *, lines: bool, threads: int) -> Replay:
    """Simulates steady windows: of full rounds of blocks, and of the last round, in which some SMs may have no block."""
    gpu, launch, kernel = profile.gpu, profile.launch, profile.kernel
    blocks, resident = launch.blocks or 1, launch.resident_blocks or 1
    rounds, rest = divmod(blocks, gpu.sms * resident)
    few = min(gpu.sms, blocks, FEWEST_SMS)
    per_block = launch.block_warps * per_warp(kernel)
    cycles = max(_SHORTEST_WINDOW, budget // (2 * few * _WINDOW_IPC))
    warps = resident * launch.block_warps
    program = endless(kernel, _WINDOW_IPC * cycles / warps / _REPEATS / per_warp(kernel))
    window = dict(settings) | {"warmup": cycles // 2, "cycles": cycles}
    parts = [(resident, rounds, rounds * resident * per_block, gpu.sms)] if rounds else []
    if rest:
        held = -(-rest // gpu.sms)
        parts.append((held, 1, rest / gpu.sms * per_block, -(-rest // held)))
    totals: dict[str, NDArray[np.float64]] = {}
    found: dict[int, Line] = {}
    simulated = 0.0
    for number, (held, times, work, busy) in enumerate(parts):
        part = launch.model_copy(update={"blocks": None, "resident_blocks": held})
        sms = min(busy, FEWEST_SMS)
        chip = gpu.model_copy(update={"sms": busy})
        point = make_point(chip, program, launch=part, sms=None if sms == busy else sms, **window)
        with_lines = lines and number == 0
        arrays = _simulated(point, lines=with_lines, threads=threads)
        found = _of_lines(program, arrays["line_warp_cycles"], _end(profile)) if with_lines else found
        issued = arrays["instructions"].sum(axis=1) / sms
        simulated += float(issued.mean()) * sms
        passes = work / issued
        of_part = {
            "cycles": arrays["cycles"] / issued * times * held * per_block,
            "instructions": np.full_like(issued, work),
            "warp_cycles": arrays["warp_cycles"] / sms * passes[:, None],
        }
        totals = {name: totals.get(name, 0.0) + values for name, values in of_part.items()}
    left_out = of_sms(gpu, few) | {ALL_BUT_WINDOWS: f"windows of {cycles} cycles"}
    return replace(_result(profile, totals, left_out, simulated / (blocks * per_block)), lines=found)


def _point(gpu: Gpu, launch: Launch, sample: Sample, settings: Mapping[str, Any]) -> Point:
    """Returns what to simulate of a sample."""
    part = launch.model_copy(update={"blocks": sample.blocks})
    return make_point(gpu, sample.kernel, launch=part, sms=sample.sms, **settings)


def _simulated(point: Point, *, lines: bool, threads: int) -> Arrays:
    """Returns the variables of all replicates of a point; `lines`: with the warp cycles of each instruction."""
    return trace_point(point, Trace(states=True), threads)[0] if lines else simulate_point(point, threads)


def _totals(arrays: Mapping[str, NDArray[Any]], sms: int) -> dict[str, NDArray[np.float64]]:
    """Returns totals per SM: cycles, instructions, warp cycles by state; replicate first."""
    return {
        "cycles": arrays["cycles"],
        "instructions": arrays["instructions"].sum(axis=1) / sms,
        "warp_cycles": arrays["warp_cycles"] / sms,
    }


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


def _result(profile: Profile, totals: Mapping[str, NDArray[np.float64]], left_out: Mapping[str, str], share: float) -> Replay:
    clock = profile.gpu.clock_ghz
    cycles = totals["cycles"] + profile.gpu.launch_cost_cycles
    issued = totals["instructions"]
    measured = profile.measured
    occupied = min(1.0, (profile.launch.blocks or 1) / profile.gpu.sms)  # share of the SMs that have blocks
    states = {
        state: _estimate(totals["warp_cycles"][:, index] / issued)
        for index, state in enumerate(STATES)
        if totals["warp_cycles"][:, index].any()
    }
    return Replay(
        cycles=_estimate(cycles),
        ipc=_estimate(issued / cycles),
        warps=_estimate(totals["warp_cycles"].sum(axis=1) / totals["cycles"] / occupied),
        dram_gbs=_estimate(profile.dram_bytes / cycles * clock),
        stalls=states,
        instructions=float(issued.mean() * profile.gpu.sms / measured.instructions),
        share=min(1.0, share),
        sampling=", ".join(left_out.values()),
        sampled_within=sampled_within(left_out),
    )


def _estimate(values: NDArray[np.float64]) -> Estimate:
    return Estimate(float(values.mean()), float(half_width(values)))

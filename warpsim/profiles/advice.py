"""Advice on a profiled launch: what limits it, what the profiler's rules claim, and what the simulation says of each change."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from warpsim.hardware.residency import occupancy
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.whatif import with_instructions
from warpsim.profiles.replay import BUDGET
from warpsim.profiles.roofline import of_chip, roofline
from warpsim.profiles.whatif import with_hits
from warpsim.simulation.point import Point
from warpsim.simulation.policies import POLICIES, REPLAYED
from warpsim.simulation.sampled_run import REPLICATES
from warpsim.units import LINE_BYTES

if TYPE_CHECKING:
    from warpsim.profiles.api import Profile
    from warpsim.profiles.launch import ProfiledInstruction, Rule
    from warpsim.profiles.replay import Replay
    from warpsim.simulation.sampled_run import Estimate

_MATRICES = re.compile(r"\.M88\.(\d)")
"""Matrices of 128 bytes that an instruction moves (LDSM, STSM), in its text."""

_WORD_BITS = 32

_HARDLY = 0.02
"""A gain below this share of the time is called none."""


@dataclass(frozen=True)
class Gain:
    """What a change gains.

    Attributes:
        change: in words.
        who: who can make it: "launch" (its configuration), "program", or "machine" (no user can, it shows what limits).
        cycles: simulated, with the change.
        speedup: simulated cycles as it is over those with the change.
        half_width: half the width of the 95 % interval of `speedup`, of independent runs; NaN with a single replicate.
    """

    change: str
    who: str
    cycles: Estimate
    speedup: float
    half_width: float


@dataclass(frozen=True)
class Advice:
    """Advice on a launch.

    Attributes:
        bounds: resource -> its share of the measured cycles, the busiest first; 1: nothing else can matter. The constant cost
            of a launch belongs to none. Of a changed launch: of the simulated cycles.
        states: state -> share of the measured warp cycles, the largest first; of a changed launch, and where states were not
            collected, of the simulated ones.
        limit: what limits the launch, in a sentence.
        rules: what the profiler's rules claim, the largest estimate first.
        base: the launch as it is, simulated as the changes are.
        gains: of each change, the largest first.
    """

    bounds: dict[str, float]
    states: dict[str, float]
    limit: str
    rules: tuple[Rule, ...]
    base: Replay
    gains: tuple[Gain, ...]


def advise(
    profile: Profile,
    *,
    scheduler: str = REPLAYED,
    memory: str = Point.memory,
    replicates: int = REPLICATES,
    seed: int = Point.seed,
    budget: int = BUDGET,
    threads: int = 1,
) -> Advice:
    """Simulates a launch as it is and with each of several changes.

    Raises:
        ValueError: an argument is not allowed, or the chip cannot hold the launch.
    """
    settings = {"memory": memory, "replicates": replicates, "seed": seed, "budget": budget, "threads": threads}
    base = profile.replay(scheduler=scheduler, **settings)  # type: ignore[arg-type]
    gains = []
    for words, who, changed, policy in _changes(profile, scheduler):
        one = changed.replay(scheduler=policy, **settings)  # type: ignore[arg-type]
        ratio = base.cycles.mean / one.cycles.mean
        spread = math.hypot(base.cycles.half_width / base.cycles.mean, one.cycles.half_width / one.cycles.mean)
        gains.append(Gain(words, who, one.cycles, ratio, ratio * spread))
    gains.sort(key=lambda one: -one.speedup)
    cycles = base.cycles.mean if profile.changed else profile.measured.cycles
    needed = {name: value - profile.gpu.grid_launch_cycles for name, value in roofline(profile).items()} | of_chip(profile)
    bounds = {name: value / cycles for name, value in sorted(needed.items(), key=lambda one: -one[1])}
    shares = base.shares if profile.changed else profile.measured.shares or base.shares
    states = dict(sorted(shares.items(), key=lambda one: -one[1]))
    rules = tuple(sorted(profile.rules, key=lambda one: -(one.speedup or 0.0)))
    limit = _limit(bounds, states, gains, "simulated" if profile.changed else "measured")
    return Advice(bounds, states, limit, rules, base, tuple(gains))


def _limit(bounds: dict[str, float], states: dict[str, float], gains: list[Gain], cycles: str = "measured") -> str:
    """Returns what limits a launch: its busiest resource, its longest wait, and what of the machine would help most."""
    name, share = next(iter(bounds.items()))
    busy = f"The busiest resource is {name}, which is needed for {100 * share:.0f} % of the {cycles} cycles"
    waits = [f"{state} {100 * part:.0f} %" for state, part in states.items() if state != "selected"][:2]
    stalls = f"warps wait mostly in {' and '.join(waits)}" if waits else "stall reasons were not collected"
    of_machine = [one for one in gains if one.who == "machine" and one.speedup > 1 + _HARDLY]
    helps = f"of the machine, {of_machine[0].change} would help most" if of_machine else "no change of the memory would help"
    return f"{busy}; {stalls}; {helps}."


def _changes(profile: Profile, scheduler: str) -> Iterator[tuple[str, str, Profile, str]]:
    """Yields changes of a launch: words, who can make it, the changed launch and its policy."""
    launch, kernel, gpu = profile.launch, profile.kernel, profile.gpu
    held, threads = launch.resident_blocks or 1, launch.block_warps * 32
    seats = min(gpu.sm.max_blocks, gpu.sm.max_warps // launch.block_warps)
    if held < seats:
        free = kernel.model_copy(update={"registers_per_thread": 1, "shared_bytes_per_block": 0})
        most = min(seats, 2 * held, occupancy(gpu, free, launch.block_warps).blocks)
        more = launch.model_copy(update={"resident_blocks": most})
        words = f"{most} resident blocks in place of {held} (fewer registers or less shared memory)"
        yield words, "program", replace(profile, kernel=free, launch=more), scheduler
    if held > 1:
        yield f"{held // 2} resident blocks in place of {held}", "launch", profile.what_if(resident_blocks=held // 2), scheduler
    sizes = [threads // 2] if launch.block_warps % 2 == 0 else []
    for other in (*sizes, threads * 2):
        try:
            cut = profile.what_if(block_threads=other)
        except ValueError:  # no such block fits
            continue
        yield f"blocks of {other} threads in place of {threads}", "launch", cut, scheduler
    for words, changed in (
        ("shared memory without bank conflicts", _without_conflicts(kernel, profile.code)),
        ("loads and stores in as few lines as their bytes need", _coalesced(kernel)),
    ):
        if changed != kernel:
            yield words, "program", replace(profile, kernel=changed), scheduler
    yield "all loads hit L1", "machine", replace(profile, kernel=with_hits(kernel, l1_hit=1.0)), scheduler
    yield "all loads hit L2", "machine", profile.what_if(l2_hit=1.0), scheduler
    yield "half the latency of DRAM", "machine", profile.what_if(latency=0.5), scheduler
    yield "DRAM of twice the bandwidth", "machine", profile.what_if(bandwidth=2.0), scheduler
    for policy in POLICIES:
        if policy != scheduler:
            yield f"scheduling policy {policy} in place of {scheduler}", "machine", profile, policy


def _without_conflicts(kernel: Kernel, code: Sequence[ProfiledInstruction]) -> Kernel:
    """Returns a kernel whose accesses to shared memory take as few passes as they need."""
    least = {one.address: _least_passes(one) for one in code}

    def edit(one: Instruction) -> Instruction:
        return one if one.op != "smem" else _at_most(one, least[int(one.comment.split()[0], 16)], {})

    return with_instructions(kernel, edit)


def _least_passes(one: ProfiledInstruction) -> Fraction:
    """Returns the passes of an access to shared memory without conflicts, as the profiler counts them, or of 128 bytes each."""
    ideal = one.counts.get("memory_l1_wavefronts_shared_ideal")
    if ideal and one.executed:
        return Fraction(round(4 * ideal / one.executed), 4)
    matrices = _MATRICES.search(one.text)
    words = int(matrices[1]) if matrices else math.ceil(one.counts.get("memory_access_size_type", _WORD_BITS) / _WORD_BITS)
    return Fraction(max(1, words))


def _coalesced(kernel: Kernel) -> Kernel:
    """Returns a kernel whose loads and stores move the bytes that their threads ask for, in as few lines as these need."""

    def edit(one: Instruction) -> Instruction:
        cost = one.cost
        if one.op not in ("load", "store") or cost is None or not cost.requests or not cost.bytes_per_request:
            return one
        lines = max(1, math.ceil((cost.requested_bytes or LINE_BYTES) / LINE_BYTES))
        if lines >= cost.requests:
            return one
        bytes_of = min(cost.requests * cost.bytes_per_request, float(lines * LINE_BYTES))
        fields: dict[str, object] = {"requests": lines, "bytes_per_request": bytes_of / lines, "port_sectors": None}
        return _at_most(one, lines, fields)

    return with_instructions(kernel, edit)


def _at_most(one: Instruction, passes: int | Fraction, fields: dict[str, object]) -> Instruction:
    """Returns an instruction that makes so many passes at most."""
    if one.cost is None or one.cost.passes is None:
        return one
    fields["passes"] = min(one.cost.passes, Fraction(passes))
    return one.model_copy(update={"cost": one.cost.model_copy(update=fields)})

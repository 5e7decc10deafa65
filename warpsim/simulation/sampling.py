"""Which samples of a launch are simulated where all of it would take too long, and how well such samples do.

First, some SMs stand for all. Then two samples of different length are run: with some rounds of blocks, and where that is too
long, of a single round, with fewer trips of the kernel's outer loops.

Of few rounds, one that is not full is run by itself. The SMs of a chip share such a last round evenly: their active cycles in the
reports differ by no more than those of a block. In the simulation the blocks of an SM stay in step, so that some SMs would take
several of the last blocks, and others none; in a part of its own they are dealt out.

Some SMs do not stand for all where the memory is full of stores that no loads hold back, or of stores in a few rounds of blocks
(docs/validity.md). With fewer trips, a kernel may become one of the former, as its stores stand behind the loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels.costs import access_transactions
from warpsim.kernels.iteration import MOST_STORES, stores_for_each_load
from warpsim.kernels.program import Kernel
from warpsim.kernels.traversal import expected_executions, expected_instructions
from warpsim.simulation.endless import shortened, without_exits
from warpsim.simulation.point import FEW_ROUNDS
from warpsim.units import ACCESS_KINDS

FEWEST_SMS = 6
"""SMs of a sample, at least."""

_SHORTER = 0.3
"""Trips of the shorter of two samples over those of the longer one."""

_MOST_COMMON = 0.6
"""Work of the shorter of two samples over that of the longer one, at most: they must differ enough."""

_SMS, _ROUNDS, _TRIPS, ALL_BUT_WINDOWS = "SMs", "rounds", "trips", "all but windows"
_DIFFERENCES = {_SMS: 0.034, _ROUNDS: 0.009, _TRIPS: 0.148, ALL_BUT_WINDOWS: 0.16}
"""What is left out -> largest relative difference in cycles between samples and whole launches, of 13, 2, 4 and 5 that were
compared (experiments/profiles)."""

_FEWEST_ROUNDS = 6
"""Rounds of blocks of the longer of two samples, at least; the shorter one has half of them. The first rounds of a launch, in
which all blocks are alike, are slower than those that follow."""


_MUCH_OF_DRAM = 0.25
"""Time that DRAM needs, over that of the schedulers, from which on a launch may saturate it."""

_FEW_STORES = 0.25
"""Stores for each load of DRAM up to which some SMs stand for all in a few rounds of blocks as well."""

_RATHER_THAN_TRIPS = 3
"""How much more is simulated rather than fewer trips, which differ most from whole launches."""

_MOST_RATHER_THAN_TRIPS = 60_000_000
"""Warp instructions that are simulated rather than fewer trips, at most: some seconds."""

_MORE = 8
"""How much more of the whole chip is simulated than of some SMs, where these do not stand for all."""


@dataclass(frozen=True)
class Sample:
    """What one run simulates: SMs, blocks, and a kernel with fewer trips; `work` is its warp instructions per SM."""

    sms: int | None
    blocks: int
    kernel: Kernel
    work: float


@dataclass(frozen=True)
class Part:
    """A part of a launch that is sampled by itself.

    Attributes:
        samples: one, or a shorter and a longer one.
        work: warp instructions per SM up to which the samples are extended.
        times: how often the part is executed.
    """

    samples: tuple[Sample, ...]
    work: float
    times: int = 1


@dataclass(frozen=True)
class Samples:
    """What to simulate of a launch.

    Attributes:
        parts: its parts, which follow one another.
        left_out: what is left out, as `sampled_within` knows it -> what is simulated, in words.
    """

    parts: tuple[Part, ...]
    left_out: Mapping[str, str]


def samples_of(gpu: Gpu, kernel: Kernel, launch: Launch, budget: int, times: int = 1) -> Samples | None:
    """Returns what to simulate: fewer SMs, then fewer rounds of blocks, then fewer trips; None: all of this is too long.

    Args:
        gpu: the chip.
        kernel: the program.
        launch: a finite grid.
        budget: warp instructions of a sample at most, roughly.
        times: factor of the budget where some SMs stand for all, and for rounds and trips; the whole chip has no more.
    """
    blocks, warps, resident = launch.blocks or 1, launch.block_warps, launch.resident_blocks or 1
    per_block = warps * per_warp(kernel, warps)
    sms, part, most = gpu.sms, blocks, 2 * budget * _MORE
    budget *= times
    if some_sms_do(gpu, kernel, blocks / (gpu.sms * resident)):
        sms, part = _some_sms(gpu, blocks, resident, blocks * per_block, budget)
        most = 2 * budget

    sample = partial(_sample, gpu, sms, warps, kernel)
    left_out = of_sms(gpu, sms)
    wave = sms * resident
    in_step = resident > 1 and part <= _FEWEST_ROUNDS * wave
    of_rounds = [part // wave * wave, part % wave] if in_step else [part]
    all_blocks = Samples(tuple(Part((one,), one.work) for one in map(sample, filter(None, of_rounds))), left_out)
    if part * per_block <= most:
        return all_blocks
    longer = max(_FEWEST_ROUNDS, int(2 * budget / (wave * per_block)))
    counts = [(rounds - (part % wave > 0)) * wave + part % wave for rounds in (longer // 2, longer)]
    if part > counts[1] and counts[1] * per_block <= 4 * budget:
        some = left_out | {_ROUNDS: f"{longer} of {part / wave:.3g} rounds of blocks"}
        return Samples((Part((sample(counts[0]), sample(counts[1])), sample(part).work),), some)
    if part * per_block <= min(_RATHER_THAN_TRIPS * 2 * budget, _MOST_RATHER_THAN_TRIPS):
        return all_blocks
    return _fewer_trips(gpu, kernel, launch, budget, gpu.sms, blocks) or _fewer_trips(gpu, kernel, launch, budget, sms, part)


def _fewer_trips(gpu: Gpu, kernel: Kernel, launch: Launch, budget: int, sms: int, blocks: int) -> Samples | None:
    """Returns rounds of blocks with fewer trips of the outer loops; None: they have too few.

    The whole chip comes first, as its memory system is that of the launch from the first cycle on: the echoes of a slice know
    its first accesses only.
    """
    warps, wave = launch.block_warps, sms * (launch.resident_blocks or 1)
    per_block = warps * per_warp(kernel, warps)

    parts = []
    for count, times in ((wave, blocks // wave), (blocks % wave, 1)):
        if not count or not times:
            continue
        programs = [shortened(kernel, share * min(1.0, budget / (count * per_block))) for share in (_SHORTER, 1.0)]
        kept = [_sample(gpu, sms, warps, program, count) for program in programs if program is not None]
        if sms < gpu.sms and not all(some_sms_do(gpu, sample.kernel) for sample in kept):
            return None
        if len(kept) < len(programs) or kept[1].work > 2 * budget / sms or kept[0].work > _MOST_COMMON * kept[1].work:
            return None
        parts.append(Part(tuple(kept), _sample(gpu, sms, warps, kernel, count).work, times))
    return Samples(tuple(parts), of_sms(gpu, sms) | {_TRIPS: "fewer trips of the outer loops"})


def _sample(gpu: Gpu, sms: int, warps: int, program: Kernel, blocks: int) -> Sample:
    """Returns the sample of so many blocks of so many warps on some SMs of a chip."""
    return Sample(None if sms == gpu.sms else sms, blocks, program, blocks * warps * per_warp(program, warps) / sms)


def of_sms(gpu: Gpu, sms: int) -> dict[str, str]:
    """Returns `left_out` of a plan that simulates so many SMs of a chip."""
    return {_SMS: f"{sms} of {gpu.sms} SMs"} if sms < gpu.sms else {}


def _some_sms(gpu: Gpu, blocks: int, resident: int, work: float, budget: int) -> tuple[int, int]:
    """Returns how many SMs to simulate, and their blocks: as many rounds as on the chip, and nearly their share of the grid."""
    if work <= budget or blocks < gpu.sms:
        return gpu.sms, blocks
    most = max(min(gpu.sms, FEWEST_SMS), min(gpu.sms, int(budget * gpu.sms / work)))
    rounds = -(-blocks // (gpu.sms * resident))

    def part(sms: int) -> int:
        nearest = max(1, round(blocks * sms / gpu.sms))
        return nearest if -(-nearest // (sms * resident)) == rounds else -(-blocks * sms // gpu.sms)

    def error(sms: int) -> float:
        share = blocks * sms / gpu.sms
        return round(abs(share - part(sms)) / share, 3)

    sms = min(range(max(min(gpu.sms, FEWEST_SMS), most * 3 // 4), most + 1), key=lambda n: (error(n), -n))
    return sms, part(sms)


def per_warp(kernel: Kernel, block_warps: int) -> float:
    """Returns the expected instructions of a warp, with its exit, where blocks have so many warps."""
    return expected_instructions(without_exits(kernel.body), block_warps) + 1


def some_sms_do(gpu: Gpu, kernel: Kernel, rounds: float = FEW_ROUNDS) -> bool:
    """Returns whether some SMs, with echoes for the others, can stand for all in so many rounds of blocks."""
    most = _FEW_STORES if rounds < FEW_ROUNDS else MOST_STORES
    return stores_for_each_load(kernel) <= most or dram_demand(gpu, kernel) <= _MUCH_OF_DRAM


def dram_demand(gpu: Gpu, kernel: Kernel) -> float:
    """Returns the time in which DRAM moves the bytes of a kernel, over that in which all schedulers issue its instructions."""
    instructions = moved = 0.0
    for instruction, times in expected_executions(without_exits(kernel.body), kernel.block_warps):
        instructions += times
        access, kind = instruction.access, ACCESS_KINDS.get(instruction.op)
        found = access_transactions(gpu, instruction) if kind is not None else None
        if found is not None:
            beyond = 1.0 if access is None else (1 - access.l2_hit) * (1 - access.l1_hit if kind == "load" else 1.0)
            moved += times * beyond * found.requests * found.bytes_per_request
    return moved / gpu.bandwidth_bytes_per_cycle * gpu.issue_ipc * gpu.sms / max(instructions, 1.0)


def sampled_within(left_out: Mapping[str, str]) -> float:
    """Returns the relative difference in cycles from the whole launch within which samples lay that left out as much."""
    return math.hypot(*(_DIFFERENCES[what] for what in left_out))

"""A walk of the accesses of a launch through its L1 and L2 caches, which tells how often each instruction hits.

The blocks of the chip, or of a few SMs, run together as residency allows, and their warps make accesses in the order of time.
L1 is that of an SM: write-through, with allocation by stores, and bypassed by atomics. L2 is the share of the chip's that
belongs to so many SMs; a store hits it if it overwrites what has been stored before, since then it adds nothing to what is
written to memory. If it has halves, what an SM loads from the other half is copied to its own. Both replace the line that was
used longest ago. L1 fetches single sectors, and L2 pairs. A sector that is on its way is hit, and late. Where a coalescer stands
before L2, an SM that reads what another one of its GPC reads just then has L2 read it once. A launch begins with an
empty L2; what L2 still holds of its stores at the end, DRAM does not see.

Local memory is that of the resident warps: those of the next block take it over. Its stores are written through as well: profiles
of an RTX 3050 Ti, an RTX 3080 and an L4 count as many sectors written from L1 to L2 as stored, though nearly all hit L1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.caches.excerpt import Excerpt
from warpsim.frontends.caches.timing import NO_TIMES, Times, Timing, times_of
from warpsim.frontends.execution.local_memory import REGION_BITS
from warpsim.hardware import files as params
from warpsim.hardware.architectures import newest_up_to, number_of
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Residency, Resources, occupancy
from warpsim.units import SECTOR_BYTES

CACHED, BYPASS_L1, STORE = 0, 1, 2
"""Kinds of accesses: a load through L1, an access that L1 never serves, and a store."""

LOCAL = 4
"""Bit of the kinds CACHED and STORE of accesses to local memory."""

_COLUMNS, _BEYOND_L2, _LATE_OF_HITS = 8, 4, ((5, 1), (6, 3))
"""Counts of `compiled_walk.walk`; the place of the sectors that miss L1 and L2; those of the cycles for which hits in L1, and in
L2, are late, with those of these hits."""


_MOST_PHASES = 256
"""Parts of a program in which blocks can be at the same time."""


@dataclass(frozen=True)
class Hits:
    """How often the accesses of an instruction hit.

    Attributes:
        l1: share of the accesses that L1 serves in full.
        l2: of the others, the share whose missing sectors are all in L2.
        sectors: mean number of sectors of an access that memory moves, or L2 if hardly any access gets further.
        kept: of a store, the share of what L2 has taken in that it still holds at the end of the launch.
        l1_late, l2_late: cycles for which what L1 serves, or L2, is still on its way, on average.
        coalesced: share of the sectors missing in L1 that L2 reads for another SM of the GPC at the same time.
    """

    l1: float
    l2: float
    sectors: float
    kept: float = 0.0
    l1_late: float = 0.0
    l2_late: float = 0.0
    coalesced: float = 0.0


@dataclass(frozen=True)
class Caches:
    """The caches of a launch on a chip.

    Attributes:
        resident: resident blocks of an SM.
        sms: SMs of the chip.
        l1_bytes: what shared memory leaves of an SM's unified data cache.
        l2_bytes: L2 of the chip.
        ways: lines of a set; see params/caches.toml.
        halves: of L2: 2 if each copies what its own SMs read.
        gpc_sms: SMs of a GPC, of which reads of L2 are coalesced.
        window: cycles for which later reads of the same sectors go with one of L2; 0: none does.
        times: of the chip; without them, warps make accesses in turn, and all data is there at once.
    """

    resident: int
    sms: int
    l1_bytes: int
    l2_bytes: int
    ways: int = 16
    halves: int = 1
    gpc_sms: int = 1
    window: int = 0
    times: Times = NO_TIMES


@dataclass(frozen=True)
class Accesses:
    """The accesses of some blocks, in the order of each warp's program.

    Attributes:
        addresses: int64[calls, groups * threads of a block]: global addresses, or local ones as of the first warp of a chip;
            negative: the thread does not access.
        place: int64[calls]: number of the instruction.
        kind: int64[calls]: CACHED, BYPASS_L1 or STORE, perhaps with the bit LOCAL.
        width: int64[calls]: bytes of a thread.
        timing: when they are made.
        block_warps: warps of a block; threads are those of whole warps.
        group: int64[blocks]: in the order in which blocks start, the group of `addresses` whose addresses a block has.
        index: int64[blocks, 3]: block index relative to the group's.
        step: int64[calls, 3]: by how much addresses grow with the block index.
        moved: int64[blocks, calls]: by how much further the addresses of a call are in a block.
        left: int64[calls]: how many further ones are left out before each call; None: none are.
    """

    addresses: NDArray[np.int64]
    place: NDArray[np.int64]
    kind: NDArray[np.int64]
    width: NDArray[np.int64]
    block_warps: int
    group: NDArray[np.int64]
    index: NDArray[np.int64]
    step: NDArray[np.int64]
    moved: NDArray[np.int64]
    timing: Timing
    left: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.group) == len(self.index) == len(self.moved):
            raise ValueError("group, index and moved: must have a row for each block")
        if self.moved.shape[1] != len(self.place):
            raise ValueError("moved: must have a column for each call")


@dataclass(frozen=True)
class ListedAccesses:
    """The accesses of the warps of some blocks, warp after warp.

    Attributes:
        lines, masks: int64[n]: lines of 128 bytes, one access after another, and masks of their sectors.
        first: int64[accesses + 1]: where each access begins in `lines`.
        place: int64[accesses]: number of the instruction.
        kind: int64[accesses]: CACHED, BYPASS_L1 or STORE.
        warp_first: int64[warps + 1]: where the accesses of each warp begin.
        block_warps: warps of a block.
    """

    lines: NDArray[np.int64]
    masks: NDArray[np.int64]
    first: NDArray[np.int64]
    place: NDArray[np.int64]
    kind: NDArray[np.int64]
    warp_first: NDArray[np.int64]
    block_warps: int


@dataclass(frozen=True)
class OtherSize:
    """A chip of which it is known how many SMs and how much L2 it has; the rest of its caches is as in a chip like it.

    Attributes:
        like: that chip, or its name; None: that which stands for the architecture.
        sms: SMs of the chip.
        l2_bytes: its L2.
    """

    like: Gpu | str | None
    sms: int
    l2_bytes: int


@dataclass(frozen=True)
class _Source:
    """Whose caches are those of a launch: the chip, the architecture of which L1 is, and the chip whose L2 it is."""

    chip: Gpu
    l1_of: str
    l2_of: str


def _source(arch: int, gpu: Gpu | str | None) -> _Source | None:
    """Returns whose caches are taken; None where those of the architecture are not known. The arguments are those of `caches_of`.

    A chip that is named has the L1 of its own architecture, or that of the code where its own is not known.
    """
    table = _table()
    known = [name for name in table if name.startswith("sm_")]
    named = load_gpu(gpu) if isinstance(gpu, str) else gpu
    own = None if named is None else newest_up_to(number_of(named.architecture), known)
    l1_of = own or newest_up_to(arch, known)
    if l1_of is None:
        return None
    stands = table[l1_of]["chip"]
    chip = named or load_gpu(stands)
    return _Source(chip, l1_of, chip.name if chip.name in table["l2_mib"] else stands)


def notes_of_caches(arch: int, gpu: Gpu | str | OtherSize | None = None) -> Iterator[str]:
    """Yields what had to be assumed of the caches of a launch; the arguments are those of `caches_of`, or "none" for no hits."""
    l2_is_known = isinstance(gpu, OtherSize)
    gpu = gpu.like if isinstance(gpu, OtherSize) else gpu
    source = None if gpu == "none" else _source(arch, gpu)
    if source is None:
        if gpu != "none":
            yield f"the caches of sm_{arch} are not known: no access hits"
        return
    name = source.chip.name
    if gpu is not None and number_of(source.chip.architecture) != number_of(source.l1_of):
        yield f"the L1 cache of {name} is not known: that of {source.l1_of} stands for it"
    if source.l2_of != name and not l2_is_known:
        mib = _table()["l2_mib"][source.l2_of]
        yield f"the L2 cache of {name} is not known: that of {source.l2_of}, {mib} MiB, stands for it"


def caches_of(arch: int, resources: Resources, block_warps: int, gpu: Gpu | str | OtherSize | None = None) -> Caches | None:
    """Returns the caches of a launch; None where the architecture's are not known, or not even one block fits.

    Args:
        arch: compute capability times ten.
        resources: registers and shared memory of the kernel.
        block_warps: warps of a block.
        gpu: the chip; None: that which stands for the architecture in params/caches.toml; "none": there are no caches.
    """
    if isinstance(gpu, OtherSize):
        found = caches_of(arch, resources, block_warps, gpu.like)
        return None if found is None else replace(found, sms=gpu.sms, l2_bytes=gpu.l2_bytes)
    source = None if gpu == "none" else _source(arch, gpu)
    if source is None:
        return None
    table, chip = _table(), source.chip
    facts = table[source.l1_of]
    if block_warps > chip.sm.max_block_warps or not (residency := occupancy(chip, resources, block_warps)).blocks:
        return None
    mib = table["l2_mib"][source.l2_of]
    of_block = (resources.shared_bytes_per_block + chip.sm.shared_overhead_bytes) / 1024
    l1 = max(facts["unified_kib"] - _set_aside(facts, of_block, residency), 4) * 1024
    halves = 2 if source.l2_of in table["l2_in_halves"] else 1
    coalescer = table["coalescers"].get(chip.name, {"gpcs": chip.sms, "window_cycles": 0})
    gpc_sms = -(-chip.sms // coalescer["gpcs"])
    window, l2 = coalescer["window_cycles"], round(mib * 2**20)
    return Caches(residency.blocks, chip.sms, l1, l2, table["ways"], halves, gpc_sms, window, times_of(chip))


def _set_aside(facts: Mapping[str, Any], of_block: float, residency: Residency) -> int:
    """Returns how many KiB of the unified data cache a driver sets aside for shared memory, of which a block takes so many."""
    sizes: list[int] = facts["shared_kib"]
    limits = residency.limits
    by_warps = [min(times * limits["warps"], limits["blocks"]) for times in (facts["counted_times"], 1)]
    if min(limits["warps"], limits["registers"]) == 1:
        by_warps = [1]
    counted = next((blocks for blocks in by_warps if blocks * of_block <= sizes[-1]), residency.blocks)
    return next((kib for kib in sizes if kib >= counted * of_block), sizes[-1])


@cache
def _table() -> Mapping[str, Any]:
    return params.read_toml(params.params_dir() / "caches.toml")


def hits(
    accesses: Accesses | ListedAccesses,
    caches: Caches,
    sms: int,
    blocks: int,
    of_block: Excerpt | None = None,
    *,
    complete: bool = True,
) -> dict[int, Hits]:
    """Walks accesses through the caches; returns instruction -> hits.

    The last wave of the walked blocks, if there are several, stands for all later ones of the launch, too.

    Args:
        accesses: of blocks, which the SMs take in turn.
        caches: those of the chip.
        sms: SMs that share the blocks.
        blocks: blocks of the whole launch, which decides how much of L2 belongs to these SMs.
        of_block: what is known of a block beside the accesses that are walked; None: they are all that it makes.
        complete: whether it is known which share of a block's accesses is walked, on which it depends what a launch leaves in L2.
    """
    of_block = Excerpt.of_equal(len(accesses.place)) if of_block is None else of_block
    share = min(1.0, sms * caches.resident / min(blocks, caches.sms * caches.resident))
    line = _table()["line_bytes"]
    l1_sets, l2_sets = (max(1, round(size / (line * caches.ways))) for size in (caches.l1_bytes, share * caches.l2_bytes))
    from warpsim.frontends.caches.compiled_walk import walk  # numba takes a while to load

    none, no_rows, times = np.zeros(0, np.int64), np.zeros((2, 0), np.int64), caches.times
    if isinstance(accesses, Accesses):
        rows = np.arange(len(accesses.place))
        of_threads = accesses.addresses, rows, accesses.kind, accesses.width, accesses.block_warps
        given = *of_threads, accesses.group, accesses.index, accesses.step, accesses.moved, no_rows, none, none
        walked, timing = len(accesses.group), accesses.timing
    else:
        rows, nothing = accesses.place, np.zeros((0, 3), np.int64)
        of_rows = no_rows, rows, accesses.kind, none, accesses.block_warps, none, nothing, nothing, nothing
        given = *of_rows, np.stack([accesses.lines, accesses.masks]), accesses.first, accesses.warp_first
        walked = (len(accesses.warp_first) - 1) // accesses.block_warps
        times, timing = NO_TIMES, Timing.in_turn(int(np.diff(accesses.warp_first).max(initial=0)))
    furthest = int((timing.arrives - np.arange(len(timing.arrives))).max(initial=0)) + 1
    left = np.zeros(len(timing.spent), np.int64)
    if isinstance(accesses, Accesses) and accesses.left is not None:
        left[:-1] = accesses.left
    order = timing.spent, timing.arrives, timing.lead, timing.barriers, furthest, of_block.more, left, _since_gaps(left)
    sizes = ((l1_sets, caches.ways), (l2_sets, caches.ways))
    latencies = times.l1, times.l2, np.array(times.memory, np.int64)
    starts = float(times.launch_interval), times.warp_launch, times.block_launch, times.barrier
    wave = min(sms * caches.resident, walked)
    first = max(wave, walked - wave)
    window = 0 if times is NO_TIMES else caches.window  # accesses in turn are at no times
    stays = of_block.stays_in(l1_sets * caches.ways, caches.resident)
    phases = 1 if stays else min(max(1, round(1.0 / of_block.part)), _MOST_PHASES)
    shape = sms, caches.resident, sizes, caches.halves, (caches.gpc_sms, window), 1 << REGION_BITS
    walked_counts = np.zeros((2, int(rows.max(initial=-1)) + 1, _COLUMNS))
    walk(given, order, (*shape, latencies, *starts), (of_block.to_the_end, phases), first, walked_counts)
    later = max(1.0, (share * blocks - first) / (walked - first)) if walked > first else 0.0
    counts = walked_counts[0] + later * walked_counts[1]
    if isinstance(accesses, Accesses):
        counts = _by_instruction(counts, accesses.place, of_block.stands_for)
    stores = np.unique(accesses.place[accesses.kind & ~LOCAL == STORE])
    kept = np.zeros(len(counts))
    if complete:
        kept[stores] = _kept(counts[:, _BEYOND_L2], stores, caches, (first + later * (walked - first)) / blocks)
    return {place: _summary(row, kept[place]) for place, row in enumerate(counts) if row[0] > 0}


def _by_instruction(
    counts: NDArray[np.float64], place: NDArray[np.int64], stands_for: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the sums of the counts of calls by instruction, a row each; a call may stand for several.

    For how long data is on its way is the mean of all calls alike: from trip to trip, blocks that wait for the same data fall
    more and more into step, since nothing else delays them in the walk as it does on a chip.
    """
    found, alike = np.zeros((2, int(place.max(initial=-1)) + 1, _COLUMNS))
    np.add.at(found, place, stands_for[:, None] * counts)
    np.add.at(alike, place, counts)
    for late, hit in _LATE_OF_HITS:
        found[:, late] = alike[:, late] * found[:, hit] / np.maximum(1.0, alike[:, hit])
    return found


def _since_gaps(left: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each call before which some are left out the first of those that tell what these are like.

    They are those behind the last gap that is as long, so that a gap in a loop does not hide what stands before it.
    """
    since = np.zeros(len(left), np.int64)
    gaps: list[int] = []  # each longer than those behind it
    for call in np.flatnonzero(left).tolist():
        while gaps and left[gaps[-1]] < left[call]:
            gaps.pop()
        since[call] = gaps[-1] if gaps else 0
        gaps.append(call)
    return since


def _kept(sectors: NDArray[np.float64], stores: NDArray[np.int64], caches: Caches, share: float) -> float:
    """Returns the share of what a launch stores that L2 still holds at its end: what came last stays, loads and stores alike.

    An L2 of two halves holds what is loaded in the half of its address, and every other time in that of the SM, too.

    Args:
        sectors: float64[instructions]: of accesses that L2 did not have.
        stores: those of the instructions that store.
        caches: those of the chip.
        share: part of the launch that makes these accesses.
    """
    stored = float(sectors[stores].sum())
    copied = stored + (caches.halves + 1) / 2 * (float(sectors.sum()) - stored)
    return min(1.0, share * caches.l2_bytes / (SECTOR_BYTES * copied)) if copied else 0.0


def _summary(row: NDArray[np.float64], kept: float) -> Hits:
    warps, in_l1, beyond_l1, in_l2, beyond_l2, late_in_l1, late_in_l2, together = row.tolist()
    left = warps - in_l1
    l1_late, l2_late = late_in_l1 / max(1.0, in_l1), late_in_l2 / max(1.0, in_l2)
    if left <= 0:
        return Hits(1.0, 1.0, 0.0, kept, l1_late)
    further = left - in_l2
    few = further < 0.02 * left
    sectors = beyond_l1 / left if few else beyond_l2 / further
    return Hits(in_l1 / warps, in_l2 / left, sectors, kept, l1_late, l2_late, together / max(1.0, beyond_l1))

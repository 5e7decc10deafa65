"""What becomes of the accesses of a profiled kernel: hits, the bytes that DRAM moves, and the sectors that L2 takes in.

Hit rates and bytes of DRAM are known of a kernel as a whole. L2's rates hold for all of its accesses alike. Of L1's hits, as many
as possible are in sectors that a load brought before which asked for a part of their bytes only, since some thread of the block
mostly asks for the others: loads hit by the share of such bytes. The hits that are left are spread over all others alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsim.kernels.access import port_sectors
from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch, how_to_collect
from warpsim.profiles.measured import ELAPSED
from warpsim.units import LINE_BYTES, SECTOR_BYTES, WARP_LANES

SECTORS = LINE_BYTES // SECTOR_BYTES
"""Of a line."""

_STORES = 4
SECTORS_BY_INSTRUCTION, _IN_SUM = "memory_l2_theoretical_sectors_global", "l1tex__t_sectors_pipe_lsu_mem_global_op"
"""Sectors of accesses to global memory: the counter of an instruction, and the beginning of those of all loads or stores."""

_OF_LOADS_FROM_L2, _OF_BOTH = "l1tex__m_xbar2l1tex_read_sectors_mem_lg_op_ld.sum", "lts__t_sectors_srcunit_tex.sum"
_OF_STORES_TO_L2 = "lts__t_sectors_srcunit_tex_op_write.sum", "l1tex__m_l1tex2xbar_write_sectors_mem_lg_op_st.sum"
"""Counters of sectors between L1 and L2: that loads brought, of loads and stores together, and that stores sent."""

READERS = "lrc__average_xbar2gpc_sectors_op_read.ratio"
"""SMs to which a sector goes that L2 reads, on average: its request coalescer joins reads of SMs of one GPC."""

_PASSES = "l1tex__data_pipe_lsu_wavefronts"
"""Beginning of the counters of passes in the data stage of L1, of which an SM makes one a cycle at most."""

_WITH_OTHERS = 4.0
"""Bytes that DRAM reads over those that L2 missed of the SMs, from which on others read, such as a display. For a sector that is
missed, DRAM can read its neighbour, too."""

_MOST_EXCESS = 2.0
"""Largest ratio of bytes that DRAM moved to those that missed: longer bursts than what was asked for."""


@dataclass(frozen=True)
class Traffic:
    """What becomes of the accesses of a kernel.

    Attributes:
        l1_hit: share of the sectors of loads that L1 holds.
        asked_hit: the same of a sector all of whose bytes a load asks for.
        spare_hit: the same as far as it does not ask for them.
        load_l2_hit: share of the others that L2 holds.
        store_l2_hit: share of the sectors of stores that DRAM does not see.
        load_excess: bytes that DRAM read over those that missed.
        store_excess: the same of writes.
        load_merged: sectors of loads that came from L2 over those that missed L1.
        store_merged: sectors of stores that came to L2 over those that the instructions asked for.
        line_miss: share of the lines of loads that L1 had to ask L2 for.
        load_sectors: sectors of a load, on average, where the report does not count them by instruction; otherwise 0.
        store_sectors: the same of a store.
        line_sectors: sectors of a line that L1 asks L2 for.
        local_hit: share of the sectors of local loads that L1 holds; local stores are written through.
        coalesced: share of the reads of L2 that those of other SMs serve as well.
    """

    l1_hit: float
    asked_hit: float
    spare_hit: float
    load_l2_hit: float
    store_l2_hit: float
    load_excess: float
    store_excess: float
    load_merged: float
    store_merged: float
    line_miss: float
    load_sectors: float = 0.0
    store_sectors: float = 0.0
    line_sectors: float = float(SECTORS)
    local_hit: float = 1.0
    coalesced: float = 0.0

    def loaded(self, sectors: float, lines: float, asked: float) -> tuple[float, float, float]:
        """Returns what a load moves: its probability to find all in L1, and otherwise the lines and bytes that it asks L2 for.

        A load waits for all of its lines. Lines side by side, as many as its bytes need, hit or miss together, and beyond
        that each by itself. A line misses where one of its sectors does, so that more lines miss than sectors.

        Args:
            sectors: of an execution.
            lines: over which they are spread.
            asked: bytes that its threads read.
        """
        spare = max(0.0, 1.0 - asked / (sectors * SECTOR_BYTES))
        l1_hit = spare * self.spare_hit + (1.0 - spare) * self.asked_hit
        line_miss = min(1.0, self.line_miss * (1.0 - l1_hit) / (1.0 - self.l1_hit)) if self.l1_hit < 1.0 else self.line_miss
        apart = max(1.0, lines / max(1.0, asked / LINE_BYTES))
        hit = (1.0 - line_miss) ** apart
        if hit == 1.0:
            return 1.0, lines, sectors * SECTOR_BYTES
        asked_for = (1.0 - l1_hit) * sectors * self.load_merged / (1.0 - hit)
        return hit, line_miss * lines / (1.0 - hit), asked_for * SECTOR_BYTES * self.load_excess

    def stored(self, sectors: float, lines: float, asked: float) -> tuple[float, float]:
        """Returns the bytes that a store moves, and the sectors that L2 takes in, with one more for a line written in part.

        Args:
            sectors: of an execution.
            lines: over which they are spread.
            asked: bytes that its threads write.
        """
        moved = sectors * self.store_merged * SECTOR_BYTES * self.store_excess
        return moved, port_sectors(sectors, asked, lines) * self.store_merged


def traffic(launch: ProfiledLaunch, l1_hit: float | None = None, l1_misses: float = 1.0) -> Traffic:
    """Returns hit probabilities with which DRAM moves the bytes that it moved.

    L2's own hit rates are not used: they count writes as hits, and on chips with two halves the traffic between them.

    Args:
        launch: the launch.
        l1_hit: another share of the sectors of loads that L1 holds; lines miss in proportion, and L2's rates stay. Local loads
            hit at least as often. None: that of the launch.
        l1_misses: factor of the misses of L1, those of local loads too.
    """
    loads = stores = lines = spare = 0.0
    for one in launch.code:
        sectors = one.counts.get(SECTORS_BY_INSTRUCTION, 0.0)
        if is_store(one):
            stores += sectors
        else:
            loads += sectors
            lines += one.counts.get("memory_l1_tag_requests_global", 0.0)
            spare += max(0.0, sectors - asked_bytes(one) / SECTOR_BYTES)
    of_load = of_store = 0.0
    if not loads and not stores:
        (loads, of_load), (stores, of_store) = _counted_in_sum(launch, "ld"), _counted_in_sum(launch, "st")
    measured = hit_rate_of_l1(launch) or 0.0
    of_local, local_stores = (launch.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{kind}.sum") or 0.0 for kind in ("ld", "st"))
    local_missed = min(of_local, launch.get("l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum") or 0.0)
    read, written = _read_by_sms(launch), launch.need("dram__bytes_write.sum")
    requests, of_requests = (launch.get(f"lts__t_{what}_srcunit_tex_op_read.sum") for what in ("requests", "sectors"))
    fetched, came = launch.get(_OF_LOADS_FROM_L2), launch.get(*_OF_STORES_TO_L2)
    readers = max(1.0, launch.get(READERS) or 1.0)  # L2's own counters see reads that are joined once
    load_merged = _share_of(None if fetched is None else fetched - local_missed, loads * (1 - measured))
    missed = (loads * (1 - measured) * load_merged + local_missed) * SECTOR_BYTES
    of_both = launch.get(_OF_BOTH)
    if of_both is not None:
        came = min(of_both - missed / SECTOR_BYTES / readers, came if came else of_both)
    store_merged = _share_of(came, stores + local_stores)
    stored = (stores + local_stores) * store_merged * SECTOR_BYTES
    rate = _with_misses(measured if l1_hit is None else l1_hit, l1_misses)
    local_rate = max(1 - local_missed / of_local if of_local else 1.0, l1_hit or 0.0)
    asked_hit, spare_hit = _hits(rate, loads, spare)
    asked_for = (requests or 0.0) * readers - local_missed / SECTORS
    line_miss = min(1.0, max(0.0, asked_for) / lines) if requests and lines else 1 - measured
    if rate != measured:
        line_miss = min(1.0, line_miss * (1 - rate) / (1 - measured)) if measured < 1 else 1 - rate
    of_loads, of_stores = read / missed if missed else 0.0, written / stored if stored else 0.0
    return Traffic(
        l1_hit=rate,
        asked_hit=asked_hit,
        spare_hit=spare_hit,
        load_l2_hit=1 - min(1.0, of_loads),
        store_l2_hit=1 - min(1.0, of_stores),
        load_excess=min(_MOST_EXCESS, max(1.0, of_loads)),
        store_excess=min(_MOST_EXCESS, max(1.0, of_stores)),
        load_merged=load_merged,
        store_merged=store_merged,
        line_miss=line_miss,
        load_sectors=of_load,
        store_sectors=of_store,
        line_sectors=min(SECTORS, max(1.0, of_requests / requests)) if requests and of_requests else SECTORS,
        local_hit=_with_misses(local_rate, l1_misses),
        coalesced=1 - 1 / readers,
    )


def _read_by_sms(launch: ProfiledLaunch) -> float:
    """Returns the bytes that the SMs have DRAM read: where others read most of what is read, those that L2 missed of the SMs."""
    read, missed = launch.need("dram__bytes_read.sum"), launch.get("lts__t_sectors_srcunit_tex_lookup_miss.sum")
    of_sms = read if missed is None else missed * SECTOR_BYTES
    return of_sms if read > _WITH_OTHERS * of_sms else read


def hit_rate_of_l1(launch: ProfiledLaunch) -> float | None:
    """Returns the share of the sectors of loads from global memory that L1 holds; None: the report does not tell."""
    asked = launch.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    hits = launch.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum")
    if asked and hits is not None:
        return min(1.0, hits / asked)
    percent = launch.get("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", "l1tex__t_sector_hit_rate.pct")
    return None if percent is None else min(1.0, percent / 100)


def passes_of_l1(launch: ProfiledLaunch) -> float | None:
    """Returns the passes of all accesses to global and local memory in the data stage of L1; None: the report does not tell."""
    shared, passes = (launch.get(f"{_PASSES}{of}.sum") for of in ("_mem_shared", ""))
    if passes is None:
        share, cycles = launch.get(f"{_PASSES}.avg.pct_of_peak_sustained_elapsed"), launch.get(*ELAPSED)
        sms = launch.get("device__attribute_multiprocessor_count")
        passes = share / 100 * cycles * sms if share and cycles and sms else None
    return None if passes is None or shared is None else max(0.0, passes - shared)


def counts_of_sectors(launch: ProfiledLaunch) -> str:
    """Returns how the report counts sectors of accesses to global memory: "by instruction", "in sum", or not at all: ""."""
    if any(one.counts.get(SECTORS_BY_INSTRUCTION) for one in launch.code):
        return "by instruction"
    return "in sum" if launch.get(*(f"{_IN_SUM}_{kind}.sum" for kind in ("ld", "st"))) else ""


def missing_accesses(launch: ProfiledLaunch, loads: bool, stores: bool) -> Iterator[str]:
    """Yields what is not known of the accesses of a launch to global memory, what is taken instead, and how to collect it.

    Args:
        launch: the launch.
        loads: whether it loads.
        stores: whether it stores.
    """
    counted = any(SECTORS_BY_INSTRUCTION in one.counts for one in launch.code)
    in_sum = launch.get(f"{_IN_SUM}_ld.sum", f"{_IN_SUM}_st.sum") is not None
    if (loads or stores) and not counted and not in_sum:
        how = how_to_collect(SECTORS_BY_INSTRUCTION)
        yield f"sectors of loads and stores are missing: loads are taken as hits of L1, stores as whole lines in L2; {how}"
    elif loads and hit_rate_of_l1(launch) is None:
        yield f"L1's hit rate of loads is missing and is taken as 0: {how_to_collect(f'{_IN_SUM}_ld.sum')}"


def asked_bytes(one: ProfiledInstruction) -> float:
    """Returns the bytes for which all executions of an instruction ask."""
    width = (one.counts.get("memory_access_size_type") or 32.0) / 8
    return width * one.counts.get("thread_inst_executed_true", float(WARP_LANES * max(1, one.executed)))


def known_between_caches(launch: ProfiledLaunch) -> bool:
    """Returns whether a report counts the sectors that L1 and L2 send each other."""
    counters = (_OF_LOADS_FROM_L2, *_OF_STORES_TO_L2, _OF_BOTH)
    return any(launch.get(counter) is not None for counter in counters)


def _with_misses(hit: float, factor: float) -> float:
    """Returns a hit rate with as many times the misses."""
    return hit if factor == 1.0 else max(0.0, 1.0 - (1.0 - hit) * factor)


def _hits(l1_hit: float, sectors: float, spare: float) -> tuple[float, float]:
    """Returns `asked_hit` and `spare_hit` of loads of so many sectors, of which so many are brought and not asked for."""
    hits = l1_hit * sectors
    if spare == 0.0:
        return l1_hit, l1_hit
    if hits <= spare:
        return 0.0, hits / spare
    return (hits - spare) / (sectors - spare), 1.0


def _share_of(part: float | None, whole: float) -> float:
    """Returns the share of a part, at most 1; 1 where the part is not known."""
    return min(1.0, part / whole) if part is not None and part > 0 and whole else 1.0


def _counted_in_sum(launch: ProfiledLaunch, kind: str) -> tuple[float, float]:
    """Returns the sectors of all loads or stores, and those of one on average; zeros: the report does not tell."""
    sectors, requests = (launch.get(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{kind}.sum") for what in ("sectors", "requests"))
    return (sectors, sectors / requests) if sectors and requests else (0.0, 0.0)


def l2_store_gbs(launch: ProfiledLaunch) -> float | None:
    """Returns the rate at which L2 takes in stores, a sector in a cycle of each slice; None: the report does not tell."""
    slices, clock = launch.get("device__attribute_l2s_count"), l2_clock(launch)
    return slices * SECTOR_BYTES * clock if slices and clock else None


def l2_clock(launch: ProfiledLaunch) -> float | None:
    """Returns the clock of L2 in GHz; None: the report does not tell."""
    clock = launch.get("lts__cycles_elapsed.avg.per_second")
    if clock:
        return clock / 1e9
    sectors, rate = launch.get("lts__t_sectors.sum"), launch.get("lts__t_sectors.avg.per_cycle_elapsed")
    slices, nanoseconds = launch.get("device__attribute_l2s_count"), launch.get("gpu__time_duration.sum")
    return sectors / rate / slices / nanoseconds if sectors and rate and slices and nanoseconds else None


def is_store(one: ProfiledInstruction) -> bool:
    """Returns whether an instruction stores, as its kind of access or its text says."""
    kind = one.counts.get("memory_access_type")
    return kind == _STORES if kind else any(part in one.text for part in ("STG", "ST.", "RED."))

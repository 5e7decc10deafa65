"""What looks wrong in a measurement: chains that were optimised away, a clock that rose, caches or TLBs that were cold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from warpsim.measure.record import Record
from warpsim.measure.values import Value

CLOCK_SPREAD = 0.03
"""Part by which the clock may differ between the groups of benchmarks."""

LEAST_LATENCY = 2.0
"""Cycles; no chip since 2006 has a shorter register dependency."""

LEAST_INTERVAL = 0.24
"""Cycles of the SM per instruction; four schedulers issue one a cycle each."""

MOST_TIMING = 40.0
"""Cycles; two readings of the clock, with a store between, take 5 to 20."""

REPEATED = 1.1
"""Ratio of the median time of a launch to its least one."""


def doubts(record: Record, values: Mapping[str, Value]) -> Iterator[str]:
    """Yields a sentence for everything that is implausible, with the value and what is expected."""
    yield from _clock(record)
    for name, value in values.items():
        if name.startswith("ops.") and name.endswith("latency_cycles") and value.value < LEAST_LATENCY:
            yield f"{name} = {value.value:g}: below {LEAST_LATENCY:g} cycles; the chain may be optimised away"
        if name.startswith("ops.") and name.endswith("interval_sm_cycles") and value.value < LEAST_INTERVAL:
            yield f"{name} = {value.value:g}: below {LEAST_INTERVAL:g} cycles, which four schedulers cannot issue"
    yield from _memory(record, values)
    streams = record.tables.get("streams")
    if streams and streams.rows:
        ratio = streams.column("median_ms").astype(float) / streams.column("least_ms").astype(float)
        if np.any(ratio > REPEATED):
            part = f"{int(np.sum(ratio > REPEATED))} of {len(ratio)}"
            yield f"streams: {part} vary by more than {REPEATED - 1:.0%} from launch to launch"


def _clock(record: Record) -> Iterator[str]:
    table = record.tables.get("clocks")
    taken = [float(row[2]) for row in table.rows if row[0] != "warm-up"] if table else []
    if taken and max(taken) / min(taken) - 1 > CLOCK_SPREAD:
        yield f"clocks: from {min(taken):g} to {max(taken):g} GHz; at most {CLOCK_SPREAD:.0%} apart is expected"


def _memory(record: Record, values: Mapping[str, Value]) -> Iterator[str]:
    levels = [name for name in (f"memory.{one}_latency_cycles" for one in ("l1", "l2", "dram")) if name in values]
    for near, far in pairwise(levels):
        if values[near].value >= values[far].value:
            yield f"{near} = {values[near].value:g}: below {far} = {values[far].value:g} is expected"
    timing = values.get("memory.timing_cycles")
    if timing and timing.value > MOST_TIMING:
        yield f"memory.timing_cycles = {timing.value:g}: at most {MOST_TIMING:g} is expected; the clock is read slowly"
    device = record.metadata.get("device", {})
    pins = 2 * device.get("memory_clock_ghz", 0) * device.get("memory_bus_bits", 0) / 8
    for kernel in ("init", "read", "copy", "triad"):
        gbs = values.get(f"memory.bandwidth_gbs.{kernel}")
        if gbs and pins and not 0.7 * pins <= gbs.value <= pins:
            yield f"memory.bandwidth_gbs.{kernel} = {gbs.value:g}: from 70 to 100 % of the pins' {pins:g} GB/s is expected"
    dram = (
        sorted(row[1:3] for row in values["memory.single_loads"].value if row[0] == "dram")
        if "memory.single_loads" in values
        else []
    )
    for size, cycles in dram[1:]:
        if cycles > 1.15 * dram[0][1]:
            yield (
                f"memory.single_loads: {cycles:g} cycles in {size // 2**20} MiB, {dram[0][1]:g} in {dram[0][0] // 2**20} MiB; "
                "the TLB does not reach over the larger footprint"
            )
            break
    chase = record.tables.get("stream_chase")
    if chase and chase.rows:
        ratio = chase.column("gbs").astype(float) / chase.column("gbs_elapsed").astype(float)
        if np.any(ratio > 1.15):
            yield f"stream_chase: rates of the warps add up to {ratio.max():.2f} times the chip's; they ran together in part only"

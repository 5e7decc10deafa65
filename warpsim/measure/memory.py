"""Benchmarks of the memory system: levels, single loads, loads under load, streams, atomics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from warpsim.measure.device import Buffer
from warpsim.measure.record import Row, Table
from warpsim.measure.session import Session, histogram

PAGE = 2 * 2**20
"""Bytes of a page of the device's memory, of which one word is read before a timed chase."""

LINE = 128
"""Bytes of a line of L1 and L2."""

SAMPLES = 8192
"""Single loads timed by one launch (chase.cu, loaded.cu)."""

STREAM_SAMPLES = 1024
"""Single loads kept of one sampled block (stream_chase.cu)."""

BATCH_LINE = 512
"""Bytes that a warp moves with one instruction of the background traffic (loaded.cu)."""

KINDS = ("init", "read", "copy", "triad")
"""Names of stream.cu's kernels, by KIND."""

STREAM_ARRAYS = {"init": 1, "read": 1, "copy": 2, "triad": 3}
"""Arrays that each kernel of stream.cu passes through."""

_MULTIPLIER, _INCREMENT = 12 * 138709 + 1, 1013904223
"""Of the ring: one cycle through 2^k or 3 * 2^k nodes (chase.cu)."""


def levels(session: Session) -> Table:
    """Times a pointer chase in ever larger footprints, through L1 and past it: mean latency in the steady state."""
    device = session.device
    rows: list[Row] = []
    footprints = [size for size in session.effort.footprints if size <= device.properties.memory_bytes // 2]
    buffer = device.allocate(max(footprints))
    times, samples = device.allocate(48), device.allocate(4 * SAMPLES)
    for name, macro in (("l1", "THROUGH_L1"), ("l2", "PAST_L1")):
        chase = session.kernel("chase.cu", "chase", {macro: 1})
        for footprint in footprints:
            nodes = footprint // LINE
            session.say(f"levels: {footprint / 2**20:g} MiB past {'nothing' if name == 'l1' else 'L1'}")
            _ring(session, buffer, nodes, LINE)
            warm, steps = 2 * nodes if footprint <= 2 * device.properties.l2_bytes else 2**16, 4096
            device.clear(times)
            device.launch(chase, device.properties.sms, 32, buffer, buffer, 0, 0, warm, steps, 0, 0, times, samples)
            claimed, cycles, _, sm, ns, _ = (int(value) for value in device.read(times, np.uint64, 6))
            if claimed:
                rows.append((name, footprint, LINE, warm, steps, sm, cycles, ns))
    for used in (buffer, times, samples):
        device.free(used)
    units = {
        "first_level": "the level that a load looks in first",
        "footprint": "bytes",
        "stride": "bytes between nodes",
        "warm": "loads before",
        "steps": "loads",
        "sm": "",
        "cycles": "cycles of all steps",
        "ns": "ns of all steps",
    }
    return Table(
        "A pointer chase of one thread, each load dependent on the one before, in random order through a footprint.", units, rows
    )


def single_loads(session: Session) -> Table:
    """Times single loads of an idle memory: hits in L1, hits in L2, and DRAM with a cold L2 and a warm TLB.

    For DRAM, L2 is filled with other lines, one word of each page is read, and each line of the ring is read once: so
    the latencies have no cold TLB in them, as long as the TLB reaches over the footprint; larger ones show its misses.
    """
    device, sms = session.device, session.device.properties.sms
    rows: list[Row] = []
    l2 = device.properties.l2_bytes
    footprints = [size for size in (64, 256, 1024, 4096) if size * 2**20 <= device.properties.memory_bytes // 2]
    flushed = device.allocate(4 * max(l2, 2**20))
    buffer = device.allocate(max(footprints) * 2**20)
    times, samples = device.allocate(48), device.allocate(4 * SAMPLES)
    targets = sorted({round(i * sms / session.effort.sms_sampled) for i in range(session.effort.sms_sampled)})
    plan = [
        ("timing", "EMPTY", 4096, LINE, 0),
        ("l1", "THROUGH_L1", 8192, LINE, 0),
        ("l2", "PAST_L1", 2**21, LINE, 0),
        *(("dram", "PAST_L1", size * 2**20, 4 * LINE, 1) for size in footprints),
    ]
    for level, macro, footprint, stride, cold in plan:
        session.say(f"single loads: {level}, {footprint / 2**20:g} MiB")
        chase = session.kernel("chase.cu", "chase", {macro: 1})
        nodes = footprint // stride
        for target in targets:
            _ring(session, buffer, nodes, stride)
            if cold:
                device.clear(flushed)
            device.clear(times)
            pages = footprint // PAGE if cold else 0
            touch = Buffer(buffer.address + stride // 2, 8)
            warm = 0 if cold else 2 * nodes
            device.launch(chase, sms, 32, buffer, touch, pages, PAGE, warm, 0, SAMPLES, target, times, samples)
            if device.read(times, np.uint64, 1)[0]:
                rows += [(level, footprint, target, *pair) for pair in histogram(device.read(samples, np.uint32, SAMPLES))]
    for used in (flushed, buffer, times, samples):
        device.free(used)
    units = {
        "level": "where the loads hit; `timing` takes no load",
        "footprint": "bytes",
        "sm": "",
        "cycles": "cycles, the cost of the timing included",
        "count": "loads",
    }
    return Table("Latencies of single loads of an idle memory, as a histogram for each SM.", units, rows)


def l2_halves(session: Session) -> Table:
    """Times hits in L2 of lines that another SM has read: the first time that an SM reads them, and the second time.

    An L2 of two halves keeps a line where its memory is, and a copy in the other half once an SM of that half has read it.
    """
    device, sms = session.device, session.device.properties.sms
    footprint = LINE * 2 * SAMPLES
    buffer, times, samples = device.allocate(footprint), device.allocate(48), device.allocate(4 * SAMPLES)
    chase = session.kernel("chase.cu", "chase", {"PAST_L1": 1})
    rows: list[Row] = []
    session.say("hits in L2 of lines that another SM has read")
    for target in sorted({1 + round(i * (sms - 1) / session.effort.sms_sampled) for i in range(session.effort.sms_sampled)}):
        if target >= sms:
            continue
        _ring(session, buffer, footprint // LINE, LINE)
        passes = (("other", 0, 4 * SAMPLES), ("first", target, 0), ("second", target, 0))  # each of the timed ones reads half
        for name, sm, warm in passes:
            device.clear(times)
            device.launch(chase, sms, 32, buffer, buffer, 0, 0, warm, 0, SAMPLES, sm, times, samples)
            if name != "other" and device.read(times, np.uint64, 1)[0]:
                rows += [(target, name, *pair) for pair in histogram(device.read(samples, np.uint32, SAMPLES))]
    for used in (buffer, times, samples):
        device.free(used)
    units = {
        "sm": "that reads; SM 0 has read the lines before",
        "pass": "",
        "cycles": "cycles, the cost of the timing included",
        "count": "loads",
    }
    return Table("Latencies of hits in L2 of lines that another SM has read, as a histogram for each SM and pass.", units, rows)


def loaded(session: Session) -> tuple[Table, Table]:
    """Times single loads from one SM while all others load the memory, for several rates and mixes of reads and writes.

    Returns:
        One row for each rate and mix, and the histograms of the single loads.
    """
    device, sms = session.device, session.device.properties.sms
    block = 512
    ring_bytes, traffic_bytes = 2**29, _power_of_two(min(2**30, device.properties.memory_bytes // 8))
    ring, traffic = device.allocate(ring_bytes), device.allocate(2 * traffic_bytes)
    counts, samples, probe = device.allocate(40 * sms * block // 32), device.allocate(4 * SAMPLES), device.allocate(24)
    stride = 4 * LINE
    _ring(session, ring, ring_bytes // stride, stride)
    pins = device.properties.pin_gbs / device.properties.clock_ghz if device.properties.pin_gbs else 8.0 * sms
    settle, duration = 200_000, 200_000 + (8_000_000 if session.effort.every_ilp else 2_000_000)
    points: list[Row] = []
    found: list[Row] = []
    for reads, writes in session.effort.mixes:
        kernel = session.kernel("loaded.cu", "loaded", {"READS": reads, "WRITES": writes})
        session.say(f"loaded latency: {reads} reads to {writes} writes")
        shared = max(session.shared_for(kernel, block, 1), 0)
        batch = (sms - 1) * (block // 32) * (reads + writes) * BATCH_LINE
        for load in session.effort.loads:
            pause = 0 if load > 1 else round(batch / (load * pins))
            device.clear(counts)
            device.clear(traffic)  # also drives the ring out of L2
            arguments = (
                traffic,
                traffic_bytes,
                pause,
                duration,
                ring,
                Buffer(ring.address + stride // 2, 8),
                ring_bytes // PAGE,
                PAGE,
            )
            device.launch(kernel, sms, block, *arguments, settle, counts, samples, probe, shared=shared)
            rows = session.rows(counts, sms * block // 32, 5)[block // 32 :].astype(np.float64)
            taken = int(device.read(probe, np.uint64, 1)[0])
            if taken == 0 or not rows[:, 2].all():
                continue
            gbs = float(np.sum(rows[:, 0] * (reads + writes) * BATCH_LINE / rows[:, 2]))
            clock = float(np.median(rows[:, 1] / rows[:, 2]))
            latencies = device.read(samples, np.uint32, taken)
            point = len(points)
            points.append((point, reads, writes, pause, round(gbs, 2), round(clock, 4), taken, round(float(latencies.mean()), 2)))
            found += [(point, *pair) for pair in histogram(latencies)]
    for used in (ring, traffic, counts, samples, probe):
        device.free(used)
    units = {
        "point": "",
        "reads": "of a batch",
        "writes": "of a batch",
        "pause": "cycles from batch to batch of a warp; 0: none",
        "gbs": "GB/s of the chip, reads and writes, the probe's own not counted",
        "clock_ghz": "GHz of the SMs",
        "samples": "single loads",
        "mean_cycles": "cycles, the cost of the timing included",
    }
    single = {"point": "of loaded.csv", "cycles": "cycles, the cost of the timing included", "count": "loads"}
    return (
        Table("Mean latency of single loads from one SM while all other SMs load the memory.", units, points),
        Table("Latencies of the single loads of loaded.csv, as histograms.", single, found),
    )


def stream_chases(session: Session) -> tuple[Table, Table]:
    """Measures latency against throughput (V 6.4), and latencies of single loads (V 6.6): each warp follows pointers.

    Returns:
        One row for each number of warps per SM, and the histograms of the single loads.
    """
    device, sms = session.device, session.device.properties.sms
    words = session.effort.chase_words
    buffer = device.allocate(4 * words)
    block_most = device.properties.max_threads_per_block // 32
    most = device.properties.max_warps_per_sm
    times = device.allocate(48 * sms * most)
    fill = session.kernel("stream_chase.cu", "steps_of")
    chase = session.kernel("stream_chase.cu", "stream_chase")
    points: list[Row] = []
    found: list[Row] = []
    for warps in session.warps(most):
        blocks = 1 if warps <= block_most else 2
        if warps % blocks:
            continue
        session.say(f"latency against throughput: {warps} warps per SM")
        grid, block = blocks * sms, 32 * warps // blocks
        steps = min(
            8 * STREAM_SAMPLES, words * 7 // 8 // (grid * block) // 8 * 8
        )  # no word twice, and not the last ones, which L2 may hold
        device.launch(fill, 4 * sms, 256, buffer, words, grid * block)
        for every in (0, 4):
            samples = device.allocate(4 * STREAM_SAMPLES * grid)
            device.launch(chase, grid, block, buffer, steps, every, times, samples)
            rows = session.rows(times, grid * warps // blocks, 6).astype(np.float64)
            cycles, ns = rows[:, 1] - rows[:, 0], rows[:, 4] - rows[:, 3]
            elapsed = rows[:, 4].max() - rows[:, 3].min()
            point = len(points)
            points.append(
                (
                    point,
                    warps,
                    every,
                    steps,
                    round(float(np.mean(cycles)) / steps, 2),
                    round(float(np.sum(steps * LINE / ns)), 2),
                    round(len(rows) * steps * LINE / elapsed, 2),
                    round(float(np.sum(cycles) / np.sum(ns)), 4),
                )
            )
            if every:
                taken = device.read(samples, np.uint32, STREAM_SAMPLES * math.ceil(grid / every)).reshape(-1, STREAM_SAMPLES)
                found += [(point, *pair) for pair in histogram(taken[:, : min(STREAM_SAMPLES, steps // 8)].ravel())]
            device.free(samples)
    for used in (buffer, times):
        device.free(used)
    units = {
        "point": "",
        "warps": "warps per SM",
        "every": "one block of so many times single loads; 0: none does",
        "steps": "loads of each warp",
        "step_cycles": "mean cycles of a step: the latency, and that of computing an address",
        "gbs": "GB/s of the chip, the sum of the rates of the warps",
        "gbs_elapsed": "GB/s of the chip, from the first start to the last end",
        "clock_ghz": "GHz of the SMs",
    }
    single = {"point": "of stream_chase.csv", "cycles": "cycles, the cost of the timing included", "count": "loads"}
    return (
        Table(
            "Every warp follows pointers, one coalesced access of 128 bytes after the other, in order through the memory.",
            units,
            points,
        ),
        Table("Latencies of the single loads of stream_chase.csv, as histograms.", single, found),
    )


def streams(session: Session) -> Table:
    """Measures the bandwidth of streams against occupancy and block size."""
    device, properties = session.device, session.device.properties
    elements = session.effort.stream_bytes // 8
    arrays = [device.allocate(8 * elements) for _ in range(3)]
    rows: list[Row] = []
    for kind, name in enumerate(KINDS):
        session.say(f"streams: {name}")
        for each, block, wanted in _stream_points(properties.max_threads_per_block, properties.max_threads_per_sm):
            kernel = session.kernel("stream.cu", "stream", {"KIND": kind, "ELEMENTS": each})
            shared = session.shared_for(kernel, block, wanted) if wanted else 0
            if shared < 0:
                continue
            resident = device.resident_blocks(kernel, block, shared)
            grid = elements // (block * each)
            device.milliseconds(kernel, grid, block, *arrays, 3, shared=shared)
            times = [
                device.milliseconds(kernel, grid, block, *arrays, 3, shared=shared)
                for _ in range(session.effort.stream_repetitions)
            ]
            moved = 8 * grid * block * each * STREAM_ARRAYS[name]
            rows.append((name, each, block, resident, shared, moved, round(float(np.median(times)), 5), round(min(times), 5)))
    for array in arrays:
        device.free(array)
    units = {
        "kernel": "",
        "elements": "of 8 bytes, of each array and thread",
        "block": "threads",
        "resident": "blocks per SM",
        "shared": "bytes of dynamic shared memory, to limit the blocks",
        "bytes": "moved by a launch",
        "median_ms": "ms",
        "least_ms": "ms",
    }
    return Table("Time of a launch that passes once through its arrays of doubles.", units, rows)


def atomics(session: Session) -> Table:
    """Times atomic additions to one word, to a word for each warp, and to a word for each thread."""
    device, properties = session.device, session.device.properties
    most = properties.max_threads_per_block // 32
    out = device.allocate(32 * properties.sms * most)
    counters = device.allocate(LINE * properties.sms * most)
    spreads = ("one_word", "word_of_warp", "word_of_thread", "block_shared")
    trips = 16
    rows: list[Row] = []
    for spread, name in enumerate(spreads):
        for returns in (0, 1):
            kernel = session.kernel("atomic.cu", "atomic", {"SPREAD": spread, "RETURNS": returns})
            for grid in (1, properties.sms):
                for warps in session.warps(most):
                    ms = [
                        device.milliseconds(kernel, grid, 32 * warps, out, counters, trips)
                        for _ in range(session.effort.repetitions)
                    ]
                    taken = session.rows(out, grid * warps, 4).astype(np.int64)
                    cycles = [int(np.ptp(taken[taken[:, 2] == sm][:, :2])) for sm in np.unique(taken[:, 2])]
                    rows.append((name, returns, grid, warps, 8 * trips, int(np.median(cycles)), round(min(ms), 5)))
    device.free(out)
    device.free(counters)
    units = {
        "spread": "",
        "returns": "1: each addition needs the result of the one before",
        "blocks": "",
        "warps": "of a block",
        "additions": "of each thread",
        "cycles": "cycles of an SM, median of the SMs",
        "least_ms": "ms of the launch",
    }
    return Table("Atomic additions in global memory.", units, rows)


def _ring(session: Session, buffer: Buffer, nodes: int, stride: int) -> None:
    """Writes a ring of pointers through 2^k or 3 * 2^k nodes."""
    kernel = session.kernel("chase.cu", "ring", {"EMPTY": 1})
    session.device.launch(kernel, 4 * session.device.properties.sms, 256, buffer, nodes, stride, _MULTIPLIER, _INCREMENT)


def _power_of_two(value: int) -> int:
    return int(2 ** (value.bit_length() - 1))


def _stream_points(max_block: int, max_threads: int) -> Iterator[tuple[int, int, int]]:
    """Yields (elements of a thread, threads of a block, blocks per SM; 0: as many as fit)."""
    blocks = [32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024]
    for block in blocks:
        if block <= max_block and 2 * block <= max_threads:
            yield 1, block, 2
        if block <= max_block and block in (32, 64, 128, 256, 512, 1024):
            yield 1, block, 0
    for each in (2, 4):
        for block in (32, 64, 128, 256, 512, 1024):
            if block <= max_block and 2 * block <= max_threads:
                yield each, block, 2

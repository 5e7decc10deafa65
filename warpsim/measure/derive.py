"""From a record to plain numbers: latencies, intervals, bandwidths, curves, each with its unit and how it was found.

V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.measure.operations import OPERATIONS
from warpsim.measure.record import Record, RecordError, Table

LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Probabilities of the latency quantiles, as in V Table 6.6."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Value:
    """A number or a list of numbers.

    Attributes:
        value: the number, or a list of numbers or of lists of them.
        unit: its unit; of a list of lists, the units of the columns.
        how: in words, how it was found.
    """

    value: Any
    unit: str
    how: str


def derive(record: Record) -> dict[str, Value]:
    """Return what a record says, by dotted names; a table that the record lacks leaves out what comes from it.

    The names are:

    * `clock_ghz`
    * `ops.NAME.latency_cycles`, `.interval_sm_cycles`, `.interval_scheduler_cycles`, `.scope`, for the operations of `operations`
    * `shared.conflict_latency_cycles`, `branch.loop_cycles`
    * `barrier.latency_cycles`, `barrier.warp_cycles`, `barrier.curve`
    * `issue.KIND.at_once`, `issue.KIND.interval_cycles` (memory instructions), `issue.order`
    * `launch.kernel_us`, `.latency_us`, `.interval_us`, `.block_cycles.THREADS`, `.turnover_cycles`, `.warp_delay_cycles`
    * `memory.l1_latency_cycles`, `.l2_latency_cycles`, `.dram_latency_cycles`, `.footprints`, `.timing_cycles`
    * `memory.contention` (a, b, c of V 6.4), `.contention_curve`, `.quantiles` (V 6.6), `.loaded.R_W` (latency under a mix)
    * `memory.bandwidth_gbs.KERNEL`, `memory.occupancy.KERNEL`
    * `atomics.SPREAD.interval_cycles`, `atomics.latency_cycles`

    Raises:
        RecordError: a table is damaged.
    """
    tables = record.tables
    found: dict[str, Value] = {}
    for name, function in (
        ("clocks", _clock),
        ("chains", _chains),
        ("barriers", _barriers),
        ("memory_issue", _memory_issue),
        ("issue_order", _issue_order),
        ("launches", _launches),
        ("turnover", _turnover),
        ("warp_starts", _warp_starts),
        ("levels", _levels),
        ("single_loads", _single_loads),
        ("stream_chase", _stream_chase),
        ("stream_chase_samples", _quantiles),
        ("loaded", _loaded),
        ("streams", _streams),
        ("atomics", _atomics),
    ):
        if name in tables and tables[name].rows:
            try:
                found |= function(record, found)
            except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError) as error:
                raise RecordError(f"table {name}: it cannot be evaluated: {error!r}") from error
    return found


def quantile_of(cycles: Floats, counts: Floats, level: float) -> float:
    """Return a quantile of a histogram: the least value whose cumulative share reaches `level`."""
    order = np.argsort(cycles)
    share = np.cumsum(counts[order]) / np.sum(counts)
    place = min(int(np.searchsorted(share, level - 1e-12)), len(share) - 1)
    return float(cycles[order][place])


def fit_contention(gbs: Floats, cycles: Floats) -> tuple[float, float, float]:
    """Fit latency = a + b x / (c - x) (V 6.4) to points of load and latency; returns a and b in cycles, and c in GB/s.

    The squares of relative errors are least; a and b follow linearly for each of many c above the greatest load.

    Raises:
        ValueError: there are fewer than four points.
    """
    if len(gbs) < 4:
        raise ValueError(f"{len(gbs)} points: at least 4, to fit three coefficients")
    top = float(gbs.max())
    best = (np.inf, 0.0, 0.0, 0.0)
    for c in top * (1 + np.geomspace(1e-3, 3.0, 400)):
        shape = np.stack([1 / cycles, gbs / (c - gbs) / cycles], axis=1)
        (a, b), *_ = np.linalg.lstsq(shape, np.ones(len(gbs)), rcond=None)
        if b < 0:
            b, a = 0.0, float(np.sum(1 / cycles) / np.sum(1 / cycles**2))
        error = float(np.sum((shape @ np.array([a, b]) - 1) ** 2))
        if error < best[0]:
            best = error, float(a), float(b), float(c)
    return best[1:]


def chain_cycles(table: Table) -> dict[tuple[str, int, int, int, int], float]:
    """Return (operation, ways, schedulers, ilp, warps) -> cycles that the SM takes for one step of each chain of each warp.

    It is the difference of two lengths of the body, over the number of steps between them.
    """
    times: dict[tuple[Any, ...], dict[int, float]] = {}
    for op, ways, schedulers, ilp, repeats, warps, trips, cycles in table.rows:
        times.setdefault((op, ways, schedulers, ilp, warps), {})[int(repeats)] = float(cycles) / float(trips)
    found = {}
    for key, by_length in times.items():
        if len(by_length) >= 2:
            low, high = min(by_length), max(by_length)
            found[key] = (by_length[high] - by_length[low]) / (high - low)
    return found


def _clock(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["clocks"]
    taken = [float(row[2]) for row in table.rows if row[0] != "warm-up"] or [float(row[2]) for row in table.rows]
    how = f"median of {len(taken)} measurements of cycles over time, from {min(taken):g} to {max(taken):g} GHz"
    return {"clock_ghz": Value(float(np.median(taken)), "GHz", how)}


def _chains(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["chains"]
    steps = chain_cycles(table)
    raw = {
        op: cycles
        for (op, ways, schedulers, ilp, warps), cycles in steps.items()
        if (ways, schedulers, ilp, warps) == (1, 4, 1, 1)
    }
    found: dict[str, Value] = {}
    for name, cycles in raw.items():
        op = OPERATIONS[name]
        if any(other not in raw for other in op.minus):
            continue
        latency = (cycles - sum(raw[other] for other in op.minus)) / op.share
        less = f", less that of {', '.join(op.minus)}" if op.minus else ""
        part = f", divided by {op.share}" if op.share > 1 else ""
        found[f"ops.{name}.latency_cycles"] = Value(
            round(latency, 3), "cycles", f"one warp, one dependent chain of {op.text}{less}{part}"
        )
        if not op.saturate:
            continue
        for schedulers, key in ((4, "interval_sm_cycles"), (1, "interval_scheduler_cycles")):
            points = [
                (cycles / (ilp * warps * op.share), ilp, warps)
                for (other, ways, used, ilp, warps), cycles in steps.items()
                if (other, ways, used) == (name, 1, schedulers)
            ]
            if points:
                least, ilp, warps = min(points)
                how = f"least cycles per instruction with warps on {schedulers} of 4 schedulers: at {warps} warps with ILP {ilp}"
                found[f"ops.{name}.{key}"] = Value(round(least, 4), "cycles per warp instruction", how)
        if {f"ops.{name}.interval_sm_cycles", f"ops.{name}.interval_scheduler_cycles"} <= set(found):
            ratio = found[f"ops.{name}.interval_scheduler_cycles"].value / found[f"ops.{name}.interval_sm_cycles"].value
            how = f"one scheduler alone takes {ratio:.2f} times as long for an instruction as four together"
            found[f"ops.{name}.scope"] = Value("scheduler" if ratio > 2 else "sm", "", how)
    ways = {w: steps["lds", w, 4, 1, 1] for w in (1, 2, 4, 8, 16, 32) if ("lds", w, 4, 1, 1) in steps}
    if len(ways) >= 2:
        slope = float(np.polyfit(list(ways), list(ways.values()), 1)[0])
        how = f"slope of the latency of a shared memory load over {sorted(ways)} lanes on one bank"
        found["shared.conflict_latency_cycles"] = Value(round(slope, 3), "cycles per further way", how)
    times = {int(row[4]): float(row[7]) / float(row[6]) for row in table.rows if row[:4] == ("fadd", 1, 4, 1) and row[5] == 1}
    if len(times) == 2:
        (low, short), (high, long) = sorted(times.items())
        rest = short - low * (long - short) / (high - low)
        found["branch.loop_cycles"] = Value(
            round(rest, 3), "cycles", "one turn of a loop around a dependent chain, less the chain"
        )
    return found


def _barriers(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    times: dict[int, dict[int, float]] = {}
    for repeats, warps, trips, cycles in record.tables["barriers"].rows:
        times.setdefault(int(warps), {})[int(repeats)] = float(cycles) / float(trips)
    curve = [
        (warps, round((by[max(by)] - by[min(by)]) / (max(by) - min(by)), 3)) for warps, by in sorted(times.items()) if len(by) > 1
    ]
    if len(curve) < 2:
        return {}
    slope, base = np.polyfit([warps for warps, _ in curve], [cycles for _, cycles in curve], 1)
    return {
        "barrier.curve": Value(curve, "warps, cycles", "cycles from barrier to barrier of a block, by its number of warps"),
        "barrier.latency_cycles": Value(round(float(base), 2), "cycles", "straight line through barrier.curve, at 0 warps"),
        "barrier.warp_cycles": Value(round(float(slope), 3), "cycles per warp", "slope of that line"),
    }


def _memory_issue(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["memory_issue"]
    found: dict[str, Value] = {}
    for kind in table.values("kind"):
        of_kind = table.where(kind=kind)
        for schedulers in of_kind.values("schedulers"):
            part = of_kind.where(schedulers=schedulers)
            mean = [float(np.mean(part.where(count=count).column("cycles"))) for count in part.values("count")]
            gaps = np.diff(mean)
            if len(gaps) < 8:
                continue
            if schedulers == 1:
                at_once = 1 + int(np.argmax(gaps > 2 * gaps[0])) if np.any(gaps > 2 * gaps[0]) else len(mean)
                how = "memory instructions of one warp that issue before the distance grows"
                found[f"issue.{kind}.at_once"] = Value(at_once, "instructions", how)
            how = f"mean distance of the last six of {len(mean)} instructions, warps on {schedulers} schedulers"
            key = f"issue.{kind}.interval_cycles.{schedulers}"
            found[key] = Value(round(float(np.mean(gaps[-6:])), 3), "cycles per instruction of a scheduler", how)
    return found


def _issue_order(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    rows = []
    table = record.tables["issue_order"]
    for gap in table.values("gap"):
        for warps in table.values("warps"):
            part = table.where(gap=gap, warps=warps)
            if warps < 2 or not part.rows:
                continue
            cycle, warp = part.column("cycle"), part.column("warp")
            order = warp[np.lexsort((warp, cycle))]
            runs = 1 + int(np.sum(order[1:] != order[:-1]))
            ends = [int(cycle[warp == one].max()) for one in range(int(warps))]
            rows.append((gap, warps, round(len(order) / runs, 2), [int(one) for one in np.argsort(ends, kind="stable")]))
    if not rows:
        return {}
    how = "readings of the clock in order of time; warps of one scheduler, 0 is the oldest"
    units = "additions between readings, warps, mean readings in a row of one warp, warps in the order in which they finish"
    return {"issue.order": Value(rows, units, how)}


def _launches(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["launches"]

    def median(**wanted: int | str) -> float:
        part = table.where(**wanted)
        return float(np.median(part.column("us"))) if part.rows else np.nan

    found: dict[str, Value] = {}
    counts = table.where(blocks=1, block=32, timer="device").values("launches")
    if len(counts) >= 2:
        low, high = counts[-2], counts[-1]
        slope = (
            median(blocks=1, block=32, timer="device", launches=high) - median(blocks=1, block=32, timer="device", launches=low)
        ) / (high - low)
        how = f"slope of the time of {low} and {high} empty launches in a row; an upper bound, since Python may not launch faster"
        found["launch.interval_us"] = Value(round(slope, 4), "us", how)
        how = "median of an empty launch and the wait for its end, by the host's clock"
        found["launch.latency_us"] = Value(round(median(blocks=1, block=32, timer="host", launches=1), 3), "us", how)
        how = "median of an empty launch, between two events of the device"
        found["launch.kernel_us"] = Value(round(median(blocks=1, block=32, timer="device", launches=1), 3), "us", how)
    if "clock_ghz" in so_far:
        for block in table.values("block"):
            part = table.where(block=block, launches=1, timer="device")
            blocks = part.values("blocks")
            if len(blocks) < 3:
                continue
            low, high = blocks[-2], blocks[-1]
            times = [float(np.min(part.where(blocks=one).column("us"))) for one in (low, high)]
            cycles = (times[1] - times[0]) / (high - low) * so_far["clock_ghz"].value * 1e3
            how = f"slope of the time of grids of {low} and {high} empty blocks of {block} threads"
            found[f"launch.block_cycles.{block}"] = Value(round(cycles, 4), "cycles of the chip per block", how)
    return found


def _turnover(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["turnover"]
    rows = [(row[0], row[1], row[list(table.units).index("q0.5")]) for row in table.rows]
    middle = float(np.median([float(row[2]) for row in rows if int(row[0]) <= 256] or [float(row[2]) for row in rows]))
    how = "median over the block sizes up to 256 threads of the median time from a block's end to its successor's start"
    return {
        "launch.turnover_cycles": Value(middle, "cycles", how),
        "launch.turnover_curve": Value(rows, "threads of a block, blocks per SM, cycles", "median for each size and residency"),
    }


def _warp_starts(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["warp_starts"]
    slopes = []
    for block in table.values("block"):
        for resident in table.where(block=block).values("resident"):
            part = table.where(block=block, resident=resident)
            if len(part.rows) >= 4:
                slopes.append(float(np.polyfit(part.column("warp"), part.column("delay"), 1)[0]))
    if not slopes:
        return {}
    how = "slope of the start of a warp over its place in the block, median of the blocks of at least 4 warps"
    return {"launch.warp_delay_cycles": Value(round(float(np.median(slopes)), 3), "cycles per warp", how)}


def _levels(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["levels"]
    l2 = record.metadata["device"]["l2_bytes"]
    found: dict[str, Value] = {}
    curves = []
    for row in table.rows:
        level, footprint, steps, cycles = row[0], int(row[1]), float(row[4]), float(row[6])
        curves.append((level, footprint, round(cycles / steps, 2)))
    found["memory.footprints"] = Value(curves, "first level, bytes, cycles", "mean latency of a pointer chase, steady state")
    small = [cycles for level, footprint, cycles in curves if level == "l1" and footprint <= 2**14]
    middle = [cycles for level, footprint, cycles in curves if level == "l2" and 2**17 <= footprint <= l2 / 8]
    if small:
        how = "median of pointer chases through footprints up to 16 KiB"
        found["memory.l1_latency_cycles"] = Value(round(float(np.median(small)), 2), "cycles", how)
    if middle:
        how = "median of pointer chases past L1 through footprints from 128 KiB to an eighth of L2, from one SM"
        found["memory.l2_latency_cycles"] = Value(round(float(np.median(middle)), 2), "cycles", how)
    return found


def _single_loads(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["single_loads"]
    timing = table.where(level="timing")
    found: dict[str, Value] = {}
    cost = 0.0
    if timing.rows:
        cost = quantile_of(timing.column("cycles").astype(float), timing.column("count").astype(float), 0.5)
        found["memory.timing_cycles"] = Value(
            cost, "cycles", "median difference of two clock readings with a store to shared memory between"
        )
    rows = []
    for level in table.values("level"):
        for footprint in table.where(level=level).values("footprint") if level != "timing" else ():
            part = table.where(level=level, footprint=footprint)
            cycles, counts = part.column("cycles").astype(float) - cost, part.column("count").astype(float)
            mean = float(np.sum(cycles * counts) / np.sum(counts))
            rows.append((level, footprint, round(mean, 1), *(round(quantile_of(cycles, counts, one), 1) for one in LEVELS)))
    found["memory.single_loads"] = Value(
        rows,
        "level, bytes, mean cycles, cycles at " + ", ".join(map(str, LEVELS)),
        "histograms of all SMs together, less the cost of the timing",
    )
    dram = sorted(row[1:] for row in rows if row[0] == "dram")
    if dram:
        how = f"mean of single loads with cold L2 and warm TLB, footprint {dram[0][0] // 2**20} MiB, less the cost of the timing"
        found["memory.dram_latency_cycles"] = Value(dram[0][1], "cycles", how)
    return found


def _stream_chase(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["stream_chase"].where(every=0)
    address = so_far["ops.imad_wide.latency_cycles"].value if "ops.imad_wide.latency_cycles" in so_far else 0.0
    gbs = table.column("gbs").astype(float)
    cycles = table.column("step_cycles").astype(float) - address
    curve = [(int(w), float(x), round(float(y), 2)) for w, x, y in zip(table.column("warps"), gbs, cycles, strict=True)]
    how = f"mean cycles of a step, less {address:g} for computing an address (imad_wide)"
    found = {"memory.contention_curve": Value(curve, "warps per SM, GB/s, cycles", how)}
    found["memory.latency_cycles"] = Value(
        round(float(cycles.min()), 2), "cycles", "least mean latency over the occupancies (V 6.1)"
    )
    if len(gbs) >= 4:
        a, b, c = fit_contention(gbs, cycles)
        how = "least squares of the relative errors of a + b x / (c - x) to memory.contention_curve (V 6.4)"
        found["memory.contention"] = Value([round(a, 1), round(b, 1), round(c, 1)], "cycles, cycles, GB/s", how)
    return found


def _quantiles(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    points, samples = record.tables["stream_chase"], record.tables["stream_chase_samples"]
    cost = so_far["memory.timing_cycles"].value if "memory.timing_cycles" in so_far else 0.0
    address = so_far["ops.imad_wide.latency_cycles"].value if "ops.imad_wide.latency_cycles" in so_far else 0.0
    rows: list[tuple[float, ...]] = []
    for point, gbs in sorted(zip(points.column("point"), points.column("gbs"), strict=True), key=lambda pair: pair[1]):
        part = samples.where(point=int(point))
        if not part.rows or (rows and gbs < 1.02 * rows[-1][0]):
            continue  # two loads that are nearly one: the first is kept
        cycles, counts = part.column("cycles").astype(float) - cost - address, part.column("count").astype(float)
        rows.append((float(gbs), *(round(quantile_of(cycles, counts, one), 1) for one in LEVELS)))
    if not rows:
        return {}
    how = f"one load out of 8 of some warps, less {cost:g} cycles for the timing and {address:g} for the address (V 6.6)"
    return {"memory.quantiles": Value(rows, "GB/s, cycles at " + ", ".join(map(str, LEVELS)), how)}


def _loaded(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["loaded"]
    cost = so_far["memory.timing_cycles"].value if "memory.timing_cycles" in so_far else 0.0
    found: dict[str, Value] = {}
    for reads, writes in sorted({(int(row[1]), int(row[2])) for row in table.rows}):
        part = table.where(reads=reads, writes=writes)
        rows = sorted(
            (float(gbs), round(float(mean) - cost, 2))
            for gbs, mean in zip(part.column("gbs"), part.column("mean_cycles"), strict=True)
        )
        traffic = f"traffic of {reads} reads to {writes} writes"
        how = f"mean of single loads of a pointer chase beside {traffic}, less {cost:g} cycles for the timing"
        found[f"memory.loaded.{reads}_{writes}"] = Value(rows, "GB/s, cycles", how)
    return found


def _streams(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["streams"]
    found: dict[str, Value] = {}
    for kernel in table.values("kernel"):
        part = table.where(kernel=kernel)
        gbs = part.column("bytes").astype(float) / part.column("median_ms").astype(float) / 1e6
        best = int(np.argmax(gbs))
        size, each, resident = (int(part.column(name)[best]) for name in ("block", "elements", "resident"))
        how = f"best stream: {resident} blocks of {size} threads per SM, {each} doubles a thread and array"
        found[f"memory.bandwidth_gbs.{kernel}"] = Value(round(float(gbs[best]), 1), "GB/s", how)
        rows = [
            (int(e), int(b), int(r), round(float(x), 1))
            for e, b, r, x in zip(part.column("elements"), part.column("block"), part.column("resident"), gbs, strict=True)
        ]
        found[f"memory.occupancy.{kernel}"] = Value(
            rows, "doubles a thread, threads of a block, blocks per SM, GB/s", "median of the launches"
        )
    return found


def _atomics(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    table = record.tables["atomics"]
    found: dict[str, Value] = {}
    for spread in table.values("spread"):
        for blocks in table.values("blocks"):
            part = table.where(spread=spread, returns=0, blocks=blocks)
            if not part.rows:
                continue
            each = [float(cycles) / (int(additions) * int(warps)) for _, _, _, warps, additions, cycles, _ in part.rows]
            how = f"least cycles of an SM per addition of a warp, {blocks} blocks on as many SMs, no result used"
            found[f"atomics.{spread}.interval_cycles.{blocks}"] = Value(round(min(each), 3), "cycles per warp instruction", how)
    alone = table.where(spread="word_of_thread", returns=1, blocks=1, warps=1)
    for row in alone.rows:
        how = "one warp, each addition needs the result of the one before, a word for each thread"
        found["atomics.latency_cycles"] = Value(round(float(row[5]) / float(row[4]), 2), "cycles", how)
    return found


def lines(values: Mapping[str, Value]) -> Iterator[str]:
    """Yield the single numbers as lines of text: name, value, unit; curves are left out."""
    for name, value in values.items():
        if not isinstance(value.value, list):
            yield f"{name} = {value.value} {value.unit}".rstrip()

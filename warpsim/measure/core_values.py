"""From tables of a record to numbers of the core: clock, latencies and intervals of instructions, barriers, launches, atomics.

Each function takes a record, which has its table, and the numbers so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpsim.measure.operations import OPERATIONS
from warpsim.measure.record import Record, Table
from warpsim.measure.values import Value


def chain_cycles(table: Table) -> dict[tuple[str, int, int, int, int], float]:
    """Returns (operation, ways, schedulers, ilp, warps) -> cycles that the SM takes for one step of each chain of each warp.

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


def clock(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the clock of the SMs in GHz."""
    table = record.tables["clocks"]
    taken = [float(row[2]) for row in table.rows if row[0] != "warm-up"] or [float(row[2]) for row in table.rows]
    how = f"median of {len(taken)} measurements of cycles over time, from {min(taken):g} to {max(taken):g} GHz"
    return {"clock_ghz": Value(float(np.median(taken)), "GHz", how)}


def chains(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns latencies and intervals of operations, and what conflicts, loops and scopes show."""
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


def barriers(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the cost of a barrier, constant and per warp."""
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


def memory_issue(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns how many memory instructions issue at once, and their distance after that."""
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


def issue_order(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns in which order the warps of a scheduler issue."""
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


def launches(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the cost of a launch, and of a block of an empty grid."""
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


def turnover(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the time from the end of a block to the start of its successor."""
    table = record.tables["turnover"]
    rows = [(row[0], row[1], row[list(table.units).index("q0.5")]) for row in table.rows]
    middle = float(np.median([float(row[2]) for row in rows if int(row[0]) <= 256] or [float(row[2]) for row in rows]))
    how = "median over the block sizes up to 256 threads of the median time from a block's end to its successor's start"
    return {
        "launch.turnover_cycles": Value(middle, "cycles", how),
        "launch.turnover_curve": Value(rows, "threads of a block, blocks per SM, cycles", "median for each size and residency"),
    }


def warp_starts(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the delay of each further warp of a block."""
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


def atomics(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the intervals and the latency of atomic additions."""
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

"""From tables of a record to numbers of the memory: latencies, quantiles, bandwidths, curves of load and latency.

V is Volkov, Understanding Latency Hiding on GPUs, 2016. Each function takes a record, which has its table, and the
numbers so far.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpsim.measure.record import Record
from warpsim.measure.values import LEVELS, TABLE_LEVELS, Floats, Value, quantile_of

LEAST_FAR_SHARE = 0.02
"""Of the loads of an SM, above which L2 has a far half; less is chance."""


MOST_OF_CURVE = 1e6
"""GB/s and cycles; a chip file allows no longer latency."""


def fit_contention(gbs: Floats, cycles: Floats) -> tuple[float, float, float]:
    """Fits latency = a + b x / (c - x) (V 6.4) to points of load and latency; returns a and b in cycles, and c in GB/s.

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


def levels(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the latencies of L1 and L2, and the latency by footprint."""
    table = record.tables["levels"]
    l2 = record.metadata.get("device", {}).get("l2_bytes")
    if l2 is None:
        raise ValueError("device.l2_bytes is missing in record.toml")
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


def single_loads(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns latencies of single loads of an idle memory, less the cost of the timing."""
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


def l2_halves(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the latency of hits in the far half of L2, and how many of the lines that another SM has read lie only there.

    A load comes from the far half where its latency is above all latencies of the second pass, in which all lines are near.
    """
    table = record.tables["l2_halves"]
    cost = float(so_far["memory.timing_cycles"].value) if "memory.timing_cycles" in so_far else 0.0
    shares, sums, counts = [], 0.0, 0.0
    for sm in table.values("sm"):
        first, second = table.where(**{"sm": sm, "pass": "first"}), table.where(**{"sm": sm, "pass": "second"})
        cycles, count = first.column("cycles").astype(float), first.column("count").astype(float)
        near = quantile_of(second.column("cycles").astype(float), second.column("count").astype(float), 0.99)
        far = cycles > 1.15 * near
        shares.append(float(count[far].sum() / count.sum()))
        sums, counts = sums + float(np.sum(cycles[far] * count[far])), counts + float(count[far].sum())
    found = {
        "memory.l2_far_share": Value(
            [(int(sm), round(share, 4)) for sm, share in zip(table.values("sm"), shares, strict=True)],
            "SM, share",
            "loads above 1.15 times the 99 % quantile of the second pass, of lines that SM 0 has read",
        )
    }
    if max(shares) >= LEAST_FAR_SHARE:
        how = "mean of the loads above 1.15 times the 99 % quantile of the second pass, less the cost of the timing"
        found["memory.l2_far_latency_cycles"] = Value(round(sums / counts - cost, 1), "cycles", how)
    return found


def stream_chase(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    """Returns latency against throughput (V 6.4), and the latency without load."""
    table = record.tables["stream_chase"].where(every=0)
    address = so_far["ops.imad_wide.latency_cycles"].value if "ops.imad_wide.latency_cycles" in so_far else 0.0
    gbs = table.column("gbs").astype(float)
    cycles = table.column("step_cycles").astype(float) - address
    for key, of_curve in (("gbs", gbs), (f"step_cycles less {address:g} for the address", cycles)):
        if not np.all((of_curve > 0) & (of_curve <= MOST_OF_CURVE)):
            raise ValueError(f"{key} = {of_curve.min():g} to {of_curve.max():g}: must be above 0, and at most {MOST_OF_CURVE:g}")
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


def quantiles(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the quantiles of the latency by load (V 6.6)."""
    points, samples = record.tables["stream_chase"], record.tables["stream_chase_samples"]
    cost = so_far["memory.timing_cycles"].value if "memory.timing_cycles" in so_far else 0.0
    address = so_far["ops.imad_wide.latency_cycles"].value if "ops.imad_wide.latency_cycles" in so_far else 0.0
    rows: list[tuple[float, ...]] = []
    for point, gbs in sorted(zip(points.column("point"), points.column("gbs"), strict=True), key=lambda pair: pair[1]):
        part = samples.where(point=int(point))
        if not part.rows or (rows and gbs < 1.02 * rows[-1][0]):
            continue  # two loads that are nearly one: the first is kept
        cycles, counts = part.column("cycles").astype(float) - cost - address, part.column("count").astype(float)
        rows.append((float(gbs), *(round(quantile_of(cycles, counts, one), 1) for one in TABLE_LEVELS)))
    if not rows:
        return {}
    how = f"one load out of 8 of some warps, less {cost:g} cycles for the timing and {address:g} for the address (V 6.6)"
    return {"memory.quantiles": Value(rows, "GB/s, cycles at " + ", ".join(map(str, TABLE_LEVELS)), how)}


def loaded(record: Record, so_far: Mapping[str, Value]) -> dict[str, Value]:
    """Returns latency against throughput for each mix of reads and writes."""
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


def streams(record: Record, _: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the bandwidth of each stream: the best, and by occupancy."""
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

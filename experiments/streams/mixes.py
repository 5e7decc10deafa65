"""The latency of an H100 that reads and writes, at the chip that was fitted to its reads alone."""

from __future__ import annotations

import numpy as np
from _tables import comparison, read_rows
from streams import HERE

import warpsim as ws
from warpsim.kernels import Cost, Instruction, Kernel, Loop

MIXES = {0.16: (16, 3), 0.23: (10, 3), 0.30: (7, 3), 0.37: (5, 3), 0.43: (4, 3), 0.48: (12, 11), 0.58: (5, 7), 0.73: (3, 8)}
"""Share of writes, rounded -> loads and stores of the simulated loop. The shares of a curve differ by up to 0.02."""

FITTED = (0.43, 0.48)
"""Mixes of the curve to which `write_burst_ns`, `read_delay_ns` and `idle_ns` were fitted."""

PAUSES = (20_000, 6_000, 2_000, 600)
"""Cycles between two loads of the only warp of an SM, for bandwidths below that of one warp without pauses."""

CYCLES = 30_000
PER_PAUSE = 100
"""A window has at least this many pauses."""


WARPS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)


def measured() -> list[tuple[float, float, float]]:
    """Returns (share of writes, both bandwidths together in GB/s, latency in ns) of the points."""
    rows = read_rows(HERE / "mess_h100_mixes.csv")
    points = [(float(row["read_gbs"]), float(row["write_gbs"]), float(row["latency_ns"])) for row in rows]
    return [(write / (read + write), read + write, latency) for read, write, latency in points]


def program(loads: int, stores: int, pause: int = 0) -> Kernel:
    """Returns an endless loop of dependent loads, each after a pause, with stores that nothing waits for spread among them."""
    wait = [Instruction("alu", dst="r", src=("r",), cost=Cost(latency_cycles=pause))] if pause else []
    body: list[Instruction] = []
    for number in range(loads):
        body += [*wait, Instruction("load", dst="r", src=("r",))]
        body += [Instruction("store", src=("s",))] * ((number + 1) * stores // loads - number * stores // loads)
    return Kernel(name="mixed", inputs=("r", "s"), body=(Loop(body=tuple(body), trips=None),))


def simulated(gpu: ws.Gpu, mix: tuple[int, int]) -> np.ndarray:
    """Returns bandwidths in GB/s and mean latencies of the loads in ns, float64[2, occupancies], by bandwidth."""
    found = []
    for warps, pause in [(1, pause) for pause in PAUSES] + [(warps, 0) for warps in WARPS]:
        cycles = max(CYCLES, PER_PAUSE * pause)
        run = ws.simulate(gpu, program(*mix, pause), warps=warps, warmup=cycles, cycles=cycles, replicates=2, sms=8, seed=2016)
        found.append((float(run.bandwidth.mean()), float(run.memory_latency.mean()) / gpu.clock_ghz))
    return np.array(sorted(found)).T


def mixed_latency(gpu: ws.Gpu) -> list[dict[str, str]]:
    """Compares the latencies of the chip that `loaded` has fitted to its reads."""
    curves = {share: simulated(gpu, mix) for share, mix in MIXES.items()}
    rows = []
    for share, gbs, latency in measured():
        nearest = min(MIXES, key=lambda mix: abs(mix - share))
        bandwidth, found = curves[nearest]
        value = np.interp(gbs, bandwidth, found) if gbs <= bandwidth[-1] else np.nan
        kind = "fit" if nearest in FITTED else "prediction"
        source, what = f"Mess, {100 * (1 - share):.0f} % reads", f"latency at {gbs:.0f} GB/s, ns"
        rows.append(comparison(source, "h100 (HBM2e)", what, latency, value, kind))
    return rows

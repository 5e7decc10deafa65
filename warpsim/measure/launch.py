"""Benchmarks of launches: the SM's clock, the cost of a launch, the rate of blocks, the turnover of a block's place."""

from __future__ import annotations

import numpy as np

from warpsim.measure.record import Row, Table
from warpsim.measure.session import Counts, Session
from warpsim.measure.values import LEVELS

CLOCK_NS = 20_000_000
"""Length of one measurement of the clock."""

HELD = 4000
"""Cycles that a warp of the turnover benchmark stays."""


def clock(session: Session, label: str) -> Row:
    """Measures the clock of all SMs; returns a row of the table of clocks."""
    device, sms = session.device, session.device.properties.sms
    out = device.allocate(40 * sms)
    device.launch(session.kernel("clock.cu", "sm_clock"), sms, 32, out, CLOCK_NS)
    rows = session.rows(out, sms, 5).astype(np.int64)
    device.free(out)
    ghz = (rows[:, 2] - rows[:, 0]) / (rows[:, 3] - rows[:, 1])
    return label, CLOCK_NS, round(float(np.median(ghz)), 5), round(float(ghz.min()), 5), round(float(ghz.max()), 5)


def clocks(rows: list[Row]) -> Table:
    """Returns the table of clocks."""
    units = {"label": "what comes next", "ns": "ns", "median_ghz": "GHz", "least_ghz": "GHz", "greatest_ghz": "GHz"}
    return Table("Clock of the SMs, cycles over the device's time, at several moments of the session.", units, rows)


def launches(session: Session) -> Table:
    """Times launches of an empty kernel: one by one, many at once, and grids of many blocks."""
    device, sms = session.device, session.device.properties.sms
    kernel = session.kernel("blocks.cu", "empty")
    rows: list[Row] = []
    device.seconds(kernel, 1, 32, launches=100)
    for count in (1, 10, 100, 1000, 10000):
        for _ in range(20 if count < 100 else 5):
            rows.append((1, 32, count, "host", round(1e6 * device.seconds(kernel, 1, 32, launches=count), 3)))
            rows.append((1, 32, count, "device", round(1e3 * device.milliseconds(kernel, 1, 32, launches=count), 3)))
    for block in (32, 128, 256, 1024):
        for blocks in (1, sms, 4 * sms, 16 * sms, 64 * sms, 256 * sms, 1024 * sms, 4096 * sms):
            for _ in range(3):
                rows.append((blocks, block, 1, "device", round(1e3 * device.milliseconds(kernel, blocks, block), 3)))
    units = {
        "blocks": "of the grid",
        "block": "threads",
        "launches": "one after the other",
        "timer": "",
        "us": "us of all launches",
    }
    return Table("Time of launches of a kernel that does nothing.", units, rows)


def turnover(session: Session) -> tuple[Table, Table]:
    """Measures the time from the end of a block to the start of its successor, and the starts of a block's warps.

    Returns:
        Quantiles of the turnover, and the mean delay of each warp after the first of its block.
    """
    device, properties = session.device, session.device.properties
    kernel = session.kernel("blocks.cu", "hold")
    delays: list[Row] = []
    starts: list[Row] = []
    for block in (32, 64, 128, 256, 512, 1024):
        warps = block // 32
        for wanted in (1, 2, 4, 8):
            shared = session.shared_for(kernel, block, wanted)
            if shared < 0 or wanted * warps > properties.max_warps_per_sm:
                continue
            grid = properties.sms * wanted * 16
            out = device.allocate(32 * grid * warps)
            for _ in range(2):
                device.launch(kernel, grid, block, out, HELD, shared=shared)
            rows = session.rows(out, grid * warps, 4)
            device.free(out)
            found = turnovers(rows, warps, wanted)
            delays.append((block, wanted, HELD, len(found), *(round(float(value), 1) for value in np.quantile(found, LEVELS))))
            late = warp_delays(rows, warps)
            starts += [(block, wanted, warp, round(float(delay), 2)) for warp, delay in enumerate(late)]
    units = {"block": "threads", "resident": "blocks per SM", "held": "cycles that a block stays", "count": "successions"}
    units |= {f"q{level:g}": "cycles" for level in LEVELS}
    about = "Time from a block's last clock reading to the first one of its successor, on the same SM: quantiles."
    late_units = {
        "block": "threads",
        "resident": "blocks per SM",
        "warp": "of the block",
        "delay": "mean cycles after the first warp of the block",
    }
    return Table(about, units, delays), Table("When the warps of a block start.", late_units, starts)


def turnovers(rows: Counts, warps: int, resident: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the cycles from each block's end to its successor's start.

    On each SM the starts after the first `resident` ones follow the ends, in order of time.

    Args:
        rows: uint64[blocks * warps, at least 3]: start, end, SM of each warp, block by block.
        warps: of a block.
        resident: blocks that an SM holds at a time.
    """
    values = rows.astype(np.int64).reshape(-1, warps, rows.shape[1])
    start, end, sm = values[:, :, 0].min(axis=1), values[:, :, 1].max(axis=1), values[:, 0, 2]
    found = []
    for one in np.unique(sm):
        starts, ends = np.sort(start[sm == one])[resident:], np.sort(end[sm == one])
        found.append(starts - ends[: len(starts)])
    return np.concatenate(found)


def warp_delays(rows: Counts, warps: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns float64[warps]: the mean cycles from the start of a block's first warp to that of each warp."""
    start = rows[:, 0].astype(np.int64).reshape(-1, warps)
    return np.asarray((start - start.min(axis=1, keepdims=True)).mean(axis=0), dtype=np.float64)

"""Benchmarks of the SM: chains of one operation, barriers, the order of issue, memory instructions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.measure.operations import CONFLICT_WAYS, OPERATIONS, Operation
from warpsim.measure.record import Row, Table
from warpsim.measure.session import Session, elapsed_by_sm

REPEATS = (16, 32)
"""Lengths of a chain's body; the difference of two kernels is free of the loop's own cost."""

MEMORY_KINDS = ("global_load", "shared_load", "global_store", "shared_store")
"""Names of the instructions of memory_issue.cu, by KIND."""

COUNTS = tuple(range(1, 17))
"""Numbers of memory instructions in a row."""

ISSUE_ORDER_WARPS = (1, 2, 4)
"""Warps of a scheduler whose order of issue is recorded; more would need more registers than an SM has."""

_SOURCE_VALUES = np.array([3, 5, 6, 7, 9, 10, 11, 13], dtype=np.uint32)


def chains(session: Session) -> Table:
    """Times chains of every operation: of one warp (latency), and of more warps and chains (interval)."""
    rows: list[Row] = []
    for op in OPERATIONS.values():
        session.say(f"chains of {op.name}: {op.text}")
        for ilp in op.ilp if session.effort.every_ilp else (op.ilp[0], op.ilp[-1]):
            rows += _chains_of(session, op, ilp, 1, 4)
        if op.saturate:
            rows += _chains_of(session, op, op.ilp[-1], 1, 1)
    for ways in CONFLICT_WAYS:
        rows += _chains_of(session, OPERATIONS["lds"], 1, ways, 4)
    units = {
        "op": "",
        "ways": "lanes that share a bank",
        "schedulers": "schedulers that have warps",
        "ilp": "chains of a warp",
        "repeats": "steps of a chain in the body",
        "warps": "warps on the SM",
        "trips": "times that the body is executed",
        "cycles": "cycles, first start to last end",
    }
    return Table(
        "Cycles of an SM for chains of one operation: `trips` times a body of `repeats` steps of `ilp` chains.", units, rows
    )


def barriers(session: Session) -> Table:
    """Times barriers of one block against its number of warps."""
    device = session.device
    most = device.properties.max_threads_per_block // 32
    out = device.allocate(24 * most)
    rows: list[Row] = []
    for repeats in REPEATS:
        kernel = session.kernel("barrier.cu", "barrier", {"REPEATS": repeats})
        for warps in session.warps(most):
            device.launch(kernel, 1, 32 * warps, out, session.effort.trips)
            taken = elapsed_by_sm(session.rows(out, warps, 3), warps)
            rows.append((repeats, warps, session.effort.trips, int(taken.min())))
    units = {"repeats": "barriers of the body", "warps": "warps of the block", "trips": "bodies", "cycles": "cycles"}
    device.free(out)
    return Table("Cycles of an SM for `trips` bodies of `repeats` barriers of one block.", units, rows)


def issue_order(session: Session) -> Table:
    """Record when each warp of one scheduler issues each of 32 readings of the clock, with additions between."""
    device = session.device
    out = device.allocate(8 * 32 * 4 * max(ISSUE_ORDER_WARPS))
    rows: list[Row] = []
    for gap in (0, 1, 3, 8):
        kernel = session.kernel("issue_order.cu", "issue_order", {"GAP": gap})
        for warps in ISSUE_ORDER_WARPS:
            device.launch(kernel, 1, 32 * 4 * warps, out, 1)
            taken = session.rows(out, 4 * warps, 32)[::4].astype(np.int64)
            taken -= taken.min()
            rows += [(gap, warps, w, i, int(taken[w, i])) for w in range(warps) for i in range(32)]
    units = {
        "gap": "additions between two readings",
        "warps": "warps of the scheduler",
        "warp": "",
        "reading": "",
        "cycle": "cycles since the first",
    }
    device.free(out)
    return Table("When each warp of one scheduler issued each of its 32 readings of the clock.", units, rows)


def memory_issue(session: Session) -> Table:
    """Times 1 to 16 independent memory instructions of one warp on each of 1 to 4 schedulers (Huerta et al., MICRO 2025)."""
    device = session.device
    out, data = device.allocate(64), device.allocate(4 * 4096)
    rows: list[Row] = []
    for kind, name in enumerate(MEMORY_KINDS):
        for count in COUNTS:
            kernel = session.kernel("memory_issue.cu", "memory_issue", {"KIND": kind, "COUNT": count})
            for schedulers in range(1, 5):
                device.launch(kernel, 1, 32 * schedulers, out, data)
                taken = session.rows(out, schedulers, 2).astype(np.int64)
                rows += [(name, schedulers, warp, count, int(end - start)) for warp, (start, end) in enumerate(taken)]
    units = {
        "kind": "",
        "schedulers": "active schedulers",
        "scheduler": "",
        "count": "instructions",
        "cycles": "cycles from the clock before to the clock after",
    }
    about = "Cycles in which one warp of each active scheduler issues `count` independent memory instructions; loads hit."
    device.free(out)
    device.free(data)
    return Table(about, units, rows)


def _chains_of(session: Session, op: Operation, ilp: int, ways: int, schedulers: int) -> Iterator[Row]:
    device, effort = session.device, session.effort
    block_most = device.properties.max_threads_per_block // 32
    idle = 4 // schedulers  # one of so many warps of a block works
    out = device.allocate(32 * block_most)
    data = device.allocate(1024)
    device.write(data, _SOURCE_VALUES)
    for repeats in REPEATS:
        defines = {f"OP_{op.name}": 1, "ILP": ilp, "REPEATS": repeats, "WAYS": ways, "SCHEDULERS": schedulers}
        kernel = session.kernel("chain.cu", "chain", defines)
        for warps in session.warps(block_most // idle) if op.saturate else [1]:
            fastest = []
            for _ in range(effort.repetitions):
                device.launch(kernel, 1, 32 * warps * idle, out, data, effort.trips, 1)
                fastest.append(int(elapsed_by_sm(session.rows(out, warps * idle, 4)[::idle], warps).min()))
            yield op.name, ways, schedulers, ilp, repeats, warps, effort.trips, min(fastest)
    device.free(out)
    device.free(data)

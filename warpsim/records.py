"""From what was kept of the replicates' courses to the variables of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import units
from warpsim.drive import Bins
from warpsim.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.kernels.linear import linear
from warpsim.kernels.listing import listing
from warpsim.readout import caused_accounts, issues, line_accounts, occupancy_changes, steps_issued, warps_seen
from warpsim.store import schema
from warpsim.trace import Trace

if TYPE_CHECKING:
    from warpsim.engine.state import Machine, State

Arrays = dict[str, NDArray[np.float64]]
_NAN = float("nan")


@dataclass(frozen=True)
class Record:
    """What one replicate kept; the state that held it can go.

    Attributes:
        issues: int64[n, 4]: cycle, SM, slot, line.
        warps: int64[n, 5]: launch number, SM, slot, start, last cycle or -1.
        changes: int64[n, 3]: cycle, SM, resident warps.
        accounts: int64[schedulers, lines, states]: warp-cycles.
        caused: int64[lines, states]: warp-cycles by the line that caused them.
        instructions: int64[lines].
        bins: counters over time.
    """

    issues: NDArray[np.int64]
    warps: NDArray[np.int64]
    changes: NDArray[np.int64]
    accounts: NDArray[np.int64]
    caused: NDArray[np.int64]
    instructions: NDArray[np.int64]
    bins: Bins | None


def record(machine: Machine, state: State, bins: Bins | None, trace: Trace) -> Record:
    """What one run kept."""
    none = np.zeros((0, 5), np.int64)
    return Record(
        issues=issues(machine, state) if trace.issues is not None else none,
        warps=warps_seen(machine, state) if trace.warps else none,
        changes=occupancy_changes(state, int(state.clock[0].cycle)) if trace.occupancy is True else none,
        accounts=line_accounts(machine, state) if trace.states else none,
        caused=caused_accounts(machine, state) if trace.states else none,
        instructions=steps_issued(machine, state),
        bins=bins,
    )


def trace_arrays(
    records: Sequence[Record], trace: Trace, gpu: Gpu, kernel: Kernel, *, sms: int, block_warps: int
) -> tuple[Arrays, dict[str, Any]]:
    """The variables of a trace, replicate first, and the labels of their dimensions."""
    arrays: Arrays = {}
    labels: dict[str, Any] = {}
    schedulers = gpu.sm.schedulers
    if trace.occupancy is True:
        changes = _padded([record.changes for record in records])
        names = ("occupancy_change_cycle", "occupancy_change_sm", "occupancy_change_warps")
        arrays |= {name: changes[..., column] for column, name in enumerate(names)}
    if trace.warps:
        arrays |= _warps([record.warps for record in records], schedulers, block_warps, labels)
    if trace.issues is not None:
        cycle, sm, slot, line = np.moveaxis(_padded([record.issues for record in records]), -1, 0)
        arrays |= {"issue_cycle": cycle, "issue_sm": sm, "issue_scheduler": slot % schedulers, "issue_slot": slot}
        arrays["issue_line"] = line
    if trace.states:
        accounts = np.stack([record.accounts for record in records]).astype(float)
        arrays["line_warp_cycles"], arrays["scheduler_warp_cycles"] = accounts.sum(axis=1), accounts.sum(axis=2)
        arrays["line_caused_warp_cycles"] = np.stack([record.caused for record in records]).astype(float)
        arrays["line_instructions"] = np.stack([record.instructions for record in records]).astype(float)
    if trace.states or trace.issues is not None:
        text = listing(linear(kernel))
        labels["line"], labels["line_text"] = np.arange(len(text)), (("line",), text)
    if trace.bins:
        arrays |= _over_time([record.bins for record in records if record.bins], trace, gpu, sms, labels)
    return arrays, labels


def _padded(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Tables of different lengths as one array of floats, NaN at the ends: [replicate, row, column]."""
    result = np.full((len(rows), max(len(table) for table in rows), rows[0].shape[1]), _NAN)
    for target, table in zip(result, rows, strict=True):
        target[: len(table)] = table
    return result


def _warps(tables: Sequence[NDArray[np.int64]], schedulers: int, block_warps: int, labels: dict[str, Any]) -> Arrays:
    """Lifelines by launch number; a warp that a replicate did not see is NaN."""
    first = min(int(table[0, 0]) for table in tables)
    last = max(int(table[-1, 0]) for table in tables)
    labels["warp"] = np.arange(first, last + 1)
    columns = np.full((5, len(tables), last + 1 - first), _NAN)
    for replicate, table in enumerate(tables):
        columns[:, replicate, table[:, 0] - first] = table.T
    number, sm, slot, start, end = columns
    return {
        "warp_start": start,
        "warp_end": np.where(end < 0, _NAN, end),
        "warp_sm": sm,
        "warp_scheduler": slot % schedulers,
        "warp_slot": slot,
        "warp_block": number // block_warps,
    }


def _over_time(bins: Sequence[Bins], trace: Trace, gpu: Gpu, sms: int, labels: dict[str, Any]) -> Arrays:
    """Differences of the counters between edges; NaN after a replicate's end. The widest replicate sets the bins."""
    width, begin = max(one.width for one in bins), bins[0].edges[0]
    states = len(schema.STATES)
    spans, sums = [], []
    for one in bins:
        edges = np.array(one.edges)
        kept = ((edges - begin) % width == 0) | (edges == edges[-1])
        totals = np.vstack([np.zeros(len(one.totals[0])), *one.totals])[kept]
        spans.append(np.diff(edges[kept])[:, None])
        sums.append(np.diff(totals, axis=0))
    cycles, counts = _padded(spans)[..., 0], _padded(sums)
    labels["time"] = begin + width * np.arange(cycles.shape[1])
    arrays: Arrays = {}
    if not isinstance(trace.occupancy, bool):
        arrays["occupancy_over_time"] = np.moveaxis(counts[..., states + 2 :] / cycles[..., None], 1, 2)
    if not isinstance(trace.states, bool):
        gbs = units.bytes_per_cycle_to_gbs(1.0, gpu.clock_ghz) / (sms / gpu.sms)
        arrays |= {
            "warp_cycles_over_time": counts[..., :states],
            "instructions_over_time": counts[..., states],
            "bandwidth_over_time": gbs * counts[..., states + 1] / cycles,
        }
    return arrays

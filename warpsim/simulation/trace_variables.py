"""Reads the events that the engine recorded of each replicate, and converts them into the variables of a trace Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import units
from warpsim.engine.accounts import caused_accounts, line_accounts, steps_issued
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.kernels.listing import listing
from warpsim.kernels.steps import flatten
from warpsim.results import schema
from warpsim.simulation.run import Bins
from warpsim.simulation.trace import Trace

if TYPE_CHECKING:
    from warpsim.engine.machine import Machine
    from warpsim.engine.state import State

Arrays = dict[str, NDArray[np.float64]]
_NAN = float("nan")


@dataclass(frozen=True)
class Recording:
    """The events of one replicate, copied so that the State can be freed.

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


def recording(machine: Machine, state: State, bins: Bins | None, trace: Trace) -> Recording:
    """Copies the events that one run recorded."""
    none = np.zeros((0, 5), np.int64)
    return Recording(
        issues=issues(machine, state) if trace.issues is not None else none,
        warps=warps_seen(machine, state) if trace.warps else none,
        changes=occupancy_changes(state, int(state.clock[0].cycle)) if trace.occupancy is True else none,
        accounts=line_accounts(machine, state) if trace.states else none,
        caused=caused_accounts(machine, state) if trace.states else none,
        instructions=steps_issued(machine, state),
        bins=bins,
    )


def issues(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the recorded issues as rows (cycle, SM, slot, line), sorted by cycle, SM and scheduler; int64[n, 4]."""
    recorded: NDArray[np.int64] = state.trace[: state.tally[0].traced]
    cycle, sm, slot, _ = recorded.T
    schedulers = int(machine.chip[0].schedulers)
    return recorded[np.argsort((cycle * len(state.sms) + sm) * schedulers + slot % schedulers, kind="stable")]


def occupancy_changes(state: State, end: int) -> NDArray[np.int64]:
    """Returns the occupancy changes before cycle `end` as rows (cycle, SM, new number of warps), by cycle and SM; int64[n, 3].

    The first rows are the initial values of all SMs at the start of the window.
    """
    cycle, sm, warps = np.ascontiguousarray(state.changes[: state.tally[0].n_changes].T)
    key = cycle * len(state.sms) + sm
    order = np.argsort(key, kind="stable")  # fast, because the keys are almost sorted
    key = key[order]
    order = order[np.append(key[1:] != key[:-1], True)[: len(key)]]  # the last of several changes in one cycle
    cycle, sm, warps = cycle[order], sm[order], warps[order]
    changed = cycle < end
    for number in range(len(state.sms)):
        own = np.flatnonzero(sm == number)
        changed[own[1:]] &= warps[own[1:]] != warps[own[:-1]]
    changes: NDArray[np.int64] = np.stack([cycle[changed], sm[changed], warps[changed]], axis=1)
    return changes


def warps_seen(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warps resident in the window as rows (launch number, SM, slot, start, last cycle), by number; int64[n, 5].

    The last cycle is -1 for a warp that is still resident.
    """
    from warpsim.engine.constants import Life

    chip = machine.chip[0]
    left = state.lives[: state.tally[0].retired, [0, 1, 4, 2, 3]]
    sms, slots = np.nonzero(state.warps.life.reshape(len(state.sms), -1) != Life.EMPTY)
    blocks = state.seats.block[sms * chip.seats + slots // chip.block_warps]
    numbers, starts = blocks * chip.block_warps + slots % chip.block_warps, state.warps.start[state.sms.first_index[sms] + slots]
    rows = np.concatenate([left, np.stack([numbers, sms, slots, starts, np.full(len(sms), -1)], axis=1)])
    return rows[np.argsort(rows[:, 0])]


def trace_arrays(
    recordings: Sequence[Recording], trace: Trace, gpu: Gpu, kernel: Kernel, *, sms: int, block_warps: int
) -> tuple[Arrays, dict[str, Any]]:
    """Builds the variables of a trace, replicate first, and the labels of their dimensions."""
    arrays: Arrays = {}
    labels: dict[str, Any] = {}
    schedulers = gpu.sm.schedulers
    if trace.occupancy is True:
        changes = _padded([one.changes for one in recordings])
        names = ("occupancy_change_cycle", "occupancy_change_sm", "occupancy_change_warps")
        arrays |= {name: changes[..., column] for column, name in enumerate(names)}
    if trace.warps:
        arrays |= _warps([one.warps for one in recordings], schedulers, block_warps, labels)
    if trace.issues is not None:
        cycle, sm, slot, line = np.moveaxis(_padded([one.issues for one in recordings]), -1, 0)
        arrays |= {"issue_cycle": cycle, "issue_sm": sm, "issue_scheduler": slot % schedulers, "issue_slot": slot}
        arrays["issue_line"] = line
    if trace.states:
        accounts = np.stack([one.accounts for one in recordings]).astype(float)
        arrays["line_warp_cycles"], arrays["scheduler_warp_cycles"] = accounts.sum(axis=1), accounts.sum(axis=2)
        arrays["line_caused_warp_cycles"] = np.stack([one.caused for one in recordings]).astype(float)
        arrays["line_instructions"] = np.stack([one.instructions for one in recordings]).astype(float)
    if trace.states or trace.issues is not None:
        text = listing(flatten(kernel))
        labels["line"], labels["line_text"] = np.arange(len(text)), (("line",), text)
    if trace.bins:
        arrays |= _over_time([one.bins for one in recordings if one.bins], trace, gpu, sms, labels)
    return arrays, labels


def _padded(rows: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Stacks tables of different lengths: float64[replicate, row, column], padded with NaN."""
    result = np.full((len(rows), max(len(table) for table in rows), rows[0].shape[1]), _NAN)
    for target, table in zip(result, rows, strict=True):
        target[: len(table)] = table
    return result


def _warps(tables: Sequence[NDArray[np.int64]], schedulers: int, block_warps: int, labels: dict[str, Any]) -> Arrays:
    """Builds the lifelines by launch number; warps that were not resident in a replicate are NaN."""
    numbers = np.concatenate([table[:, 0] for table in tables])
    first = int(numbers.min()) if len(numbers) else 0
    labels["warp"] = np.arange(first, int(numbers.max()) + 1) if len(numbers) else numbers
    columns = np.full((5, len(tables), len(labels["warp"])), _NAN)
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
    """Takes differences of the counters between bin edges; NaN after a replicate's end. All replicates use the widest bins.

    Where their windows do not begin at the same time, the labels are the times of the first one.
    """
    width, begin = max(one.width for one in bins), bins[0].edges[0]
    states = len(schema.STATES)
    spans, sums = [], []
    for one in bins:
        edges = np.array(one.edges)
        kept = ((edges - edges[0]) % width == 0) | (edges == edges[-1])
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

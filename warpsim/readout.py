"""From the engine's counters to what a run reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import units
from warpsim.gpu import Gpu
from warpsim.store import schema

if TYPE_CHECKING:
    from warpsim.engine.state import Machine, State


def report(machine: Machine, state: State, gpu: Gpu, warmup: int) -> dict[str, NDArray[np.float64]]:
    """The variables of one replicate from the engine's counters."""
    chip, tally = machine.chip[0], state.tally[0]
    sms, cycles = int(chip.sms), int(state.clock[0].cycle) - warmup
    sm_cycles = sms * cycles
    scheduler_cycles = sm_cycles * int(chip.schedulers)
    ops = schema.result_ops([gpu])
    by_step = steps_issued(machine, state)
    issued = dict(zip(gpu.ops, _by_class(machine, by_step), strict=False))
    instructions = np.array([issued[op] for op in ops], float)
    occupancy = tally.occupancy[: int(chip.seats * chip.block_warps) + 1] / sm_cycles
    levels = np.arange(len(occupancy))
    issue_cycles, busy = _scheduler_cycles(machine, state)
    asked_bytes = float(by_step @ machine.details.asked_bytes)
    used = _by_class(machine, by_step * machine.program.unit_ticks) / (sm_cycles * chip.tick)
    used = used / np.where(chip.own_unit, chip.schedulers, 1)
    moved = tally.moved_bytes / cycles / chip.peak_rate
    clock, share = gpu.clock_ghz, sms / gpu.sms
    values: dict[str, Any] = {
        "cycles": cycles,
        "instructions": instructions,
        "ipc": instructions / sm_cycles,
        "throughput": units.WARP_LANES * instructions / sm_cycles,
        "bandwidth": units.bytes_per_cycle_to_gbs(asked_bytes / cycles, clock) / share,
        "memory_latency": _ratio(tally.latency_sum, tally.histogram.sum()),
        "memory_latency_quantile": _histogram_quantiles(tally.histogram, schema.QUANTILES),
        "warp_latency": _ratio(tally.lifetime_sum, tally.retired),
        "occupancy": levels @ occupancy,
        "occupancy_max": levels[occupancy > 0].max(initial=0),
        "occupancy_fraction": occupancy,
        "warp_cycles": line_accounts(machine, state).sum(axis=(0, 1)),
        "scheduler_cycles": np.array([issue_cycles, busy, scheduler_cycles - issue_cycles - busy]),
        "peak_fraction": max(moved, (issue_cycles + busy) / scheduler_cycles, *used),
    }
    return {name: np.asarray(value, dtype=float) for name, value in values.items()}


def _scheduler_cycles(machine: Machine, state: State) -> tuple[int, int]:
    """Scheduler-cycles in which instructions issued, and in which the scheduler was still busy with them."""
    tally, issued = state.tally[0], steps_issued(machine, state)
    issue_cycles = int(issued.sum() - state.counts.seconds.sum())
    return issue_cycles, int(issued @ machine.program.busy - tally.pair_busy - issue_cycles + tally.carried)


def steps_issued(machine: Machine, state: State) -> NDArray[np.int64]:
    """Warp instructions by program line; int64[lines]."""
    from warpsim.engine.attribution import instructions

    found: NDArray[np.int64] = instructions(machine, state)
    return found


def issues(machine: Machine, state: State) -> NDArray[np.int64]:
    """Instructions issued that were kept: (cycle, SM, slot, line), by cycle, then SM, then scheduler; int64[n, 4]."""
    kept: NDArray[np.int64] = state.trace[: state.tally[0].traced]
    cycle, sm, slot, _ = kept.T
    schedulers = int(machine.chip[0].schedulers)
    return kept[np.argsort((cycle * len(state.sms) + sm) * schedulers + slot % schedulers, kind="stable")]


def _by_class(machine: Machine, of_steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of what is counted by step over the operation classes; steps that only steer count nothing."""
    from warpsim.engine.state import CLASSES

    return np.bincount(machine.program.op, of_steps, CLASSES).astype(np.int64)


def _histogram_quantiles(histogram: NDArray[np.int64], levels: tuple[float, ...]) -> NDArray[np.float64]:
    """The smallest latency with at least a fraction of the loads at or below it; NaN without loads."""
    from warpsim.engine.state import COARSE_WIDTH, FINE_BINS

    total = histogram.sum()
    if total == 0:
        return np.full(len(levels), np.nan)
    ranks = np.maximum(np.ceil(np.array(levels) * total), 1)
    bins = np.searchsorted(np.cumsum(histogram), ranks)
    found: NDArray[np.float64] = np.where(bins < FINE_BINS, bins, FINE_BINS + (bins - FINE_BINS + 0.5) * COARSE_WIDTH)
    return found


def _ratio(total: float, count: float) -> float:
    return float(total) / float(count) if count else float("nan")


def occupancy_changes(state: State, end: int) -> NDArray[np.int64]:
    """Changes of occupancy before cycle `end`: (cycle, SM, resident warps from then on), by cycle, then SM; int64[n, 3].

    The first rows are what each SM held at the begin of the window.
    """
    cycle, sm, warps = np.ascontiguousarray(state.changes[: state.tally[0].n_changes].T)
    key = cycle * len(state.sms) + sm
    order = np.argsort(key, kind="stable")  # fast, since they are nearly in order
    key = key[order]
    order = order[np.append(key[1:] != key[:-1], True)[: len(key)]]  # of several in one cycle the last counts
    cycle, sm, warps = cycle[order], sm[order], warps[order]
    changed = cycle < end
    for number in range(len(state.sms)):
        own = np.flatnonzero(sm == number)
        changed[own[1:]] &= warps[own[1:]] != warps[own[:-1]]
    found: NDArray[np.int64] = np.stack([cycle[changed], sm[changed], warps[changed]], axis=1)
    return found


def warps_seen(machine: Machine, state: State) -> NDArray[np.int64]:
    """The warps that were resident in the window: (launch number, SM, slot, start, last cycle), by number; int64[n, 5].

    The last cycle is -1 where a warp is still resident.
    """
    from warpsim.engine.state import MAX_WARPS, Life

    chip = machine.chip[0]
    left = state.lives[: state.tally[0].retired, [0, 1, 4, 2, 3]]
    sms, slots = np.nonzero(state.warps.life.reshape(-1, MAX_WARPS) != Life.EMPTY)
    blocks = state.seats.block[sms * chip.seats + slots // chip.block_warps]
    numbers, starts = blocks * chip.block_warps + slots % chip.block_warps, state.warps.start[sms * MAX_WARPS + slots]
    rows = np.concatenate([left, np.stack([numbers, sms, slots, starts, np.full(len(sms), -1)], axis=1)])
    return rows[np.argsort(rows[:, 0])]


def line_accounts(machine: Machine, state: State) -> NDArray[np.int64]:
    """Warp-cycles by scheduler, program line and state (`schema.STATES`), summed over SMs."""
    from warpsim.engine import attribution

    found: NDArray[np.int64] = attribution.line_accounts(machine, state)
    return found


def caused_accounts(machine: Machine, state: State) -> NDArray[np.int64]:
    """Warp-cycles by the program line that caused them and by state, summed over SMs and schedulers."""
    from warpsim.engine import attribution

    found: NDArray[np.int64] = attribution.caused_accounts(machine, state)
    return found


@dataclass(frozen=True)
class TraceRun:
    """Everything that one run did, for tests and for looking closely.

    Attributes:
        issues: (cycle, sm, slot, operation class) by cycle, SM and scheduler, from cycle 0 on.
        warp_cycles: warp-cycles by state, in the window.
        line_cycles: warp-cycles by (scheduler, program line, state), in the window.
        caused_cycles: warp-cycles by (program line that caused them, state), in the window.
        scheduler_cycles: scheduler-cycles by use, in the window.
        occupancy_cycles: SM-cycles by number of resident warps, in the window.
        occupancy_changes: (cycle, sm, resident warps from then on), in the window.
        warps: (launch number, sm, slot, start, last cycle or -1) of the warps resident in the window, by launch number.
        retired: (launch number, sm, start, last cycle) of the warps that retired in the window, by launch number.
        load_latencies: latencies in cycles of the loads issued in the window, ascending (exact below 4096).
        instructions: warp instructions by operation class, in the window.
        end: the cycle after the last one.
    """

    issues: list[tuple[int, int, int, str]]
    warp_cycles: dict[str, int]
    line_cycles: dict[tuple[int, int, str], int]
    caused_cycles: dict[tuple[int, str], int]
    scheduler_cycles: dict[str, int]
    occupancy_cycles: dict[int, int]
    occupancy_changes: list[tuple[int, ...]]
    warps: list[tuple[int, ...]]
    retired: list[tuple[int, ...]]
    load_latencies: list[int]
    instructions: dict[str, int]
    end: int


def traced(machine: Machine, state: State, classes: Sequence[str], warmup: int) -> TraceRun:
    """Everything that a traced run did."""
    tally, chip, end = state.tally[0], machine.chip[0], int(state.clock[0].cycle)
    scheduler_cycles = int(chip.sms * chip.schedulers * (end - warmup))
    issued, busy = _scheduler_cycles(machine, state)
    accounts, caused = line_accounts(machine, state), caused_accounts(machine, state)
    return TraceRun(
        issues=[(int(t), int(sm), int(slot), classes[machine.program[i].op]) for t, sm, slot, i in issues(machine, state)],
        warp_cycles=dict(zip(schema.STATES, accounts.sum(axis=(0, 1)).tolist(), strict=True)),
        line_cycles={
            (int(s), int(line), schema.STATES[name]): int(accounts[s, line, name])
            for s, line, name in zip(*np.nonzero(accounts), strict=True)
        },
        caused_cycles={
            (int(line), schema.STATES[name]): int(caused[line, name]) for line, name in zip(*np.nonzero(caused), strict=True)
        },
        scheduler_cycles=dict(zip(schema.SLOTS, (issued, busy, scheduler_cycles - issued - busy), strict=True)),
        occupancy_cycles={warps: int(n) for warps, n in enumerate(tally.occupancy) if n},
        occupancy_changes=_tuples(occupancy_changes(state, end)),
        warps=_tuples(warps_seen(machine, state)),
        retired=sorted(_tuples(state.lives[: tally.retired, :4])),
        load_latencies=np.repeat(np.arange(len(tally.histogram)), tally.histogram).tolist(),
        instructions={op: int(n) for op, n in zip(classes, _by_class(machine, steps_issued(machine, state)), strict=False) if n},
        end=end,
    )


def _tuples(rows: NDArray[np.int64]) -> list[tuple[int, ...]]:
    return [tuple(row) for row in rows.tolist()]

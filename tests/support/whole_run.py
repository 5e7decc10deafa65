"""Everything that one run of the engine did, in the form in which the reference gives it, so that tests can compare them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.accounts import caused_accounts, line_accounts, scheduler_cycles, steps_issued
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Kernel
from warpsim.results import schema
from warpsim.simulation.counters import Counts, by_class, engine_counts
from warpsim.simulation.encode import encode, with_seed
from warpsim.simulation.point import as_launched
from warpsim.simulation.run import Capacity, run_machine
from warpsim.simulation.trace_variables import issues, occupancy_changes, warps_seen


@dataclass(frozen=True)
class WholeRun:
    """Everything that one run did.

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
        load_latencies: latencies in cycles of the loads served in the window, ascending (exact below 4096).
        instructions: warp instructions by operation class, in the window.
        counts: the counters from which the variables of a result are computed.
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
    counts: Counts
    end: int


def spreads(launch: Launch, warmup: int) -> bool:
    """Returns whether the warps of the deal start at random phases (docs/model.md, section 4)."""
    return warmup > 0 and not launch.finite


def whole_run(
    gpu: Gpu,
    kernel: Kernel,
    launch: Launch,
    *,
    scheduler: str = "lrr",
    memory: str = "queue",
    seed: int,
    warmup: int = 0,
    cycles: int | None = None,
    sms: int | None = None,
    rows: int = 1_000_000,
    keep_issues: bool = True,
) -> WholeRun:
    """Runs one replicate, of which `seed` is the 64-bit seed, and keeps all that happens, at most `rows` of each kind.

    Where issues are not kept, schedulers run ahead with plain steps (`warpsim/engine/ahead.py`). `launch` is as `resolve_launch`
    returns it; `cycles` None runs a finite grid to its end, with which a longer window ends.

    Raises:
        DeadlockError: warps wait at different barriers.
        TraceLimitError: there were more than `rows`.
        ValueError: the grid ends within `warmup`.
    """

    kernel, phases = as_launched(gpu, kernel, launch), spreads(launch, warmup)
    machine = with_seed(encode(gpu, kernel, launch, scheduler=scheduler, memory=memory, sms=sms, phases=phases), seed)
    capacity = Capacity(issues=rows if keep_issues else 0, lives=rows, changes=rows)
    state, _ = run_machine(machine, kernel, warmup, cycles, capacity)
    classes = list(gpu.ops)
    ops = [classes[op % len(classes)] for op in machine.program.op]
    tally, chip, end = state.tally[0], machine.chip[0], int(state.clock[0].cycle)
    total = int(chip.sms * chip.schedulers * (end - warmup))
    issued, busy = scheduler_cycles(machine, state)
    accounts, caused = line_accounts(machine, state), caused_accounts(machine, state)
    return WholeRun(
        issues=[(int(t), int(sm), int(slot), ops[i]) for t, sm, slot, i in issues(machine, state)] if keep_issues else [],
        warp_cycles=dict(zip(schema.STATES, accounts.sum(axis=(0, 1)).tolist(), strict=True)),
        line_cycles={
            (int(s), int(line), schema.STATES[name]): int(accounts[s, line, name])
            for s, line, name in zip(*np.nonzero(accounts), strict=True)
        },
        caused_cycles={
            (int(line), schema.STATES[name]): int(caused[line, name]) for line, name in zip(*np.nonzero(caused), strict=True)
        },
        scheduler_cycles=dict(zip(schema.SLOTS, (issued, busy, total - issued - busy), strict=True)),
        occupancy_cycles={warps: int(n) for warps, n in enumerate(tally.occupancy) if n},
        occupancy_changes=_tuples(occupancy_changes(state, end)),
        warps=_tuples(warps_seen(machine, state)),
        retired=sorted(_tuples(state.lives[: tally.retired, :4])),
        load_latencies=np.repeat(np.arange(len(tally.histogram)), tally.histogram).tolist(),
        instructions={op: int(n) for op, n in zip(classes, by_class(machine, steps_issued(machine, state)), strict=False) if n},
        counts=engine_counts(machine, state, gpu, warmup),
        end=end,
    )


def _tuples(rows: NDArray[np.int64]) -> list[tuple[int, ...]]:
    return [tuple(row) for row in rows.tolist()]

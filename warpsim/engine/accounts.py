"""What has been counted, by step: read between two runs. docs/model.md, section 7.

Shapes: K schedulers of an SM, S steps; states are those of WarpState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.engine.constants import STATES, WarpState

if TYPE_CHECKING:
    from warpsim.engine.machine import Machine
    from warpsim.engine.state import State


def steps_issued(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp instructions by step; int64[S]."""
    issued: NDArray[np.int64] = state.counts.issued.reshape(-1, len(machine.program)).sum(axis=0)
    return issued


def scheduler_cycles(machine: Machine, state: State) -> tuple[int, int]:
    """Returns the scheduler-cycles with issues, and those in which the scheduler was busy with earlier issues."""
    tally, issued = state.tally[0], steps_issued(machine, state)
    issue_cycles = int(issued.sum() - state.parts.second_issues.sum())
    return issue_cycles, int(issued @ machine.program.busy - tally.pair_busy - issue_cycles + tally.carried + tally.held)


def line_accounts(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp-cycles by scheduler, step and WarpState; int64[K, S, states]."""
    program, known = machine.program, np.flatnonzero(machine.program.delay)
    accounts: NDArray[np.int64] = _issues_and_eligible(machine, state) + state.stalls.reshape(-1, len(program), STATES)
    following: Any = (slice(None), program.following[known], program.reason[known])
    np.add.at(accounts, following, _known_waits(machine, state)[:, known])
    return accounts


def caused_accounts(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp-cycles by the step that caused them and by WarpState; int64[S, states]."""
    program, known = machine.program, np.flatnonzero(machine.program.delay)
    accounts: NDArray[np.int64] = _issues_and_eligible(machine, state).sum(axis=0) + state.caused.reshape(len(program), STATES)
    accounts[known, program.reason[known]] += _known_waits(machine, state).sum(axis=0)[known]
    return accounts


def _issues_and_eligible(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp-cycles of warps that issue, or are eligible, which belong to the step itself; int64[K, S, states]."""
    program = machine.program
    waited = state.counts["waited"].reshape(-1, len(program))
    throttled, held, unfetched = (state.parts[name].reshape(-1, len(program)) for name in ("throttled", "held", "unfetched"))
    accounts = np.zeros((*waited.shape, STATES), np.int64)
    accounts[:, :, WarpState.SELECTED] = _selected(machine, state)
    accounts[:, :, WarpState.NOT_SELECTED] = waited - throttled - held - unfetched
    accounts[:, :, WarpState.DISPATCH_STALL] += held
    accounts[:, :, WarpState.NO_INSTRUCTION] += unfetched
    accounts[:, np.arange(len(program)), machine.classes.throttle[program.op]] += throttled
    return accounts


def _selected(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp-cycles in which warps issued, by scheduler and step; int64[K, S]."""
    cycles: NDArray[np.int64] = (state.counts.issued - state.parts.second_issues).reshape(-1, len(machine.program))
    return cycles


def _known_waits(machine: Machine, state: State) -> NDArray[np.int64]:
    """Returns the warp-cycles of the waits after each step that are known before the run; int64[K, S]."""
    cycles: NDArray[np.int64] = _selected(machine, state) * (machine.program.delay - 1)
    return cycles

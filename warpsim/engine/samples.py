"""Counters at the edges of equal spans of time, from which follows what happened within each."""

import numpy as np

from warpsim.engine.accounting import pause, resume
from warpsim.engine.chip import run
from warpsim.engine.jit import jit
from warpsim.engine.state import Outcome, WarpState

STATES = len(WarpState)
OTHERS = 2  # instructions, bytes asked for

_STOPPED, _SELECTED = int(Outcome.STOPPED), int(WarpState.SELECTED)


@jit
def read(machine, state, now, totals):
    """Writes what was counted up to cycle `now`: warp-cycles by WarpState, instructions, bytes, warp-cycles by SM."""
    pause(machine, state, now)
    tally, issued, asked = state.tally[0], 0, 0.0
    for i in range(len(state.issued)):
        issued += state.issued[i]
        asked += state.issued[i] * machine.details[i].asked_bytes
    for i in range(STATES):
        totals[i] = tally.states[i]
    totals[_SELECTED] = issued - tally.pairs
    totals[STATES], totals[STATES + 1] = issued, asked
    for i in range(len(state.sms)):
        totals[STATES + OTHERS + i] = state.sms[i].warp_cycles
    resume(machine, state, now)


@jit
def run_and_read(machine, state, edge, width, stop, totals):
    """Runs the chip up to cycle `stop` and reads the counters at `edge` and every `width` cycles from there.

    Stops, too, when the rows of `totals` are used up, and with the grid. Returns the rows written, and an Outcome.
    """
    rows = 0
    while True:
        outcome = run(machine, state, min(edge, stop))
        if outcome != _STOPPED:
            return rows, outcome
        if state.clock[0].cycle == edge:
            read(machine, state, edge, totals[rows])
            rows += 1
            edge += width
        if rows == len(totals) or state.clock[0].cycle == stop:
            return rows, np.int64(_STOPPED)

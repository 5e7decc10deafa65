"""The warm-up of a steady run where the user gives none: from pilot runs, by MSER-5 (White 1997), in iterations of the kernel.

Pilots are replicates of their own from cycle 0 on, so that the warm-up does not depend on what is counted; where a point has few
SMs, several pilots are added up. An observation covers a fifth of an iteration under load, so that a batch of five, of which
MSER-5 takes the means, covers an iteration. The rule leaves out the first d batches, where d minimizes the squared standard
error of the mean of the rest. It is applied to the instructions and to the warp-cycles in each state, since slow transients, such
as warps that drift towards or away from each other, show in a state long before they show in the throughput.

MSER weighs the bias against the chance of the pilot. The mean over replicates has less chance, so the warm-up is MARGIN times
d: a transient that decays exponentially, and has come down to the pilot's noise after d batches, is then negligible.

The warm-up is the same for all replicates of a point, however many run, and in whatever order. Only where the window holds few
iterations does each replicate begin to count later by a random time of an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warpsim.kernels.iteration import iteration_instructions
from warpsim.reference.memory import Stream
from warpsim.results import schema
from warpsim.simulation.pilot import MARGIN, PILOT, batch_cycles, longest_spread, pilot_batches, pilots
from warpsim.simulation.run import Capacity, run_machine

if TYPE_CHECKING:
    from warpsim.engine.machine import Machine
    from warpsim.simulation.point import Point

LEAST_SHARE = 1e-3
"""Share of the warp-cycles, at least, of a state whose series counts; those of rarer states are single events."""


def mser(batches: NDArray[np.float64]) -> int:
    """Returns the number of batches to leave out at the start of a series, 0 to half of them (MSER, White 1997).

    Args:
        batches: means or sums of equal batches; at least two.
    """
    number = len(batches)
    rest = [batches[left_out:] for left_out in range(number // 2 + 1)]
    return int(np.argmin([values.var() / len(values) for values in rest]))


def derived_warmup(
    point: Point, machine_of: Callable[[int], Machine], *, threads: int = 1, pause: Callable[[], None] | None = None
) -> tuple[int, int]:
    """Returns the warm-up of an endless run, and the time within which the windows of its replicates begin, in cycles.

    The warm-up is MARGIN times what MSER-5 leaves out, and one batch more. The windows begin then, or, where they hold fewer than
    `schema.FEW_ITERATIONS` iterations, within an iteration, which counts for at most the longest pilot.

    Args:
        point: the point.
        machine_of: returns its machine with the seed of a replicate.
        threads: threads that run the SMs of a pilot.
        pause: called several times per second; an exception that it raises ends the pilot.

    Raises:
        DeadlockError: warps wait at different barriers.
    """
    batch, number = batch_cycles(point), pilot_batches(point)
    counted = np.zeros((number, len(schema.STATES) + 1))
    for pilot in range(pilots(point)):
        machine = machine_of(PILOT - pilot)
        bins_only = Capacity(bins=number)
        _, bins = run_machine(machine, point.kernel, 0, number * batch, bins_only, threads=threads, pause=pause)
        assert bins is not None
        totals = np.array([np.zeros_like(bins.totals[0]), *bins.totals])
        counted += np.diff(totals, axis=0)[:, : counted.shape[1]]
    states, instructions = counted[:, :-1], counted[:, -1]
    frequent = states.sum(axis=0) > LEAST_SHARE * states.sum()
    warmup = (MARGIN * max(map(mser, [instructions, *states[:, frequent].T])) + 1) * batch
    return warmup, _spread(point, states[number // 2 :].sum(), instructions[number // 2 :].sum())


def _spread(point: Point, warp_cycles: float, instructions: float) -> int:
    """Returns within how many cycles windows begin, by warp-cycles and instructions of a settled run; 0: all at once."""
    iteration = warp_cycles * iteration_instructions(point.kernel, point.launch.block_warps) / max(instructions, 1.0)
    return int(min(iteration, longest_spread(point))) if point.cycles < schema.FEW_ITERATIONS * iteration else 0


def window_offset(seed: int, spread: int) -> int:
    """Returns by how many cycles the window of a replicate begins after the warm-up: 0 to `spread` - 1, 0 where that is 0."""
    return math.floor(Stream.of_window(seed).uniform() * spread)

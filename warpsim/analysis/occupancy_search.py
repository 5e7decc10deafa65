"""Finds by simulation the smallest occupancy at which a launch attains a fraction of the peak."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from warpsim.arguments import InvalidPoint
from warpsim.hardware.residency import Launch, default_block_warps, occupancy, resolve_launch
from warpsim.kernels.program import names_warps
from warpsim.results.statistics import half_width
from warpsim.simulation.api import Arrays, simulate_point
from warpsim.simulation.point import Point


def same_size_launches(point: Point) -> list[Launch]:
    """Returns the launches that fit with blocks of the present size, from few to many warps."""
    size = point.launch.block_warps
    blocks = range(1, occupancy(point.gpu, point.kernel, size).blocks + 1)
    return [point.launch.model_copy(update={"resident_blocks": n}) for n in blocks]


def all_launches(point: Point, *, smallest_blocks: bool = False) -> list[Launch]:
    """Returns a launch for each occupancy that fits, from few to many warps.

    Blocks keep their size where it gives the occupancy, and have the smallest size that does elsewhere, or everywhere with
    `smallest_blocks`. If the size of a block belongs to the algorithm (barriers, branches by the index of a warp) or to the
    request (a finite grid), all keep it.
    """
    found = {launch.resident_warps: launch for launch in same_size_launches(point)}
    gpu, kernel, launch = point.gpu, point.kernel, point.launch
    if not ("barrier" in kernel.ops or names_warps(kernel) or launch.finite):
        for warps in range(1, gpu.sm.max_warps + 1):
            try:
                size = default_block_warps(gpu, warps)
                resolve_launch(gpu, kernel, warps, size)
            except InvalidPoint:
                continue
            if smallest_blocks or warps not in found:
                found[warps] = launch.model_copy(update={"block_warps": size, "resident_blocks": warps // size})
    return [found[warps] for warps in sorted(found)]


def warps_held(point: Point, launch: Launch) -> int:
    """Returns the warps that an SM holds at a time in a launch of a point; a grid may have fewer blocks than fit."""
    if launch.blocks is None:
        return launch.resident_warps
    return min(launch.resident_warps, math.ceil(launch.blocks / point.gpu.sms) * launch.block_warps)


def enough(launches: Sequence[Launch], warps: float) -> Launch:
    """Returns the launch with the fewest warps that suffice, or the largest one."""
    return next((launch for launch in launches if launch.resident_warps >= warps), launches[-1])


@dataclass(frozen=True)
class Trial:
    """A simulated launch.

    Attributes:
        launch: the launch.
        arrays: the variables of the simulation, replicate first.
    """

    launch: Launch
    arrays: Arrays

    @property
    def warps(self) -> int:
        """The occupancy in warps per SM."""
        return self.launch.resident_warps

    @property
    def shares(self) -> NDArray[np.float64]:
        """The attained share of the peak (`peak_fraction`) of each replicate."""
        return self.arrays["peak_fraction"]

    @property
    def ipc(self) -> NDArray[np.float64]:
        """Instructions of all classes per cycle and SM, of each replicate."""
        total: NDArray[np.float64] = self.arrays["ipc"].sum(axis=-1)
        return total

    @property
    def share(self) -> float:
        """Mean share of the peak."""
        return float(self.shares.mean())

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of the mean share; NaN for one replicate."""
        return float(half_width(self.shares))


@dataclass(frozen=True)
class Needed:
    """The outcome of a search; a trial is None where no launch attains the fraction.

    Attributes:
        trial: the launch with the fewest warps in blocks of the present size.
        low: the same by the upper bounds of the intervals; None for one replicate.
        high: the same by the lower bounds.
        any_size: the launch with the fewest warps in blocks of any size.
    """

    trial: Trial | None
    low: Trial | None
    high: Trial | None
    any_size: Trial | None


def _attains_no_more(launch: Launch, trial: Trial) -> bool:
    """Returns whether a launch is taken to attain no more than one that was simulated: no more warps, in blocks no smaller."""
    return launch.resident_warps <= trial.warps and launch.block_warps >= trial.launch.block_warps


@dataclass
class OccupancySearch:
    """Simulates launches of a point with common random numbers, each once.

    Attributes:
        point: the point; its launch is replaced.
        streams: what the seeds of all launches are hashes of, with the number of the replicate.
        threads: number of threads. Replicates run at the same time; where there are at least twice as many threads, the SMs
            of each are divided as well, with at least 16 SMs to a thread.
        trials: the launches simulated so far, by warps per block and resident blocks.
    """

    point: Point
    streams: bytes
    threads: int = 1
    trials: dict[tuple[int, int | None], Trial] = field(default_factory=dict)

    def trial(self, launch: Launch) -> Trial:
        """Returns the simulation of a launch."""
        key = (launch.block_warps, launch.resident_blocks)
        if key not in self.trials:
            arrays = simulate_point(replace(self.point, launch=launch), self.threads, streams=self.streams)
            self.trials[key] = Trial(launch, arrays)
        return self.trials[key]

    def needed(self, fraction: float) -> Needed:
        """Finds the fewest warps that attain a fraction of the peak, by bisection over the launches that fit.

        The search assumes that a launch of more warps attains no less, and neither does one of as many warps in smaller blocks.
        What it returns has been simulated, and so has the launch before it, which does not attain the fraction.
        """
        same = same_size_launches(self.point)
        found = self._fewest(same, lambda trial: trial.share >= fraction)
        low = self._fewest(same, lambda trial: trial.share + trial.half >= fraction)
        high = self._fewest(same, lambda trial: trial.share - trial.half >= fraction)
        others = [launch for launch in all_launches(self.point, smallest_blocks=True) if not self._is_coarse(launch)]
        fewer = [launch for launch in others if found is None or launch.resident_warps < found.warps]
        refused = [trial for trial in self.trials.values() if trial.share < fraction]
        fewer = [launch for launch in fewer if not any(_attains_no_more(launch, trial) for trial in refused)]
        return Needed(found, low, high, self._fewest(fewer, lambda trial: trial.share >= fraction) or found)

    def _is_coarse(self, launch: Launch) -> bool:
        """Returns whether blocks are far larger than at similar occupancies: a launch may attain less than one of fewer warps.

        31 warps have to be one block where 16 blocks fit, but 30 and 32 may be blocks of 2. The warps of a block wait for the
        slowest of them before the next block replaces them.
        """
        larger = launch.block_warps > 2 * math.ceil(launch.resident_warps / self.point.gpu.sm.max_blocks)
        return larger and launch.block_warps != self.point.launch.block_warps

    def _fewest(self, launches: Sequence[Launch], attains: Callable[[Trial], bool]) -> Trial | None:
        """Returns the first of ascending launches that attains something; None if the last one does not."""
        if not launches or not attains(self.trial(launches[-1])):
            return None
        below, found = -1, len(launches) - 1
        while found - below > 1:
            middle = (below + found) // 2
            if attains(self.trial(launches[middle])):
                found = middle
            else:
                below = middle
        return self.trial(launches[found])

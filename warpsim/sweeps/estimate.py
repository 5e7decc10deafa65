"""Estimates the core-hours, the time of a tile and the size of the store of a sweep from a short timed sample of its points."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numcodecs import Zstd

from warpsim.arguments import InvalidPoint
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.simulation.api import compile_engine, settled, simulate_point
from warpsim.simulation.point import Point
from warpsim.store.create import ZSTD_LEVEL
from warpsim.sweeps.cost import expected_warmup, point_bytes, point_seconds
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import Replicates, Results, required
from warpsim.sweeps.space import BuildCache, Space

_EXAMINED = 1000
"""Points whose cost is estimated from their settings, at most."""

_GOLDEN_RATIO = (math.sqrt(5.0) - 1.0) / 2.0
"""Multiples of this number, modulo 1, are spread evenly over the unit interval, however many are taken."""


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a sweep.

    Attributes:
        possible: fraction of the points that their chips can hold.
        sampled: number of points that were timed.
        seconds: time of all points on one core of this machine; NaN if no sampled point exists.
        tile_seconds: mean time of a tile on one core.
        replicates: mean number of replicates of a point; None if shorter windows or too few replicates were timed.
        timed_replicates: mean number of replicates that were timed of a sampled point.
        shortened: number of sampled points that were timed in a shorter window.
        raw_bytes: size of all results without compression.
        store_bytes: approximate size of the store.
    """

    possible: float
    sampled: int
    seconds: float
    tile_seconds: float
    replicates: float | None
    timed_replicates: float
    shortened: int
    raw_bytes: int
    store_bytes: int


def estimate(plan: Plan, seconds: float = 5.0) -> Estimate:
    """Times some points of a plan, spread over its axes, on one core.

    The measured times calibrate the cost estimated from the settings (`warpsim.sweeps.cost`), which is then summed over the plan.
    A point is timed for about a tenth of the sample at most: of its replicates as many as end in this time, but at least one, and
    where one takes longer, a shorter window of it. The time of the whole point is scaled up from that.

    Args:
        plan: the sweep.
        seconds: duration of the sample, not counting its last point and the compilation of the engine.
    """
    examined = plan.sample(_EXAMINED)
    cache = BuildCache()
    costs = [_seconds(plan, position, cache) for position in examined]
    possible = [cost for cost in costs if cost is not None]
    total = plan.points * sum(possible) / len(costs)
    measured = expected = 0.0
    needed: list[float | None] = []
    raw = packed = 0.0
    shortened = timed = 0
    points = _sample(plan)
    compile_engine(plan.some_points())
    start = time.perf_counter()
    for position, point in points:
        short = _shortened(point, seconds / 10)
        sample = _timed(short, plan.streams(position), plan.replicates, seconds / 10)
        known = sample.needed if short is point else None  # a shorter window may need more replicates
        needed.append(known)
        shortened, timed = shortened + (short is not point), timed + sample.replicates
        number = known or plan.replicates.expected
        measured += sample.preparation + number * sample.replicate
        expected += _cost(short, number)
        sizes = _sizes(sample.results, number / plan.replicates.most)
        raw, packed = raw + sizes[0], packed + sizes[1]
        if time.perf_counter() - start > seconds or len(needed) == len(examined):
            break
    sure = [number for number in needed if number is not None]
    replicates = float(np.mean(sure)) if sure and len(sure) == len(needed) else None
    correction = (replicates or plan.replicates.expected) / plan.replicates.expected
    whole = total * correction * measured / expected if expected else math.nan
    raw_bytes = point_bytes(plan) * plan.points
    ratio = packed / raw if raw else 0.0
    return Estimate(
        possible=len(possible) / len(costs),
        sampled=len(needed),
        seconds=whole,
        tile_seconds=whole / len(plan.grid),
        replicates=replicates,
        timed_replicates=timed / len(needed) if needed else 0.0,
        shortened=shortened,
        raw_bytes=raw_bytes,
        store_bytes=int(raw_bytes * ratio * len(possible) / len(costs)),
    )


def _seconds(space: Space, position: tuple[int, ...], cache: BuildCache) -> float | None:
    """Returns the cost of a point estimated from its settings; None if it does not exist."""
    with suppress(InvalidPoint):
        return _cost(space.point(position, cache), space.replicates.expected)
    return None


def _cost(point: Point, replicates: float) -> float:
    """Returns the cost of a point with a number of replicates that need not be whole."""
    one, two = (point_seconds(replace(point, replicates=number)) for number in (1, 2))
    return one + (two - one) * (replicates - 1)


def _sample(space: Space) -> Iterator[tuple[tuple[int, ...], Point]]:
    """Yields points that exist, spread evenly over the sweep, however many are taken."""
    for number in range(_EXAMINED):
        position = space.position(int((number + 0.5) * _GOLDEN_RATIO % 1.0 * space.points))
        with suppress(InvalidPoint):
            yield position, space.point(position)


def _shortened(point: Point, seconds: float) -> Point:
    """Returns the point, or where the estimated cost of a replicate is above `seconds`, a window of it that costs as much."""
    part = seconds / point_seconds(replace(point, replicates=1))
    if part >= 1.0:
        return point
    return replace(point, warmup=int(expected_warmup(point) * part), cycles=max(1, int(point.cycles * part)))


@dataclass(frozen=True)
class _Timed:
    """Some replicates of a point.

    Attributes:
        results: their variables.
        preparation: CPU seconds before the first replicate, in which the warm-up is derived.
        replicate: CPU seconds of a replicate.
        needed: replicates that the rule requires as far as these tell; None: they are too few to tell.
    """

    results: Results
    preparation: float
    replicate: float
    needed: int | None

    @property
    def replicates(self) -> int:
        """Number of the replicates."""
        return len(self.results["cycles"])


def _timed(point: Point, streams: bytes | None, rule: Replicates, seconds: float) -> _Timed:
    """Runs a replicate of a point, and more until the rule has enough or `seconds` have passed."""
    began = time.thread_time()  # CPU time, which other work on the machine hardly changes
    short, base, spread = settled(point, streams)
    prepared = time.thread_time()
    one = replace(short, replicates=1)
    results: Results = simulate_point(one, streams=base, spread=spread)
    enough, have = rule.least, 1
    while True:
        if have == enough:
            enough = required(results, rule)
        if have >= enough or time.thread_time() - began > seconds:
            break
        new = simulate_point(one, streams=base, first=have, spread=spread)
        results, have = {name: np.concatenate([results[name], new[name]]) for name in results}, have + 1
    needed = rule.most if rule.fixed else enough if have >= rule.least else None
    return _Timed(results, prepared - began, (time.thread_time() - prepared) / have, needed)


def _sizes(results: Results, share: float) -> tuple[float, float]:
    """Returns the size of a replicate's results in bytes, on average, before and after compression.

    Args:
        results: of some replicates.
        share: share of the replicates of a store that exist; the others are NaN, and take no room once they are compressed.
    """
    raw = packed = 0.0
    for declared in SWEEP_VARIABLES:
        if declared.dims:
            values = np.asarray(results[declared.name], float)
            raw += values.nbytes / share
            packed += min(values.nbytes, len(Zstd(level=ZSTD_LEVEL).encode(values.tobytes())))
    return raw / len(results["cycles"]), packed / len(results["cycles"])

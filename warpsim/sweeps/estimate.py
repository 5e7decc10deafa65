"""Estimates the core-hours, the time of a tile and the size of the store of a sweep from a short timed sample of its points."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numcodecs import Zstd

from warpsim.arguments import InvalidPoint
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.simulation.api import compile_engine
from warpsim.simulation.point import Point
from warpsim.sweeps.cost import expected_warmup, point_bytes, point_seconds
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import replicated
from warpsim.sweeps.space import BuildCache, Space
from warpsim.sweeps.tile import replicate_runner

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
        replicates: mean number of replicates of a point; None if the sample was run with shortened windows.
        raw_bytes: size of all results without compression.
        store_bytes: approximate size of the store.
    """

    possible: float
    sampled: int
    seconds: float
    tile_seconds: float
    replicates: float | None
    raw_bytes: int
    store_bytes: int


def estimate(plan: Plan, seconds: float = 5.0) -> Estimate:
    """Times some points of a plan, spread over its axes, on one core.

    The measured times calibrate the cost estimated from the settings (`warpsim.sweeps.cost`), which is then summed over the plan.
    Points that are too long for the sample are timed in a shorter window.

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
    numbers: list[int] = []
    raw = packed = 0
    shortened = False
    points = _sample(plan)
    compile_engine(plan.some_points())
    start = time.perf_counter()
    for position, point in points:
        short = _shortened(point, plan.replicates.least, seconds / 10)
        shortened |= short.cycles < point.cycles
        began = time.thread_time()  # CPU time, which other work on the machine hardly changes
        results = replicated(replicate_runner(short, plan.streams(position)), plan.replicates)
        measured += time.thread_time() - began
        numbers.append(len(results["cycles"]))
        expected += point_seconds(replace(short, replicates=numbers[-1]))
        sizes = _sizes(results, plan.replicates.most)
        raw, packed = raw + sizes[0], packed + sizes[1]
        if time.perf_counter() - start > seconds or len(numbers) == len(examined):
            break
    replicates = float(np.mean(numbers)) if numbers and not shortened else None
    correction = (replicates or plan.replicates.expected) / plan.replicates.expected
    whole = total * correction * measured / expected if expected else math.nan
    raw_bytes = point_bytes(plan) * plan.points
    ratio = packed / raw if raw else 0.0
    return Estimate(
        possible=len(possible) / len(costs),
        sampled=len(numbers),
        seconds=whole,
        tile_seconds=whole / len(plan.grid),
        replicates=replicates,
        raw_bytes=raw_bytes,
        store_bytes=int(raw_bytes * ratio * len(possible) / len(costs)),
    )


def _seconds(space: Space, position: tuple[int, ...], cache: BuildCache) -> float | None:
    """Returns the cost of a point estimated from its settings; None if it does not exist."""
    with suppress(InvalidPoint):
        point = space.point(position, cache)
        one = point_seconds(replace(point, replicates=1))
        return one + (point_seconds(replace(point, replicates=2)) - one) * (space.replicates.expected - 1)
    return None


def _sample(space: Space) -> Iterator[tuple[tuple[int, ...], Point]]:
    """Yields points that exist, spread evenly over the sweep, however many are taken."""
    for number in range(_EXAMINED):
        position = space.position(int((number + 0.5) * _GOLDEN_RATIO % 1.0 * space.points))
        with suppress(InvalidPoint):
            yield position, space.point(position)


def _shortened(point: Point, replicates: int, seconds: float) -> Point:
    """Returns the point with a window so short that its estimated cost is at most `seconds`."""
    part = seconds / point_seconds(replace(point, replicates=replicates))
    if part >= 1.0:
        return point
    return replace(point, warmup=int(expected_warmup(point) * part), cycles=max(1, int(point.cycles * part)))


def _sizes(results: Any, replicates: int) -> tuple[int, int]:
    """Returns the size of a point's results in bytes, padded with NaN to `replicates`, before and after compression."""
    raw = packed = 0
    for declared in SWEEP_VARIABLES:
        if declared.dims:
            values = results[declared.name]
            padded = np.full((replicates, *values.shape[1:]), np.nan)
            padded[: len(values)] = values
            raw += padded.nbytes
            packed += min(padded.nbytes, len(Zstd(level=3).encode(padded.tobytes())))
    return raw, packed

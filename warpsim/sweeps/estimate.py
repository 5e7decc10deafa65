"""What a sweep will take, from a short timed sample of its points: core-hours, time of a tile, size of the store."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.arguments import InvalidPoint
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import Point
from warpsim.sweeps.check import few
from warpsim.sweeps.cost import point_bytes, point_seconds
from warpsim.sweeps.points import Parts
from warpsim.sweeps.replicates import replicated
from warpsim.sweeps.tile import simulate_replicates

if TYPE_CHECKING:
    from warpsim.sweeps.plan import Plan

_LOOKED_AT = 1000
"""Points whose cost is estimated from their settings."""

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Steps of this part of the whole, wrapped around, spread any number of samples evenly."""


@dataclass(frozen=True)
class Estimate:
    """What a sweep will take.

    Attributes:
        possible: share of the points that their chips can hold.
        sampled: points that were timed.
        seconds: time of all points on one core of this machine; NaN where no sampled point exists.
        tile_seconds: mean time of a tile on one core.
        replicates: mean number of replicates of a point; None where the sample's windows were shortened.
        raw_bytes: size of all results without compression.
        store_bytes: about the size of the store.
    """

    possible: float
    sampled: int
    seconds: float
    tile_seconds: float
    replicates: float | None
    raw_bytes: int
    store_bytes: int


def estimate(plan: Plan, seconds: float = 5.0) -> Estimate:
    """Time some points of a plan, spread over it, on one core.

    Points that are too long for the sample are timed in a shorter window. What is timed is compared with what their settings
    suggest (`warpsim.sweeps.cost`), and that with all points.

    Args:
        plan: the sweep.
        seconds: time that the sample may take, but for its last point and for compiling the engine.
    """
    looked_at = [plan.place(index) for index in few(plan.points, _LOOKED_AT)]
    parts = Parts()
    found = [_seconds(plan, place, parts) for place in looked_at]
    possible = [value for value in found if value is not None]
    total = plan.points * sum(possible) / len(found)
    measured = expected = 0.0
    numbers: list[int] = []
    raw = packed = 0
    shortened = False
    points = _sample(plan)
    first = next(points, None)
    if first is not None:
        simulate_point(replace(first[1], warmup=0, cycles=1, replicates=1))  # compiles
        points = _sample(plan)
    start = time.perf_counter()
    for place, point in points:
        short = _shortened(point, plan.replicates.least, seconds / 10)
        shortened |= short.cycles < point.cycles
        began = time.thread_time()  # of this core, whatever else it does
        results = replicated(partial(simulate_replicates, short, plan.streams(place)), plan.replicates)
        measured += time.thread_time() - began
        numbers.append(len(results["cycles"]))
        expected += point_seconds(replace(short, replicates=numbers[-1]))
        sizes = _sizes(results, plan.replicates.most)
        raw, packed = raw + sizes[0], packed + sizes[1]
        if time.perf_counter() - start > seconds or len(numbers) == len(looked_at):
            break
    mean = float(np.mean(numbers)) if numbers and not shortened else None
    by_rule = (mean or plan.replicates.middle) / plan.replicates.middle
    whole = total * by_rule * measured / expected if expected else math.nan
    bytes_of_all = point_bytes(plan) * plan.points
    ratio = packed / raw if raw else 0.0
    return Estimate(
        possible=len(possible) / len(found),
        sampled=len(numbers),
        seconds=whole,
        tile_seconds=whole / len(plan.grid),
        replicates=mean,
        raw_bytes=bytes_of_all,
        store_bytes=int(bytes_of_all * ratio * len(possible) / len(found)),
    )


def _seconds(plan: Plan, place: tuple[int, ...], parts: Parts) -> float | None:
    """What a point costs by its settings; None where it cannot exist."""
    with suppress(InvalidPoint):
        point = plan.point(place, parts)
        one = point_seconds(replace(point, replicates=1))
        return one + (point_seconds(replace(point, replicates=2)) - one) * (plan.replicates.middle - 1)
    return None


def _sample(plan: Plan) -> Iterator[tuple[tuple[int, ...], Point]]:
    """Points that exist, spread evenly over the plan, however many are taken."""
    for number in range(_LOOKED_AT):
        place = plan.place(int((number + 0.5) * _GOLDEN % 1.0 * plan.points))
        with suppress(InvalidPoint):
            yield place, plan.point(place)


def _shortened(point: Point, replicates: int, seconds: float) -> Point:
    """The point, with a window that makes it cost no more than so many seconds."""
    part = seconds / point_seconds(replace(point, replicates=replicates))
    if part >= 1.0:
        return point
    return replace(point, warmup=int(point.warmup * part), cycles=max(1, int(point.cycles * part)))


def _sizes(results: Any, replicates: int) -> tuple[int, int]:
    """Bytes of a point's results with NaN for replicates that were not needed, and as the store packs them."""
    from numcodecs import Zstd

    raw = packed = 0
    for declared in SWEEP_VARIABLES:
        if declared.dims:
            values = results[declared.name]
            padded = np.full((replicates, *values.shape[1:]), np.nan)
            padded[: len(values)] = values
            raw += padded.nbytes
            packed += min(padded.nbytes, len(Zstd(level=3).encode(padded.tobytes())))
    return raw, packed

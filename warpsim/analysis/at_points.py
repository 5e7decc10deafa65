"""The analytical models at the points of a result, as the pictures draw them beside it.

Chip and kernel of each point come from the result's provenance, so that a result read from a store is enough.
V is V. Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
import xarray as xr

from warpsim import units
from warpsim.analysis.origin import INDIFFERENT, indices, origin
from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import contention_latency
from warpsim.kernels import Kernel
from warpsim.models import volkov
from warpsim.models.parts.common import quantity
from warpsim.results.schema import coordinate_attrs, variable
from warpsim.simulation.point import Point
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.space import BuildCache

MODELS = {"basic model": False, "refined model": True}
"""Label -> whether memory latency depends on the load: V 3.5 and V 6.5."""

_OCCUPANCY = ("warps", "warps_per_scheduler")


def throughput(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """`volkov.throughput` by label of the model, at every whole occupancy up to the largest of the result.

    The dimensions are the result's axis of occupancies and its axes of chips and programs.

    Raises:
        ValueError: the result has no axis of occupancies or no provenance; NotCoveredError where a model does not
            cover the kernel.
    """
    x = next((name for name in _OCCUPANCY if name in results.dims), None)
    if x is None:
        raise ValueError(f"results: must have one of the dimensions {', '.join(_OCCUPANCY)}")
    occupancies = np.arange(1, int(results[x].max()) + 1)

    def curve(refined: bool, gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        warps = occupancies * (gpu.sm.schedulers if x == "warps_per_scheduler" else 1)
        found = volkov.throughput(gpu, kernel, warps=warps, refined=refined, block_warps=block_warps)
        found = found[["throughput", "bandwidth", "memory_latency"]]
        found = found.where(found["warps"] <= gpu.sm.max_warps).rename(warps=x)
        return found.assign_coords({x: (x, occupancies, coordinate_attrs(x))})

    return {name: _over_programs(results, partial(curve, refined)) for name, refined in MODELS.items()}


def contention(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """Mean memory latency against bandwidth by the chip's fit to measurements (V Table 6.5; G80: V 6.4), by label.

    `memory_latency` and `bandwidth` over `step`, and the result's axes of chips and programs; below the greatest
    bandwidth that the chip sustains.
    """

    def curve(gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        rates = np.linspace(0.0, gpu.memory.bandwidth_gbs, 200)
        latency = contention_latency(gpu.memory.contention, rates, refined=True)
        values = {"bandwidth": rates, "memory_latency": np.where(np.isfinite(latency), latency, np.nan)}
        return xr.Dataset({name: ("step", array, variable(name).attrs) for name, array in values.items()})

    return {"contention curve": _over_programs(results, curve, ("gpu",))}


def needed_warps(results: xr.Dataset, fraction: float = 0.9) -> dict[str, xr.Dataset]:
    """`volkov.needed_warps` by label of the model, over the result's axes of chips and programs.

    NaN where it is more than the chip holds.

    Raises:
        ValueError: as `throughput`.
    """

    def number(refined: bool, gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        needed = volkov.needed_warps(gpu, kernel, fraction=fraction, refined=refined, block_warps=block_warps)
        return xr.Dataset({"needed_warps": needed if needed <= gpu.sm.max_warps else np.nan})

    return {name: _over_programs(results, partial(number, refined)) for name, refined in MODELS.items()}


def roofs(results: xr.Dataset, op: str = "alu") -> xr.Dataset:
    """Roofs of the roofline, over the result's axes of chips and programs.

    `intensity` are operations of the class for each byte that the memory moves, infinite without memory; `warp_roof` the bound
    of V 3.5 by latency, in operations per cycle for each resident warp; `throughput_bound` that of V 3.6 by all limits of the
    hardware; `memory_roof` the sustained bandwidth, and `arithmetic_roof` the rate of the units, or of issue where that is less.

    Raises:
        ValueError: the result has no provenance, or a chip lacks the operation class.
    """

    def of(gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        if op not in gpu.ops:
            raise ValueError(f"op = {op!r}: {gpu.name} has {', '.join(gpu.ops)}")
        sheet = volkov.throughput_bound(gpu, kernel, block_warps=block_warps)
        operations = units.WARP_LANES * sheet.instructions.get(op, 0.0)
        latency = volkov.latency_bound(gpu, kernel, block_warps=block_warps)
        arithmetic = units.WARP_LANES * min(gpu.unit_ipc(op), gpu.issue_ipc * gpu.issue.width)
        intensity = operations / sheet.traffic_bytes if sheet.traffic_bytes else np.inf
        return xr.Dataset(
            {
                "intensity": quantity(intensity, "ops/byte", f"{op} intensity"),
                "warp_roof": quantity(operations / latency, "ops/cycle/warp", "bound by latency of a warp"),
                "throughput_bound": quantity(operations / sheet.cycles, "ops/cycle/SM", "bound on throughput"),
                "arithmetic_roof": quantity(arithmetic, "ops/cycle/SM", f"peak {op} throughput"),
                "memory_roof": quantity(gpu.bandwidth_bytes_per_cycle / gpu.sms, "bytes/cycle/SM", "sustained bandwidth"),
            }
        )

    found = _over_programs(results, of)
    chip = found[["arithmetic_roof", "memory_roof"]]
    others = [dim for dim in chip.dims if dim != "gpu"]
    return found.assign(chip.isel(dict.fromkeys(others, 0), drop=True))


def _over_programs(
    results: xr.Dataset, at: Callable[[Gpu, Kernel, int | None], xr.Dataset], only: tuple[str, ...] | None = None
) -> xr.Dataset:
    """What `at(gpu, kernel, block_warps)` gives, over those axes of a result that it depends on.

    Args:
        results: a result with its provenance.
        at: one chip and program -> a Dataset.
        only: axes that it depends on; left out, all of chips and programs.
    """
    text = results.attrs.get("provenance")
    if text is None:
        raise ValueError("results: must have the attribute provenance, as simulate and sweep give it")
    try:
        made = origin(text)
        places = {} if isinstance(made, Point) else indices(made, results)
    except KeyError as error:
        raise ValueError(f"results: the attribute provenance lacks {error}; it is that of another version") from None
    if isinstance(made, Point):
        return at(made.gpu, made.kernel, made.launch.block_warps)
    first = partial(_first, made, BuildCache())
    axes = [axis for axis in places if axis in results.dims and axis not in INDIFFERENT and axis in (only or places)]

    def over(left: list[str], here: dict[str, list[int]]) -> xr.Dataset:
        if not left:
            return at(*first(list(here.values())))
        axis, *others = left
        parts = [over(others, {**here, axis: [i]}) for i in here[axis]]
        whole: xr.Dataset = xr.concat(parts, dim=results[axis].variable, join="outer", coords="minimal", compat="override")
        return whole

    return over(axes, places)


def _first(plan: Plan, parts: BuildCache, places: list[list[int]]) -> tuple[Gpu, Kernel, int | None]:
    """Chip and program of the first point that there is, and the warps of a block where they were chosen."""
    for place in itertools.product(*places):
        with suppress(InvalidPoint):
            point = plan.point(place, parts)
            return point.gpu, point.kernel, plan.at(place)["block_warps"]
    nowhere = plan.describe(tuple(place[0] for place in places))
    raise ValueError(f"results: no point of it fits the chip; the first is {nowhere}")

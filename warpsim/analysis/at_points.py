"""Volkov's model at the points of a result, for plots and reports.

Chip and kernel of each point come from the provenance of the result, so a result that was read from a store is enough.
Every function takes a result of `simulate` or `sweep`, or a selection of one.

V is Volkov 2016 (docs/bibliography.md). The basic model has a constant memory latency (V 3.5). In the refined model the
latency grows with the load (V 6.5).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from warpsim import units
from warpsim.arguments import InvalidPoint, refusing_malformed
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.kernels.program import names_warps
from warpsim.models import volkov
from warpsim.models.parts.common import quantity
from warpsim.models.parts.costs import ISSUE, L2, LOADS_IN_FLIGHT, MEMORY
from warpsim.models.parts.worksheet import Worksheet
from warpsim.results.schema import coordinate_attrs, variable
from warpsim.results.statistics import OCCUPANCY_AXES, occupancy_axis
from warpsim.simulation.point import Point, from_provenance, make_point
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.space import BuildCache
from warpsim.units import NEEDED_FRACTION

MODELS = {"Volkov": False, "Volkov, latency under load": True}
"""Label of a model -> the argument `refined` of `models.volkov`."""

LATENCY, BANDWIDTH = "latency", "bandwidth"
"""Names of bounds in `Bounds.kinds`, beside those of resources."""

_RESOURCES = {MEMORY: BANDWIDTH, ISSUE: ISSUE, L2: L2, LOADS_IN_FLIGHT: LOADS_IN_FLIGHT}
_RUN_AXES = (*OCCUPANCY_AXES, "scheduler", "memory", "seed", "sms", "warmup")
"""Axes that change neither the chip nor the program."""


def throughput(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """Returns `volkov.throughput` at every whole occupancy up to the largest one of a result.

    Returns:
        Label of the model -> Dataset. The dimensions are the occupancy axis of the result and its axes of chips and programs.

    Raises:
        ValueError: the result has no occupancy axis or no provenance.
        NotCoveredError: the model does not cover the kernel.
    """
    x = occupancy_axis(results)
    occupancies = np.arange(1, int(results[x].max()) + 1)

    def curve(refined: bool, gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        warps = occupancies * (gpu.sm.schedulers if x == "warps_per_scheduler" else 1)
        ds = volkov.throughput(gpu, kernel, warps=warps, refined=refined, block_warps=block_warps)
        ds = ds[["throughput", "bandwidth", "memory_latency"]]
        ds = ds.where(ds["warps"] <= gpu.sm.max_warps).rename(warps=x)
        return ds.assign_coords({x: (x, occupancies, coordinate_attrs(x))})

    return {name: _over_programs(results, partial(curve, refined)) for name, refined in MODELS.items()}


def contention(results: xr.Dataset) -> dict[str, xr.Dataset]:
    """Returns mean memory latency against bandwidth, by the chip's fit to measurements (V Table 6.5; G80: V 6.4).

    Returns:
        Label -> Dataset with `memory_latency` in cycles and `bandwidth` in GB/s over `step` and the result's axes of chips
        and programs, up to the sustained bandwidth of the chip.

    Raises:
        ValueError: the result has no provenance.
    """

    def curve(gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        rates = np.linspace(0.0, gpu.memory.bandwidth_gbs, 200)
        latency = gpu.memory.contention.latency(rates, refined=True)
        values = {"bandwidth": rates, "memory_latency": np.where(np.isfinite(latency), latency, np.nan)}
        return xr.Dataset({name: ("step", array, variable(name).attrs) for name, array in values.items()})

    return {"Volkov, contention curve": _over_programs(results, curve, ("gpu",))}


def needed_warps(results: xr.Dataset, fraction: float = NEEDED_FRACTION) -> dict[str, xr.Dataset]:
    """Returns `volkov.needed_warps` by label of the model, over the result's axes of chips and programs.

    It is NaN where the chip cannot hold as many warps.

    Raises:
        ValueError: the result has no provenance, or `fraction` is not above 0 and at most 1.
        NotCoveredError: the model does not cover the kernel.
    """

    def number(refined: bool, gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
        needed = volkov.needed_warps(gpu, kernel, fraction=fraction, refined=refined, block_warps=block_warps)
        return xr.Dataset({"needed_warps": needed if needed <= gpu.sm.max_warps else np.nan})

    return {name: _over_programs(results, partial(number, refined)) for name, refined in MODELS.items()}


def roofs(results: xr.Dataset, op: str = "alu") -> xr.Dataset:
    """Returns the roofs of a roofline plot, over the result's axes of chips and programs.

    Returns:
        A Dataset with

        - `intensity`: operations of the class per byte that the memory moves; infinite without memory accesses;
        - `warp_roof`: the latency bound (V 3.5), in operations per cycle and resident warp;
        - `throughput_bound`: the bound by all resources of the SM (V 3.6), in operations per cycle and SM;
        - `memory_roof`: the sustained bandwidth, in bytes per cycle and SM;
        - `arithmetic_roof`: the peak rate of the units, or the issue rate if that is lower, in operations per cycle and SM.

    Raises:
        ValueError: the result has no provenance, or a chip lacks the operation class.
    """

    def roofs_of(gpu: Gpu, kernel: Kernel, block_warps: int | None) -> xr.Dataset:
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

    ds = _over_programs(results, roofs_of)
    of_chip = ds[["arithmetic_roof", "memory_roof"]]
    others = [dim for dim in of_chip.dims if dim != "gpu"]
    return ds.assign(of_chip.isel(dict.fromkeys(others, 0), drop=True))


@dataclass
class Bounds:
    """The model at the points of a result.

    At n warps per SM the model's throughput is min(n / latency bound, throughput bound) (V 3.5). The smaller term names the
    bound that binds; the throughput bound is that of one resource (V 3.6).

    Attributes:
        kinds: bounds that bind at some point: "latency", "issue", "bandwidth", "L2", "loads in flight", "unit: ...".
        binds: index into `kinds` for each point; -1 where there is no such point.
        throughput: operation class -> the model's throughput in operations per cycle and SM; NaN where there is no point.
        ipc: operation class -> the same in warp instructions per cycle and SM.
        bandwidth: bandwidth by the model, in GB/s of the chip.
        peak_fraction: the model's throughput as a fraction of its throughput bound.
        full_warps: occupancy in warps per SM at which the two bounds meet (V 3.10).
        worksheet: worksheet of V Table 3.4, of a single run only.
        latency: latency bound in cycles per warp or repetition, of a single run only.
        missing: why there is no model; empty if there is one.
    """

    kinds: list[str]
    binds: NDArray[np.intp]
    throughput: dict[str, NDArray[np.float64]]
    ipc: dict[str, NDArray[np.float64]]
    bandwidth: NDArray[np.float64]
    peak_fraction: NDArray[np.float64]
    full_warps: NDArray[np.float64]
    worksheet: Worksheet | None = None
    latency: float = float("nan")
    missing: str = ""


def bounds(results: xr.Dataset, axes: tuple[str, ...]) -> Bounds:
    """Evaluates the basic model at every point of a result.

    It raises nothing for a result that the model does not cover: `Bounds.missing` says why.

    Args:
        results: a result of `simulate` or `sweep`, or a selection of one.
        axes: the axes of the sweep that are dimensions of `results`; the arrays of the answer have this shape.
    """
    shape = tuple(results.sizes[axis] for axis in axes)
    answer = _empty_bounds(shape)
    solver = _Solver(answer)
    try:
        source = _source(results)
        for at in source.walk((*axes, *(axis for axis in source.indices if axis not in axes))):
            program = tuple(i for axis, i in at.position.items() if axis not in (*_RUN_AXES, "block_warps"))
            solver.enter(tuple(at.position.get(axis, 0) for axis in axes), program, at.point)
    except (ValueError, TypeError) as error:  # no provenance, a changed kernel, or a kernel that the model does not cover
        return replace(_empty_bounds(shape), missing=str(error))
    for values in (*answer.throughput.values(), *answer.ipc.values()):
        values[np.isnan(values) & (answer.binds >= 0)] = 0.0  # the program of that point has no instruction of this class
    if not axes and solver.known:
        answer.latency, answer.worksheet = next(iter(solver.known.values()))
    return answer


def _empty_bounds(shape: tuple[int, ...]) -> Bounds:
    bandwidth, peak_fraction, full_warps = (np.full(shape, np.nan) for _ in range(3))
    return Bounds([], np.full(shape, -1), {}, {}, bandwidth, peak_fraction, full_warps)


@dataclass
class _Solver:
    """Enters points into a `Bounds`. The two bounds of a kernel on a chip are computed once."""

    answer: Bounds
    known: dict[tuple[Any, ...], tuple[float, Worksheet]] = field(default_factory=dict)

    def enter(self, position: tuple[int, ...], program: tuple[int, ...], point: Point) -> None:
        latency, sheet = self._bounds(program, point)
        by_latency = point.launch.resident_warps / latency
        rate = min(by_latency, 1 / sheet.cycles)
        resource = sheet.tightest
        kind = LATENCY if by_latency < 1 / sheet.cycles else _RESOURCES.get(resource, f"unit: {resource}")
        if kind not in self.answer.kinds:
            self.answer.kinds.append(kind)
        self.answer.binds[position] = self.answer.kinds.index(kind)
        for op, count in sheet.instructions.items():
            ipc = rate * count
            for by_op, value in ((self.answer.ipc, ipc), (self.answer.throughput, units.ipc_to_ops_per_cycle(ipc))):
                by_op.setdefault(op, np.full(self.answer.binds.shape, np.nan))[position] = value
        self.answer.peak_fraction[position] = rate * sheet.cycles
        self.answer.full_warps[position] = latency / sheet.cycles
        moved = rate * sheet.requested_bytes * point.gpu.sms
        self.answer.bandwidth[position] = units.bytes_per_cycle_to_gbs(moved, point.gpu.clock_ghz)

    def _bounds(self, program: tuple[int, ...], point: Point) -> tuple[float, Worksheet]:
        block_warps = point.launch.block_warps
        key = (program, block_warps if names_warps(point.kernel) else None)
        if key not in self.known:
            call: dict[str, Any] = {"gpu": point.gpu, "kernel": point.kernel, "block_warps": block_warps}
            self.known[key] = (volkov.latency_bound(**call), volkov.throughput_bound(**call))
        return self.known[key]


def _over_programs(
    results: xr.Dataset, ask: Callable[[Gpu, Kernel, int | None], xr.Dataset], only: tuple[str, ...] | None = None
) -> xr.Dataset:
    """Returns `ask(gpu, kernel, block_warps)` over the axes of a result that change chip or program.

    `block_warps` is None where the sweep leaves it to the default.

    Args:
        results: a result with its provenance.
        ask: maps one chip and program to a Dataset.
        only: the axes on which `ask` depends; left out, all axes of chips and programs.
    """
    source = _source(results)
    axes = [
        axis for axis in source.indices if axis in results.dims and axis not in _RUN_AXES and axis in (only or source.indices)
    ]

    def over(left: list[str], chosen: dict[str, list[int]]) -> xr.Dataset:
        if not left:
            at = next(replace(source, indices=chosen).walk(), None)
            if at is None:
                raise ValueError(f"results: no point of it fits the chip; the first is {source.describe(chosen)}")
            return ask(at.point.gpu, at.point.kernel, at.block_warps)
        axis, *others = left
        parts = [over(others, {**chosen, axis: [i]}) for i in chosen[axis]]
        whole: xr.Dataset = xr.concat(parts, dim=results[axis].variable, join="outer", coords="minimal", compat="override")
        return whole

    return over(axes, source.indices)


def plan_or_point(provenance: str) -> Plan | Point:
    """Returns the plan of a sweep, or the point of a single run, from the provenance of its result.

    Raises:
        ValueError: it is that of neither a sweep nor a run, lacks an entry, or a kernel of it has changed since.
    """
    function = None
    with refusing_malformed("provenance", any_type=True), suppress(json.JSONDecodeError):  # which the next line names
        function = json.loads(provenance).get("function")
    if function != "simulate":
        return Plan.from_provenance(provenance)
    call = from_provenance(provenance)
    call.pop("trace", None)
    return make_point(**call)


def plan_indices(plan: Plan, results: xr.Dataset) -> dict[str, list[int]]:
    """Returns, for each axis of a plan, the indices on it of the labels of a result, which may be a selection of the sweep.

    Raises:
        KeyError: a label is not on the axis.
    """
    index_of = {name: {label: i for i, label in enumerate(axis.labels())} for name, axis in plan.axes.items()}
    return {name: [of[label] for label in np.atleast_1d(results[name].values).tolist()] for name, of in index_of.items()}


class _AtPoint(NamedTuple):
    """A point of a result: its position in the result by axis, and the warps of a block where the sweep chose them."""

    position: dict[str, int]
    point: Point
    block_warps: int | None


@dataclass(frozen=True)
class _Source:
    """What made a result, and for each axis of the plan the indices on it of the labels of the result."""

    made: Plan | Point
    indices: dict[str, list[int]]
    cache: BuildCache

    def walk(self, order: Sequence[str] | None = None) -> Iterator[_AtPoint]:
        """Yields the points of the result that fit their chip; the last axis of `order` varies fastest."""
        if isinstance(self.made, Point):
            yield _AtPoint({}, self.made, self.made.launch.block_warps)
            return
        order = tuple(self.indices) if order is None else order
        for position in itertools.product(*(range(len(self.indices[axis])) for axis in order)):
            at = dict(zip(order, position, strict=True))
            index = tuple(chosen[at[axis]] for axis, chosen in self.indices.items())
            with suppress(InvalidPoint):
                yield _AtPoint(at, self.made.point(index, self.cache), self.made.at(index)["block_warps"])

    def describe(self, indices: dict[str, list[int]]) -> str:
        """Returns the first of some points in words."""
        assert isinstance(self.made, Plan)
        return self.made.describe(tuple(chosen[0] for chosen in indices.values()))


def _source(results: xr.Dataset) -> _Source:
    """Returns what made a result.

    Raises:
        ValueError: the result has no provenance, or warpsim cannot read it.
    """
    text = results.attrs.get("provenance")
    if not text:
        raise ValueError("results: must have the attribute provenance, as simulate and sweep give it")
    try:
        made = plan_or_point(text)
        indices = {} if isinstance(made, Point) else plan_indices(made, results)
    except KeyError as error:
        raise ValueError(f"results: the label {error} is not in their provenance") from None
    return _Source(made, indices, BuildCache())

"""What binds at each point of a result, by Volkov's model: latency, issue, bandwidth, or a unit.

V is Volkov, Understanding Latency Hiding on GPUs, 2016. At n warps per SM the model's throughput is min(n / latency bound,
throughput bound) (V 3.5): the smaller says what binds, and the throughput bound is that of one resource (V 3.6).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim import units
from warpsim.analysis.origin import INDIFFERENT, indices, origin
from warpsim.arguments import InvalidPoint
from warpsim.simulation.point import Point
from warpsim.sweeps.space import BuildCache

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.models.parts.worksheet import Worksheet

LATENCY, BANDWIDTH, ISSUE = "latency", "bandwidth", "issue"
_NAMES = {"memory": BANDWIDTH, "issue": ISSUE, "loads in flight": "loads in flight"}


@dataclass
class Bounds:
    """The model at the points of a result.

    Attributes:
        kinds: what binds, in the order in which it was first met: "latency", "issue", "bandwidth", "loads in flight",
            "unit: ...".
        binds: index into `kinds` for each point; -1 where there is no such point.
        throughput: operation class -> the model's throughput in operations per cycle and SM; NaN where there is no point.
        ipc: operation class -> the same in warp instructions.
        bandwidth: the model's, in GB/s of the chip.
        peak_fraction: the model's throughput as a fraction of its throughput bound.
        full_warps: occupancy in warps per SM at which the two bounds meet (V 3.10).
        worksheet: of a single run, the worksheet of V Table 3.4.
        latency: of a single run, the latency bound in cycles per warp or repetition.
        missing: why there is no model, otherwise empty.
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
    """The model at every point of a result, from the chips and kernels of its provenance.

    Args:
        results: of `simulate`, `sweep`, or a selection of either.
        axes: the axes of the sweep that are dimensions of `results`; the arrays have this shape.
    """
    shape = tuple(results.sizes[axis] for axis in axes)
    found = _nothing(shape)
    try:
        solver = _Solver(found)
        for place, program, point in _points(results, axes):
            solver.enter(place, program, point)
    except KeyError as error:
        return replace(_nothing(shape), missing=f"the provenance, perhaps of another version of warpsim, lacks {error}")
    except (ValueError, TypeError) as error:  # a kernel has changed, the model does not cover it, there is no provenance
        return replace(_nothing(shape), missing=str(error))
    for values in (*found.throughput.values(), *found.ipc.values()):
        values[np.isnan(values) & (found.binds >= 0)] = 0.0  # the program of that point has no such class
    if not axes and solver.known:
        found.latency, found.worksheet = next(iter(solver.known.values()))
    return found


def _nothing(shape: tuple[int, ...]) -> Bounds:
    bandwidth, peak_fraction, full_warps = (np.full(shape, np.nan) for _ in range(3))
    return Bounds([], np.full(shape, -1), {}, {}, bandwidth, peak_fraction, full_warps)


def _points(results: xr.Dataset, axes: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Point]]:
    """The place of each point in the result, the place of its chip and program among those of the plan, and the point."""
    text = results.attrs.get("provenance", "")
    if not text:
        raise ValueError("the result has no provenance")
    made = origin(text)
    if isinstance(made, Point):
        yield (), (), made
        return
    of_axis, parts = indices(made, results), BuildCache()
    for place in itertools.product(*(range(results.sizes[axis]) for axis in axes)):
        here = dict(zip(axes, place, strict=True))
        there = {name: found[here.get(name, 0)] for name, found in of_axis.items()}
        program = tuple(i for name, i in there.items() if name not in (*INDIFFERENT, "block_warps"))
        with suppress(InvalidPoint):
            yield place, program, made.point(tuple(there.values()), parts)


@dataclass
class _Solver:
    """Enters points; the bounds of a kernel on a chip are found once."""

    found: Bounds
    known: dict[tuple[Any, ...], tuple[float, Worksheet]] = field(default_factory=dict)

    def enter(self, place: tuple[int, ...], program: tuple[int, ...], point: Point) -> None:
        latency, sheet = self._bounds(program, point)
        assert point.launch.resident_blocks is not None
        by_latency = point.launch.resident_blocks * point.launch.block_warps / latency
        rate = min(by_latency, 1 / sheet.cycles)
        resource = sheet.tightest
        kind = LATENCY if by_latency < 1 / sheet.cycles else _NAMES.get(resource, f"unit: {resource}")
        if kind not in self.found.kinds:
            self.found.kinds.append(kind)
        self.found.binds[place] = self.found.kinds.index(kind)
        for op, count in sheet.instructions.items():
            ipc = rate * count
            for by_op, value in ((self.found.ipc, ipc), (self.found.throughput, units.ipc_to_ops_per_cycle(ipc))):
                by_op.setdefault(op, np.full(self.found.binds.shape, np.nan))[place] = value
        self.found.peak_fraction[place] = rate * sheet.cycles
        self.found.full_warps[place] = latency / sheet.cycles
        moved = rate * sheet.requested_bytes * point.gpu.sms
        self.found.bandwidth[place] = units.bytes_per_cycle_to_gbs(moved, point.gpu.clock_ghz)

    def _bounds(self, program: tuple[int, ...], point: Point) -> tuple[float, Worksheet]:
        from warpsim.models.parts.warp_path import names_warps
        from warpsim.models.volkov import latency_bound, throughput_bound

        block_warps = point.launch.block_warps
        key = (program, block_warps if names_warps(point.kernel) else None)
        if key not in self.known:
            call: dict[str, Any] = {"gpu": point.gpu, "kernel": point.kernel, "block_warps": block_warps}
            self.known[key] = (latency_bound(**call), throughput_bound(**call))
        return self.known[key]

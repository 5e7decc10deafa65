"""Declares every variable and coordinate of a result.

These declarations define the Dataset of `simulate`, the Zarr template of a sweep, and the labels of the plots. They
list the own dimensions of each variable; a sweep adds its axes in front of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from warpsim.units import OPS

if TYPE_CHECKING:
    import xarray as xr

SCHEMA_VERSION = 3
"""Version of the store layout: names, dimensions and meanings. Stores with another version are not written."""

READABLE_VERSIONS = (2,)
"""Earlier versions that can be read; variables that they lack are absent."""

STATES = (
    "selected",
    "not_selected",
    "wait",
    "short_scoreboard",
    "long_scoreboard",
    "barrier",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "dispatch_stall",
    "drain",
    "branch_resolving",
    "no_instruction",
    "imc_miss",
    "membar",
    "sleeping",
    "tex_throttle",
)
"""States of a warp. Each warp-cycle has exactly one."""

SLOTS = ("issued", "busy", "idle")
"""Uses of a scheduler. Each scheduler-cycle has exactly one."""

FEW_ITERATIONS = 20
"""Iterations of a warp in the window of an endless run, below which a confidence interval is not to be relied on."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Probabilities of the reported quantiles of memory latency, as in V Table 6.6."""


@dataclass(frozen=True)
class Variable:
    """One data variable of a result.

    Attributes:
        name: name in the Dataset and in the store.
        dims: its own dimensions, which follow the axes of a sweep.
        dtype: numpy name of its type, in memory and in the store. Counts are float64 (exact up to 2**53),
            because they are NaN at a point that does not exist.
        units: unit, for the attribute `units`.
        long_name: description, for the attribute `long_name`.
        sweep: whether it is part of the result of a sweep.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    units: str
    long_name: str
    sweep: bool = True

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the variable in a Dataset: `units` and `long_name`."""
        return {"units": self.units, "long_name": self.long_name}

    @property
    def fill(self) -> float | bool:
        """Value of a cell that was not simulated: NaN or False."""
        return False if self.dtype == "bool" else float("nan")


VARIABLES: tuple[Variable, ...] = (
    Variable("cycles", ("replicate",), "float64", "cycles", "cycles counted"),
    Variable("warmup_cycles", ("replicate",), "float64", "cycles", "cycles before counting started"),
    Variable("warp_iterations", ("replicate",), "float64", "1", "iterations of a warp in the window"),
    Variable("instructions", ("replicate", "op"), "float64", "instructions", "warp instructions issued"),
    Variable(
        "ipc", ("replicate", "op"), "float64", "instructions/cycle/SM", "warp instructions per cycle and SM"
    ),
    Variable("throughput", ("replicate", "op"), "float64", "ops/cycle/SM", "throughput"),
    Variable("bandwidth", ("replicate",), "float64", "GB/s", "memory bandwidth of the chip"),
    Variable("memory_latency", ("replicate",), "float64", "cycles", "mean memory latency"),
    Variable(
        "memory_latency_quantile",
        ("replicate", "quantile"),
        "float64",
        "cycles",
        "quantile of memory latency",
    ),
    Variable("warp_latency", ("replicate",), "float64", "cycles", "mean warp latency"),
    Variable("occupancy", ("replicate",), "float64", "warps/SM", "mean occupancy"),
    Variable("occupancy_max", ("replicate",), "float64", "warps/SM", "maximum occupancy of any SM"),
    Variable(
        "occupancy_fraction",
        ("replicate", "warps"),
        "float64",
        "1",
        "fraction of time at an occupancy",
        sweep=False,
    ),
    Variable("warp_cycles", ("replicate", "state"), "float64", "warp cycles", "warp-cycles by state"),
    Variable(
        "scheduler_cycles", ("replicate", "slot"), "float64", "scheduler cycles", "scheduler-cycles by use"
    ),
    Variable(
        "peak_fraction", ("replicate",), "float64", "1", "largest fraction of a hardware throughput limit"
    ),
)
"""Variables that `simulate_point` returns, in this order, as arrays with their own dimensions."""

TRACE_VARIABLES: tuple[Variable, ...] = tuple(
    Variable(name, ("replicate", *dims), "float64", unit, long_name, sweep=False)
    for name, dims, unit, long_name in (
        ("occupancy_change_cycle", ("change",), "cycles", "cycle of a change of occupancy"),
        ("occupancy_change_sm", ("change",), "1", "SM of a change of occupancy"),
        ("occupancy_change_warps", ("change",), "warps/SM", "resident warps from a change on"),
        ("occupancy_over_time", ("sm", "time"), "warps/SM", "mean occupancy within a bin"),
        ("warp_start", ("warp",), "cycles", "first cycle of a warp"),
        ("warp_end", ("warp",), "cycles", "last cycle of a warp"),
        ("warp_sm", ("warp",), "1", "SM of a warp"),
        ("warp_scheduler", ("warp",), "1", "scheduler of a warp"),
        ("warp_slot", ("warp",), "1", "slot of a warp"),
        ("warp_block", ("warp",), "1", "thread block of a warp"),
        ("issue_cycle", ("issue",), "cycles", "cycle of an issue"),
        ("issue_sm", ("issue",), "1", "SM of an issue"),
        ("issue_scheduler", ("issue",), "1", "scheduler of an issue"),
        ("issue_slot", ("issue",), "1", "warp slot of an issue"),
        ("issue_line", ("issue",), "1", "program line of an issue"),
        ("line_warp_cycles", ("line", "state"), "warp cycles", "warp-cycles by program line and state"),
        ("line_caused_warp_cycles", ("line", "state"), "warp cycles", "warp-cycles by the program line that caused them"),
        ("line_instructions", ("line",), "instructions", "warp instructions issued, by program line"),
        ("scheduler_warp_cycles", ("sm_scheduler", "state"), "warp cycles", "warp-cycles by scheduler of an SM and state"),
        ("warp_cycles_over_time", ("time", "state"), "warp cycles", "warp-cycles by state within a bin"),
        ("instructions_over_time", ("time",), "instructions", "warp instructions issued within a bin"),
        ("bandwidth_over_time", ("time",), "GB/s", "memory bandwidth of the chip within a bin"),
    )
)
"""Variables that a trace adds to the result of `simulate`, if requested."""

VALID = Variable("valid", (), "bool", "1", "whether the point exists and was simulated")
"""Only in sweeps: one cell per point; False if the chip cannot hold the point, where all other variables are NaN."""

SWEEP_VARIABLES: tuple[Variable, ...] = (*(v for v in VARIABLES if v.sweep), VALID)
"""Variables of the result of a sweep."""

COORDINATES: dict[str, dict[str, str]] = {
    "replicate": {"units": "1", "long_name": "replicate"},
    "op": {"units": "1", "long_name": "operation class"},
    "quantile": {"units": "1", "long_name": "probability"},
    "state": {"units": "1", "long_name": "warp state"},
    "slot": {"units": "1", "long_name": "use of a scheduler-cycle"},
    "gpu": {"units": "1", "long_name": "chip"},
    "kernel": {"units": "1", "long_name": "kernel"},
    "warps": {"units": "warps/SM", "long_name": "occupancy"},
    "warps_per_scheduler": {"units": "warps/scheduler", "long_name": "occupancy of a scheduler"},
    "block_warps": {"units": "warps", "long_name": "warps of a thread block"},
    "scheduler": {"units": "1", "long_name": "scheduling policy"},
    "memory": {"units": "1", "long_name": "memory model"},
    "seed": {"units": "1", "long_name": "root seed"},
    "sms": {"units": "SMs", "long_name": "simulated SMs"},
    "warmup": {"units": "cycles", "long_name": "cycles before counting starts"},
    "time": {"units": "cycles", "long_name": "first cycle of a bin"},
    "warp": {"units": "1", "long_name": "launch number of a warp"},
    "line": {"units": "1", "long_name": "program line"},
    "line_text": {"units": "1", "long_name": "program line, as text"},
    "alpha": {"units": "1", "long_name": "arithmetic instructions per other instruction"},
    "ilp": {"units": "1", "long_name": "independent instructions per warp"},
    "ways": {"units": "1", "long_name": "ways of the bank conflict"},
}
"""Attributes of coordinates. An axis that is not listed, such as a builder argument, is described by its name."""


_UNITS = {"_cycles": "cycles", "_ghz": "GHz", "_gbs": "GB/s", "_bytes": "bytes", "_bytes_per_block": "bytes"}
"""Suffix of a key of a chip or kernel -> unit."""


def variable(name: str) -> Variable:
    """Returns the declaration of one variable.

    Raises:
        ValueError: no variable has this name.
    """
    declared = (*VARIABLES, *TRACE_VARIABLES, VALID)
    for candidate in declared:
        if candidate.name == name:
            return candidate
    raise ValueError(f"variable = {name!r}: must be one of {', '.join(v.name for v in declared)}")


def coordinate_attrs(name: str) -> dict[str, str]:
    """Returns the attributes of a coordinate: `units` and `long_name`."""
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), "1")
    words = name.replace(".", " ").replace("_", " ")
    return COORDINATES.get(name, {"units": unit, "long_name": words})


class Chip(Protocol):
    """The properties of a chip that a result depends on."""

    @property
    def name(self) -> str:
        """Name of the chip."""

    @property
    def ops(self) -> Mapping[str, Any]:
        """Operation classes by name."""


def result_ops(gpus: Iterable[Chip]) -> tuple[str, ...]:
    """Returns the labels of the `op` dimension of a result on these chips: `OPS`, then the additional classes of the chips."""
    own = (op for gpu in gpus for op in gpu.ops if op not in OPS)
    return (*OPS, *dict.fromkeys(own))


def result_coordinates(replicates: int, ops: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Returns the labels of the dimensions of every result: `replicate`, `op`, `quantile`, `state` and `slot`."""
    return {
        "replicate": np.arange(replicates),
        "op": labels(list(ops)),
        "quantile": np.array(QUANTILES),
        "state": labels(STATES),
        "slot": labels(SLOTS),
    }


def labels(values: Any) -> NDArray[Any]:
    """Returns the labels of a coordinate as an array; text has dtype object, since Zarr v3 has no fixed-width text."""
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "U" else array


def build_dataset(
    arrays: Mapping[str, NDArray[Any]],
    coordinates: Mapping[str, Any],
    *,
    axes: Sequence[str] = (),
    dims: Sequence[str] = (),
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Builds a labelled Dataset from plain arrays.

    Args:
        arrays: variable name -> array of shape (*axes, *own dimensions).
        coordinates: coordinate name -> labels, or (dimensions, labels), or a scalar.
        axes: names of the leading dimensions of all arrays, which are the axes of a sweep.
        dims: additional dimensions whose coordinates to include. Coordinates of dimensions that no array has are
            otherwise omitted.
        attrs: attributes of the Dataset.
    """
    import xarray as xr

    import warpsim.results.accessor  # noqa: F401, registers `ds.warpsim`

    data = {}
    for name, array in arrays.items():
        declared = variable(name)
        data[name] = ((*axes, *declared.dims), array, declared.attrs)
    used = {*dims, *(dim for own, _, _ in data.values() for dim in own)}
    coords = {}
    for name, value in coordinates.items():
        own, values = value if isinstance(value, tuple) else ((name,) if np.ndim(value) else (), value)
        if set(own) <= used:
            coords[name] = (own, labels(values), coordinate_attrs(name))
    return xr.Dataset(data, coords=coords, attrs=dict(attrs or {}))

"""Prepares a result for the report: means and intervals of a limited number of points, as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.schema import SLOTS
from warpsim.results.statistics import OCCUPANCY_AXES, half_width, needed_warps
from warpsim.units import NEEDED_FRACTION
from warpsim.views.plots.selection import require_all_states, require_variables

if TYPE_CHECKING:
    import xarray as xr

MAX_POINTS = 4000
"""Upper limit on the points of a page: a few MB of numbers, which a browser draws without delay."""

TIME_BINS = 200
"""Number of time bins for changes of occupancy."""

MAX_LINES = 60
"""Upper limit on the program lines shown; those with the most cycles are shown."""

MAX_BINS = 300
"""Upper limit on the values shown of a numeric dimension of a single run, such as time."""

_SHARES = {"warp_cycles": "share of warp-cycles", "scheduler_cycles": "share of scheduler-cycles"}
_LEFT_OUT = ("valid", "instructions")  # shown by the number of points, and by ipc
_DIGITS = 6


@dataclass(frozen=True)
class Thinned:
    """A part of the points of a result.

    Attributes:
        results: the part, in memory.
        axes: the axes of the sweep; none for a single run.
        total_points: the number of points of the whole result.
        thinned_axes: axis -> (number of values kept, total number), for the axes of which values were dropped.
    """

    results: xr.Dataset
    axes: tuple[str, ...]
    total_points: int
    thinned_axes: Mapping[str, tuple[int, int]]


def sweep_axes(results: xr.Dataset) -> tuple[str, ...]:
    """Returns the axes of a result; none for a single run.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: this is not a result of warpsim.
    """
    require_variables(results)
    if "peak_fraction" not in results.data_vars:
        existing = ", ".join(map(str, results.data_vars)) or "nothing"
        raise ValueError(f"results: must hold peak_fraction, as results of simulate and sweep do; got {existing}")
    return tuple(str(dim) for dim in results["peak_fraction"].dims if dim != "replicate")


def thin(results: xr.Dataset, limit: int = MAX_POINTS) -> Thinned:
    """Selects and loads at most `limit` points: every k-th value of the longest numeric axes, including both ends.

    Nothing is averaged over points, and only the selected points are read.
    """
    axes = sweep_axes(results)
    if "replicate" not in results.dims:  # a replicate was selected
        results = results.expand_dims("replicate")
    sizes = {axis: results.sizes[axis] for axis in axes}
    kept = dict(sizes)

    def longest() -> str:
        numeric = [axis for axis in axes if results[axis].dtype.kind in "iuf" and kept[axis] > 2]
        return max(numeric or axes, key=lambda axis: kept[axis])

    while math.prod(kept.values()) > limit:
        axis = longest()
        kept[axis] = max(1, (kept[axis] + 1) // 2)
    results = add_binned_occupancy(results)
    indices = {axis: np.unique(np.linspace(0, sizes[axis] - 1, kept[axis]).round().astype(int)) for axis in axes}
    if any(kept[axis] < sizes[axis] for axis in axes):
        results = results.isel(indices)
    thinned_axes = {axis: (len(indices[axis]), sizes[axis]) for axis in axes if len(indices[axis]) < sizes[axis]}
    return Thinned(results.load(), axes, math.prod(sizes.values()), thinned_axes)


def add_binned_occupancy(results: xr.Dataset) -> xr.Dataset:
    """Adds `occupancy_over_time`, the mean resident warps of each SM in time bins, if only the changes were traced.

    A replicate has no values before its first and after its last counted cycle.
    """
    names = [f"occupancy_change_{name}" for name in ("cycle", "sm", "warps")]
    if "occupancy_over_time" in results or not set(names) <= set(results.data_vars):
        return results
    cycle, sm, warps = (results[name].transpose("replicate", "change").values.astype(float) for name in names)
    if not np.isfinite(cycle).any():
        return results
    begins, ends = np.nanmin(cycle, axis=1), np.nanmax(cycle, axis=1) + 1
    if "cycles" in results:
        ends = np.fmax(ends, begins + results["cycles"].values)
    edges = np.unique(np.linspace(np.nanmin(begins), np.nanmax(ends), TIME_BINS + 1).round())
    sms = int(np.nanmax(sm)) + 1
    binned = np.full((len(cycle), sms, len(edges) - 1), np.nan)
    for replicate, number in np.ndindex(binned.shape[:2]):
        of_sm = sm[replicate] == number
        if of_sm.any():
            counted = np.clip(edges, begins[replicate], ends[replicate])
            binned[replicate, number] = _bin_means(cycle[replicate, of_sm], warps[replicate, of_sm], counted)
    attrs = {"units": "warps/SM", "long_name": "occupancy"}
    times = ("occupancy_time", edges[:-1], {"units": "cycles", "long_name": "first cycle of the bin"})
    with_bins = results.assign(occupancy_over_time=(("replicate", "sm", "occupancy_time"), binned, attrs))
    return with_bins.assign_coords(occupancy_time=times)


def _bin_means(starts: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean over each bin of a step function, which is `values[i]` from `starts[i]` on; NaN for a bin of no length."""
    ends = np.append(starts[1:], max(edges[-1], starts[-1]))
    area = np.concatenate([[0.0], np.cumsum(values * (ends - starts))])
    area_at_edges: NDArray[np.float64] = np.interp(edges, np.append(starts, ends[-1]), area)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = np.diff(area_at_edges) / np.diff(edges)
    return means


def drawable_variables(thinned: Thinned) -> dict[str, dict[str, Any]]:
    """Returns every variable that can be drawn, as JSON values.

    Replicates are averaged. Warp-cycles by state and scheduler-cycles by slot become shares. Labels of a dimension at which a
    variable is nowhere above 0 are left out. Lists of warps, issues and changes of occupancy are left out.

    Returns:
        Variable -> label, units, dims, indices (dimension -> the indices that are shown), and the flat lists mean and half (half
        the width of the 95 % interval; None for a single replicate).

    Raises:
        ValueError: states of warps, or slots of schedulers, have been left out.
    """
    results, axes = thinned.results, thinned.axes
    require_all_states(results)
    if "scheduler_cycles" in results and results["slot"].size < len(SLOTS):
        raise ValueError("slot: must be left as it is, since all slots together are the time of the schedulers")
    entries: dict[str, dict[str, Any]] = {}
    for name in map(str, results.data_vars):
        data = results[name]
        own = [str(dim) for dim in data.dims if dim not in (*axes, "replicate")]
        if name in _LEFT_OUT or data.dtype.kind not in "iuf" or set(own) & {"warp", "change", "issue"}:
            continue
        if not set(axes) <= set(data.dims):
            continue
        data = data.transpose(*axes, *own, *(["replicate"] if "replicate" in data.dims else []))
        entries |= _entry(name, data, own)
    occupancy = [axis for axis in OCCUPANCY_AXES if axis in axes and results.sizes[axis] > 1]
    if occupancy:
        others = [axis for axis in axes if axis not in occupancy]
        needed = needed_warps(results, NEEDED_FRACTION)["needed_warps"].transpose(*others)
        label = f"warps needed for {NEEDED_FRACTION:.0%} of a limit"
        entries |= _entry("needed_warps", needed.assign_attrs(long_name=label), [])
    return entries


def _entry(name: str, data: xr.DataArray, own: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns name -> entry for one variable with its own dimensions `own`; nothing if it has no finite value."""
    attrs = {"units": str(data.attrs.get("units", "1")), "label": str(data.attrs.get("long_name", name.replace("_", " ")))}
    if name in _SHARES:
        with np.errstate(invalid="ignore", divide="ignore"):
            data = 100.0 * data / data.sum(own)
        attrs = {"units": "%", "label": _SHARES[name]}
    indices: dict[str, list[Any]] = {}
    for dim in own:
        data, indices[dim] = _busiest_lines(data, dim) if f"{dim}_text" in data.coords else _shorten(data, dim)
    if data.size == 0 or not bool(np.isfinite(data).any()):
        return {}
    values = data.values.astype(float)
    if "replicate" in data.dims:
        mean, half = mean_and_half_width(values)
    else:
        mean, half = values, None
    dims = [str(dim) for dim in data.dims if dim != "replicate"]
    half_numbers = None if half is None else json_numbers(half)
    return {name: {**attrs, "dims": dims, "indices": indices, "mean": json_numbers(mean), "half": half_numbers}}


def _shorten(data: xr.DataArray, dim: str) -> tuple[xr.DataArray, list[Any]]:
    """Drops text labels that are nowhere above 0; of a long numeric dimension, keeps every k-th value. Returns the indices."""
    count = data.sizes[dim]
    if dim not in data.coords or data[dim].dtype.kind in "OUT":
        others = [other for other in data.dims if other != dim]
        indices = np.flatnonzero((data > 0).any(others).values)
    else:
        indices = np.unique(np.linspace(0, count - 1, min(count, MAX_BINS)).round().astype(int))
    return data.isel({dim: indices}), indices.tolist()


def _busiest_lines(data: xr.DataArray, dim: str) -> tuple[xr.DataArray, list[Any]]:
    """Keeps the program lines with the largest totals, in the order of the program. Returns their indices."""
    total = data.sum([other for other in data.dims if other != dim])
    indices = np.sort(np.argsort(-total.values, kind="stable")[:MAX_LINES])
    return data.isel({dim: indices}), indices.tolist()


def mean_and_half_width(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Returns the mean over the last axis and half the width of its 95 % interval (None for one replicate), ignoring NaN."""
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(present, values, 0.0).sum(-1) / present.sum(-1)
        if values.shape[-1] == 1:
            return mean, None
        half = half_width(values)
        return mean, np.where(half < 1e-12 * np.abs(mean), 0.0, half)  # replicates that differ only by rounding


def dimensions(thinned: Thinned, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns label, units, values and texts of the axes and of every dimension of the variables.

    `values` is None unless all values are finite numbers.
    """
    results = thinned.results
    described: dict[str, dict[str, Any]] = {}
    for dims in (thinned.axes, *(entry["dims"] for entry in entries.values())):
        for dim in dims:
            if dim not in described:
                values = results[dim].values.tolist() if dim in results.coords else list(range(results.sizes[dim]))
                attrs = results[dim].attrs if dim in results.coords else {}
                texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
                if f"{dim}_text" in results.coords:
                    texts = [f"{text}: {line_text}" for text, line_text in zip(texts, results[f"{dim}_text"].values, strict=True)]
                settings = _linked_settings(results, dim)
                texts = settings or texts
                numeric = not settings and all(isinstance(value, int | float) and math.isfinite(value) for value in values)
                described[dim] = {
                    "label": str(attrs.get("long_name", dim.replace("_", " "))),
                    "units": str(attrs.get("units", "1")),
                    "values": values if numeric else None,
                    "texts": texts,
                }
    return described


def _linked_settings(results: xr.Dataset, dim: str) -> list[str]:
    """Returns the settings at each value of an axis along which several settings change together; [] for any other axis."""
    names = [str(name) for name, values in results.coords.items() if values.dims == (dim,) and name not in (dim, f"{dim}_text")]
    if not names or dim not in results.coords or results[dim].values.tolist() != list(range(results.sizes[dim])):
        return []
    columns = [results[name].values.tolist() for name in names]
    return [", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_numbers(values: Any) -> list[float | None]:
    """Returns values as a flat list, rounded to six digits, with None in place of NaN and infinity."""
    return [float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for value in np.ravel(values).tolist()]

"""What a report's page shows, as JSON values: a result reduced to means, intervals and at most so many points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsim.results.statistics import OCCUPANCY_AXES, half_width, needed_warps

if TYPE_CHECKING:
    import xarray as xr

MAX_POINTS = 4000
"""Points of a page at most: some MB of numbers, which a browser draws without delay."""

TIME_BINS = 200
"""Bins into which changes of occupancy are put."""

MAX_LINES = 60
"""Lines of a program at most, those with the most cycles."""

NEEDED = 0.9
"""Fraction of a throughput limit that occupancy is needed for (V 4.5)."""

MAX_BINS = 300
"""Bins of time and like dimensions of a single run at most."""

_SHARES = {"warp_cycles": "share of warp-cycles", "scheduler_cycles": "share of scheduler-cycles"}
_LEFT_OUT = ("valid", "instructions")  # said elsewhere, and by ipc
_DIGITS = 6


@dataclass(frozen=True)
class Reduced:
    """A part of a result.

    Attributes:
        results: the part, loaded.
        axes: the axes of the sweep that are left as dimensions; none for a single run.
        points: points of the whole result.
        kept: axis -> (values kept, values there were), of those that were thinned.
    """

    results: xr.Dataset
    axes: tuple[str, ...]
    points: int
    kept: Mapping[str, tuple[int, int]]


def sweep_axes(results: xr.Dataset) -> tuple[str, ...]:
    """The axes of a sweep's result.

    Raises:
        ValueError: these are not results of warpsim.
    """
    if "peak_fraction" not in results.data_vars:
        found = ", ".join(map(str, results.data_vars)) or "nothing"
        raise ValueError(f"results: must hold peak_fraction, as results of simulate and sweep do; got {found}")
    return tuple(str(dim) for dim in results["peak_fraction"].dims if dim != "replicate")


def reduce(results: xr.Dataset, limit: int = MAX_POINTS) -> Reduced:
    """Take at most `limit` points: of the longest numeric axes every k-th value, with both ends; the values stay exact.

    Only what is taken is read.
    """
    axes = sweep_axes(results)
    if "replicate" not in results.dims:  # one of them was selected
        results = results.expand_dims("replicate")
    sizes = {axis: results.sizes[axis] for axis in axes}
    taken = dict(sizes)

    def longest() -> str:
        numeric = [axis for axis in axes if results[axis].dtype.kind in "iuf" and taken[axis] > 2]
        return max(numeric or axes, key=lambda axis: taken[axis])

    while math.prod(taken.values()) > limit:
        axis = longest()
        taken[axis] = max(1, (taken[axis] + 1) // 2)
    results = with_binned_occupancy(results)
    places = {axis: np.unique(np.linspace(0, sizes[axis] - 1, taken[axis]).round().astype(int)) for axis in axes}
    if any(taken[axis] < sizes[axis] for axis in axes):
        results = results.isel(places)
    kept = {axis: (len(places[axis]), sizes[axis]) for axis in axes if len(places[axis]) < sizes[axis]}
    return Reduced(results.load(), axes, math.prod(sizes.values()), kept)


def with_binned_occupancy(results: xr.Dataset) -> xr.Dataset:
    """With `occupancy_over_time`, mean resident warps of each SM in bins, where only the changes of occupancy are there."""
    names = [f"occupancy_change_{name}" for name in ("cycle", "sm", "warps")]
    if "occupancy_over_time" in results or not set(names) <= set(results.data_vars):
        return results
    cycle, sm, warps = (results[name].transpose("replicate", "change").values.astype(float) for name in names)
    if not np.isfinite(cycle).any():
        return results
    edges = np.unique(np.linspace(np.nanmin(cycle), np.nanmax(cycle) + 1, TIME_BINS + 1).round())
    sms = int(np.nanmax(sm)) + 1
    binned = np.full((len(cycle), sms, len(edges) - 1), np.nan)
    for replicate, number in np.ndindex(binned.shape[:2]):
        own = sm[replicate] == number
        if own.any():
            binned[replicate, number] = _mean_of_steps(cycle[replicate, own], warps[replicate, own], edges)
    attrs = {"units": "warps/SM", "long_name": "occupancy"}
    times = ("occupancy_time", edges[:-1], {"units": "cycles", "long_name": "first cycle of the bin"})
    with_bins = results.assign(occupancy_over_time=(("replicate", "sm", "occupancy_time"), binned, attrs))
    return with_bins.assign_coords(occupancy_time=times)


def _mean_of_steps(at: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over each bin of a function that has `values[i]` from `at[i]` on, and 0 before the first."""
    ends = np.append(at[1:], max(edges[-1], at[-1]))
    area = np.concatenate([[0.0], np.cumsum(values * (ends - at))])
    area_at_edges: NDArray[np.float64] = np.interp(edges, np.append(at, ends[-1]), area)
    return np.diff(area_at_edges) / np.diff(edges)


def variables(reduced: Reduced) -> dict[str, dict[str, Any]]:
    """Every variable that can be drawn: label, units, dimensions, mean and half-width of the 95 % interval, flat.

    Replicates are averaged. Cycles by state become shares. Labels of a variable's own dimension that are nowhere above 0
    are left out. Variables with one value for each replicate of their own (lists of warps or issues) are no curves.
    """
    results, axes = reduced.results, reduced.axes
    found: dict[str, dict[str, Any]] = {}
    for name in map(str, results.data_vars):
        data = results[name]
        own = [str(dim) for dim in data.dims if dim not in (*axes, "replicate")]
        if name in _LEFT_OUT or data.dtype.kind not in "iuf" or set(own) & {"warp", "change", "issue"}:
            continue
        if not set(axes) <= set(data.dims):
            continue
        data = data.transpose(*axes, *own, *(["replicate"] if "replicate" in data.dims else []))
        found |= _entry(name, data, own)
    occupancy = [axis for axis in OCCUPANCY_AXES if axis in axes and results.sizes[axis] > 1]
    if occupancy:
        needed = needed_warps(results, NEEDED)["needed_warps"].transpose(*(axis for axis in axes if axis not in occupancy))
        label = f"warps needed for {NEEDED:.0%} of a limit"
        found |= _entry("needed_warps", needed.assign_attrs(long_name=label), [])
    return found


def _entry(name: str, data: xr.DataArray, own: Sequence[str]) -> dict[str, dict[str, Any]]:
    attrs = {"units": str(data.attrs.get("units", "1")), "label": str(data.attrs.get("long_name", name.replace("_", " ")))}
    if name in _SHARES:
        with np.errstate(invalid="ignore", divide="ignore"):
            data = 100.0 * data / data.sum(own)
        attrs = {"units": "%", "label": _SHARES[name]}
    keep: dict[str, list[Any]] = {}
    for dim in own:
        data, keep[dim] = _busiest(data, dim) if f"{dim}_text" in data.coords else _shortened(data, dim)
    if data.size == 0 or not bool(np.isfinite(data).any()):
        return {}
    values = data.values.astype(float)
    if "replicate" in data.dims:
        mean, half = mean_and_half(values)
    else:
        mean, half = values, None
    dims = [str(dim) for dim in data.dims if dim != "replicate"]
    entry = {**attrs, "dims": dims, "keep": keep, "mean": numbers(mean), "half": None if half is None else numbers(half)}
    return {name: entry}


def _shortened(data: xr.DataArray, dim: str) -> tuple[xr.DataArray, list[Any]]:
    """Without the labels (text) that are nowhere above 0; of many numbers, every k-th."""
    count = data.sizes[dim]
    if dim not in data.coords or data[dim].dtype.kind in "OUT":
        others = [other for other in data.dims if other != dim]
        places = np.flatnonzero((data > 0).any(others).values)
    else:
        places = np.unique(np.linspace(0, count - 1, min(count, MAX_BINS)).round().astype(int))
    return data.isel({dim: places}), places.tolist()


def _busiest(data: xr.DataArray, dim: str) -> tuple[xr.DataArray, list[Any]]:
    """Of many lines of a program those with the most, in order."""
    total = data.sum([other for other in data.dims if other != dim])
    places = np.sort(np.argsort(-total.values, kind="stable")[:MAX_LINES])
    return data.isel({dim: places}), places.tolist()


def mean_and_half(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Mean over the last axis and half the width of its 95 % interval, None of a single replicate; NaN are left out."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, values, 0.0).sum(-1) / there.sum(-1)
        if values.shape[-1] == 1:
            return mean, None
        half = half_width(values)
        return mean, np.where(half < 1e-12 * np.abs(mean), 0.0, half)  # replicates that are equal, but for rounding


def dimensions(reduced: Reduced, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The axes, and every other dimension of the variables: label, units, values, and the text of each value."""
    results = reduced.results
    found: dict[str, dict[str, Any]] = {}
    for dims in (reduced.axes, *(entry["dims"] for entry in entries.values())):
        for dim in dims:
            if dim not in found:
                values = results[dim].values.tolist() if dim in results.coords else list(range(results.sizes[dim]))
                attrs = results[dim].attrs if dim in results.coords else {}
                texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
                if f"{dim}_text" in results.coords:
                    texts = [f"{text}: {said}" for text, said in zip(texts, results[f"{dim}_text"].values, strict=True)]
                together = _together(results, dim)
                texts = together or texts
                numeric = not together and all(isinstance(value, int | float) and math.isfinite(value) for value in values)
                found[dim] = {
                    "label": str(attrs.get("long_name", dim.replace("_", " "))),
                    "units": str(attrs.get("units", "1")),
                    "values": values if numeric else None,
                    "texts": texts,
                }
    return found


def _together(results: xr.Dataset, dim: str) -> list[str]:
    """Of an axis along which several settings change, which only counts its points: the settings of each; otherwise nothing."""
    names = [str(name) for name, values in results.coords.items() if values.dims == (dim,) and name not in (dim, f"{dim}_text")]
    if not names or dim not in results.coords or results[dim].values.tolist() != list(range(results.sizes[dim])):
        return []
    columns = [results[name].values.tolist() for name in names]
    return [", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def numbers(values: Any) -> list[float | None]:
    """Values, flat, to six digits; null where there is none."""
    return [float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None for value in np.ravel(values).tolist()]

"""Statistics over replicates: means, intervals, paired differences, needed warps.

Each function takes labelled arrays and works on all points at once. Replicates that are NaN (points that do
not exist) are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import xarray as xr

LEVEL = 0.95
"""Confidence of an interval, unless another is asked for."""

OCCUPANCY_AXES = ("warps", "warps_per_scheduler")


def half_width(values: ArrayLike, level: float = LEVEL) -> NDArray[np.float64]:
    """Half the width of the confidence interval of the mean: Student's t with n - 1 degrees of freedom.

    Args:
        values: replicates along the last axis; NaN are left out.
        level: probability that the interval covers the true mean, if replicates are normally distributed.

    Returns:
        An array without the last axis; NaN where there are fewer than two replicates.

    Raises:
        ValueError: `level` is not between 0 and 1.
    """
    from scipy.special import stdtrit

    if not 0.0 < level < 1.0:
        raise ValueError(f"level = {level}: must be between 0 and 1")
    data = np.asarray(values, dtype=float)
    there = ~np.isnan(data)
    count = there.sum(axis=-1)
    freedom = np.where(count > 1, count - 1.0, np.nan)
    center = np.where(there, data, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(there, (data - center[..., None]) ** 2, 0.0).sum(axis=-1)
    half: NDArray[np.float64] = stdtrit(freedom, (1.0 + level) / 2.0) * np.sqrt(
        squares / freedom / np.maximum(count, 1)
    )
    return half


def mean(data: xr.DataArray, dim: str = "replicate") -> xr.DataArray:
    """Mean over replicates, in the units of `data`; data without replicates stay as they are."""
    return data.mean(dim, keep_attrs=True) if dim in data.dims else data


def interval(data: xr.DataArray, level: float = LEVEL, dim: str = "replicate") -> xr.Dataset:
    """Mean over replicates and its confidence interval, Student's t with n - 1 degrees of freedom.

    Args:
        data: values with the dimension `dim`.
        level: as in `half_width`.
        dim: the dimension of the replicates.

    Returns:
        `mean`, `low` and `high`, in the units of `data`. With a single replicate `low` and `high` are NaN.

    Raises:
        ValueError: `level` is not between 0 and 1, or `dim` is no dimension of `data`.
    """
    import xarray as xr

    if dim not in data.dims:
        raise ValueError(f"dim = {dim!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    center = data.mean(dim, keep_attrs=True)
    half = xr.apply_ufunc(half_width, data, level, input_core_dims=[[dim], []])
    result = xr.Dataset({"mean": center, "low": center - half, "high": center + half})
    for name, text in (("mean", "mean of "), ("low", "lower bound of "), ("high", "upper bound of ")):
        result[name].attrs = {
            **data.attrs,
            "long_name": text + str(data.attrs.get("long_name", data.name or "values")),
        }
    return result


def paired_difference(
    data: xr.DataArray,
    dim: str,
    *,
    reference: object = None,
    relative: bool = False,
    level: float = LEVEL,
) -> xr.Dataset:
    """Differences along a dimension, replicate by replicate, with confidence intervals.

    Points that share random numbers, such as the policies of one sweep, differ from each other far less by
    chance than two independent runs do; the difference is taken within each replicate before anything is
    averaged.

    Args:
        data: values with the dimensions `dim` and `replicate`.
        dim: what is compared, such as "scheduler".
        reference: the value on `dim` from which differences are taken; left out, the first.
        relative: divide each difference by the reference's value.
        level: as in `interval`.

    Returns:
        `mean`, `low` and `high` of (value - reference) over the other values of `dim`; in the units of
        `data`, or as a fraction.

    Raises:
        ValueError: `dim` is no dimension of `data`, or `reference` none of its values.
    """
    if dim not in data.dims:
        raise ValueError(f"dim = {dim!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    values = data[dim].values.tolist()
    reference = values[0] if reference is None else reference
    if reference not in values:
        raise ValueError(f"reference = {reference!r}: must be one of {', '.join(map(str, values))}")
    place = values.index(reference)
    base = data.isel({dim: place}, drop=True)
    others = data.isel({dim: [i for i in range(len(values)) if i != place]})
    difference = (others - base) / base if relative else others - base
    unit = "1" if relative else data.attrs.get("units", "1")
    text = f"{data.attrs.get('long_name', data.name or 'value')}: difference from {reference}"
    return interval(difference.assign_attrs({"units": unit, "long_name": text}), level)


def occupancy_axis(results: xr.Dataset) -> str:
    """The dimension along which occupancy varies: `warps` or `warps_per_scheduler`.

    Raises:
        ValueError: the results have neither.
    """
    for name in OCCUPANCY_AXES:
        if name in results.dims:
            return name
    dims = ", ".join(map(str, results.dims))
    raise ValueError(f"results: must have one of the dimensions {', '.join(OCCUPANCY_AXES)}; got {dims}")


def needed_warps(results: xr.Dataset, fraction: float = 0.9, level: float = LEVEL) -> xr.Dataset:
    """The smallest occupancy at which a fraction of some hardware throughput limit is attained (V 4.5).

    Args:
        results: a result with `peak_fraction` along `warps` or `warps_per_scheduler`.
        fraction: of the limit, 0 to 1.
        level: confidence of the interval.

    Returns:
        `needed_warps`, in warps per SM: the smallest occupancy on the axis at which the mean over replicates
        of `peak_fraction` reaches `fraction`; NaN if none does. `low` and `high`: the same of the upper and
        of the lower bound of the mean's interval, so that `low` <= `needed_warps` <= `high`; NaN if never
        reached, and both NaN with a single replicate.

    Raises:
        ValueError: `fraction` is not within 0 to 1, or there is no axis of occupancies.
    """
    import xarray as xr

    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"fraction = {fraction}: must be above 0 and at most 1")
    axis = occupancy_axis(results)
    attained = results["peak_fraction"]
    if "replicate" in attained.dims:
        found = interval(attained, level)
    else:
        found = xr.Dataset({"mean": attained, "low": attained, "high": attained})
    warps = results["warps"] if "warps" in results.coords else results[axis]
    sources = {"needed_warps": "mean", "low": "high", "high": "low"}
    needed = {name: warps.where(found[bound] >= fraction).min(axis) for name, bound in sources.items()}
    result = xr.Dataset({name: values.drop_vars("warps", errors="ignore") for name, values in needed.items()})
    for name, text in (("needed_warps", "needed warps"), ("low", "lower bound"), ("high", "upper bound")):
        result[name].attrs = {"units": "warps/SM", "long_name": text, "fraction": fraction}
    return result

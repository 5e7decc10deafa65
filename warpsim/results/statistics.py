"""Statistics over replicates: means, confidence intervals, paired differences and needed warps.

All functions are vectorized over the points of a result. Replicates that are NaN, such as those of points that do not
exist, are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpsim.arguments import check_fraction
from warpsim.units import NEEDED_FRACTION

if TYPE_CHECKING:
    import xarray as xr

LEVEL = 0.95
"""Default confidence level of an interval."""

OCCUPANCY_AXES = ("warps", "warps_per_scheduler")
"""Names of the dimensions along which the occupancy can vary."""


def half_width(values: ArrayLike, level: float = LEVEL) -> NDArray[np.float64]:
    """Returns half the width of the confidence interval of the mean (Student's t with n - 1 degrees of freedom).

    Args:
        values: array with the replicates along the last axis; NaN are ignored.
        level: probability that the interval covers the true mean if the replicates are normally distributed.

    Returns:
        An array without the last axis; NaN where there are fewer than two replicates.

    Raises:
        TypeError: `level` is no number.
        ValueError: `level` is not between 0 and 1.
    """
    from scipy.special import stdtrit

    if isinstance(level, bool) or not isinstance(level, SupportsFloat):
        raise TypeError(f"level = {level!r}: must be a number between 0 and 1")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level = {level}: must be between 0 and 1")
    data = np.asarray(values, dtype=float)
    valid = ~np.isnan(data)
    count = valid.sum(axis=-1)
    freedom = np.where(count > 1, count - 1.0, np.nan)
    center = np.where(valid, data, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(valid, (data - center[..., None]) ** 2, 0.0).sum(axis=-1)
    standard_error = np.sqrt(squares / freedom / np.maximum(count, 1))
    half: NDArray[np.float64] = stdtrit(freedom, (1.0 + level) / 2.0) * standard_error
    return half


def mean(data: xr.DataArray, dim: str = "replicate") -> xr.DataArray:
    """Returns the mean over replicates in the units of `data`, or `data` itself if it has no replicates."""
    return data.mean(dim, keep_attrs=True) if dim in data.dims else data


def interval(data: xr.DataArray, level: float = LEVEL, dim: str = "replicate") -> xr.Dataset:
    """Returns the mean over replicates and its confidence interval (Student's t with n - 1 degrees of freedom).

    Args:
        data: values with the dimension `dim`.
        level: confidence level, as in `half_width`.
        dim: the dimension of the replicates.

    Returns:
        A Dataset of `mean`, `low` and `high`, in the units of `data`. With a single replicate, `low` and `high` are NaN.

    Raises:
        ValueError: `level` is not between 0 and 1, or `data` has no dimension `dim`.
    """
    import xarray as xr

    if dim not in data.dims:
        raise ValueError(f"dim = {dim!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    data = data.compute()  # of chunks that another library has opened lazily
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
    """Returns paired differences along a dimension, with confidence intervals.

    The differences are computed within each replicate and then averaged. Points that use common random numbers,
    such as the policies of one sweep, have a much smaller variance of the difference than independent runs.

    Args:
        data: values with the dimensions `dim` and `replicate`.
        dim: the dimension to compare along, such as "scheduler".
        reference: the value of `dim` that is subtracted; None: the first.
        relative: whether to divide each difference by the value at the reference.
        level: confidence level, as in `interval`.

    Returns:
        A Dataset of `mean`, `low` and `high` of (value - reference) for the other values of `dim`, in the units of
        `data`, or as a fraction of the reference.

    Raises:
        ValueError: `data` are no numbers or have no dimension `dim`, `dim` has no value `reference`, or is `replicate`.
    """
    if data.dtype.kind == "b":
        raise ValueError(f"{data.name or 'data'}: must be numbers, not only true or false")
    if dim not in data.dims:
        raise ValueError(f"dim = {dim!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    if dim == "replicate":
        raise ValueError("dim = 'replicate': must be another dimension, since the differences are those within each replicate")
    values = data[dim].values.tolist()
    reference = values[0] if reference is None else reference
    if reference not in values:
        raise ValueError(f"reference = {reference!r}: must be one of {', '.join(map(str, values))}")
    index = values.index(reference)
    base = data.isel({dim: index}, drop=True)
    others = data.isel({dim: [i for i in range(len(values)) if i != index]})
    difference = (others - base) / base if relative else others - base
    unit = "1" if relative else data.attrs.get("units", "1")
    text = f"{data.attrs.get('long_name', data.name or 'value')}: difference from {reference}"
    return interval(difference.assign_attrs({"units": unit, "long_name": text}), level)


def occupancy_axis(results: xr.Dataset) -> str:
    """Returns the dimension along which the occupancy varies, `warps` or `warps_per_scheduler`.

    `occupancy_fraction` has a dimension `warps` of its own, which says nothing of the other variables.

    Raises:
        ValueError: the results have neither dimension.
    """
    dimensions = dict.fromkeys(dim for name, one in results.data_vars.items() if name != "occupancy_fraction" for dim in one.dims)
    for name in OCCUPANCY_AXES:
        if name in dimensions:
            return name
    dims = ", ".join(map(str, dimensions))
    raise ValueError(f"results: must have one of the dimensions {', '.join(OCCUPANCY_AXES)}; got {dims}")


def needed_warps(results: xr.Dataset, fraction: float = NEEDED_FRACTION, level: float = LEVEL) -> xr.Dataset:
    """Returns the smallest occupancy that attains a fraction of any hardware throughput limit (V 4.5).

    Args:
        results: a result with `peak_fraction` along `warps` or `warps_per_scheduler`.
        fraction: fraction of the limit, above 0 and at most 1.
        level: confidence level of the interval.

    Returns:
        A Dataset in warps per SM. `needed_warps` is the smallest occupancy of the axis at which the mean of
        `peak_fraction` over replicates reaches `fraction`. `low` and `high` are the smallest occupancies at which the
        upper and the lower bound of its confidence interval do, so that `low` <= `needed_warps` <= `high`. A value
        that no occupancy reaches is NaN; with a single replicate, or none, `low` and `high` are NaN.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1, or the results have no occupancy dimension.
    """
    import xarray as xr

    check_fraction(fraction)
    axis = occupancy_axis(results)
    attained = results["peak_fraction"]
    if "replicate" in attained.dims:
        bounds = interval(attained, level)
    else:
        unknown = xr.full_like(attained, np.nan, dtype=float)
        bounds = xr.Dataset({"mean": attained, "low": unknown, "high": unknown})
    per_sm = "warps" in results.coords and axis in results["warps"].dims
    warps = results["warps"] if per_sm else results[axis]
    sources = {"needed_warps": "mean", "low": "high", "high": "low"}
    needed = {name: warps.where(bounds[bound] >= fraction).min(axis) for name, bound in sources.items()}
    result = xr.Dataset({name: values.drop_vars("warps", errors="ignore") for name, values in needed.items()})
    for name, text in (("needed_warps", "needed warps"), ("low", "lower bound"), ("high", "upper bound")):
        result[name].attrs = {"units": "warps/SM", "long_name": text, "fraction": fraction}
    return result

"""What of a result is drawn: its variables, its axes, and the values chosen on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES


def need(results: xr.Dataset, *names: str) -> None:
    """Check that a result has these variables.

    Raises:
        ValueError: it lacks one; the message lists those that it has.
    """
    for name in names:
        if name not in results.data_vars:
            there = ", ".join(map(str, results.data_vars)) or "none"
            raise ValueError(f"results: must have the variable {name}; it has {there}")


def one_op(results: xr.Dataset, op: str) -> xr.DataArray:
    """Throughput of one operation class.

    Raises:
        ValueError: there is no such class; the message lists those that are.
    """
    if op not in results["op"].values.tolist():
        raise ValueError(f"op = {op!r}: must be one of {', '.join(results['op'].values.tolist())}")
    return results["throughput"].sel(op=op)


def single_run(results: xr.Dataset, replicate: int) -> xr.Dataset:
    """One replicate of a result.

    Raises:
        ValueError: there is no such replicate.
    """
    most = results.sizes.get("replicate", 1) - 1
    if not 0 <= replicate <= most:
        raise ValueError(f"replicate = {replicate}: must be from 0 to {most}")
    return results.isel(replicate=replicate) if "replicate" in results.dims else results


def select(results: xr.Dataset, values: Mapping[str, Any]) -> xr.Dataset:
    """The part of a result at these values of its axes; where several are listed, the axis stays, in that order.

    Axes of numbers ascend; in a store that has grown they need not. Occupancies at which the part has nothing are left out: an
    axis over several chips has those of all.

    Raises:
        ValueError: no such axis, or no such value on it; the message lists what there is.
    """
    for name in results.dims:
        numbers = results[name].values
        if numbers.dtype.kind in "iuf" and (np.diff(numbers) < 0).any():
            results = results.isel({name: np.argsort(numbers, kind="stable")})
    for name, value in values.items():
        if name not in results.dims:
            raise ValueError(f"{name}: must be one of the axes {', '.join(map(str, results.dims))}")
        there = results[name].values.tolist()
        for one in value if isinstance(value, list) else [value]:
            if one not in there:
                raise ValueError(f"{name} = {one!r}: must be one of {', '.join(map(str, there))}")
        places = [there.index(one) for one in value] if isinstance(value, list) else there.index(value)
        results = results.isel({name: places})
    return _without_empty_occupancies(results, values) if values else results


def _without_empty_occupancies(results: xr.Dataset, chosen: Mapping[str, Any]) -> xr.Dataset:
    """A part of a result without the occupancies at which it has nothing, such as those that other chips have."""
    for axis in OCCUPANCY_AXES:
        if axis in results.dims and axis not in chosen and "valid" in results:
            there = results["valid"].any([dim for dim in results["valid"].dims if dim != axis])
            if there.any():
                results = results.isel({axis: np.flatnonzero(there.values)})
    return results


def x_axis(
    data: xr.DataArray | xr.Dataset, x: str | None, *, apart: Sequence[str | None] = (), first: Sequence[str] = OCCUPANCY_AXES
) -> str | None:
    """The axis that a picture runs along; None where there is a single point.

    Args:
        data: what is drawn.
        x: the axis asked for; left out, one of `first`, or else the first that has several values.
        apart: dimensions that are no candidates, beside the replicates.
        first: what is preferred.

    Raises:
        ValueError: there is no such axis; the message lists those that are.
    """
    there = _axes(data, x, apart)
    _check("x", x, there)
    return x or next((name for name in (*first, *there) if name in there), None)


def hue_axis(
    data: xr.DataArray | xr.Dataset, hue: str | None, x: str | None, *, apart: Sequence[str | None] = ()
) -> str | None:
    """The axis of which each value is drawn on its own; left out, "scheduler", where it has several values.

    Raises:
        ValueError: there is no such axis; the message lists those that are.
    """
    there = _axes(data, hue, apart)
    _check("hue", hue, there)
    return hue or ("scheduler" if "scheduler" in there and x != "scheduler" else None)


def by_selecting(axis: object, values: Sequence[Any]) -> str:
    """How values of an axis are selected, in Python and on the command line, in words."""
    return f"by .sel, or by --where {axis}={','.join(map(str, values))}"


def only(data: Any, *kept: str | None, drawn: Sequence[str] = ("x", "hue")) -> Any:
    """A DataArray or Dataset over these dimensions and the replicates; other dimensions, of one value each, are dropped.

    Args:
        data: what is drawn.
        kept: the dimensions.
        drawn: what an axis may be made instead; for the message.

    Raises:
        ValueError: another dimension has several values.
    """
    kept = (*kept, "replicate")
    others = {str(dim): size for dim, size in data.sizes.items() if dim not in kept}
    left = {dim: data[dim].values.tolist() for dim, size in others.items() if size > 1}
    if left:
        several = "; ".join(f"{dim} ({', '.join(map(str, values))})" for dim, values in left.items())
        how = by_selecting(*next((dim, values[:1]) for dim, values in left.items()))
        raise ValueError(f"select one value of {several}, {how}; or make it {' or '.join(drawn)}")
    return data.squeeze(list(others), drop=True)


def _axes(data: xr.DataArray | xr.Dataset, asked: str | None, apart: Sequence[str | None]) -> list[str]:
    apart = (*apart, "replicate")
    return [str(dim) for dim, size in data.sizes.items() if dim not in apart and (size > 1 or dim == asked)]


def _check(argument: str, asked: str | None, there: Sequence[str]) -> None:
    if asked is not None and asked not in there:
        raise ValueError(f"{argument} = {asked!r}: must be one of {', '.join(there) or '(none: there is a single point)'}")

"""What of a result is drawn: its variables, its axes, and the values chosen on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr


def need(results: xr.Dataset, *names: str) -> None:
    """Check that a result has these variables.

    Raises:
        ValueError: it lacks one; the message lists those that it has.
    """
    for name in names:
        if name not in results.data_vars:
            there = ", ".join(map(str, results.data_vars)) or "none"
            raise ValueError(f"results: must have the variable {name}; it has {there}")


def select(results: xr.Dataset, values: Mapping[str, Any]) -> xr.Dataset:
    """The part of a result at these values of its axes; where several are listed, the axis stays.

    Raises:
        ValueError: no such axis, or no such value on it; the message lists what there is.
    """
    for name, value in values.items():
        if name not in results.dims:
            raise ValueError(f"{name}: must be one of the axes {', '.join(map(str, results.dims))}")
        there = results[name].values.tolist()
        for one in value if isinstance(value, list) else [value]:
            if one not in there:
                raise ValueError(f"{name} = {one!r}: must be one of {', '.join(map(str, there))}")
        places = [there.index(one) for one in value] if isinstance(value, list) else there.index(value)
        results = results.isel({name: places})
    return results

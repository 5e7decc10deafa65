"""What the analytical models share: how they say what they do not cover, and the form of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

import warpsim.results.accessor  # noqa: F401, registers `ds.warpsim`
from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import mix
from warpsim.results import schema


class NotCoveredError(ValueError):
    """The model does not cover this kernel; the message says why."""


def axis(name: str, values: ArrayLike | xr.DataArray, *, at_least: float) -> xr.DataArray:
    """Return an argument as a labelled array: a scalar has no dimension, an array the dimension `name`.

    A DataArray keeps its own dimensions.

    Raises:
        TypeError: the values are not numbers.
        ValueError: a value is NaN or below `at_least`, or an array has more than one dimension and no names
            for them.
    """
    if isinstance(values, xr.DataArray):
        numbers = values.astype(np.float64)
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"{name} = {values!r}: a number or an array of numbers")
        if array.ndim > 1:
            raise ValueError(f"{name} = array of shape {array.shape}: one dimension, or an xarray.DataArray")
        numbers = xr.DataArray(
            array.astype(np.float64),
            dims=(name,) if array.ndim else (),
            coords={name: ((name,) if array.ndim else (), array, schema.coordinate_attrs(name))},
        )
    if not bool((numbers >= at_least).all()):
        raise ValueError(f"{name} = {values!r}: numbers, at least {at_least:g}")
    return numbers


def quantity(values: Any, unit: str, long_name: str) -> xr.DataArray:
    """Return a variable that the simulator does not have, with its `units` and `long_name`."""
    return xr.DataArray(values, attrs={"units": unit, "long_name": long_name})


def result(
    gpu: schema.Chip,
    ipc: Mapping[str, xr.DataArray],
    others: Mapping[str, xr.DataArray],
    *,
    source: str,
) -> xr.Dataset:
    """Return a model's result with the simulator's names.

    Args:
        gpu: the chip.
        ipc: operation class -> warp instructions per cycle and SM; classes that are left out are 0.
        others: further variables; those that the simulator has too get its attributes.
        source: the model, for the attribute `source`.

    Returns:
        A Dataset with `ipc` and `throughput` (32 operations to an instruction) over the arguments' dimensions
        and `op`, and `others`.
    """
    ops = schema.result_ops([gpu])
    shape: xr.DataArray = sum(ipc.values(), xr.DataArray(0.0)) * 0.0
    stacked = xr.concat([shape + ipc.get(op, 0.0) for op in ops], dim="op").transpose(..., "op")
    stacked = stacked.assign_coords(op=schema.labels(ops))
    ds = xr.Dataset({"ipc": stacked, "throughput": units.WARP_LANES * stacked, **others})
    declared = {variable.name: variable for variable in schema.VARIABLES}
    for name, array in ds.data_vars.items():
        if name in declared:
            array.attrs = declared[str(name)].attrs
    for name, coordinate in ds.coords.items():
        coordinate.attrs = schema.coordinate_attrs(str(name))
    ds.attrs = {"source": source, "gpu": gpu.name}
    return ds


def check_fraction(fraction: float) -> None:
    """Check a fraction of a throughput.

    Raises:
        ValueError: it is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction = {fraction!r}: above 0 and at most 1")


def over_alpha(call: Callable[..., Any], gpu: Gpu, alpha: ArrayLike, *, other: str = "load", **arguments: Any) -> Any:
    """Apply a model to the mixes of V 4.1, over an array of alpha.

    Args:
        call: `throughput`, `execution_time` or `needed_warps` of a model.
        gpu: the chip.
        alpha: adds per other instruction, one number or an array of one dimension; infinite is allowed.
        other: "load", "sfu" or "smem".
        arguments: passed on, such as `warps`.

    Returns:
        What `call` returns, a number as a DataArray, over the dimension `alpha`.

    Raises:
        NotCoveredError: the model does not cover one of the mixes.
    """
    values = np.atleast_1d(np.asarray(alpha, dtype=float))
    found = [call(gpu, mix(float(value), other), **arguments) for value in values]
    if isinstance(found[0], xr.Dataset | xr.DataArray):
        together = xr.concat(found, dim="alpha", coords="minimal", compat="override")
    else:
        together = xr.DataArray(np.array(found, dtype=float), dims="alpha", name=call.__name__)
    return together.assign_coords(alpha=("alpha", values, schema.coordinate_attrs("alpha")))

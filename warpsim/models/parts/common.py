"""Arguments and results of the analytical models, and the error that they raise for what they do not cover."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

import warpsim.results.accessor  # noqa: F401, registers `ds.warpsim`
from warpsim import units
from warpsim.arguments import choice, integer
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.kernels import Instruction, Kernel, mix
from warpsim.kernels.files import as_kernel
from warpsim.kernels.traversal import mapped
from warpsim.results import schema

_Result = TypeVar("_Result")


_REPLACED = frozenset(units.MEMORY_OPS) - {"load", "store"}


class NotCoveredError(ValueError):
    """The model does not cover this kernel; the message says why."""


def accepts_names(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Lets a function of a chip, or of a chip and a kernel, take their names or files as well.

    A named kernel also takes the arguments of its builder by keyword, as in `volkov.throughput("kepler", "mix", alpha=32,
    warps=64)`. Arguments of the function itself take precedence. Of a kernel with several paths the model sees the one that most
    warps execute.
    """
    parameters = inspect.signature(function).parameters

    def chip(gpu: Any) -> Any:
        is_other = parameters["gpu"].annotation != "Gpu" and not isinstance(gpu, str | os.PathLike)
        return gpu if is_other else as_gpu(gpu)  # some models take chips that only they describe, too

    @functools.wraps(function)
    def call(gpu: Any, *others: Any, **arguments: Any) -> _Result:
        if "kernel" not in parameters or not (others or "kernel" in arguments):
            return function(chip(gpu), *others, **arguments)
        kernel, *others_left = others or (arguments.pop("kernel"),)
        names = [] if isinstance(kernel, Kernel) else [name for name in arguments if name not in parameters]
        loaded = as_kernel(kernel, **{name: arguments.pop(name) for name in names})
        return function(chip(gpu), as_loads_and_stores(loaded).most_frequent_path(), *others_left, **arguments)

    return call


def as_loads_and_stores(kernel: Kernel) -> Kernel:
    """Returns a kernel in which atomics and asynchronous copies are loads, and reductions stores; models know no contention."""
    if not kernel.ops & _REPLACED:
        return kernel
    return kernel.model_copy(update={"body": mapped(kernel.body, _as_load_or_store)})


def _as_load_or_store(one: Instruction) -> Instruction:
    if one.op not in _REPLACED:
        return one
    cost = None if one.cost is None else one.cost.model_copy(update={"updates": None, "update_intervals": None})
    access = one.access.model_copy(update={"contended_addresses": None}) if one.access else None
    return one.model_copy(update={"op": units.ACCESS_KINDS[one.op], "cost": cost, "access": access})


def axis(name: str, values: ArrayLike | xr.DataArray, *, at_least: float, finite: bool = True) -> xr.DataArray:
    """Returns an argument as a labelled array.

    A scalar has no dimension, an array has the dimension `name`, and a DataArray keeps its own dimensions.

    Raises:
        TypeError: the values are not numbers.
        ValueError: a value is NaN or below `at_least`, or infinite if `finite`, or a plain array has more than one dimension.
    """
    if isinstance(values, xr.DataArray):
        numbers = values.astype(np.float64)
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"{name} = {values!r}: must be a number or an array of numbers")
        if array.ndim > 1:
            raise ValueError(f"{name} = array of shape {array.shape}: must have one dimension, or be an xarray.DataArray")
        numbers = xr.DataArray(
            array.astype(np.float64),
            dims=(name,) if array.ndim else (),
            coords={name: ((name,) if array.ndim else (), array, schema.coordinate_attrs(name))},
        )
    if not bool((numbers >= at_least).all()):
        raise ValueError(f"{name} = {values!r}: must be at least {at_least:g}")
    if finite and not bool(np.isfinite(numbers).all()):
        raise ValueError(f"{name} = {values!r}: must be finite")
    return numbers


def quantity(values: Any, unit: str, long_name: str) -> xr.DataArray:
    """Returns a variable that a simulation does not have, with its attributes `units` and `long_name`."""
    return xr.DataArray(values, attrs={"units": unit, "long_name": long_name})


def result(
    gpu: schema.Chip,
    ipc: Mapping[str, xr.DataArray],
    others: Mapping[str, xr.DataArray],
    *,
    source: str,
) -> xr.Dataset:
    """Returns the result of a model with the names of a simulation.

    Args:
        gpu: the chip.
        ipc: operation class -> warp instructions per cycle and SM; missing classes are 0.
        others: further variables; those that a simulation also has get its attributes.
        source: name of the model, for the attribute `source`.

    Returns:
        A Dataset with `others`, and with `ipc` and `throughput` (32 operations per instruction) over the dimensions of the
        arguments and `op`.
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


def peak_bandwidth(gpu: Gpu, bandwidth: str) -> float:
    """Returns the "sustained" or the "pin" bandwidth of a chip in GB/s.

    Raises:
        TypeError: `bandwidth` is not a string.
        ValueError: `bandwidth` is another word.
    """
    rates = {"sustained": gpu.memory.bandwidth_gbs, "pin": gpu.memory.pin_bandwidth_gbs}
    return rates[choice("bandwidth", bandwidth, rates)]


def check_grid(kernel: Kernel, blocks: int) -> None:
    """Checks that a kernel ends, and that its grid has blocks.

    Raises:
        TypeError: `blocks` is not an integer.
        ValueError: the kernel is endless, or `blocks` is below 1.
    """
    if kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: must end, but has an endless loop")
    integer("blocks", blocks)


def over_alpha(call: Callable[..., Any], gpu: Gpu, alpha: ArrayLike, *, other: str = "load", **arguments: Any) -> Any:
    """Evaluates a model on the mixes of V 4.1 over an array of alpha.

    Args:
        call: `throughput`, `execution_time` or `needed_warps` of a model.
        gpu: the chip.
        alpha: adds per other instruction; a number or a one-dimensional array; infinity is allowed.
        other: "load", "sfu" or "smem".
        arguments: further arguments of `call`, such as `warps`.

    Returns:
        The result of `call` over the dimension `alpha`; numbers become a DataArray.

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

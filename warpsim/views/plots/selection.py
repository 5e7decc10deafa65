"""Chooses what a figure shows of a result: its variables, its axes, and values on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from warpsim.arguments import choice, did_you_mean, integer, spans
from warpsim.results.statistics import OCCUPANCY_AXES
from warpsim.views.plots.style import value_text

_NOT_TOLD = (
    "replicate", "seed", "warmup", "cycles", "op", "quantile", "state", "slot",
    "warp", "change", "issue", "time", "line", "line_text", "sm", "sm_scheduler",
)  # fmt: skip
_WORDS = ("gpu", "kernel", "scheduler")  # whose values speak for themselves
_ROUNDING = 1e-6  # of sums
_SHOWN = 10  # values at each end of a long axis that a message lists


def require_variables(results: xr.Dataset, *names: str) -> None:
    """Checks that a result has these variables.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: a variable is missing. The message lists those that exist.
    """
    if not isinstance(results, xr.Dataset):
        raise TypeError(f"results = {type(results).__name__}: must be an xarray.Dataset, as simulate and open_results return")
    for name in names:
        if name not in results.data_vars:
            existing = ", ".join(map(str, results.data_vars)) or "none"
            raise ValueError(f"results: must have the variable {name}; it has {existing}")


def throughput_of(results: xr.Dataset, op: str) -> xr.DataArray:
    """Returns the throughput of one operation class.

    Raises:
        ValueError: the results have no such class. The message lists those that exist.
    """
    choice("op", op, results["op"].values.reshape(-1).tolist())
    throughput = results["throughput"]
    return throughput.sel(op=op) if "op" in throughput.dims else throughput


def require_all_states(results: xr.Dataset) -> None:
    """Checks that a result has all states of its warps, which add up to the occupancy (docs/model.md, section 7).

    Nothing can be checked of a part of a result without `cycles`.

    Raises:
        ValueError: some have been left out.
    """
    if not {"warp_cycles", "occupancy", "cycles"} <= set(results.data_vars):
        return
    sms = results["warp_cycles"].sum("state") if "state" in results["warp_cycles"].dims else results["warp_cycles"]
    sms = sms / (results["occupancy"] * results["cycles"])
    if bool((abs(sms - sms.round().clip(min=1)) > _ROUNDING * sms.clip(min=1)).any()):
        raise ValueError("state: must be left as it is, since all states together are the occupancy")


def select_replicate(results: xr.Dataset, replicate: int) -> xr.Dataset:
    """Returns one replicate of a result, with the times of its own bins; in the result they are those of the first replicate.

    Raises:
        TypeError: `results` is no Dataset.
        ValueError: there is no such replicate.
    """
    require_variables(results)
    integer("replicate", replicate, 0, results.sizes.get("replicate", 1) - 1)
    if "replicate" not in results.dims:
        return results
    run = results.isel(replicate=replicate)
    if "time" not in run.coords or "warmup_cycles" not in run:
        return run
    later = int(run["warmup_cycles"] - results["warmup_cycles"][0])
    return run.assign_coords(time=("time", run["time"].values + later, run["time"].attrs))


def select(results: xr.Dataset, values: Mapping[str, Any]) -> xr.Dataset:
    """Selects values of axes. An axis stays, in the given order, if its values are a list, or if only some variables have it.

    Numeric axes are sorted; those of a store that has grown may be unsorted. A selection drops occupancies at which it has no
    valid point, because an axis over several chips has the occupancies of all of them.

    Args:
        results: a result.
        values: axis -> value, or a list of values; upper and lower case of names are the same.

    Raises:
        ValueError: there is no such axis, or no such value on it, or a value is given twice. The message lists those that exist.
    """
    of_points = results["peak_fraction"].dims if "peak_fraction" in results else results.dims
    for name in results.dims:
        numbers = results[name].values
        if numbers.dtype.kind in "iuf" and (np.diff(numbers) < 0).any():
            results = results.isel({name: np.argsort(numbers, kind="stable")})
    for name, value in values.items():
        if name not in results.dims:
            axes = [str(axis) for axis in results.dims]
            raise ValueError(f"{name}: must be one of the axes {', '.join(axes)}{did_you_mean(name, axes)}")
        existing = results[name].values.tolist()
        value = [_as_named(one, existing) for one in value] if isinstance(value, list) else _as_named(value, existing)
        if name not in of_points and not isinstance(value, list):
            value = [value]
        for place, wanted in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(value, list) and wanted in value[:place]:
                raise ValueError(f"{name} = {wanted!r}: is given twice")
            if wanted not in existing:
                near = did_you_mean(str(wanted), [value for value in existing if isinstance(value, str)])
                raise ValueError(f"{name} = {wanted!r}: must be one of {_listed(existing)}{near}")
        indices = [existing.index(wanted) for wanted in value] if isinstance(value, list) else existing.index(value)
        results = results.isel({name: indices})
    return _without_empty_occupancies(results, values) if values else results


def _as_named(wanted: Any, existing: Sequence[Any]) -> Any:
    """Returns a value as an axis of names has it; any other value as it is.

    That is a name that differs in upper and lower case only, or a number that the axis has as text, as it has intervals among
    fractions such as "2/3".
    """
    if wanted in existing:
        return wanted
    if isinstance(wanted, str):
        return next((name for name in existing if isinstance(name, str) and name.lower() == wanted.lower()), wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return wanted
    return next((name for name in existing if isinstance(name, str) and _number_of(name) == wanted), wanted)


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _listed(values: Sequence[Any]) -> str:
    """Returns the values of an axis as text: integers as spans, and only some of many others."""
    if all(type(value) is int for value in values):
        return spans(values)
    words = [str(value) for value in values]
    return ", ".join(words if len(words) <= 2 * _SHOWN else [*words[:_SHOWN], "...", *words[-_SHOWN:]])


def _without_empty_occupancies(results: xr.Dataset, selected: Mapping[str, Any]) -> xr.Dataset:
    """Drops occupancies without a valid point, unless the occupancies were selected themselves."""
    for axis in OCCUPANCY_AXES:
        if axis in results.dims and axis not in selected and "valid" in results:
            valid = results["valid"].any([dim for dim in results["valid"].dims if dim != axis])
            if valid.any():
                results = results.isel({axis: np.flatnonzero(valid.values)})
    return results


def held_fixed(results: xr.Dataset) -> str:
    """Returns what all points of a result have in common, for a title: "kepler, mix, alpha 4, lrr, memory queue, sms 1"."""
    names = {str(name): values for name, values in results.coords.items() if values.size == 1}
    first, last = ("gpu", "kernel"), ("scheduler", "memory", "sms")
    order = [*first, *(name for name in names if name not in (*first, *last, *_NOT_TOLD)), *last]
    texts = [(name, value_text(names[name].values.reshape(()).item())) for name in order if name in names]
    return ", ".join(text if name in _WORDS else f"{name.replace('_', ' ')} {text}" for name, text in texts)


def choose_x_axis(
    data: xr.DataArray | xr.Dataset,
    x: str | None,
    *,
    exclude: Sequence[str | None] = (),
    preferred: Sequence[str] = OCCUPANCY_AXES,
) -> str | None:
    """Returns the axis that runs to the right; None if the data are a single point.

    Args:
        data: what is drawn.
        x: the requested axis; None: the first of `preferred`, else the first axis with several values.
        exclude: dimensions that are not candidates, in addition to `replicate`.
        preferred: preferred axes.

    Raises:
        ValueError: there is no such axis. The message lists those that exist.
    """
    candidates = _candidates(data, x, exclude)
    _check_axis("x", x, candidates)
    return x or next((name for name in (*preferred, *candidates) if name in candidates), None)


def choose_hue_axis(
    data: xr.DataArray | xr.Dataset, hue: str | None, x: str | None, *, exclude: Sequence[str | None] = ()
) -> str | None:
    """Returns the axis that has one curve per value; by default "scheduler" if it has several values.

    Raises:
        ValueError: there is no such axis. The message lists those that exist.
    """
    candidates = _candidates(data, hue, exclude)
    _check_axis("hue", hue, candidates)
    return hue or ("scheduler" if "scheduler" in candidates and x != "scheduler" else None)


def how_to_select(axis: object, values: Sequence[Any]) -> str:
    """Describes, for an error message, how to select values of an axis in Python and on the command line."""
    return f"by .sel, or by --where {axis}={','.join(map(str, values))}"


def keep_axes(data: Any, *kept: str | None, alternatives: Sequence[str] = ("x", "hue")) -> Any:
    """Drops all dimensions but `kept` and `replicate`. Each dropped dimension must have a single value.

    Args:
        data: a DataArray or Dataset.
        kept: the dimensions to keep.
        alternatives: arguments that could take a dimension instead, for the message.

    Raises:
        ValueError: a dimension to drop has several values.
    """
    kept = (*kept, "replicate")
    others = {str(dim): size for dim, size in data.sizes.items() if dim not in kept}
    several = {dim: data[dim].values.tolist() for dim, size in others.items() if size > 1}
    if several:
        axes = "; ".join(f"{dim} ({', '.join(map(str, values))})" for dim, values in several.items())
        how = how_to_select(*next((dim, values[:1]) for dim, values in several.items()))
        raise ValueError(f"select one value of {axes}, {how}; or make it {' or '.join(alternatives)}")
    return data.squeeze(list(others), drop=True)


def _candidates(data: xr.DataArray | xr.Dataset, requested: str | None, exclude: Sequence[str | None]) -> list[str]:
    exclude = (*exclude, "replicate")
    return [str(dim) for dim, size in data.sizes.items() if dim not in exclude and (size > 1 or dim == requested)]


def _check_axis(argument: str, requested: str | None, candidates: Sequence[str]) -> None:
    if requested is not None and requested not in candidates:
        allowed = ", ".join(candidates) or "(none: there is a single point)"
        raise ValueError(f"{argument} = {requested!r}: must be one of {allowed}{did_you_mean(requested, candidates)}")

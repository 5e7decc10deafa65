"""Figures of results.

Each takes a Dataset and an `ax`, draws means over replicates with 95 % intervals, and returns the Axes.
Curves differ by marker and line style as well as by colour. Models are lines without markers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES, interval, mean, needed_warps, occupancy_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers tell apart (Okabe & Ito 2008)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))

_LOGARITHMIC = ("alpha",)

Models = Mapping[str, xr.Dataset]


def throughput_vs_warps(
    results: xr.Dataset, ax: Axes, *, op: str = "load", models: Models | None = None
) -> Axes:
    """Throughput of one operation class, in operations per cycle and SM, against occupancy.

    Args:
        results: `throughput` over an axis of occupancies; one curve for each combination of its other axes.
        ax: where to draw.
        op: the operation class.
        models: results of models by name, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    x = occupancy_axis(results)
    _curves(
        ax,
        _one_op(results, op),
        x,
        models={name: _one_op(model, op) for name, model in (models or {}).items()},
    )
    ax.set_ylim(bottom=0)
    ax.set_ylabel(_label(results["throughput"], f"{op} throughput"))
    return ax


def latency_vs_bandwidth(results: xr.Dataset, ax: Axes, *, models: Models | None = None) -> Axes:
    """Mean memory latency, in cycles, against the bandwidth attained, in GB/s (V 6.4).

    A curve follows rising occupancy.

    Args:
        results: `memory_latency` and `bandwidth` over an axis of occupancies.
        ax: where to draw.
        models: results with the same two variables by name, drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies, or there are too many curves.
    """
    x = occupancy_axis(results)
    for number, (label, curve) in enumerate(_combinations(results[["bandwidth", "memory_latency"]], x)):
        found = interval(curve["memory_latency"])
        bars = _half(found, curve.sizes["replicate"])
        ax.errorbar(
            mean(curve["bandwidth"]).values, found["mean"].values, yerr=bars, **_style(number), label=label
        )
    for number, (name, model) in enumerate((models or {}).items()):
        ax.plot(model["bandwidth"].values, model["memory_latency"].values, **_model_style(number), label=name)
    ax.set_xlabel(_label(results["bandwidth"]))
    ax.set_ylabel(_label(results["memory_latency"]))
    return _finish(ax)


def needed_warps_vs_alpha(
    results: xr.Dataset, ax: Axes, *, fraction: float = 0.9, models: Models | None = None
) -> Axes:
    """The cusp: occupancy needed for a fraction of a throughput limit against alpha (V Figures 4.5, 4.6).

    The axis of alpha is logarithmic to base 2; alpha = 0 (only the others) and infinity (only adds) stand at
    its two ends.

    Args:
        results: `peak_fraction` over `alpha` and an axis of occupancies; one curve for each combination of
            its other axes.
        ax: where to draw.
        fraction: of the throughput limit.
        models: by name, results with `needed_warps` over `alpha`, or with `peak_fraction` as the simulator's;
            drawn as lines.

    Raises:
        ValueError: there is no axis of occupancies or of alpha, or there are too many curves.
    """
    lines = {name: _needed(model, fraction) for name, model in (models or {}).items()}
    _curves(
        ax, _needed(results, fraction), "alpha", models={name: model["mean"] for name, model in lines.items()}
    )
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"warps per SM needed for {fraction:.0%} of a peak")
    return ax


def plot(
    results: xr.Dataset, ax: Axes, *, x: str | None = None, y: str = "peak_fraction", hue: str | None = None
) -> Axes:
    """Any variable against any axis.

    Args:
        results: a result; all axes but `x` and `hue` must have been reduced to one value
            (`results.sel(...)`).
        ax: where to draw.
        x: an axis; left out: occupancy, or "alpha" for needed warps, or the first axis.
        y: a variable, or "needed_warps".
        hue: a dimension, one curve for each of its values; left out: "scheduler", if it is an axis.

    Raises:
        ValueError: no such variable or axis, or an axis is left over; the message lists what there is.
    """
    if y == "needed_warps":
        data: xr.Dataset | xr.DataArray = _needed(results, 0.9)
    elif y in results.data_vars:
        data = results[y]
    else:
        raise ValueError(
            f"y = {y!r}: must be needed_warps or one of {', '.join(map(str, results.data_vars))}"
        )
    own = [
        str(dim) for dim, size in data.sizes.items() if dim != "replicate" and (size > 1 or dim in (x, hue))
    ]
    x = x or next(
        (
            name
            for name in ("alpha", *OCCUPANCY_AXES, *own)
            if name in own and (name != "alpha" or y == "needed_warps")
        ),
        None,
    )
    if x is None or x not in own:
        raise ValueError(f"x = {x!r}: must be one of {', '.join(own) or '(none: there is a single point)'}")
    hue = hue or ("scheduler" if "scheduler" in own and x != "scheduler" else None)
    if hue is not None and hue not in own:
        raise ValueError(f"hue = {hue!r}: must be one of {', '.join(own)}")
    left = [f"{dim} ({', '.join(map(str, data[dim].values.tolist()))})" for dim in own if dim not in (x, hue)]
    if left:
        raise ValueError(f"select one value of {'; '.join(left)}; or make it x or hue")
    single = [dim for dim, size in data.sizes.items() if size == 1 and dim not in ("replicate", x, hue)]
    _curves(ax, data.squeeze(single, drop=True), x)
    ax.set_ylabel("warps per SM needed for 90% of a peak" if y == "needed_warps" else _label(results[y]))
    return ax


def select(results: xr.Dataset, values: Mapping[str, Any]) -> xr.Dataset:
    """The part of a result at these values of its axes.

    Raises:
        ValueError: no such axis, or no such value on it; the message lists what there is.
    """
    for name, value in values.items():
        if name not in results.dims:
            raise ValueError(f"{name}: must be one of the axes {', '.join(map(str, results.dims))}")
        there = results[name].values.tolist()
        if value not in there:
            raise ValueError(f"{name} = {value!r}: must be one of {', '.join(map(str, there))}")
        results = results.isel({name: there.index(value)})
    return results


def _curves(
    ax: Axes, data: xr.DataArray | xr.Dataset, x: str, *, models: Mapping[str, xr.DataArray] | None = None
) -> None:
    """Draw one curve along `x` for each combination of the other dimensions, then the models."""
    if x not in data.dims:
        raise ValueError(f"x = {x!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    scale = _Scale(ax, x, [data[x], *(model[x] for model in (models or {}).values())])
    for number, (label, curve) in enumerate(_combinations(data, x)):
        found, bars = _mean_and_bars(curve)
        ax.errorbar(scale(curve[x]), found.values, yerr=bars, **_style(number), label=label)
    for number, (name, model) in enumerate((models or {}).items()):
        ax.plot(scale(model[x]), model.values, **_model_style(number), label=name)
    ax.set_xlabel(_label(data[x]))
    _finish(ax)


def _mean_and_bars(curve: xr.DataArray | xr.Dataset) -> tuple[Any, Any]:
    if isinstance(curve, xr.Dataset):
        below, above = curve["mean"] - curve["low"], curve["high"] - curve["mean"]
        return curve["mean"], np.stack([np.nan_to_num(below), np.nan_to_num(above)])
    if "replicate" not in curve.dims:
        return curve, None
    found = interval(curve)
    return found["mean"], _half(found, curve.sizes["replicate"])


def _half(found: xr.Dataset, replicates: int) -> Any:
    return (found["high"] - found["mean"]).values if replicates > 1 else None


def _needed(results: xr.Dataset, fraction: float) -> xr.Dataset:
    found = (
        results[["needed_warps"]] if "needed_warps" in results.data_vars else needed_warps(results, fraction)
    )
    found = found.rename(needed_warps="mean")
    return found if "low" in found else found.assign(low=found["mean"], high=found["mean"])


def _one_op(results: xr.Dataset, op: str) -> xr.DataArray:
    if op not in results["op"].values.tolist():
        raise ValueError(f"op = {op!r}: must be one of {', '.join(results['op'].values.tolist())}")
    return results["throughput"].sel(op=op)


def _combinations(data: Any, x: str) -> Iterator[tuple[str, Any]]:
    """Every combination of the dimensions other than `x` and `replicate`, with a label of those that vary."""
    others = [dim for dim in data.dims if dim not in (x, "replicate")]
    number = int(np.prod([data.sizes[dim] for dim in others], dtype=int))
    if number > len(MARKERS):
        sizes = ", ".join(f"{dim}: {data.sizes[dim]}" for dim in others)
        raise ValueError(
            f"results: must be at most {len(MARKERS)} curves, but {sizes} make {number}; select some first"
        )
    for place in itertools.product(*(range(data.sizes[dim]) for dim in others)):
        curve = data.isel(dict(zip(others, place, strict=True)))
        label = ", ".join(f"{dim} {_text(curve, str(dim))}" for dim in others if data.sizes[dim] > 1)
        yield label or "simulation", curve


def _text(curve: Any, dim: str) -> str:
    value = curve[dim].item() if dim in curve.coords else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Scale:
    """Places of values on the x axis; that of alpha is logarithmic, with 0 and infinity at its two ends."""

    def __init__(self, ax: Axes, x: str, values: list[xr.DataArray]) -> None:
        self.ends: dict[float, float] = {}
        if x not in _LOGARITHMIC:
            return
        every = np.concatenate([np.atleast_1d(np.asarray(v, float)) for v in values])
        finite = np.unique(every[np.isfinite(every) & (every > 0)])
        if len(finite) == 0:
            return
        ax.set_xscale("log", base=2)
        low, high = np.log2(finite[0]), np.log2(finite[-1])
        step = max(1.0, np.ceil((high - low) / 8))
        marks = 2.0 ** np.arange(np.ceil(low), high + 0.5, step)
        self.ends = {0.0: finite[0] / 2**step, np.inf: finite[-1] * 2**step}
        ends = {value: place for value, place in self.ends.items() if value in every}
        names = [f"{mark:g}" for mark in marks] + ["0" if value == 0 else "∞" for value in ends]
        ax.set_xticks([*marks, *ends.values()], names)
        ax.minorticks_off()

    def __call__(self, values: xr.DataArray) -> Any:
        plain = values.values
        if plain.dtype.kind in "biuf":
            return np.array([self.ends.get(float(value), value) for value in plain])
        return plain.astype(str)


def _style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number],
        "marker": MARKERS[number],
        "linestyle": LINES[number],
        "linewidth": 1.0,
        "markersize": 4.5,
        "capsize": 2.0,
    }


def _model_style(number: int) -> dict[str, Any]:
    grey = ("#555555", "#999999", "#bbbbbb")[number % 3]
    return {"color": grey, "linestyle": LINES[number % len(LINES)], "linewidth": 2.0, "zorder": 1}


def _label(data: xr.DataArray, text: str | None = None) -> str:
    units = data.attrs.get("units", "1")
    name = text or data.attrs.get("long_name", data.name)
    return f"{name} ({units})" if units != "1" else str(name)


def _finish(ax: Axes) -> Axes:
    ax.grid(True, color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small")
    return ax

"""Curves with 95 % intervals, one for each combination of a result's other axes, and models beside them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import interval, mean
from warpsim.views.plots.selection import by_selecting
from warpsim.views.plots.style import COLOURS, MARKERS, curve_style, finish, label, model_style, say, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Models = Mapping[str, xr.Dataset]
"""Results of models by name."""

_LOGARITHMIC = ("alpha",)


def draw_curves(
    ax: Axes, data: xr.DataArray | xr.Dataset, x: str, *, models: Mapping[str, xr.DataArray] | None = None, note: str = ""
) -> Axes:
    """Draw one curve along `x` for each combination of the other dimensions, then the models.

    Args:
        ax: where to draw.
        data: values, or a Dataset of `mean`, `low` and `high`; replicates are averaged.
        x: a dimension.
        models: by name; a model lacks the dimensions that it does not depend on.
        note: a last line of the legend, which stands in the middle where there are no curves.

    Raises:
        ValueError: `x` is no dimension, or there are too many curves.
    """
    if x not in data.dims:
        raise ValueError(f"x = {x!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    ax.margins(y=0.08)
    scale = Scale(ax, x, [data[x], *(model[x] for model in (models or {}).values())])
    curves = list(combinations(data, x))
    drawn = 0
    for number, (text, curve) in enumerate(curves):
        found, bars = _mean_and_bars(curve)
        drawn += int(np.isfinite(found.values).sum())
        ax.errorbar(scale(curve[x]), found.values, yerr=bars, **curve_style(number), label=text)
    for number, (name, model) in enumerate((models or {}).items()):
        draw_model(ax, number, name, [(scale(part[x]), part.values, part) for _, part in combinations(model, x)], curves)
    if not drawn:
        say(ax, note or "no data")
    elif note:
        ax.plot([], [], " ", label=note)
    ax.set_xlabel(label(data[x]))
    return finish(ax)


def draw_model(
    ax: Axes, number: int, name: str, lines: list[tuple[Any, Any, Any]], curves: list[tuple[str, Any]]
) -> None:
    """Draw a model as lines without markers; of several, each has the colour of the curve that it belongs to.

    Args:
        ax: where to draw.
        number: of the model.
        name: of the model, for the legend.
        lines: x, y, and an array that has the coordinates of the line.
        curves: label and data of the curves, in the order in which they were drawn.
    """
    style = model_style(number)
    if len(lines) == 1:
        ax.plot(*lines[0][:2], **style, label=name)
        return
    style["linewidth"] = 1.0
    ax.plot([], [], **style, label=name)
    for x, y, part in lines:
        ax.plot(x, y, **{**style, "color": COLOURS[_owner(part, curves)]}, alpha=0.6)


def _owner(part: Any, curves: list[tuple[str, Any]]) -> int:
    """The first curve that agrees with a model on all coordinates that both have one value of."""
    for number, (_, curve) in enumerate(curves):
        shared = [name for name in part.coords if name in curve.coords and not part[name].ndim and not curve[name].ndim]
        if all(part[name].item() == curve[name].item() for name in shared):
            return number
    return 0


def _mean_and_bars(curve: xr.DataArray | xr.Dataset) -> tuple[Any, Any]:
    if isinstance(curve, xr.Dataset):
        below, above = curve["mean"] - curve["low"], curve["high"] - curve["mean"]
        return curve["mean"], np.stack([np.nan_to_num(below), np.nan_to_num(above)])
    return mean(curve), half_interval(curve)


def half_interval(curve: xr.DataArray) -> Any:
    """Half the 95 % interval of the mean over replicates; None with less than two."""
    if curve.sizes.get("replicate", 1) < 2:
        return None
    found = interval(curve)
    return (found["high"] - found["mean"]).values


def combinations(data: Any, *along: str) -> Iterator[tuple[str, Any]]:
    """Every combination of the dimensions other than `along` and `replicate`, with a label of those that vary.

    Raises:
        ValueError: there are more than there are markers.
    """
    others = [dim for dim in data.dims if dim not in (*along, "replicate")]
    number = int(np.prod([data.sizes[dim] for dim in others], dtype=int))
    if number > len(MARKERS):
        sizes = ", ".join(f"{dim}: {data.sizes[dim]}" for dim in others)
        longest = max(others, key=lambda dim: data.sizes[dim])
        how = by_selecting(longest, data[longest].values.tolist()[:2])
        raise ValueError(f"results: must be at most {len(MARKERS)} curves, but {sizes} make {number}; select some first, {how}")
    named = [dim for dim in others if data.sizes[dim] > 1]
    for place in itertools.product(*(range(data.sizes[dim]) for dim in others)):
        curve = data.isel(dict(zip(others, place, strict=True)))
        text = ", ".join(f"{dim} {shown(curve[dim].item())}" for dim in named)
        yield text or "simulation", curve


class Scale:
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
        """The places of these values; text stays text."""
        plain = values.values
        if plain.dtype.kind in "biuf":
            return np.array([self.ends.get(float(value), value) for value in plain])
        return plain.astype(str)

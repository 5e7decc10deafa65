"""Curves with 95 % confidence intervals, one per combination of the other axes, and the curves of models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from warpsim.results.statistics import OCCUPANCY_AXES, interval, mean
from warpsim.views.plots.selection import how_to_select
from warpsim.views.plots.style import (
    COLOURS,
    MARKERS,
    add_grid_and_legend,
    axis_label,
    centre_text,
    curve_style,
    mark_values,
    model_style,
    value_text,
    whole_warps,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Models = Mapping[str, xr.Dataset]
"""Name of a model -> its results."""

_LOGARITHMIC = ("alpha",)


def draw_curves(
    ax: Axes,
    data: xr.DataArray | xr.Dataset,
    x: str,
    *,
    models: Mapping[str, xr.DataArray] | None = None,
    note: str = "",
    empty: str = "",
) -> Axes:
    """Draws one curve along `x` per combination of the other dimensions, then the models.

    Args:
        ax: where to draw.
        data: values, whose replicates are averaged; or a Dataset with `mean`, `low` and `high`.
        x: a dimension.
        models: name -> values. A model lacks the dimensions that it does not depend on.
        note: last line of the legend.
        empty: text in place of curves without a value; "": no data. A figure without any line has no ticks on its y axis.

    Raises:
        ValueError: `x` is not a dimension, or there are too many curves.
    """
    if x not in data.dims:
        raise ValueError(f"x = {x!r}: must be one of the dimensions {', '.join(map(str, data.dims))}")
    from matplotlib.ticker import NullLocator

    ax.margins(y=0.08)
    positions = AxisPositions(ax, x, [data[x], *(model[x] for model in (models or {}).values())])
    curves = list(combinations(data, x))
    drawn = 0
    for number, (text, curve) in enumerate(curves):
        means, bars = _means_and_bars(curve)
        drawn += int(np.isfinite(means.values).sum())
        ax.errorbar(positions(curve[x]), means.values, yerr=bars, **curve_style(number), label=text)
    for number, (name, model) in enumerate((models or {}).items()):
        draw_model(ax, number, name, [(positions(line[x]), line.values, line) for _, line in combinations(model, x)], curves)
    if not drawn:
        centre_text(ax, empty or "no data")
        if not any(bool(model.notnull().any()) for model in (models or {}).values()):
            ax.yaxis.set_major_locator(NullLocator())
            ends = positions(data[x])[[0, -1]]
            if ends[0] != ends[1]:
                ax.set_xlim(*ends)  # the axis, of which matplotlib knows nothing without a point
    elif note:
        ax.plot([], [], " ", label=note)
    if positions.names:
        mark_values(ax, "x", data[x])
    ax.set_xlabel("" if data[x].values.tolist() == [""] else axis_label(data[x]))
    if x in OCCUPANCY_AXES:
        whole_warps(ax.xaxis)
    return add_grid_and_legend(ax, above=True)


def draw_model(
    ax: Axes, number: int, name: str, lines: list[tuple[Any, Any, Any]], curves: list[tuple[str, Any]]
) -> None:
    """Draws a model as lines without markers, but for points without neighbours, of which a line would show nothing.

    If there are several lines, each has the colour of the curve it belongs to.

    Args:
        ax: where to draw.
        number: number of the model, from 0.
        name: name of the model, for the legend.
        lines: x, y, and an array with the coordinates of each line.
        curves: label and data of the curves, in the order in which they were drawn.
    """
    style = model_style(number)
    if len(lines) == 1:
        x, y, _ = lines[0]
        ax.plot(x, y, **style, label=name)
        draw_lonely(ax, x, y, style)
        return
    style["linewidth"] = 1.0
    ax.plot([], [], **style, label=name)
    for x, y, line in lines:
        of_curve = {**style, "color": COLOURS[_matching_curve(line, curves)], "alpha": 0.6}
        ax.plot(x, y, **of_curve)
        draw_lonely(ax, x, y, of_curve)


def draw_lonely(ax: Axes, x: Any, y: Any, style: dict[str, Any]) -> None:
    """Draws a dash for each point without a neighbour."""
    there = np.concatenate([[False], np.isfinite(np.asarray(y, float)), [False]])
    lonely = there[1:-1] & ~there[:-2] & ~there[2:]
    if lonely.any():
        ax.plot(np.asarray(x)[lonely], np.asarray(y)[lonely], "_", **{**style, "linestyle": "none"}, markersize=9)


def _matching_curve(line: Any, curves: list[tuple[str, Any]]) -> int:
    """Returns the number of the first curve whose scalar coordinates agree with those of a model's line."""
    for number, (_, curve) in enumerate(curves):
        shared = [name for name in line.coords if name in curve.coords and not line[name].ndim and not curve[name].ndim]
        if all(line[name].item() == curve[name].item() for name in shared):
            return number
    return 0


def _means_and_bars(curve: xr.DataArray | xr.Dataset) -> tuple[Any, Any]:
    if isinstance(curve, xr.Dataset):
        below, above = (curve["mean"] - curve["low"]).values, (curve["high"] - curve["mean"]).values
        bars = np.stack([below, above])
        one_side = np.isfinite(below) != np.isfinite(above)  # the other bound is beyond the axis of occupancies
        return curve["mean"], np.where(one_side, np.nan_to_num(bars), bars)
    return mean(curve), half_widths(curve)


def half_widths(curve: xr.DataArray) -> Any:
    """Returns half the width of the 95 % interval of the mean over replicates; None if there are fewer than two replicates."""
    if curve.sizes.get("replicate", 1) < 2:
        return None
    bounds = interval(curve)
    return (bounds["high"] - bounds["mean"]).values


def combinations(data: Any, *along: str) -> Iterator[tuple[str, Any]]:
    """Yields a label and the data for each combination of the dimensions other than `along` and `replicate`.

    Raises:
        ValueError: there are more combinations than markers.
    """
    others = [dim for dim in data.dims if dim not in (*along, "replicate")]
    number = int(np.prod([data.sizes[dim] for dim in others], dtype=int))
    if number > len(MARKERS):
        sizes = ", ".join(f"{dim}: {data.sizes[dim]}" for dim in others)
        longest = max(others, key=lambda dim: data.sizes[dim])
        how = how_to_select(longest, data[longest].values.tolist()[:2])
        raise ValueError(f"results: must make at most {len(MARKERS)} curves, but {sizes} make {number}; select some first, {how}")
    varying = [dim for dim in others if data.sizes[dim] > 1]
    for index in itertools.product(*(range(data.sizes[dim]) for dim in others)):
        curve = data.isel(dict(zip(others, index, strict=True)))
        text = ", ".join(f"{dim} {value_text(curve[dim].item())}" for dim in varying)
        yield text or "simulation", curve


class AxisPositions:
    """Maps values to positions on the x axis: names to 0, 1, 2, ..., and numbers to themselves.

    The axis of alpha is logarithmic, with 0 and infinity at its two ends.
    """

    def __init__(self, ax: Axes, x: str, values: list[xr.DataArray]) -> None:
        self.names: dict[str, int] = {}
        self.ends: dict[float, float] = {}
        if values[0].dtype.kind not in "biuf":
            names = [str(name) for labels in values for name in np.atleast_1d(labels.values).tolist()]
            self.names = {name: number for number, name in enumerate(dict.fromkeys(names))}
            return
        if x not in _LOGARITHMIC:
            return
        all_values = np.concatenate([np.atleast_1d(np.asarray(v, float)) for v in values])
        finite = np.unique(all_values[np.isfinite(all_values) & (all_values > 0)])
        if len(finite) == 0:
            return
        ax.set_xscale("log", base=2)
        low, high = np.log2(finite[0]), np.log2(finite[-1])
        step = max(1.0, np.ceil((high - low) / 8))
        marks = 2.0 ** np.arange(np.ceil(low), high + 0.5, step)
        self.ends = {0.0: finite[0] / 2**step, np.inf: finite[-1] * 2**step}
        ends = {value: position for value, position in self.ends.items() if value in all_values}
        names = [f"{mark:g}" for mark in marks] + ["0" if value == 0 else "∞" for value in ends]
        ax.set_xticks([*marks, *ends.values()], names)
        ax.minorticks_off()

    def __call__(self, values: xr.DataArray) -> Any:
        """Returns the positions of values."""
        if self.names:
            return np.array([self.names[str(value)] for value in values.values.tolist()])
        return np.array([self.ends.get(float(value), value) for value in values.values])

"""Style of the figures: readable in black and white, sized for a column of a paper, with the fonts of matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from warpsim.atomic_file import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

COLUMN_INCHES = 3.4
"""Width of a column of a paper with two columns."""

DPI = 200
"""Dots per inch of raster images."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers can distinguish (Okabe & Ito 2008)."""

DARK = ("#004c78", "#8c3d00", "#00573f", "#7a3d61", "#333333")
LIGHT = ("#9fd3f2", "#ffbf87", "#8fd9c0", "#eac3d9", "#cccccc")
"""Darker and lighter versions of COLOURS; a dark and a light area differ even without colour."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))
HATCHES = (
    "", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "||||", "oooo",
    "****", "OOO", "//////", "\\\\--", "||..", "//||", "xx..", "++oo",
)  # fmt: skip
"""Hatches of areas, one for each warp state."""

Y_LABEL_WIDTH = 38
"""Characters per line of the label of the y axis."""

LEGEND_WIDTH = 72
"""Characters that fit into a row of a legend above the axes."""

LEGEND_LINE = 8
"""Characters that would fit in the place of a line of a legend and the space around it."""

X_TICKS_WIDTH = 40
"""Characters that fit along the x axis."""

VALUE_WIDTH = 24
"""Characters shown of a value of an axis; a longer name loses its middle."""

MAX_TICKS = 16
"""Upper limit on the number of marked values of an axis."""

_TICK_STEPS = (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100)
"""Numbers of values from one marked value to the next."""

GREYS = ("#555555", "#999999", "#bbbbbb")

SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # part of matplotlib, so that a figure looks the same on every machine
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "legend.handlelength": 3.0,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,  # embed text as text
    "svg.hashsalt": "warpsim",  # makes identifiers reproducible
}
"""Settings of matplotlib for a column of a paper, in addition to its defaults."""

_WITHOUT_DATE: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


@contextmanager
def paper() -> Iterator[None]:
    """Sets sizes and fonts for a column of a paper. Create, draw and save a figure inside this context."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def save(figure: Figure, path: Path) -> None:
    """Writes a figure atomically, in the format of the file name extension. Without the date, equal figures are equal files."""
    kind = path.suffix.removeprefix(".")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=kind, metadata=_WITHOUT_DATE.get(kind))


def curve_style(number: int) -> dict[str, Any]:
    """Returns colour, marker and line of the curve with this number."""
    return {
        "color": COLOURS[number],
        "marker": MARKERS[number],
        "linestyle": LINES[number],
        "linewidth": 1.0,
        "markersize": 4.0 + number % 2,
        "markerfacecolor": "none" if number % 2 else COLOURS[number],  # an open marker shows the one below it
        "capsize": 2.0,
    }


def model_style(number: int) -> dict[str, Any]:
    """Returns colour and line of the model with this number."""
    return {
        "color": GREYS[number % len(GREYS)],
        "linestyle": LINES[number % len(LINES)],
        "linewidth": 1.6,
        "zorder": 1,
    }


def axis_label(data: xr.DataArray, text: str | None = None) -> str:
    """Returns a label of an axis: `text`, by default the attribute `long_name`, followed by the units."""
    units = data.attrs.get("units", "1")
    name = text or data.attrs.get("long_name", data.name)
    return f"{name} ({units})" if units != "1" else str(name)


def wrap_label(text: str) -> str:
    """Breaks a label into lines that fit the height of a figure."""
    return textwrap.fill(text, Y_LABEL_WIDTH)


def value_text(value: object) -> str:
    """Returns a value of an axis as text, short enough for a legend."""
    text = f"{value:g}".replace("inf", "∞") if isinstance(value, float) else str(value)
    half = VALUE_WIDTH // 2
    return text if len(text) <= VALUE_WIDTH else f"{text[:half]}…{text[1 - half :]}"


def mark_values(ax: Axes, which: Literal["x", "y"], values: xr.DataArray | None, width: int = X_TICKS_WIDTH) -> None:
    """Marks the values of an axis at positions 0, 1, 2, ..., and labels the axis.

    Of a long axis, only every k-th value is marked: of one that begins with 0, this and every k-th from there on, and of others
    the last one and every k-th before. Names that do not fit side by side are turned upright.

    Args:
        ax: where to draw.
        which: the axis of the figure.
        values: the coordinate; None: a single point, without text.
        width: characters that fit along the x axis.
    """
    texts = [""] if values is None else [value_text(value) for value in values.values.tolist()]
    room = width // (max(map(len, texts)) + 1) if which == "x" else MAX_TICKS
    upright = which == "x" and len(texts) > room and values is not None and values.dtype.kind not in "iuf"
    step = -(-len(texts) // max(1, min(MAX_TICKS if upright else room, MAX_TICKS)))
    step = next((nice for nice in _TICK_STEPS if nice >= step), step)
    first = 0 if texts[0] == "0" else (len(texts) - 1) % step
    positions, texts = list(range(first, len(texts), step)), texts[first::step]
    name = "" if values is None else axis_label(values)
    if which == "x":
        ax.set_xticks(positions, texts, rotation="vertical" if upright else "horizontal")
        ax.set_xlabel(name)
    else:
        ax.set_yticks(positions, texts)
        ax.set_ylabel(wrap_label(name))


def whole_warps(axis: Axis) -> None:
    """Marks an axis of warps at whole numbers that are shared evenly among schedulers: multiples of 1, 2, 4 or 8."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(9, integer=True, steps=[1, 2, 4, 8, 10]))


def add_grid_and_legend(ax: Axes, *, grid: bool = True, above: bool = False) -> Axes:
    """Adds the grid, and a legend if any artist has a label; `above`: above the axes, where it covers nothing."""
    if grid:
        ax.grid(True, color="#dddddd", linewidth=0.5)
        ax.set_axisbelow(True)
    if ax.get_legend_handles_labels()[0]:
        add_legend(ax, above=above)
    return ax


def add_legend(ax: Axes, *, above: bool = False, **settings: Any) -> Legend:
    """Adds the legend of all artists that have a label.

    Args:
        ax: where to draw.
        above: whether it stands above the axes, in as many columns as fit, at most 3.
        settings: those of `Axes.legend`.
    """
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: isinstance(handles[i], Line2D))  # the simulation before the models
    handles, labels = [handles[i] for i in order], [labels[i] for i in order]
    if above:
        settings = {"loc": "lower center", "bbox_to_anchor": (0.45, 1.0), "columnspacing": 1.0, "handlelength": 2.2, **settings}
        settings["ncols"] = next((number for number in (3, 2) if _legend_width(labels, number) <= LEGEND_WIDTH), 1)
    return ax.legend(handles, labels, **{"frameon": False, "fontsize": "small", **settings})


def _legend_width(labels: list[str], columns: int) -> int:
    """Returns the width of a legend in characters."""
    parts = np.array_split([len(label) for label in labels], columns)
    return sum(LEGEND_LINE + max(part, default=0) for part in parts)


def centre_text(ax: Axes, text: str) -> None:
    """Writes a text in the centre of an empty figure."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color="#555555", wrap=True)

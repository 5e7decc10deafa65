"""How the figures look: readable in black and white, in a column of a paper, with the fonts that matplotlib brings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from warpsim.views.atomic_file import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

COLUMN_INCHES = 3.4
"""Width of a column of a paper with two."""

DPI = 200
"""Dots per inch of a figure of pixels."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers tell apart (Okabe & Ito 2008)."""

DARK = ("#004c78", "#8c3d00", "#00573f", "#7a3d61", "#333333")
LIGHT = ("#9fd3f2", "#ffbf87", "#8fd9c0", "#eac3d9", "#cccccc")
"""The first of those colours, darker and lighter, so that neighbours of the two kinds differ without colour."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "||||", "oooo")
LINE_LETTERS = 38
"""Letters of a line of text beside the y axis."""

TICK_LETTERS = 50
"""Letters of the marks of the x axis."""

MOST_TICKS = 16
"""Values of an axis that are marked at most; of more numbers, every second, third, ... one."""

GREYS = ("#555555", "#999999", "#bbbbbb")

SETTINGS: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: a figure looks the same on every machine
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "legend.handlelength": 3.0,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "warpsim",  # names that do not change from run to run
}
"""Settings of matplotlib for a column of a paper, on top of its own defaults."""


@contextmanager
def paper() -> Iterator[None]:
    """Sizes and fonts for a column of a paper; make, draw and save a figure inside."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a figure, in the format that the path's ending names; the file appears complete or not at all."""
    with atomic_write(path) as name:
        figure.savefig(name, format=path.suffix.removeprefix("."))


def curve_style(number: int) -> dict[str, Any]:
    """Colour, marker and line of the curve of this number."""
    return {
        "color": COLOURS[number],
        "marker": MARKERS[number],
        "linestyle": LINES[number],
        "linewidth": 1.0,
        "markersize": 4.0 + number % 2,
        "markerfacecolor": "none" if number % 2 else COLOURS[number],  # open over filled: where two curves meet, both show
        "capsize": 2.0,
    }


def model_style(number: int) -> dict[str, Any]:
    """Colour and line of the model of this number."""
    return {
        "color": GREYS[number % len(GREYS)],
        "linestyle": LINES[number % len(LINES)],
        "linewidth": 1.6,
        "zorder": 1,
    }


def label(data: xr.DataArray, text: str | None = None) -> str:
    """What an axis says: `text`, else the attribute `long_name`, with `units` behind."""
    units = data.attrs.get("units", "1")
    name = text or data.attrs.get("long_name", data.name)
    return f"{name} ({units})" if units != "1" else str(name)


def wrapped(text: str) -> str:
    """A text in lines that fit the height of a figure."""
    return textwrap.fill(text, LINE_LETTERS)


def shown(value: object) -> str:
    """A value of an axis, as text."""
    return f"{value:g}".replace("inf", "∞") if isinstance(value, float) else str(value)


def ticks(ax: Axes, which: Literal["x", "y"], values: xr.DataArray | None) -> None:
    """Mark each value of an axis at 0, 1, 2, ..., and say what they are; None is a single point without a name."""
    texts = [""] if values is None else [shown(value) for value in values.values.tolist()]
    step = 1
    if values is not None and values.dtype.kind in "iuf":
        room = TICK_LETTERS // (max(map(len, texts)) + 1) if which == "x" else MOST_TICKS
        step = -(-len(texts) // max(1, min(room, MOST_TICKS)))
    places, texts = list(range(0, len(texts), step)), texts[::step]
    name = "" if values is None else label(values)
    if which == "x":
        ax.set_xticks(places, texts)
        ax.set_xlabel(name)
    else:
        ax.set_yticks(places, texts)
        ax.set_ylabel(wrapped(name))


def finish(ax: Axes, *, grid: bool = True) -> Axes:
    """Add the grid, and the legend where something has a label."""
    if grid:
        ax.grid(True, color="#dddddd", linewidth=0.5)
        ax.set_axisbelow(True)
    if ax.get_legend_handles_labels()[0]:
        legend(ax)
    return ax


def legend(ax: Axes, **settings: Any) -> Legend:
    """Add the legend of what has a label."""
    from matplotlib.lines import Line2D

    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: isinstance(handles[i], Line2D))  # what is simulated, then the models
    settings = {"frameon": False, "fontsize": "small", **settings}
    return ax.legend([handles[i] for i in order], [labels[i] for i in order], **settings)


def say(ax: Axes, text: str) -> None:
    """Say something in the middle of an empty picture."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color="#555555", wrap=True)

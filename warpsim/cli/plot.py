"""warpsim plot: a store as a figure, of one of several kinds."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import DONE, Commands, RequestError, check_output, chosen, new_command, request
from warpsim.cli.opening import opened

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

KINDS = (
    "lines", "throughput", "latency", "distribution", "occupancy", "lifelines", "states", "roofline", "heatmap", "needed-warps",
)  # fmt: skip
"""What can be drawn, the default first; known here, since the help needs no matplotlib."""

_OPTIONS: dict[str, tuple[type, str]] = {
    "x": (str, "an axis; left out: occupancy, or alpha for needed_warps"),
    "y": (str, "a variable, or needed_warps (left out: peak_fraction)"),
    "hue": (str, "an axis, one curve for each value (left out: scheduler); of a heat map, the axis that runs up"),
    "per": (str, "what stacked states add up to: occupancy (left out), instruction or share"),
    "op": (str, "an operation class (left out: load; of a roofline: alu)"),
    "fraction": (float, "of the throughput limit (left out: 0.9)"),
    "replicate": (int, "of a trace (left out: 0)"),
    "sm": (int, "of a trace (left out: all; of lifelines: 0)"),
    "start": (float, "first cycle shown of a trace"),
    "stop": (float, "last cycle shown of a trace"),
}
"""Options of the kinds -> type and help; a kind refuses those that it does not have."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "plot", _run, "draw a picture of a store")
    parser.add_argument("out", metavar="OUT.zarr")
    parser.add_argument("--kind", default=KINDS[0], help=f"what is drawn: {', '.join(KINDS)} (default: %(default)s)")
    for name, (kind, text) in _OPTIONS.items():
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--no-models", action="store_true", help="leave out the analytical models")
    parser.add_argument("--where", action="append", default=[], metavar="K=V", help="a value of an axis, or several: K=V,V")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FIGURE", help="a .png, .pdf or .svg file")


def _run(options: argparse.Namespace) -> int:
    from matplotlib.figure import Figure

    from warpsim.views.plots import paper, save

    check_output(options.output, Figure().canvas.get_supported_filetypes())
    with paper():
        save(picture(options), options.output)
    return DONE


def picture(options: argparse.Namespace) -> Figure:
    """The figure that the options ask for.

    Raises:
        RequestError: the options are wrong.
    """
    from matplotlib.figure import Figure

    from warpsim.views import plots

    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    with request():
        if options.kind not in KINDS:
            raise RequestError(f"--kind {options.kind}: must be one of {', '.join(KINDS)}")
        results, notes = opened(options.out)
        results = plots.select(results, chosen(options.where))
        if "models" in plots.KINDS[options.kind].options and not options.no_models:
            given["models"] = _models(options, results)
        if options.kind == "roofline":
            from warpsim.analysis.at_points import roofs

            given["roofs"] = roofs(results, options.op or "alu")
        figure = Figure(figsize=plots.KINDS[options.kind].size, layout="constrained")
        plots.draw(options.kind, results, figure.subplots(), **given)
    for note in notes:
        print(f"warpsim: {options.out}: {note}", file=sys.stderr)
    if notes:
        figure.suptitle(notes[0].partition(";")[0], fontsize="medium", color="#b00000")  # above a legend, which a title is not
    return figure


def _models(options: argparse.Namespace, results: xr.Dataset) -> dict[str, xr.Dataset]:
    """What the models say beside a picture; none where they do not cover the kernel, with a line that says why."""
    from warpsim.analysis import at_points

    try:
        if options.kind == "throughput":
            return at_points.throughput(results)
        if options.kind == "latency":
            return at_points.contention(results)
        return at_points.needed_warps(results, options.fraction or 0.9)
    except ValueError as error:
        print(f"warpsim: without models: {error}", file=sys.stderr)
        return {}

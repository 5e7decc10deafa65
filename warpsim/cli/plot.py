"""warpsim plot: draws a figure of a store or a saved result."""

from __future__ import annotations

import argparse
import logging
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import DONE, FIGURES, Commands, RequestError, add_where, check_output, new_command, request, selection
from warpsim.cli.opening import opened
from warpsim.units import NEEDED_FRACTION

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_TITLE_WIDTH = 60

_LOGGER = logging.getLogger("warpsim")

_OPTIONS: dict[str, tuple[type, str]] = {
    "x": (str, "the axis that runs to the right (default: occupancy; alpha for needed warps)"),
    "y": (str, "a variable, or needed_warps (default: peak_fraction)"),
    "hue": (str, "the axis that has one curve per value (default: scheduler); in a heat map, the axis that runs upwards"),
    "per": (str, "what stacked states add up to: occupancy (default), instruction or share"),
    "op": (str, "an operation class (default: load; in a roofline alu)"),
    "fraction": (float, f"fraction of the throughput limit that needed warps attain (default: {NEEDED_FRACTION})"),
    "replicate": (int, "the replicate of a trace (default: 0)"),
    "sm": (int, "the SM of a trace (default: all; for lifelines 0)"),
    "start": (float, "first cycle of a trace that is shown"),
    "stop": (float, "last cycle of a trace that is shown"),
}
"""Option of the figures -> type and help. Each kind of figure refuses the options that it does not have."""


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "plot", _run, "draw a figure of a store", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.views.plots import KINDS

    parser.add_argument("out", metavar="OUT.zarr", help="a store or a saved result")
    parser.add_argument(
        "--kind", default=next(iter(KINDS)), help=f"kind of figure: {', '.join(KINDS)} (default: %(default)s)"
    )
    for name, (kind, text) in _OPTIONS.items():
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--no-models", action="store_true", help="leave out the analytical models")
    add_where(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FIGURE", help="a .png, .pdf or .svg file")


def _run(options: argparse.Namespace) -> int:
    from warpsim.views.plots import paper, save

    check_output(options.output, FIGURES)
    with paper():
        save(make_figure(options), options.output)
    return DONE


def make_figure(options: argparse.Namespace) -> Figure:
    """Draws the figure that the options describe.

    Raises:
        RequestError: an option is wrong.
    """
    from matplotlib.figure import Figure

    from warpsim.arguments import did_you_mean
    from warpsim.views import plots

    given = {name: getattr(options, name) for name in _OPTIONS if getattr(options, name) is not None}
    with request(options.out):
        if options.kind not in plots.KINDS:
            kinds = f"{', '.join(plots.KINDS)}{did_you_mean(options.kind, plots.KINDS)}"
            raise RequestError(f"--kind {options.kind}: must be one of {kinds}")
        results, notes = opened(options.out)
        results = plots.select(results, selection(options.where))
        without = ""
        if "models" in plots.KINDS[options.kind].options and not options.no_models:
            given["models"], without = _models(options, results)
        if options.kind == "roofline":
            from warpsim.analysis.at_points import roofs

            given["roofs"] = roofs(results, options.op or "alu")
        figure = Figure(figsize=plots.KINDS[options.kind].size, layout="constrained")
        plots.draw(options.kind, results, figure.subplots(), **given)
    if without:
        _LOGGER.warning("without models: %s", without)
    for note in notes:
        _LOGGER.warning("%s: %s", options.out, note)
    # a suptitle, since the title of the axes would lie under a legend that is above them
    lines = textwrap.wrap(plots.held_fixed(results) or _title_of_run(results), _TITLE_WIDTH)
    if notes:
        lines.append(notes[0].partition(";")[0])
    figure.suptitle("\n".join(lines), fontsize="medium", color="#b00000" if notes else "black")
    return figure


def _title_of_run(results: xr.Dataset) -> str:
    """Returns the chip, the kernel, the policy and the memory of a saved run, as its provenance has them; empty: it has none."""
    from warpsim.simulation.point import from_provenance
    from warpsim.views import plots

    try:
        call = from_provenance(results.attrs.get("provenance", ""))
    except ValueError:
        return ""
    names = {"gpu": call["gpu"].name, "kernel": call["kernel"].name}
    names |= {name: call[name] for name in ("scheduler", "memory", "sms") if call.get(name)}
    return plots.held_fixed(results.assign_coords(names))


def _models(options: argparse.Namespace, results: xr.Dataset) -> tuple[dict[str, xr.Dataset], str]:
    """Returns results of models by name, and ""; none, and why, if they do not cover the kernel."""
    from warpsim.analysis import at_points
    from warpsim.arguments import check_fraction

    fraction = NEEDED_FRACTION if options.fraction is None else options.fraction
    check_fraction(fraction)
    try:
        if options.kind == "throughput":
            return at_points.throughput(results), ""
        if options.kind == "latency":
            return at_points.contention(results), ""
        return at_points.needed_warps(results, fraction), ""
    except ValueError as error:
        return {}, str(error)

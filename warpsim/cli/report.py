"""warpsim report: writes a store, a saved result or one point as a page for a browser."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import (
    DONE,
    INTEGER_OPTIONS,
    TRACE_BINS,
    Commands,
    RequestError,
    add_point_options,
    add_where,
    check_output,
    check_package,
    new_command,
    request,
    requested_point,
    selection,
)
from warpsim.cli.opening import opened

if TYPE_CHECKING:
    import xarray as xr


def add(commands: Commands) -> None:
    """Adds the command."""
    text = "write an HTML page with interactive figures, a table of the points and the provenance"
    new_command(commands, "report", _run, text, _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="?", metavar="OUT.zarr", help="a store or a saved result; left out: simulate the point of the options"
    )
    add_point_options(parser, required=False)
    add_where(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="a .html file")


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.at_points import bounds
    from warpsim.views.plots import select
    from warpsim.views.report import write_report

    wants_point = options.gpu is not None or options.kernel is not None
    if wants_point == (options.results is not None):
        raise RequestError("report: needs either OUT.zarr, or --gpu and --kernel")
    if wants_point and None in (options.gpu, options.kernel):
        raise RequestError(f"report: needs --{'gpu' if options.gpu is None else 'kernel'} as well")
    of_point = [name for name in (*INTEGER_OPTIONS, "blocks", "scheduler", "memory") if getattr(options, name) is not None]
    if not wants_point and (of_point or options.set):
        name = [*of_point, "set"][0].replace("_", "-")
        raise RequestError(f"--{name}: only with --gpu and --kernel; --where selects from results")
    check_output(options.output, ["html"])
    check_package("plotly", "report")
    with request(options.results):
        results, title, notes = _simulated(options) if wants_point else _opened(options.results)
        results = select(results, selection(options.where))
        try:
            write_report(results, options.output, model=bounds, title=title, notes=notes)
        except ModuleNotFoundError as error:
            raise RequestError(str(error)) from None
    for note in notes:
        logging.getLogger("warpsim").warning("%s", note)
    return DONE


def _simulated(options: argparse.Namespace) -> tuple[xr.Dataset, str, list[str]]:
    """Simulates the point of the options. Returns the results, a title, and no notes."""
    from warpsim.simulation.api import simulate
    from warpsim.simulation.trace import Trace

    point = requested_point(options)
    title = f"{point.gpu.title}: {point.kernel.title or point.kernel.name}"
    return simulate(**vars(point), trace=Trace(occupancy=TRACE_BINS, states=TRACE_BINS)), title, []


def _opened(path: str) -> tuple[xr.Dataset, str, list[str]]:
    """Opens results. Returns them, a title, and notes on what is missing."""
    results, notes = opened(path)
    return results, Path(path).name, notes

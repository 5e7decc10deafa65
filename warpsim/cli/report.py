"""warpsim report: a store, a saved result or one point as a page for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.cli.common import (
    DONE,
    INTEGERS,
    Commands,
    RequestError,
    add_point_options,
    check_output,
    chosen,
    new_command,
    request,
    requested_point,
)
from warpsim.cli.opening import opened

if TYPE_CHECKING:
    import xarray as xr

_BINS = 200
"""Of time, for the course of a point."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "report", _run, "write a page with interactive figures, the points and the provenance")
    parser.add_argument("results", nargs="?", metavar="OUT.zarr", help="a store, or a saved result; or ask for a point")
    add_point_options(parser, required=False)
    parser.add_argument("--where", action="append", default=[], metavar="K=V", help="a value of an axis, or several: K=V,V")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html", help="a .html file")


def _run(options: argparse.Namespace) -> int:
    from warpsim.analysis.at_points import bounds
    from warpsim.views.plots import select
    from warpsim.views.report import write_report

    asked = options.gpu is not None or options.kernel is not None
    if asked == (options.results is not None):
        raise RequestError("report: needs either OUT.zarr, or --gpu and --kernel")
    if asked and None in (options.gpu, options.kernel):
        raise RequestError(f"report: needs --{'gpu' if options.gpu is None else 'kernel'} too")
    of_a_point = [name for name in (*INTEGERS, "blocks", "scheduler", "memory") if getattr(options, name) is not None]
    if not asked and (of_a_point or options.set):
        name = [*of_a_point, "set"][0].replace("_", "-")
        raise RequestError(f"--{name}: only with --gpu and --kernel; --where selects from results")
    check_output(options.output, ["html"])
    with request():
        results, title, notes = _simulated(options) if asked else _opened(options.results)
        results = select(results, chosen(options.where))
        try:
            write_report(results, options.output, model=bounds, title=title, notes=notes)
        except ModuleNotFoundError as error:
            raise RequestError(str(error)) from None
    for note in notes:
        print(note)
    return DONE


def _simulated(options: argparse.Namespace) -> tuple[xr.Dataset, str, list[str]]:
    from warpsim.simulation.api import simulate
    from warpsim.simulation.trace import Trace

    point = requested_point(options)
    title = f"{point.gpu.title}: {point.kernel.title or point.kernel.name}"
    return simulate(**vars(point), trace=Trace(occupancy=_BINS, states=_BINS)), title, []


def _opened(path: str) -> tuple[xr.Dataset, str, list[str]]:
    """Results, the page's title, and what is missing."""
    results, notes = opened(path)
    return results, Path(path).name, notes

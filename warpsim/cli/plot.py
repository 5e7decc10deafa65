"""warpsim plot: a variable of a store, as a figure."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpsim.cli.common import DONE, Commands, RequestError, new_command, pairs, request


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "plot", _run, "draw a variable of a store")
    parser.add_argument("out", metavar="OUT.zarr")
    parser.add_argument("--x", help="an axis; left out: occupancy, or alpha for needed_warps")
    parser.add_argument("--y", default="peak_fraction", help="a variable, or needed_warps (default: %(default)s)")
    parser.add_argument("--hue", help="an axis, one curve for each value; left out: scheduler")
    parser.add_argument("--where", action="append", default=[], metavar="K=V", help="select one value of an axis")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FIGURE", help="a .png, .pdf or .svg file")


def _run(options: argparse.Namespace) -> int:
    from matplotlib.figure import Figure

    from warpsim.results.plots import plot, select
    from warpsim.store.zarr_store import open_results

    with request():
        results = select(open_results(options.out), pairs("--where", options.where))
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        plot(results, figure.subplots(), x=options.x, y=options.y, hue=options.hue)
        allowed = figure.canvas.get_supported_filetypes()
        if options.output.suffix.removeprefix(".") not in allowed:
            raise RequestError(f"-o {options.output}: must end in one of .{', .'.join(sorted(allowed))}")
    figure.savefig(options.output, dpi=150)
    return DONE

"""warpsim sweep: simulates all points of a plan into a store; the same command resumes it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warpsim.cli.common import DONE, Commands, WorkError, add_plan, add_workers, new_command, request
from warpsim.cli.windows import warn_beyond_peak, warn_of_short_windows


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "sweep", _run, "simulate all points of a plan into a store, or resume an earlier sweep")
    parser.set_defaults(interrupted="interrupted; run the same command again to continue")
    add_plan(parser)
    parser.add_argument("out", metavar="OUT.zarr", help="a folder, or a URL such as s3://bucket/OUT.zarr")
    add_workers(parser)
    parser.add_argument("--processes", action="store_true", help="use processes, not threads: faster for points of a few ms")
    parser.add_argument("--extend", action="store_true", help="add what the store lacks, if it holds a part of the plan")
    parser.add_argument("--dask", metavar="ADDRESS", help="run the tiles on the workers of this Dask scheduler")
    share = parser.add_mutually_exclusive_group()
    share.add_argument("--share", default="1/1", metavar="K/N", help="only the K-th of N shares of the tiles")
    share.add_argument("--tile", dest="share", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # in older job scripts
    parser.add_argument("--tiles", metavar="LIST", help="only these tiles, such as 0-9,12; - reads the list from standard input")


def _run(options: argparse.Namespace) -> int:
    from warpsim.results.windows import short_windows
    from warpsim.store.lease import BusyError, LeaseLostError
    from warpsim.sweeps.array_jobs import SlurmError
    from warpsim.sweeps.local import SweepError, WorkerError, sweep
    from warpsim.sweeps.plan import Plan

    with request(), _terminable():
        plan = Plan.from_toml(options.plan)
        chosen: dict[str, Any] = {"share": _share(options.share), "tiles": _tiles(options.tiles, len(plan.tiles()))}
        how: dict[str, Any] = {"workers": options.workers, "processes": options.processes, "dask": options.dask}
        try:
            results = sweep(plan, options.out, **how, **chosen, extend=options.extend, progress=not options.quiet)
        except (SweepError, WorkerError, BusyError, LeaseLostError, SlurmError) as error:
            raise WorkError(str(error)) from None
        if options.share == "1/1" and options.tiles is None:
            warn_of_short_windows(short_windows(results))  # reads chunks, which may be damaged
            warn_beyond_peak(results["peak_fraction"].mean("replicate"))
    return DONE


@contextmanager
def _terminable() -> Iterator[None]:
    """Handles SIGTERM, which batch systems send before they kill a job, in the same way as Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _share(text: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise ValueError(f"--share {text}: must be K/N with 1 <= K <= N")
    return int(first), int(last)


def _tiles(text: str | None, number: int) -> list[int] | None:
    from warpsim.sweeps.array_jobs import parse_tiles

    if text is None:
        return None
    return parse_tiles(sys.stdin.read() if text == "-" else text, number)

"""warpsim trace: writes one run as a timeline for the viewer Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpsim.cli.common import (
    DONE,
    TRACE_BINS,
    Commands,
    RequestError,
    add_point_options,
    check_output,
    check_package,
    new_command,
    request,
    requested_point,
)
from warpsim.cli.output import add_json, print_json

_MIB = 2**20


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "trace", _run, "write one run as a timeline for ui.perfetto.dev", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.simulation.trace import Trace

    add_point_options(parser, texts={"replicates": "must be 1: a timeline shows one run"})
    parser.add_argument("--issues", metavar="A:B", help="also record each instruction issued from cycle A until before cycle B")
    bins = "number of time bins for bandwidth and warp states (default: %(default)s)"
    parser.add_argument("--bins", type=int, default=TRACE_BINS, metavar="N", help=bins)
    limit = f"upper limit on the memory of the trace, in bytes (default: {Trace().max_bytes // _MIB} MiB)"
    parser.add_argument("--max-bytes", type=int, metavar="N", help=limit)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="RUN.perfetto-trace", help="a .perfetto-trace or .pftrace file"
    )
    add_json(parser, "the file and its number of packets")


def _run(options: argparse.Namespace) -> int:
    from warpsim.simulation.api import simulate
    from warpsim.simulation.trace import Trace
    from warpsim.views.timeline import write_timeline

    if options.replicates not in (None, 1):
        raise RequestError(f"--replicates {options.replicates}: must be 1; a timeline shows one run")
    if options.bins < 1:
        raise RequestError(f"--bins {options.bins}: must be an integer from 1")
    check_output(options.output, ["perfetto-trace", "pftrace"])
    check_package("perfetto", "trace")
    point = requested_point(options)
    with request():
        limit = {} if options.max_bytes is None else {"max_bytes": options.max_bytes}
        trace = Trace(occupancy=True, warps=True, issues=_cycles(options.issues), states=options.bins, **limit)
        results = simulate(**vars(point), trace=trace)
        try:
            packets = write_timeline(results, options.output)
        except ModuleNotFoundError as error:
            raise RequestError(str(error)) from None
    if options.json:
        print_json({"output": options.output, "packets": packets})
        return DONE
    print(f"{options.output}: {packets} packets; open it at ui.perfetto.dev, where 1 ns is 1 cycle")
    return DONE


def _cycles(text: str | None) -> tuple[int, int] | None:
    """Parses A:B."""
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise RequestError(f"--issues {text}: must be A:B, two cycles with A before B")
    return int(first), int(last)

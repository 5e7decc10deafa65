"""warpsim simulate: simulates one point and prints a summary or JSON."""

from __future__ import annotations

import argparse
import json

from warpsim.cli.common import (
    DONE,
    Commands,
    RequestError,
    add_point_options,
    add_workers,
    counted,
    new_command,
    requested_point,
    residency_text,
)
from warpsim.cli.output import add_json, print_json
from warpsim.cli.windows import (
    warn_beyond_peak,
    warn_of_free_stores,
    warn_of_long_grids,
    warn_of_short_grids,
    warn_of_short_windows,
    warn_of_small_grids,
)


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "simulate", _run, "simulate one point and print its results", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_point_options(parser)
    parser.add_argument("--check", action="store_true", help="verify the state of the engine while it runs")
    add_json(parser, "every variable and the provenance")
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    from warpsim.arguments import DeadlockError, InvalidPoint
    from warpsim.results.schema import FEW_ITERATIONS, result_ops
    from warpsim.simulation.api import simulate_point
    from warpsim.simulation.point import point_provenance
    from warpsim.views.summary import summary

    point = requested_point(options)
    warn_of_long_grids(point)
    try:
        arrays = simulate_point(point, threads=options.workers, check=options.check)
    except (DeadlockError, InvalidPoint) as error:
        raise RequestError(str(error)) from None
    warn_of_short_windows(arrays["warp_iterations"].mean() < FEW_ITERATIONS)
    warn_beyond_peak(arrays["peak_fraction"].mean())
    warn_of_short_grids(point)
    warn_of_small_grids(point)
    warn_of_free_stores(point)
    ops = result_ops([point.gpu])
    if options.json:
        print_json({"ops": ops, "variables": arrays, "provenance": json.loads(point_provenance(point))})
        return DONE
    print(f"{point.gpu.title}: {point.kernel.title or point.kernel.name}")
    print(f"{residency_text(point.launch)}, {point.scheduler}, memory {point.memory}")
    first, last = (int(edge(arrays["warmup_cycles"])) for edge in (min, max))
    warmup = str(first) if first == last else f"{first} to {last}"
    window = "to the end of the grid" if point.finite else f"{counted(point.cycles, 'cycle')} after {warmup}"
    print(f"{counted(point.simulated_sms, 'SM')}, {window}, root seed {point.seed}")
    if point.replicates > 1:
        print(f"means of {point.replicates} replicates ± half the width of their 95 % intervals")
    print(f"\n{summary(arrays, ops)}")
    return DONE

"""warpsim time: simulates how long a launch takes, and prints it with its interval."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from warpsim.cli.common import (
    DONE,
    Commands,
    add_kernel_options,
    add_sampling_options,
    add_workers,
    at_least_1,
    counted,
    new_command,
    request,
    requested_kernel,
    residency_text,
    whole_number,
)
from warpsim.cli.output import add_json, print_json, so_near_text

if TYPE_CHECKING:
    from warpsim.simulation.launches import LaunchTime
    from warpsim.simulation.sampled_run import Estimate


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "time", _run, "simulate how long a launch takes, by samples where the grid is large", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from warpsim.simulation.launches import BUDGET

    add_kernel_options(parser)
    parser.add_argument("--blocks", type=at_least_1, required=True, metavar="N", help="thread blocks of the grid")
    parser.add_argument("--block-warps", type=whole_number, metavar="N", help="warps per thread block (default: the kernel's)")
    parser.add_argument(
        "--resident-blocks", type=whole_number, metavar="N", help="resident blocks of an SM (default: as many as fit)"
    )
    clock = "clock of the SMs; Nsight Compute holds it at its base, unless told otherwise (default: that of the chip's file)"
    parser.add_argument("--clock", type=float, metavar="GHZ", dest="clock_ghz", help=clock)
    add_sampling_options(parser)
    budget = "warp instructions that a replicate simulates at most, roughly (default: %(default)s)"
    parser.add_argument("--budget", type=whole_number, default=BUDGET, metavar="N", help=budget)
    add_json(parser, "time, states and samples")
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    from warpsim.simulation.launches import launch_time
    from warpsim.views.text_table import significant, text_table

    names = ("blocks", "block_warps", "resident_blocks", "clock_ghz", "scheduler", "memory", "replicates", "seed", "budget")
    with request():
        gpu, kernel = requested_kernel(options)
        found = launch_time(gpu, kernel, threads=options.workers, **{name: getattr(options, name) for name in names})
    if options.json:
        numbers = {name: asdict(getattr(found, name)) for name in ("microseconds", "cycles", "ipc", "warps")}
        shares = {state: asdict(share) for state, share in found.warp_cycles.items()}
        samples = {name: getattr(found, name) for name in ("share", "sampling", "sampled_within")}
        samples["predicted"] = found.predicted and asdict(found.predicted)
        print_json({**numbers, "warp_cycles": shares, **samples, "resident_blocks": found.point.launch.resident_blocks})
        return DONE
    print(f"{gpu.title}: {kernel.title or kernel.name}")
    blocks, point = counted(options.blocks, "block"), found.point
    print(f"{blocks}, {residency_text(point.launch)}, {point.scheduler}, memory {point.memory}")
    if found.sampling:
        print(f"simulated: {found.sampling}; such samples were within {found.sampled_within:.0%} of whole launches")
    if options.replicates > 1:
        print(f"means of {options.replicates} replicates ± half the width of their 95 % intervals")
    print(f"\n{text_table(list(_rows(found)))}")
    if found.predicted is not None:
        low, high = (significant(edge, 4) for edge in (found.predicted.low, found.predicted.high))
        print(f"\nto be expected when it is measured: {low} to {high} us; {so_near_text(found.predicted)}")
    return DONE


def _rows(found: LaunchTime) -> Iterator[tuple[str, str, str]]:
    yield "time", _number(found.microseconds), "us"
    yield "cycles", _number(found.cycles), "cycles"
    yield "ipc", _number(found.ipc), "instructions/cycle/SM"
    yield "occupancy", _number(found.warps), "warps/SM"
    for state, share in found.warp_cycles.items():
        yield f"warp_cycles {state}", _number(share, 100.0), "%"


def _number(one: Estimate, times: float = 1.0) -> str:
    from warpsim.views.text_table import plus_minus, significant

    return f"{significant(times * one.mean, 5)}{plus_minus(times * one.half_width)}"

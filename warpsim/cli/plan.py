"""warpsim plan: what a plan asks for, and what it will take, before anything runs."""

from __future__ import annotations

import argparse
import math

from warpsim.cli.common import DONE, Commands, add_plan, new_command, request


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "plan", _run, "show what a plan asks for, and what it will take")
    add_plan(parser)
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="length of the timed sample (default: 5)")


def _run(options: argparse.Namespace) -> int:
    from warpsim.sweeps.cost import TILE_SECONDS
    from warpsim.sweeps.estimate import estimate
    from warpsim.sweeps.plan import Plan
    from warpsim.sweeps.progress import duration

    with request():
        if not (options.seconds > 0 and math.isfinite(options.seconds)):
            raise ValueError(f"--seconds {options.seconds}: must be above 0")
        plan = Plan.from_toml(options.plan)
    axes = " x ".join(f"{len(axis)} {name}" for name, axis in plan.axes.items()) or "no axes"
    print(f"points      {plan.points} ({axes})", flush=True)
    found = estimate(plan, options.seconds)
    if found.possible < 1.0:
        print(f"            the chips can hold about {found.possible:.0%} of them; the others are NaN")
    if not found.sampled:
        print("            none of those that were looked at can exist")
        return DONE
    rule = plan.replicates
    mean = "" if rule.fixed or found.replicates is None else f", about {found.replicates:.3g} by the sample"
    print(f"replicates  {rule.most if rule.fixed else f'{rule.least} to {rule.most}'}{mean}")
    biggest = math.prod(plan.grid.shape)
    print(f"tiles       {len(plan.grid)} of at most {biggest} points, about {duration(found.tile_seconds)} each on one core")
    print(f"core-hours  {found.seconds / 3600:.2g} ({duration(found.seconds)} on one core), by {found.sampled} points timed here")
    print(f"store       about {_size(found.store_bytes)} ({_size(found.raw_bytes)} before compression)")
    if len(plan.grid) > 1 and found.tile_seconds > 10 * TILE_SECONDS and biggest > 1:
        wanted = max(1, round(biggest * TILE_SECONDS / found.tile_seconds))
        print(f"tile_points = {wanted} in the plan makes tiles of about a minute")
    return DONE


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"

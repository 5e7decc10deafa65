"""warpsim plan: shows the size of a plan and its estimated cost."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict

from warpsim.cli.common import DONE, Commands, add_plan, counted, new_command, request
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "plan", _run, "show the points, tiles, core-hours and store size of a plan")
    add_plan(parser)
    add_json(parser, "the numbers")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="duration of the timed sample (default: 5)")


def _run(options: argparse.Namespace) -> int:
    from warpsim.sweeps.cost import TILE_SECONDS
    from warpsim.sweeps.estimate import estimate
    from warpsim.sweeps.plan import Plan
    from warpsim.sweeps.progress import duration

    with request():
        if not (options.seconds > 0 and math.isfinite(options.seconds)):
            raise ValueError(f"--seconds {options.seconds}: must be above 0")
        plan = Plan.from_toml(options.plan)
    if options.json:
        print_json({"points": plan.points, "axes": {name: len(axis) for name, axis in plan.axes.items()}, "tiles": len(plan.grid),
                    **asdict(estimate(plan, options.seconds))})  # fmt: skip
        return DONE
    axes = " x ".join(f"{len(axis)} {name}" for name, axis in plan.axes.items()) or "no axes"
    print(f"points      {plan.points} ({axes})", flush=True)
    cost = estimate(plan, options.seconds)
    if cost.possible < 1.0:
        print(f"            the chips can hold about {cost.possible:.0%} of them; the others are NaN")
    if not cost.sampled:
        print("            no sampled point fits its chip")
        return DONE
    rule = plan.replicates
    mean = "" if rule.fixed or cost.replicates is None else f", about {cost.replicates:.3g} in the sample"
    print(f"replicates  {rule.most if rule.fixed else f'{rule.least} to {rule.most}'}{mean}")
    biggest = math.prod(plan.grid.shape)
    size, sample = counted(biggest, "point"), counted(cost.sampled, "point")
    print(f"tiles       {len(plan.grid)} of at most {size}, about {duration(cost.tile_seconds)} each on one core")
    print(f"core-hours  {cost.seconds / 3600:.2g} ({duration(cost.seconds)} on one core), from {sample} timed here")
    print(f"store       about {_size(cost.store_bytes)} ({_size(cost.raw_bytes)} before compression)")
    if cost.shortened:
        print(f"            scaled up: {cost.shortened} of the sampled points are too long, and were timed in a shorter window")
    if cost.timed_replicates < (cost.replicates or rule.least):
        print(f"            scaled up: {cost.timed_replicates:.3g} replicates of each sampled point were timed")
    if len(plan.grid) > 1 and cost.tile_seconds > 10 * TILE_SECONDS and biggest > 1:
        wanted = max(1, round(biggest * TILE_SECONDS / cost.tile_seconds))
        print(f"tile_points = {wanted} in the plan gives tiles of about a minute")
    return DONE


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"

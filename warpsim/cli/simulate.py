"""warpsim simulate: one point, as a readable summary or as JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

from warpsim.cli.common import DONE, Commands, RequestError, add_point_options, new_command, requested_point


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "simulate", _run, "simulate one point")
    add_point_options(parser)
    parser.add_argument("--check", action="store_true", help="have the engine verify its own state as it runs")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, with the provenance")


def _run(options: argparse.Namespace) -> int:
    from warpsim.drive import DeadlockError
    from warpsim.residency import InvalidPoint
    from warpsim.results.summary import summary
    from warpsim.simulation import simulate_point
    from warpsim.store.provenance import point_provenance
    from warpsim.store.schema import result_ops

    point = requested_point(options)
    try:
        arrays = simulate_point(point, check=options.check)
    except (DeadlockError, InvalidPoint) as error:
        raise RequestError(str(error)) from None
    ops = result_ops([point.gpu])
    if options.json:
        values = {name: array.tolist() for name, array in arrays.items()}
        made = json.loads(point_provenance(point))
        print(json.dumps({"ops": ops, "variables": _finite(values), "provenance": made}))
        return DONE
    launch = point.launch
    resident = f"{launch.resident_blocks} blocks of {launch.block_warps} warps per SM"
    print(f"{point.gpu.title}: {point.kernel.title or point.kernel.name}")
    print(f"{resident}, {point.scheduler}, memory {point.memory}")
    window = "to the end of the grid" if point.finite else f"{point.cycles} cycles after {point.warmup}"
    print(f"{point.sms or point.gpu.sms} SMs, {window}, root seed {point.seed}")
    if point.replicates > 1:
        print(f"means of {point.replicates} replicates ± half the width of their 95 % intervals")
    print(f"\n{summary(arrays, ops)}")
    return DONE


def _finite(value: Any) -> Any:
    """NaN as null: JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if value != value else value

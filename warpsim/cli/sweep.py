"""warpsim sweep: all points of a plan, into a store; the same command goes on where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpsim.cli.common import DONE, Commands, WorkError, add_workers, new_command, request


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "sweep", _run, "simulate all points of a plan into a store, or go on with it")
    parser.add_argument("plan", type=Path, metavar="PLAN.toml")
    parser.add_argument("out", type=Path, metavar="OUT.zarr")
    add_workers(parser)
    parser.add_argument("--tile", default="1/1", metavar="K/N", help="only the K-th of N shares of the tiles")


def _run(options: argparse.Namespace) -> int:
    from warpsim.batch.local import SweepError, sweep
    from warpsim.batch.plan import Plan

    with request():
        plan = Plan.from_toml(options.plan)
        share = _share(options.tile)
        try:
            sweep(plan, options.out, workers=options.workers, share=share, progress=True)
        except SweepError as error:
            raise WorkError(str(error)) from None
    return DONE


def _share(text: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise ValueError(f"--tile {text}: must be K/N with 1 <= K <= N")
    return int(first), int(last)

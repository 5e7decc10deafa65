"""warpsim status: shows the state of a store's tiles, and of its Slurm jobs."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, counted, new_command, request
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "status", _run, "show how many tiles of a store are done")
    parser.add_argument("out", metavar="OUT.zarr")
    add_json(parser, "the numbers of tiles, the failures and the time left")


def _run(options: argparse.Namespace) -> int:
    from warpsim.store.status import tile_counts
    from warpsim.store.zarr_store import open_store, pending_tiles
    from warpsim.sweeps.array_jobs import SlurmError, queue_lines
    from warpsim.sweeps.progress import duration

    with request():
        store = open_store(options.out, read_only=True)
    counts = tile_counts(store.log)
    if options.json:
        print_json({
            "tiles": len(store.grid), "points": store.grid.points, "done": counts.done, "pending": counts.pending,
            "failures": counts.failures, "seconds_left": counts.seconds_left if counts.done else None,
        })  # fmt: skip
        return DONE
    print(f"{counted(len(store.grid), 'tile')} of {counted(store.grid.points, 'point')}")
    print(f"done {counts.done}, pending {counts.pending}, failed {len(counts.failures)}")
    if counts.done and counts.done < len(store.grid):
        print(f"time left: about {duration(counts.seconds_left)} with one worker")
    for index, message in counts.failures.items():
        print(f"tile {index} failed: {message}")
    try:
        for line in queue_lines(options.out, pending_tiles(store)):
            print(line)
    except SlurmError as error:
        print(f"Slurm does not answer: {error}")
    return DONE

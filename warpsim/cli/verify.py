"""warpsim verify: finds the damaged files of a store, and on request restores them and runs damaged tiles again."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, FAILED, Commands, WorkError, add_workers, counted, new_command, request
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "verify", _run, "check all files of a store by their checksums")
    parser.add_argument("out", metavar="OUT.zarr")
    parser.add_argument("--repair", action="store_true", help="restore damaged files, and run damaged tiles again")
    add_workers(parser)
    add_json(parser, "the damages")


def _run(options: argparse.Namespace) -> int:
    from warpsim.store.lease import BusyError, LeaseLostError
    from warpsim.store.zarr_store import open_store, pending_tiles
    from warpsim.sweeps.local import SweepError
    from warpsim.sweeps.repair import repair, verify

    if options.repair:
        options.interrupted = "interrupted; the same command repairs what is still damaged, and warpsim sweep runs missing tiles"
    with request():
        damages = verify(options.out)
    pending = 0
    if all(damage.tile is not None for damage in damages):
        store = open_store(options.out, read_only=True)
        pending = len(pending_tiles(store))
    if options.json:
        found = {"damages": [str(damage) for damage in damages], "pending": pending}
        print_json({**found, "repaired": bool(damages and options.repair)})
    else:
        for damage in damages:
            print(damage)
        print(f"{len(damages) or 'no'} damaged file{'' if len(damages) == 1 else 's'}")
        if any(damage.tile is None for damage in damages):
            print("the tiles can be checked when these files are restored (--repair)")
        elif pending:
            print(f"{pending} of {counted(len(store.grid), 'tile')} not done")
    if not (damages and options.repair):
        return FAILED if damages else DONE
    with request():
        try:
            repair(options.out, damages, workers=options.workers, progress=not options.quiet)
        except (SweepError, BusyError, LeaseLostError) as error:
            raise WorkError(str(error)) from None
    if not options.json:
        print("repaired")
    return DONE

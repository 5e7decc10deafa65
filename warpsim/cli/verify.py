"""warpsim verify: finds the damaged tiles of a store, and runs them again on request."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, FAILED, Commands, WorkError, add_workers, new_command, request
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "verify", _run, "check the chunks of a store by their checksums")
    parser.add_argument("out", metavar="OUT.zarr")
    parser.add_argument("--repair", action="store_true", help="run damaged tiles again")
    add_workers(parser)
    add_json(parser, "the damages")


def _run(options: argparse.Namespace) -> int:
    from warpsim.sweeps.local import SweepError
    from warpsim.sweeps.repair import repair, verify

    with request():
        damages = verify(options.out)
    if options.json:
        print_json({"damages": [str(damage) for damage in damages], "repaired": bool(damages and options.repair)})
    else:
        for damage in damages:
            print(damage)
        print(f"{len(damages) or 'no'} damaged tile{'' if len(damages) == 1 else 's'}")
    if not (damages and options.repair):
        return FAILED if damages else DONE
    with request():
        try:
            repair(options.out, damages, workers=options.workers, progress=not options.quiet)
        except SweepError as error:
            raise WorkError(str(error)) from None
    if not options.json:
        print("repaired")
    return DONE

"""warpsim slurm: submits the unfinished tiles of a plan as an array job of Slurm."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, WorkError, add_plan, counted, new_command, request
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "slurm", _run, "submit the unfinished tiles of a plan as an array job of Slurm")
    add_plan(parser)
    parser.add_argument("out", metavar="OUT.zarr", help="a folder that all nodes share, or a URL")
    parser.add_argument("--tasks", type=int, default=100, metavar="N", help="maximum number of tasks of the array (default: 100)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="threads and cores of each task (default: 1)")
    parser.add_argument("--time", default="1:00:00", help="time limit of a task, which then requeues itself (default: 1:00:00)")
    lines = 'first line of the script, such as "module load python"; may be repeated'
    parser.add_argument("--setup", action="append", default=[], metavar="LINE", help=lines)
    option = "an option of sbatch, as in --sbatch=--partition=short; may be repeated"
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION", help=option)
    parser.add_argument("--scratch", metavar="DIR", help="folder for compiled code (default: $SCRATCH, $TMPDIR, or /tmp)")
    parser.add_argument("--extend", action="store_true", help="add what the store lacks, if it holds a part of the plan")
    add_json(parser, "the number of the job and its tiles")
    parser.add_argument("--dry-run", action="store_true", help="print the script; create and submit nothing")


def _run(options: argparse.Namespace) -> int:
    from warpsim.store.lease import BusyError, LeaseLostError
    from warpsim.sweeps import slurm
    from warpsim.sweeps.array_jobs import SlurmError, folder_of
    from warpsim.sweeps.plan import Plan

    with request():
        if options.dry_run and options.extend:
            raise ValueError("--dry-run, --extend: a dry run changes nothing; only one of the two is allowed")
        plan = Plan.from_toml(options.plan)
        try:
            tiles = slurm.tiles_to_do(plan, options.out, create=not options.dry_run, extend=options.extend)
            if not tiles:
                if options.json:
                    print_json({"job": None, "tiles": []})
                else:
                    print("nothing to submit: all tiles are done or assigned to a waiting or running task (warpsim status)")
                return DONE
            script = slurm.array_script(
                options.plan,
                options.out,
                tiles,
                tasks=options.tasks,
                workers=options.workers,
                time=options.time,
                scratch=options.scratch,
                setup=options.setup,
                options=options.sbatch,
            )
            if options.dry_run:
                if options.json:
                    print_json({"job": None, "tiles": tiles, "script": script})
                else:
                    print(script, end="")
                return DONE
            job = _submitted(script, options.out)
        except (SlurmError, BusyError, LeaseLostError) as error:
            raise WorkError(str(error)) from None
    if options.json:
        print_json({"job": job, "tiles": tiles, "folder": folder_of(options.out)})
        return DONE
    work = f"{counted(len(tiles), 'tile')} in {counted(min(options.tasks, len(tiles)), 'task')}"
    print(f"job {job}: {work}; script and logs in {folder_of(options.out)}")
    return DONE


def _submitted(script: str, out: str) -> str:
    """Submits the script and returns the number of the job; an error message adds that the store is kept."""
    from warpsim.sweeps import slurm
    from warpsim.sweeps.array_jobs import SlurmError

    try:
        return slurm.submit(script, out)
    except SlurmError as error:
        kept = f"nothing was submitted; the store {out} is kept, and the same command will use it"
        raise WorkError(f"{error}\n{kept}") from None

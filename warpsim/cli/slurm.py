"""warpsim slurm: the tiles of a plan that are not done, as an array job of Slurm."""

from __future__ import annotations

import argparse

from warpsim.cli.common import DONE, Commands, WorkError, add_plan, new_command, request


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "slurm", _run, "submit the tiles of a plan that are not done as an array job of Slurm")
    add_plan(parser)
    parser.add_argument("out", metavar="OUT.zarr", help="a folder that all nodes see, or a URL")
    parser.add_argument("--tasks", type=int, default=100, metavar="N", help="tasks of the array, at most (default: 100)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="cores and threads of a task (default: 1)")
    parser.add_argument("--time", default="1:00:00", help="time limit of a task, which goes on after it (default: 1:00:00)")
    parser.add_argument(
        "--setup", action="append", default=[], metavar="LINE", help='a line that comes first, such as "module load python"'
    )
    parser.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="an option of sbatch, as in --sbatch=--partition=short"
    )
    parser.add_argument("--scratch", metavar="DIR", help="folder for compiled code (default: $SCRATCH, $TMPDIR, or /tmp)")
    parser.add_argument("--extend", action="store_true", help="the store holds a part of the plan: add the rest")
    parser.add_argument("--dry-run", action="store_true", help="print the script, and make and submit nothing")


def _run(options: argparse.Namespace) -> int:
    from warpsim.sweeps import slurm
    from warpsim.sweeps.plan import Plan

    with request():
        if options.dry_run and options.extend:
            raise ValueError("--dry-run, --extend: a dry run changes nothing; only one of the two may be given")
        plan = Plan.from_toml(options.plan)
        try:
            tiles = slurm.tiles_to_do(plan, options.out, create=not options.dry_run, extend=options.extend)
            if not tiles:
                print("no tile is left to submit: all are done, or with a task that waits or runs (warpsim status)")
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
                print(script, end="")
                return DONE
            job = _submitted(script, options.out)
        except slurm.SlurmError as error:
            raise WorkError(str(error)) from None
    tasks = min(options.tasks, len(tiles))
    print(f"job {job}: {len(tiles)} tiles in {tasks} tasks; script and logs in {slurm.folder_of(options.out)}")
    return DONE


def _submitted(script: str, out: str) -> str:
    """The number of the job; the store, which may be new, stays where there is none."""
    from warpsim.sweeps import slurm

    try:
        return slurm.submit(script, out)
    except slurm.SlurmError as error:
        kept = f"nothing was submitted; the store {out} is kept, and the same command goes on with it"
        raise WorkError(f"{error}\n{kept}") from None

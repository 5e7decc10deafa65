"""Sweeps under Slurm: submits an array job over the tiles that are not done (`array_jobs` reports its tasks).

The script holds the list of tiles. Each task runs its share of the list with the same command as a sweep on one machine. A task
that is preempted, or reaches its time limit, receives a signal, stops within a second and requeues itself.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from warpsim.arguments import integer, spans
from warpsim.store.place import local_folder, place_of
from warpsim.store.zarr_store import pending_tiles
from warpsim.sweeps.array_jobs import check_installed, folder_of, output_of, refuse_queued, tasks
from warpsim.sweeps.opening import prepare_store
from warpsim.sweeps.plan import Plan

SECONDS_TO_STOP = 60
"""Seconds between the signal and the time limit, in which a task finishes its current points."""

REQUEUES = 20
"""Times that a task requeues itself, at most, so that a tile that outlasts the time limit does not run forever."""

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=1-{tasks}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={workers}
#SBATCH --time={time}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{seconds}
{options}
{setup}
export NUMBA_CACHE_DIR={scratch}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# Slurm sends USR1 {seconds} s before the time limit and at a preemption: stop, and requeue this task.
requeue() {{
    kill -TERM "$sweep" 2>/dev/null
    wait "$sweep" && exit 0
    if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {requeues} ]; then
        scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
    fi
    exit 1
}}

{python} -m warpsim.cli sweep {plan} {out} --workers {workers} --share "$SLURM_ARRAY_TASK_ID/{tasks}" --tiles - <<'TILES' &
{tiles}
TILES
sweep=$!
trap requeue USR1
wait "$sweep"
"""


def tiles_to_do(plan: Plan, path: str | os.PathLike[str], *, create: bool, extend: bool = False) -> list[int]:
    """Returns the tiles that are neither done nor assigned to a waiting or running task.

    Args:
        plan: the sweep.
        path: its store.
        create: whether to create the store if it does not exist.
        extend: if the store holds a part of the plan, add the rest.

    Raises:
        StoreError: `path` holds another plan, or is not a store.
        ValueError: tasks for the store are waiting or running, so that it cannot be extended.
        BusyError: another process writes to the store, so that it cannot be extended.
        SlurmError: Slurm does not answer, or is not installed and there is no store yet.
    """
    if not place_of(path).exists():
        if not create:
            return list(plan.tiles())
        check_installed()  # before the store is created
    if extend:
        refuse_queued(path)
    assigned = {tile for task in tasks(path) for tile in task.tiles}
    _, store = prepare_store(plan, path, extend=extend)
    return [tile for tile in pending_tiles(store) if tile not in assigned]


def array_script(
    plan: Path,
    path: str,
    tiles: Sequence[int],
    *,
    tasks: int = 100,
    workers: int = 1,
    time: str = "1:00:00",
    scratch: str | None = None,
    setup: Sequence[str] = (),
    options: Sequence[str] = (),
) -> str:
    """Returns the script of an array job.

    Args:
        plan: file of the plan, on a file system that every node shares.
        path: store: a folder that every node shares, or a URL.
        tiles: the tiles to run.
        tasks: number of tasks of the array, at most.
        workers: number of threads, and of requested cores, of each task.
        time: time limit of a task in Slurm's format.
        scratch: folder on a fast local disk for compiled code; by default $SCRATCH, $TMPDIR or /tmp.
        setup: first lines of the script, such as "module load python". If this call runs in a virtual environment, the script
            activates it after these lines.
        options: further options of sbatch, such as "--partition=short".

    Raises:
        ValueError: an argument is wrong.
    """
    if not tiles:
        raise ValueError("tiles = []: must be at least one tile")
    integer("tasks", tasks)
    integer("workers", workers)
    for option in options:
        if not option.startswith("-"):
            raise ValueError(f"options: {option!r} must be an option of sbatch, such as --partition=short")
    if not re.fullmatch(r"\d[\d:-]*", time):
        raise ValueError(f"time = {time!r}: must be a time limit of Slurm, such as 1:00:00")
    venv = Path(sys.prefix) / "bin" / "activate"
    active = sys.prefix != sys.base_prefix and venv.is_file()
    lines = [*setup, *([f"source {shlex.quote(str(venv))}"] if active else [])]
    texts = {"plan": str(plan.resolve()), "path": _full(path), "folder": str(folder_of(path)), "scratch": scratch or ""}
    for name, text in [*texts.items(), *(("setup", line) for line in setup), *(("options", option) for option in options)]:
        if not text.replace("\t", " ").isprintable():
            raise ValueError(f"{name} = {text!r}: must be one line of printable characters, because a job script contains it")
    root = '"${SCRATCH:-${TMPDIR:-/tmp}}"' if scratch is None else shlex.quote(scratch)
    return SCRIPT.format(
        name=job_name(path),
        tasks=min(tasks, len(tiles)),
        workers=workers,
        time=time,
        log=_quoted(str(folder_of(path)).replace("%", "%%") + "/%A_%a.log"),
        seconds=SECONDS_TO_STOP,
        options="".join(f"#SBATCH {option}\n" for option in options),
        setup="".join(f"{line}\n" for line in lines),
        scratch=f"{root}/warpsim-{shlex.quote(getpass.getuser())}",
        requeues=REQUEUES,
        python="python" if active else shlex.quote(sys.executable),
        plan=shlex.quote(str(plan.resolve())),
        out=shlex.quote(_full(path)),
        tiles=spans(sorted(tiles), ","),
    )


def submit(script: str, path: str) -> str:
    """Submits a script and returns the job's number. Script and logs are stored in a folder beside the store.

    Raises:
        SlurmError: there is no sbatch, or it refused the script.
    """
    check_installed()
    folder = folder_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{uuid.uuid4().hex}.part"  # nothing is submitted for which there is no room here
    draft.write_text(script)
    try:
        job = output_of(["sbatch", "--parsable"], script).strip().partition(";")[0]  # job;cluster
        draft.replace(folder / f"{job}.sh")
    finally:
        draft.unlink(missing_ok=True)
    return job


def job_name(path: str | os.PathLike[str]) -> str:
    """Returns the name of a store's jobs."""
    return "warpsim-" + re.sub(r"[^\w.-]", "_", folder_of(path).stem)


def _quoted(text: str) -> str:
    """Quotes an argument of an #SBATCH line, which sbatch reads, not the shell."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _full(path: str) -> str:
    folder = local_folder(path)
    return path if folder is None else str(folder.resolve())

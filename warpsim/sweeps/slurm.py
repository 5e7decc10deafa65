"""Sweeps under Slurm: an array job over the tiles that are not done, and what Slurm says of it.

Each task of the array does its share of a list of tiles that stands in the script, by the same command as a sweep on one
machine. A task that is preempted, or that nears its time limit, gets a signal; it stops between two points and is queued again.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsim.store.place import place_of
from warpsim.store.zarr_store import pending_tiles
from warpsim.sweeps.lists import tiles_of, tiles_text

if TYPE_CHECKING:
    from warpsim.sweeps.plan import Plan

SECONDS_TO_STOP = 60
"""The signal comes so long before the time limit: time for the points in work to end."""

REQUEUES = 20
"""Times that a task queues itself again at most, so that a tile that outlasts the time limit does not run for ever."""

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=1-{tasks}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={workers}
#SBATCH --time={time}
#SBATCH --output="{log}"
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{seconds}
{options}
{setup}
export NUMBA_CACHE_DIR={scratch}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# USR1 comes {seconds} s before the time limit, and at a preemption: stop between two points, and queue this task again.
again() {{
    kill -TERM "$sweep" 2>/dev/null
    wait "$sweep" && exit 0
    if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {requeues} ]; then
        scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
    fi
    exit 1
}}

{python} -m warpsim.cli sweep {plan} {out} --workers {workers} --tile "$SLURM_ARRAY_TASK_ID/{tasks}" --tiles - <<'TILES' &
{tiles}
TILES
sweep=$!
trap again USR1
wait "$sweep"
"""


class SlurmError(RuntimeError):
    """Slurm refused the job, or cannot be asked; the message is Slurm's own."""


@dataclass(frozen=True)
class Task:
    """A task of an array job that Slurm knows of: waiting or running.

    Attributes:
        job: number of the array job.
        state: as Slurm calls it, in lower case, such as "running" or "pending".
        node: where it runs, or empty.
        tiles: its share of the tiles.
    """

    job: str
    state: str
    node: str
    tiles: tuple[int, ...]


def tiles_to_do(plan: Plan, path: str | os.PathLike[str], *, create: bool, extend: bool = False) -> list[int]:
    """The tiles that are neither done nor with a task that waits or runs.

    Args:
        plan: the sweep.
        path: its store.
        create: make the store where there is none.
        extend: where the store holds a part of the plan, add the rest.

    Raises:
        StoreError: `path` holds another plan, or is no store.
        ValueError: the store is to be extended while tasks wait or run for it.
        SlurmError: Slurm cannot be asked.
    """
    from warpsim.sweeps.local import prepare_store

    if not create and not place_of(path).exists():
        return list(plan.tiles())
    queued = tasks(path)
    if extend and queued:
        jobs = ", ".join(dict.fromkeys(task.job for task in queued))
        raise ValueError(f"extend: tasks of job {jobs} wait or run for this store; let them end, or scancel them")
    taken = {tile for task in queued for tile in task.tiles}
    _, store = prepare_store(plan, path, extend=extend)
    return [tile for tile in pending_tiles(store) if tile not in taken]


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
    """The script of an array job.

    Args:
        plan: file of the plan, which every node must see.
        path: store, a folder that every node sees, or a URL.
        tiles: the tiles to be done.
        tasks: tasks of the array, at most.
        workers: threads of each task, and cores that it asks for.
        time: time limit of a task, as Slurm writes times.
        scratch: folder on fast local disk for compiled code; left out: $SCRATCH, else $TMPDIR, else /tmp.
        setup: lines that come first, such as "module load python". A virtual environment that this call runs in is activated
            after them.
        options: further options of sbatch, such as "--partition=short".

    Raises:
        ValueError: an argument is wrong.
    """
    if not tiles:
        raise ValueError("tiles = []: must be at least one")
    for name, value in (("tasks", tasks), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} = {value}: must be at least 1")
    for option in options:
        if not option.startswith("-") or "\n" in option:
            raise ValueError(f"options: {option!r} must be an option of sbatch, such as --partition=short")
    if not re.fullmatch(r"\d[\d:-]*", time):
        raise ValueError(f"time = {time!r}: must be a time limit of Slurm, such as 1:00:00")
    venv = Path(sys.prefix) / "bin" / "activate"
    active = sys.prefix != sys.base_prefix and venv.is_file()
    lines = [*setup, *([f"source {shlex.quote(str(venv))}"] if active else [])]
    root = '"${SCRATCH:-${TMPDIR:-/tmp}}"' if scratch is None else shlex.quote(scratch)
    return SCRIPT.format(
        name=job_name(path),
        tasks=min(tasks, len(tiles)),
        workers=workers,
        time=time,
        log=str(folder_of(path)).replace("%", "%%") + "/%A_%a.log",
        seconds=SECONDS_TO_STOP,
        options="".join(f"#SBATCH {option}\n" for option in options),
        setup="".join(f"{line}\n" for line in lines),
        scratch=f"{root}/warpsim-{shlex.quote(getpass.getuser())}",
        requeues=REQUEUES,
        python="python" if active else shlex.quote(sys.executable),
        plan=shlex.quote(str(plan.resolve())),
        out=shlex.quote(_full(path)),
        tiles=tiles_text(tiles),
    )


def submit(script: str, path: str) -> str:
    """Submit a script; returns the job's number. Script and logs go to the folder beside the store.

    Raises:
        SlurmError: there is no sbatch, or it refused the script.
    """
    folder = folder_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    job = _said_by(["sbatch", "--parsable"], script).strip().partition(";")[0]  # job;cluster
    (folder / f"{job}.sh").write_text(script)
    return job


def tasks(path: str | os.PathLike[str]) -> list[Task]:
    """The tasks for a store that wait or run; none where there is no Slurm.

    Raises:
        SlurmError: Slurm cannot be asked.
    """
    scripts = {file.stem: file for file in folder_of(path).glob("*.sh")}
    if not scripts or shutil.which("squeue") is None:
        return []
    shown = _said_by(["squeue", "--me", "--array", "--noheader", "--format=%F|%K|%T|%N"])
    found = []
    for line in shown.splitlines():
        job, number, state, node = line.strip().split("|")
        if job in scripts and number.isdecimal():
            shares = _shares(scripts[job].read_text())
            found.append(Task(job, state.lower(), node, shares[int(number) - 1]))
    return found


def queue_lines(path: str | os.PathLike[str], not_done: Collection[int]) -> list[str]:
    """What Slurm has to do for a store, in words: a line for each job, and one for what no task has.

    Args:
        path: the store.
        not_done: its tiles that are not done.

    Raises:
        SlurmError: Slurm cannot be asked.
    """
    rest = frozenset(not_done)
    lines, left = [], set(rest)
    found = tasks(path)
    for job in dict.fromkeys(task.job for task in found):
        own = [task for task in found if task.job == job]
        states = Counter(task.state for task in own)
        shown = ", ".join(f"{number} {state}" for state, number in states.items())
        nodes = ", ".join(dict.fromkeys(task.node for task in own if task.node))
        theirs = {tile for task in own for tile in task.tiles if tile in rest}
        where = f" on {nodes}" if nodes else ""
        lines.append(f"Slurm job {job}: tasks {shown}{where}; {len(theirs)} of the tiles that are not done are theirs")
        left -= theirs
    if found and left:
        lines.append(f"no task has {len(left)} of the tiles that are not done")
    return lines


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The folder of a store's scripts and logs: out.slurm beside out.zarr; of a URL's, in the working folder."""
    place = Path(os.fspath(path).rstrip("/").rsplit("/", 1)[-1]) if _is_url(path) else Path(path)
    return place.resolve().with_name(place.name.removesuffix(".zarr") + ".slurm")


def job_name(path: str | os.PathLike[str]) -> str:
    """The name of a store's jobs."""
    return "warpsim-" + re.sub(r"[^\w.-]", "_", folder_of(path).stem)


def _shares(script: str) -> list[tuple[int, ...]]:
    """Task - 1 -> the tiles that the script gives it."""
    found = re.search(r"--array=1-(\d+)\n.*<<'TILES' &\n(\S+)\nTILES\n", script, re.DOTALL)
    assert found is not None
    number, tiles = int(found[1]), tiles_of(found[2])
    return [tuple(tiles[k::number]) for k in range(number)]


def _is_url(path: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(path)


def _full(path: str) -> str:
    return path if _is_url(path) else str(Path(path).resolve())


def _said_by(command: Sequence[str], text: str = "") -> str:
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: not found; there is no Slurm on this machine") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().removeprefix(f"{command[0]}: ")
        raise SlurmError(f"{command[0]}: {said or f'exit code {error.returncode}'}") from None

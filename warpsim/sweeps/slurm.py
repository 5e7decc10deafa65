"""Sweeps under Slurm: submits an array job over the tiles that are not done, and reports its tasks.

The script holds the list of tiles. Each task runs its share of the list with the same command as a sweep on one machine. A task
that is preempted, or reaches its time limit, receives a signal, stops within a second and requeues itself.
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

from warpsim.arguments import integer, spans
from warpsim.store.place import place_of
from warpsim.store.zarr_store import pending_tiles
from warpsim.sweeps.local import prepare_store
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


class SlurmError(RuntimeError):
    """Slurm refused the job or did not answer; the message is Slurm's own."""


@dataclass(frozen=True)
class Task:
    """A waiting or running task of an array job.

    Attributes:
        job: number of the array job.
        state: its state in Slurm, in lower case, such as "running" or "pending".
        node: the node on which it runs, or empty.
        tiles: its share of the tiles.
    """

    job: str
    state: str
    node: str
    tiles: tuple[int, ...]


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
    queued = tasks(path)
    if extend and queued:
        jobs = ", ".join(dict.fromkeys(task.job for task in queued))
        raise ValueError(f"extend: tasks of job {jobs} are waiting or running for this store; let them end, or scancel them")
    assigned = {tile for task in queued for tile in task.tiles}
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


def check_installed() -> None:
    """Checks that there is an sbatch.

    Raises:
        SlurmError: there is none.
    """
    if shutil.which("sbatch") is None:
        raise SlurmError("sbatch: not found; Slurm is not installed on this machine")


def submit(script: str, path: str) -> str:
    """Submits a script and returns the job's number. Script and logs are stored in a folder beside the store.

    Raises:
        SlurmError: there is no sbatch, or it refused the script.
    """
    check_installed()
    folder = folder_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    job = _output_of(["sbatch", "--parsable"], script).strip().partition(";")[0]  # job;cluster
    (folder / f"{job}.sh").write_text(script)
    return job


def tasks(path: str | os.PathLike[str]) -> list[Task]:
    """Returns the waiting and running tasks for a store; none on a machine without Slurm.

    Raises:
        SlurmError: Slurm does not answer.
    """
    scripts = {file.stem: file for file in folder_of(path).glob("*.sh")}
    if not scripts or shutil.which("squeue") is None:
        return []
    queue = _output_of(["squeue", "--me", "--array", "--noheader", "--format=%F|%K|%T|%N"])
    queued = []
    for line in queue.splitlines():
        job, number, state, node = line.strip().split("|")
        if job in scripts and number.isdecimal():
            shares = _shares(scripts[job].read_text())
            queued.append(Task(job, state.lower(), node, shares[int(number) - 1]))
    return queued


def queue_lines(path: str | os.PathLike[str], not_done: Collection[int]) -> list[str]:
    """Returns a line of text for each job of a store, and one for tiles that no task will run.

    Args:
        path: the store.
        not_done: its tiles that are not done.

    Raises:
        SlurmError: Slurm does not answer.
    """
    unfinished = frozenset(not_done)
    lines, unassigned = [], set(unfinished)
    queued = tasks(path)
    for job in dict.fromkeys(task.job for task in queued):
        own = [task for task in queued if task.job == job]
        states = Counter(task.state for task in own)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        nodes = ", ".join(dict.fromkeys(task.node for task in own if task.node))
        assigned = {tile for task in own for tile in task.tiles if tile in unfinished}
        where = f" on {nodes}" if nodes else ""
        lines.append(f"Slurm job {job}: tasks {counts}{where}; {len(assigned)} of the {len(unfinished)} unfinished tiles")
        unassigned -= assigned
    if queued and unassigned:
        lines.append(f"{len(unassigned)} of the {len(unfinished)} unfinished tiles are not assigned to a task")
    return lines


def folder_of(path: str | os.PathLike[str]) -> Path:
    """Returns the folder of a store's scripts and logs: out.slurm beside out.zarr; for a URL, in the working folder."""
    place = Path(os.fspath(path).rstrip("/").rsplit("/", 1)[-1]) if _is_url(path) else Path(path)
    return place.resolve().with_name(place.name.removesuffix(".zarr") + ".slurm")


def job_name(path: str | os.PathLike[str]) -> str:
    """Returns the name of a store's jobs."""
    return "warpsim-" + re.sub(r"[^\w.-]", "_", folder_of(path).stem)


def parse_tiles(text: str, number: int | None = None) -> list[int]:
    """Parses a list of tiles such as "0-9,12".

    Args:
        text: numbers and ranges.
        number: number of tiles, if it is known.

    Raises:
        ValueError: the text is not such a list, or names a tile that does not exist.
    """
    tiles: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"tiles {text.strip()[:60]}: must be numbers and ranges, such as 0-9,12")
        if number is not None and int(last) >= number:
            raise ValueError(f"tiles {part}: must be from 0 to {number - 1}")
        tiles += range(int(first), int(last) + 1)
    return tiles


def _shares(script: str) -> list[tuple[int, ...]]:
    """Returns the tiles that a script assigns to each task."""
    match = re.search(r"--array=1-(\d+)\n.*<<'TILES' &\n(\S+)\nTILES\n", script, re.DOTALL)
    assert match is not None
    number, tiles = int(match[1]), parse_tiles(match[2])
    return [tuple(tiles[k::number]) for k in range(number)]


def _is_url(path: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(path)


def _quoted(text: str) -> str:
    """Quotes an argument of an #SBATCH line, which sbatch reads, not the shell."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _full(path: str) -> str:
    return path if _is_url(path) else str(Path(path).resolve())


def _output_of(command: Sequence[str], text: str = "") -> str:
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: not found; Slurm is not installed on this machine") from None
    except subprocess.CalledProcessError as error:
        message = error.stderr.strip().removeprefix(f"{command[0]}: ")
        raise SlurmError(f"{command[0]}: {message or f'exit code {error.returncode}'}") from None

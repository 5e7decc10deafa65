"""Array jobs of Slurm as they stand in its queue: the waiting and running tasks of a store, and their tiles.

Scripts are kept beside the store, by the number of their job; so the queue tells which tiles a task will run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsim.store.place import local_folder


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


def check_installed() -> None:
    """Checks that there is an sbatch.

    Raises:
        SlurmError: there is none.
    """
    if shutil.which("sbatch") is None:
        raise SlurmError("sbatch: not found; Slurm is not installed on this machine")


def tasks(path: str | os.PathLike[str]) -> list[Task]:
    """Returns the waiting and running tasks for a store; none on a machine without Slurm.

    Raises:
        SlurmError: Slurm does not answer, or the script of a job is damaged.
    """
    scripts = {file.stem: file for file in folder_of(path).glob("*.sh")}
    if not scripts or shutil.which("squeue") is None:
        return []
    queue = output_of(["squeue", "--me", "--array", "--noheader", "--format=%F|%K|%T|%N"])
    queued = []
    for line in queue.splitlines():
        job, number, state, node = line.strip().split("|")
        if job in scripts and number.isdecimal():
            queued.append(Task(job, state.lower(), node, _share(scripts[job], int(number))))
    return queued


def refuse_queued(path: str | os.PathLike[str]) -> None:
    """Refuses to extend a store while tasks wait or run for it: they have the tiles of the smaller plan.

    Raises:
        ValueError: there are such tasks.
        SlurmError: Slurm does not answer.
    """
    queued = tasks(path)
    if queued:
        jobs = ", ".join(dict.fromkeys(task.job for task in queued))
        raise ValueError(f"extend: tasks of job {jobs} are waiting or running for this store; let them end, or scancel them")


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
    """Returns the folder of a store's scripts and logs: out.slurm beside out.zarr; of an object store, in the working folder."""
    place = local_folder(path) or Path(os.fspath(path).rstrip("/").rsplit("/", 1)[-1])
    return place.resolve().with_name(place.name.removesuffix(".zarr") + ".slurm")


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


def shares_of(script: str) -> list[tuple[int, ...]]:
    """Returns the tiles that a script assigns to each task.

    Raises:
        ValueError: it is not a script of `warpsim slurm`, or is damaged.
    """
    match = re.search(r"--array=1-(\d+)\n.*<<'TILES' &\n(\S+)\nTILES\n", script, re.DOTALL)
    if match is None:
        raise ValueError("must have the lines #SBATCH --array and TILES of a script of warpsim slurm")
    number, tiles = int(match[1]), parse_tiles(match[2])
    return [tuple(tiles[k::number]) for k in range(number)]


def _share(script: Path, task: int) -> tuple[int, ...]:
    """Returns the tiles that the script of a job assigns to one of its tasks."""
    try:
        shares = shares_of(script.read_text())
    except ValueError as error:
        raise SlurmError(f"{script}: is damaged, so that the tiles of a task in the queue are unknown: {error}") from None
    if not 1 <= task <= len(shares):
        raise SlurmError(f"{script}: is damaged: it has {len(shares)} tasks, and task {task} is in the queue")
    return shares[task - 1]


def output_of(command: Sequence[str], text: str = "") -> str:
    """Runs a command of Slurm with a text as its input, and returns what it prints.

    Raises:
        SlurmError: it is not installed, or fails.
    """
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SlurmError(f"{command[0]}: not found; Slurm is not installed on this machine") from None
    except subprocess.CalledProcessError as error:
        message = error.stderr.strip().removeprefix(f"{command[0]}: ")
        raise SlurmError(f"{command[0]}: {message or f'exit code {error.returncode}'}") from None

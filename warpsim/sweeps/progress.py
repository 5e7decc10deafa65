"""Reports the progress of a sweep: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from warpsim.store.grid import TileGrid

SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class Progress:
    """The progress of a sweep.

    Attributes:
        tiles: number of tiles, including those that were done before this run.
        done: number of tiles done.
        failed: number of tiles that failed in this run.
        points: number of points in all tiles.
        points_done: number of points in tiles that are done.
        seconds: time since this run started.
        seconds_left: estimated remaining time; None before the first tile.
        message: the reason why a tile has just failed, or empty.
        stopped: whether the run was interrupted.
        points_failed: number of points in tiles that failed in this run.
    """

    tiles: int
    done: int
    failed: int
    points: int
    points_done: int
    seconds: float
    seconds_left: float | None
    message: str = ""
    stopped: bool = False
    points_failed: int = 0

    @property
    def finished(self) -> bool:
        """Whether no tile is left."""
        return self.done + self.failed == self.tiles

    def __str__(self) -> str:
        left = "" if self.seconds_left is None or self.finished else f", about {duration(self.seconds_left)} left"
        left = ", stopped" if self.stopped else left
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"{self.done} of {self.tiles} tiles{failed}, {self.points_done} of {self.points} points, "
            f"{duration(self.seconds)}{left}"
        )


Report = Callable[[Progress], None]


class Meter:
    """Counts tiles and points, and reports the progress.

    Args:
        grid: the division of the sweep into tiles.
        tiles: the tiles of this run, including those that were done before.
        pending: those of them that are not done.
        report: called with each new Progress.
    """

    def __init__(self, grid: TileGrid, tiles: Sequence[int], pending: Sequence[int], report: Report) -> None:
        self.grid, self.report, self.chosen = grid, report, tiles
        self.tiles, self.failed, self.points_failed = len(tiles), 0, 0
        self.points = sum(map(grid.tile_points, tiles))
        self.before = self.points - sum(map(grid.tile_points, pending))
        self.done, self.points_done = len(tiles) - len(pending), self.before
        self.start = time.perf_counter()

    def show(self, message: str = "", *, stopped: bool = False) -> None:
        """Reports the current progress."""
        seconds = time.perf_counter() - self.start
        tried = self.points_done + self.points_failed
        left = seconds * (self.points - tried) / (tried - self.before) if tried > self.before else None
        counts = self.tiles, self.done, self.failed, self.points, self.points_done
        self.report(Progress(*counts, seconds, left, message, stopped, self.points_failed))

    def stop(self, pending: Set[int]) -> None:
        """Reports the progress of an interrupted run.

        Args:
            pending: the tiles that are not done, whether or not they were counted.
        """
        done = [tile for tile in self.chosen if tile not in pending]
        self.done, self.points_done = len(done), sum(map(self.grid.tile_points, done))
        self.show(stopped=True)

    def count(self, tile: int, message: str = "") -> None:
        """Counts a tile that is done, or that failed if there is a message, and reports the progress."""
        points = self.grid.tile_points(tile)
        if message:
            self.failed, self.points_failed = self.failed + 1, self.points_failed + points
        else:
            self.done, self.points_done = self.done + 1, self.points_done + points
        self.show(f"tile {tile} failed: {message}" if message else "")


@contextmanager
def reporting(progress: bool | Report) -> Iterator[Report]:
    """Provides the function to call with each new Progress.

    Args:
        progress: False shows nothing; True shows a bar if standard error is a terminal, writes plain lines to it if it is
            something else, and shows nothing if there is none; a function is called itself.
    """
    if callable(progress):
        yield progress
    elif not progress or sys.stderr is None:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar() as report:
            yield report
    else:
        yield _Lines()


def duration(seconds: float) -> str:
    """Returns a time as text, such as "40 s", "12 min" or "3.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _Lines:
    """Writes a line at the start, at the end, at each failure, and every few seconds."""

    def __init__(self) -> None:
        self.last = -float("inf")

    def __call__(self, progress: Progress) -> None:
        due = progress.seconds - self.last >= SECONDS_BETWEEN_LINES or progress.finished or progress.stopped
        if progress.message:
            print(progress.message, file=sys.stderr, flush=True)
        if due:
            self.last = progress.seconds
            print(progress, file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = [BarColumn(), TextColumn("{task.description}", markup=False)]
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def report(progress: Progress) -> None:
            if progress.message:
                bar.console.print(progress.message, style="red", markup=False, highlight=False)
            tried = progress.points_done + progress.points_failed
            bar.update(task, total=progress.points, completed=tried, description=str(progress))

        yield report

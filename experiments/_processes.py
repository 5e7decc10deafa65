"""Simulations of an experiment, in several processes.

An experiment imports this module as `_processes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


def in_processes(function: Callable[[Task], Found], tasks: Iterable[Task], workers: int | None = None) -> list[Found]:
    """Returns what a function finds of each task, in their order, in so many processes; None: one for each core."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, tasks))

"""Writes files atomically: a file appears complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def temporary_path(path: str | os.PathLike[str]) -> str:
    """Returns the path to which `atomic_write` writes first: beside the file, or beside the target of a symbolic link."""
    return f"{os.path.realpath(path)}.part"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields a temporary path. It is renamed to `path` on success and removed if an exception is raised."""
    temporary = temporary_path(path)
    try:
        yield temporary
        os.replace(temporary, temporary.removesuffix(".part"))
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as UTF-8, complete or not at all."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)

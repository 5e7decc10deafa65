"""Writes files atomically: a file appears complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


def temporary_path(path: str | os.PathLike[str]) -> str:
    """Returns a path to which `atomic_write` could write first: a new one beside the file, or the target of a symbolic link."""
    return f"{os.path.realpath(path)}.{uuid.uuid4().hex}.part"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields a temporary path. It is renamed to `path` on success and removed if an exception is raised.

    An error of the system that names no file, such as that of a full disk, names `path`.
    """
    target = os.path.realpath(path)
    temporary = temporary_path(target)
    try:
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as UTF-8, complete or not at all."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)

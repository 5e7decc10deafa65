"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def draft_of(path: str | os.PathLike[str]) -> str:
    """Where a file is written before it is complete: beside it, or beside what it links to."""
    return f"{os.path.realpath(path)}.part"


@contextmanager
def draft(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name to write a file to; it becomes `path` where nothing is raised, and is removed where something is."""
    name = draft_of(path)
    try:
        yield name
        os.replace(name, name.removesuffix(".part"))
    finally:
        if os.path.exists(name):
            os.remove(name)

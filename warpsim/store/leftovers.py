"""Removes what killed processes have left in a store and beside it: unfinished files, and drafts of stores."""

from __future__ import annotations

import glob
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warpsim.store.lease import LEASES, STALE_SECONDS, BusyError, changing_layout, decoded, own_lease, remove_stale
from warpsim.store.place import PARTIAL, Folder, Remote

_LEASE = "lease"


def remove_leftovers(place: Folder | Remote) -> None:
    """Removes stale leases, and unfinished files if there were any and nobody else writes to the store."""
    if isinstance(place, Folder):
        _remove_drafts(place.path)
    if not remove_stale(place) or not isinstance(place, Folder):
        return
    with suppress(BusyError), changing_layout(place):
        for file in place.path.rglob(f"*{PARTIAL}"):
            if file.parent != place.path / LEASES or _is_old(file):  # a lease may be in the making, which nobody sees yet
                file.unlink(missing_ok=True)


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yields a new folder beside a path, with a lease in it, and removes it at the end."""
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir(parents=True)
        with own_lease() as lease:
            (draft / _LEASE).write_bytes(lease.encoded())
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _is_old(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def _remove_drafts(target: Path) -> None:
    for draft in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if draft.is_symlink() or not re.fullmatch(r"[0-9a-f]{32}", draft.name.rpartition(".")[2]):
            continue
        with suppress(OSError):
            file = draft / _LEASE
            lease = decoded(file.read_bytes()) if file.exists() else None
            if lease.stale if lease is not None else _is_old(draft):
                shutil.rmtree(draft, ignore_errors=True)

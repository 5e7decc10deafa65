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

from warpsim.store.lease import STALE_SECONDS, BusyError, Lease, changing_layout, decoded, remove_stale
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
            file.unlink(missing_ok=True)


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """Yields a new folder beside a path, with a lease in it, and removes it at the end."""
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir(parents=True)
        (draft / _LEASE).write_bytes(Lease.of_this_process().encoded())
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_drafts(target: Path) -> None:
    for draft in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if draft.is_symlink() or not re.fullmatch(r"[0-9a-f]{32}", draft.name.rpartition(".")[2]):
            continue
        with suppress(OSError):
            file = draft / _LEASE
            lease = decoded(file.read_bytes()) if file.exists() else None
            old = time.time() - draft.stat().st_mtime > STALE_SECONDS
            if lease.stale if lease is not None else old:
                shutil.rmtree(draft, ignore_errors=True)

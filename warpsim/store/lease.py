"""Leases: files in a store that tell which processes write to it.

Any number of sweeps may write tiles at the same time: each holds a lease of its own. The layout (axes, labels, metadata) is
changed only by the holder of the lease `layout`, of which there is one, and only while no other process writes tiles. Both
write their lease first and look for others afterwards, so that of two that start at the same time at least one sees the other.

A lease names host and process, and is renewed every minute. It is stale if its process has ended, which another process on the
same machine can tell, or if it was not renewed for ten minutes. Who finds a stale lease removes it; of several that find a stale
lease `layout` at once, one removes it, and one gets it. A process that finds its own lease removed, because its machine slept,
must not write any more: the layout may have changed. So tiles are recorded, and layouts put in force, after another look at the
lease.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from warpsim.store.place import PARTIAL, Folder, Place, Remote
from warpsim.store.status import DONE, TILES

LEASES = f"{TILES}/leases"
"""Folder of the leases."""

LAYOUT = f"{LEASES}/layout"
"""The lease of the process that changes the layout."""

RENEW_SECONDS, STALE_SECONDS, WAIT_SECONDS = 60.0, 600.0, 60.0
"""Time between renewals; time after which a lease that was not renewed is stale; longest wait for a change of the layout."""

_HELD: set[str] = set()
"""Ids of the leases that this process holds; any other one that names it was left by an interruption."""


class BusyError(RuntimeError):
    """Another process writes to the store, so that this one cannot; nothing was changed."""


class LeaseLostError(RuntimeError):
    """Another process took this one for dead and removed its lease. Finished tiles are kept; the same call resumes the sweep."""


def require_lease(place: Place, key: str | None) -> None:
    """Checks that a store still has the lease of this sweep; None: the sweep has none.

    Raises:
        LeaseLostError: it has not.
    """
    if key is not None and not place.exists(key):
        raise _lost(place)


def _lost(place: Place) -> LeaseLostError:
    return LeaseLostError(
        f"{place.path}: another process has taken this one for dead, perhaps because this machine slept; finished tiles are "
        "kept, and the same call resumes the sweep"
    )


@dataclass(frozen=True)
class Lease:
    """What a lease says of its process.

    Attributes:
        host: name of its machine.
        pid: number of the process.
        machine: identifies the running system in which the number is valid; empty if unknown.
        started: when the process started, in the units of that system; empty if unknown.
        since: when the lease was taken, UTC.
        renewed: when it was last renewed, in seconds since 1970.
        id: tells it from every other lease.
    """

    host: str
    pid: int
    machine: str
    started: str
    since: str
    renewed: float
    id: str = ""

    @classmethod
    def of_this_process(cls) -> Lease:
        """Returns a new lease of this process."""
        pid = os.getpid()
        now = datetime.now(UTC)
        since, renewed = now.isoformat(timespec="seconds"), now.timestamp()
        return cls(socket.gethostname(), pid, _machine(), _start_of(pid), since, renewed, uuid.uuid4().hex)

    @property
    def stale(self) -> bool:
        """Whether the process has ended, as far as this machine can tell, or the lease was not renewed for too long."""
        if self.machine and self.machine == _machine():
            runs = _runs(self.pid) and _start_of(self.pid) in ("", self.started)  # "": hidden by the system
            return not runs or (self.pid == os.getpid() and self.id not in _HELD)
        return time.time() - self.renewed > STALE_SECONDS

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    def encoded(self) -> bytes:
        """Returns the content of the file."""
        return json.dumps(asdict(self)).encode()


def decoded(content: bytes) -> Lease | None:
    """Returns the lease in a file; None if the file is damaged or does not exist."""
    try:
        lease = Lease(**json.loads(content))
        lease.stale  # noqa: B018  # a lease of which this cannot be told is damaged
    except (TypeError, ValueError, OverflowError):
        return None
    return lease


@contextmanager
def writing_tiles(place: Folder | Remote) -> Iterator[str | None]:
    """Holds a lease for writing tiles, and yields its key; waits while another process changes the layout.

    Yields None where no tile can be written either.

    Raises:
        BusyError: the layout was being changed for longer than a minute.
        PermissionError: tiles can be written here, but no leases.
    """
    with own_lease() as lease:
        key, end = f"{LEASES}/{lease.id}", time.monotonic() + WAIT_SECONDS
        try:
            while True:
                changing = _live(place, LAYOUT)
                if changing is None:
                    place.write(key, lease.encoded())
                    changing = _live(place, LAYOUT)
                    if changing is None:
                        break
                    place.remove(key)
                _wait(place, changing, end)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS) or _takes_records(place):
                raise
            yield None
            return
        with _renewed(place, key, lease):
            yield key


def _takes_records(place: Folder | Remote) -> bool:
    """Whether records of tiles can be written, although no lease can be."""
    key = f"{TILES}/{DONE}/{uuid.uuid4().hex}{PARTIAL}"
    try:
        place.write(key, b"")
        place.remove(key)
    except OSError:
        return False
    return True


@contextmanager
def changing_layout(place: Folder | Remote, *, alone: bool = True) -> Iterator[Callable[[], None]]:
    """Holds the lease for changing the layout; waits for another process that does the same.

    Args:
        place: the place of the store.
        alone: whether nobody else may be writing tiles.

    Yields:
        What raises a LeaseLostError if another process has taken the lease meanwhile; to be called before the layout changes.

    Raises:
        BusyError: another process writes tiles.
    """
    with own_lease() as own:
        end = time.monotonic() + WAIT_SECONDS
        while place.claim(LAYOUT, own.encoded()) != own.encoded():
            changing = _live(place, LAYOUT)
            if changing is not None:
                _wait(place, changing, end)
        with _renewed(place, LAYOUT, own):
            if alone:
                _require_no_writers(place)
            yield partial(_require_own, place, LAYOUT, own)


def _require_own(place: Place, key: str, lease: Lease) -> None:
    if not _is_own(place, key, lease):
        raise _lost(place)


def _require_no_writers(place: Folder | Remote) -> None:
    others = writers(place)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise BusyError(
            f"{place.path}: is being written by {others[0]}{more}; its layout can be changed when that has ended; "
            "nothing was changed"
        )


@contextmanager
def own_lease() -> Iterator[Lease]:
    """Yields a new lease of this process, which is stale at the end, whatever has become of its file."""
    lease = Lease.of_this_process()
    _HELD.add(lease.id)
    try:
        yield lease
    finally:
        _HELD.discard(lease.id)


def writers(place: Place) -> list[Lease]:
    """Returns the leases of the processes that write tiles, and removes stale ones."""
    found = (_live(place, key) for key in _keys(place) if key != LAYOUT)
    return [lease for lease in found if lease is not None]


def has_leases(place: Place) -> bool:
    """Whether there are leases, stale ones included: a sweep runs, or was killed."""
    return bool(_keys(place))


def remove_stale(place: Place) -> bool:
    """Removes the leases of processes that were killed. Returns whether there were any, and nobody else writes to the store."""
    before = _keys(place)
    after = [key for key in before if _live(place, key) is not None]
    return len(before) > 0 and not after


def _keys(place: Place) -> list[str]:
    return [f"{LEASES}/{name}" for name in place.names(LEASES) if not name.endswith(PARTIAL)]


def _wait(place: Place, changing: Lease, end: float) -> None:
    if time.monotonic() > end:
        raise BusyError(f"{place.path}: its layout is being changed by {changing}; try again when that has ended")
    time.sleep(0.1)


def _live(place: Place, key: str) -> Lease | None:
    """Returns a lease, or of a stale one that of the process that is removing it; None if there is none, or it is removed now."""
    (content,) = place.read([key])
    if not content and key.rpartition("/")[2] not in place.names(LEASES):  # a link to nothing is there, and is stale
        return None
    lease = decoded(content)
    if lease is not None and not lease.stale:
        return lease
    if key.startswith(LAYOUT):
        return _remove_shared(place, key, content)
    if place.read([key]) == [content]:  # the key is that of this lease alone
        place.remove(key)
    return None


def _remove_shared(place: Place, key: str, content: bytes) -> Lease | None:
    """Removes a stale lease whose key others may take as soon as it is free, and never the lease of who has taken it.

    Only the holder of the right to remove this lease, which is a lease as well, removes it. So nobody else can remove it, and
    put a new one in its place, between the holder's look at it and the removal.

    Returns:
        The lease of another process that is about to remove it; None if it is gone.
    """
    right = f"{LAYOUT}.{hashlib.sha256(key.encode() + content).hexdigest()[:32]}{PARTIAL}"
    with own_lease() as lease:
        own = lease.encoded()
        while place.claim(right, own) != own:
            other = _live(place, right)
            if other is not None:
                return other
        try:
            if place.read([key]) == [content]:
                place.remove(key)
        finally:
            place.remove(right)
    return None


def _is_own(place: Place, key: str, lease: Lease) -> bool:
    found = decoded(place.read([key])[0])
    return found is not None and found.id == lease.id


@contextmanager
def _renewed(place: Place, key: str, lease: Lease) -> Iterator[None]:
    """Renews a lease of this process until the end, and then removes it; another process's in its place is left as it is."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            with suppress(Exception):  # the next renewal may succeed
                if _is_own(place, key, lease):
                    place.write(key, replace(lease, renewed=time.time()).encoded())

    thread = threading.Thread(target=renew, name="warpsim-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with suppress(OSError):
            if _is_own(place, key, lease):
                place.remove(key)
            place.remove_folder(LEASES)


def _machine() -> str:
    """Identifies the running system, and within it the numbering of processes; empty if the system does not tell.

    On Windows it is empty, so that leases there become stale by time alone: nothing asks for a process by its number.
    """
    if sys.platform == "win32":
        return ""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Returns when a process started, since its number may be given to another one later."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _runs(pid: int) -> bool:
    """Returns whether a process of this machine runs. Not for Windows, where os.kill ends the process whatever the signal."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state not in ("Z", "X")

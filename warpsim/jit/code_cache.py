"""Keeps the machine code of the engine on disk, in a folder that only its user can write.

Numba's disk cache does not notice an edit in a callee of another file. So the code lives in a folder that is named by a hash of
the sources of the engine and of this room, and of numba's version and settings: another engine, another folder.

Numba unpickles what it finds in the cache, and a pickle can run any program. So the folder must belong to the user, and have
mode 700; otherwise the engine is compiled in every process. Each file begins with a checksum of the rest: a damaged file is
removed and compiled again.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import stat
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

_PRIVATE, _EVERYBODY = 0o700, 0o777
_DIGEST = hashlib.sha256().digest_size

_said: set[str] = set()


def _say_once(kind: str, message: str) -> None:
    if kind not in _said:
        _said.add(kind)
        logging.getLogger("warpsim").warning(message)


def cache_folder() -> Path | None:
    """Returns the folder for this engine's machine code, under NUMBA_CACHE_DIR if set, else in the user's cache.

    It is created if it does not exist. None: it cannot be created, or other users could have put files there; a message on
    standard error says so.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        root = Path(chosen).expanduser().resolve()
        root.mkdir(parents=True, exist_ok=True)
        folder = root / "warpsim" / f"engine-{_hash_of_sources()}"
        for made in (folder.parent, folder):
            with contextlib.suppress(FileExistsError):
                made.mkdir(mode=_PRIVATE)
        reason = _unsafe(folder)
    except OSError as error:
        reason = f"{chosen}: {error.strerror}"
    except RuntimeError:  # nothing tells the user's home
        reason = f"{chosen}: there is no home folder"
    if reason is None:
        return folder
    _say_once("folder", f"compiled code is not kept, so that every process compiles for a minute ({reason}); set NUMBA_CACHE_DIR")
    return None


def _hash_of_sources() -> str:
    digest = hashlib.blake2b(f"{numba.__version__} {config.BOUNDSCHECK} {config.OPT}".encode(), digest_size=8)
    rooms = Path(__file__).parent, Path(__file__).parents[1] / "engine"
    for source in [source for room in rooms for source in sorted(room.glob("*.py"))]:
        digest.update(f"{source.parent.name}/{source.name}".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _unsafe(folder: Path) -> str | None:
    """Returns why another user could have put files into a folder, or could do so now; None if nobody could.

    The folder and the one above it must be the user's, with mode 700. Those above may be writable for others only where nobody
    can rename the files of others, such as in /tmp, and must belong to the user or to the administrator.
    """
    if not hasattr(os, "geteuid"):
        return None  # folders of users are private on systems without owners and modes
    user = os.geteuid()
    for own in (folder.parent, folder):
        found = own.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
            return f"{own} belongs to another user, or is no folder"
        if found.st_mode & _EVERYBODY != _PRIVATE and own == folder.parent:
            own.chmod(_PRIVATE)  # as earlier versions made it; the folders in it are checked by themselves
        elif found.st_mode & _EVERYBODY != _PRIVATE:
            return f"{own} has mode {found.st_mode & _EVERYBODY:o}, not 700"
    for above in folder.parent.parents:
        found = above.stat()
        if found.st_uid not in (user, 0):
            return f"{above} belongs to another user"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"everybody can write to {above}"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return f"{folder} cannot be written"
    return None


def keep_code(compiled: Any, folder: Path) -> None:
    """Has numba keep the machine code of a compiled function in a folder, as its option `cache` does, with checksums."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder)  # read when the cache is made; other users of numba keep theirs
    try:
        compiled._cache = _CheckedCache(compiled.py_func)
    finally:
        config.CACHE_DIR = before


class _CheckedCache(FunctionCache):
    """The cache of one function, in files with checksums. A full disk is no reason to stop."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Saves compiled code, unless the disk is full."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _say_once("save", f"compiled code cannot be kept in {self._cache_path}: {error.strerror}")


class _CheckedFiles(IndexDataCacheFile):
    """An index file and data files as numba has them, each after its checksum.

    A data file also holds the name of its index and the key of the code in it: numba numbers these files, and another process can
    have written one of the same number for another key.
    """

    def save(self, key: Any, data: Any) -> None:
        """Saves code under its key, and then the index, which names the file."""
        overloads = self._load_index()
        name = overloads.get(key) or next(new for new in map(self._data_name, count(1)) if new not in overloads.values())
        self._save_data(name, (self._owner(key), data))
        self._save_index(overloads | {key: name})

    def load(self, key: Any) -> Any:
        """Returns the code under a key; None: there is none, or its file holds that of another key."""
        name = self._load_index().get(key)
        if name is None:
            return None
        try:
            owner, data = self._load_data(name)
        except OSError:
            return None
        return data if owner == self._owner(key) else None

    def _owner(self, key: Any) -> tuple[str, Any]:
        return Path(self._index_path).name, key

    def _load_index(self) -> dict[Any, str]:
        try:
            stamp, overloads = _read(Path(self._index_path))
        except OSError:
            return {}
        found: dict[Any, str] = overloads if stamp == self._source_stamp else {}
        return found

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return _read(Path(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as file:
            file.writelines(_with_checksum(content))


def _with_checksum(content: bytes) -> Iterable[bytes]:
    return hashlib.sha256(content).digest(), content


def _read(path: Path) -> Any:
    """Returns the value in a file.

    Raises:
        OSError: the file does not exist, or was damaged and has been removed.
    """
    content = path.read_bytes()
    if content[:_DIGEST] == hashlib.sha256(content[_DIGEST:]).digest():
        return pickle.loads(content[_DIGEST:])
    with contextlib.suppress(OSError):
        path.unlink()
    _say_once("damage", f"compiled code in {path.parent} is damaged; it is compiled again, which takes a minute")
    raise FileNotFoundError(path)

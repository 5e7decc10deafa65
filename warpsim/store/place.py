"""The place of a store: a folder on this machine, or a prefix in an object store that fsspec opens by URL.

Zarr reads and writes the arrays. A place adds what Zarr does not offer: listing, reading and claiming single keys.
"""

from __future__ import annotations

import errno
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Error numbers that indicate a full or damaged disk; other errors while creating a file indicate a wrong path."""

PARTIAL = ".partial"
"""End of the name of a file that is being written, here and in Zarr; it is renamed when it is complete."""


_CLAIMS = threading.Lock()  # one claim of this process at a time


class StoreError(ValueError):
    """The path cannot be used as the store of this sweep, or a file of it is damaged; nothing was changed."""


class Place(Protocol):
    """The location of a store, and its keys."""

    @property
    def path(self) -> Path | str:
        """The folder, or the URL, as it was given."""

    @property
    def root(self) -> Path | str:
        """The same, which a change of the working folder does not change."""

    def exists(self, key: str = "") -> bool:
        """Whether a key exists as a file; without a key, whether anything exists at the path."""

    def names(self, folder: str) -> list[str]:
        """Returns the names of the keys directly in a folder; none if the folder does not exist."""

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """Returns the contents of keys; empty for a missing key."""

    def write(self, key: str, content: bytes) -> None:
        """Writes a key in one step: another process reads the old content or the new one."""

    def claim(self, key: str, content: bytes) -> bytes:
        """Writes a key unless it exists, and returns its content."""

    def remove(self, key: str) -> None:
        """Removes a key if it exists."""

    def remove_folder(self, key: str) -> None:
        """Removes a folder if it exists and is empty."""


class Folder:
    """A folder in a mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, path.absolute()

    def exists(self, key: str = "") -> bool:
        """Whether a key exists as a file, or a link to one; without a key, whether anything exists at the path."""
        return os.path.isfile(self.root / key) if key else os.path.lexists(self.root)

    def names(self, folder: str) -> list[str]:
        """Returns the names of the keys directly in a folder; none if the folder does not exist."""
        try:
            return os.listdir(self.root / folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """Returns the contents of keys; empty for a missing key."""
        contents = []
        for key in keys:
            try:
                contents.append((self.root / key).read_bytes())
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                contents.append(b"")
        return contents

    def write(self, key: str, content: bytes) -> None:
        """Writes a key in one step: another process reads the old content or the new one."""
        draft = self._draft(key, content)
        try:
            draft.replace(self.root / key)
        finally:
            draft.unlink(missing_ok=True)

    def claim(self, key: str, content: bytes) -> bytes:
        """Writes a key unless it exists, and returns its content. Simultaneous claims get the same answer."""
        draft = self._draft(key, content)
        try:
            os.link(draft, self.root / key)  # fails if the key exists, unlike a move
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            with suppress(FileExistsError), open(self.root / key, "xb") as file:
                file.write(content)
        finally:
            draft.unlink(missing_ok=True)
        return self.read([key])[0]

    def remove(self, key: str) -> None:
        """Removes a key if it exists."""
        (self.root / key).unlink(missing_ok=True)

    def remove_folder(self, key: str) -> None:
        """Removes a folder if it exists and is empty."""
        with suppress(OSError):
            (self.root / key).rmdir()

    def _draft(self, key: str, content: bytes) -> Path:
        """Writes a file beside a key, with a name that tells that it is not complete."""
        draft = self.root / f"{key}.{uuid.uuid4().hex}{PARTIAL}"
        try:
            _write_new(draft, content)
        except BaseException as error:  # a full disk, or an interruption
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(self.path / key)
            raise
        return draft


def _write_new(file: Path, content: bytes) -> None:
    """Writes a file and makes its folder, which other processes may remove at any moment while it is empty."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        except FileNotFoundError:  # another process has removed the empty folder
            continue
        except FileExistsError:  # the folder existed, and was removed before mkdir saw what it is
            if file.parent.is_file() or file.parent.is_symlink():
                raise
            continue
        return


class Remote:
    """A prefix in an object store. Access keys and endpoints come from the settings of fsspec."""

    def __init__(self, url: str) -> None:
        self.path = self.root = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(self.path)
        except ImportError as error:
            raise ValueError(f"{url}: {error}; install fsspec and s3fs with `pip install 'warpsim[remote]'`") from None

    def exists(self, key: str = "") -> bool:
        """Whether a key exists; without a key, whether anything exists at the path."""
        self._fs.invalidate_cache()
        with self._raising_os_errors():
            return bool(self._fs.exists(self._key(key)))

    def names(self, folder: str) -> list[str]:
        """Returns the names of the keys directly in a folder; none if the folder does not exist."""
        self._fs.invalidate_cache()  # other machines write to the store
        try:
            with self._raising_os_errors():
                return [str(name).rsplit("/", 1)[-1] for name in self._fs.ls(self._key(folder), detail=False)]
        except FileNotFoundError:
            return []

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """Returns the contents of keys; empty for a missing key."""
        if not keys:
            return []
        paths = [self._key(key) for key in keys]
        with self._raising_os_errors():
            contents: dict[str, Any] = self._fs.cat(paths, on_error="return")
            for error in contents.values():
                if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
                    raise error
        return [contents[path] if isinstance(contents[path], bytes) else b"" for path in paths]

    def remove(self, key: str) -> None:
        """Removes a key if it exists."""
        with suppress(FileNotFoundError), self._raising_os_errors():
            self._fs.rm_file(self._key(key))

    def write(self, key: str, content: bytes) -> None:
        """Writes a key in one step: another process reads the old content or the new one."""
        with self._raising_os_errors():
            self._fs.pipe_file(self._key(key), content)

    def remove_folder(self, key: str) -> None:
        """Does nothing: object stores have no folders."""

    def claim(self, key: str, content: bytes) -> bytes:
        """Writes a key unless it exists, and returns its content.

        Simultaneous claims get the same answer if the object store supports conditional writes, as S3 does, or if they are made
        by threads of one process, as all are in memory.
        """
        self._fs.invalidate_cache()
        with _CLAIMS:
            try:
                with self._raising_os_errors():
                    self._fs.pipe_file(self._key(key), content, mode="create")
            except FileExistsError:
                pass
            except OSError:  # some object stores have other answers if the key exists, or is being written
                content = self.read([key])[0]
                if not content:
                    raise
                return content
            return self.read([key])[0]

    def upload(self, folder: Path, last: str) -> None:
        """Uploads a folder of files, with the file `last` after all others."""
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        with self._raising_os_errors():
            self._fs.pipe({self._key(key): file.read_bytes() for key, file in files.items() if key != last})
            self._fs.pipe_file(self._key(last), files[last].read_bytes())

    @contextmanager
    def _raising_os_errors(self) -> Iterator[None]:
        """Makes OSErrors of other exceptions that libraries of protocols raise, such as botocore without credentials."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{self.path}: {error}") from error

    def _key(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root


def place_of(path: str | os.PathLike[str]) -> Folder | Remote:
    """Returns the place of a path or a URL, such as s3://bucket/name.zarr.

    A path that begins with `~` is in the home of a user.

    Raises:
        TypeError: it is neither text nor a path.
        ValueError: the URL's protocol is unknown, its library is not installed, or it names no place; or nothing tells the home.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):  # the path of an entry of a folder can be bytes
        raise TypeError(f"path = {path!r}: must be the path of a store, or its URL")
    protocol, separator, rest = text.partition("://")
    if separator and not rest.strip("/"):
        raise ValueError(f"{text}: must name a place, such as {protocol}://bucket/name.zarr")
    folder = local_folder(text)
    return Remote(text) if folder is None else Folder(folder)


def local_folder(path: str | os.PathLike[str]) -> Path | None:
    """Returns the folder that a path or a URL of this machine's files names; None: the URL is that of an object store.

    Raises:
        ValueError: the path begins with `~`, and nothing tells the home.
    """
    text = os.fspath(path)
    protocol, separator, rest = text.partition("://")
    if separator and protocol not in ("file", "local"):
        return None
    try:
        return Path(rest if separator else text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{text}: {error}") from None

"""Where a store is: a folder of this machine, or a prefix of an object store that fsspec knows by its URL.

Zarr reads and writes arrays by itself; here is what it does not offer: to list, read and claim single keys.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Numbers of errors that have to do with the disk; others in making a file have to do with its path."""


class Place(Protocol):
    """The keys of one store."""

    @property
    def path(self) -> Path | str:
        """The folder, or the URL."""

    def exists(self, key: str = "") -> bool:
        """Whether there is such a key; without one, whether there is anything at the path."""

    def names(self, folder: str) -> list[str]:
        """Names of the keys directly in a folder; none where there is no such folder."""

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """The contents of keys; empty where a key is missing."""

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""


class Folder:
    """A folder of a file system that this machine has mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self, key: str = "") -> bool:
        """Whether there is such a key; without one, whether there is anything at the path."""
        return os.path.lexists(self.path / key)

    def names(self, folder: str) -> list[str]:
        """Names of the keys directly in a folder; none where there is no such folder."""
        try:
            return os.listdir(self.path / folder)
        except FileNotFoundError:
            return []

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """The contents of keys; empty where a key is missing."""
        contents = []
        for key in keys:
            try:
                contents.append((self.path / key).read_bytes())
            except FileNotFoundError:
                contents.append(b"")
        return contents

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""
        (self.path / key).unlink(missing_ok=True)


class Remote:
    """A prefix of an object store, by fsspec; what the protocol needs (keys, endpoint) stands in fsspec's settings."""

    def __init__(self, url: str) -> None:
        self.path = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs

            self._fs, self._root = url_to_fs(self.path)
        except ImportError as error:
            raise ValueError(f"{url}: {error}; `pip install 'warpsim[remote]'` installs fsspec and s3fs") from None

    def exists(self, key: str = "") -> bool:
        """Whether there is such a key; without one, whether there is anything at the path."""
        self._fs.invalidate_cache()
        try:
            return bool(self._fs.exists(self._key(key)))
        except OSError:
            raise
        except Exception as error:  # what a protocol's library raises, such as botocore without credentials
            raise OSError(f"{self.path}: {error}") from error

    def names(self, folder: str) -> list[str]:
        """Names of the keys directly in a folder; none where there is no such folder."""
        self._fs.invalidate_cache()  # other machines write too
        try:
            return [str(name).rsplit("/", 1)[-1] for name in self._fs.ls(self._key(folder), detail=False)]
        except FileNotFoundError:
            return []

    def read(self, keys: Sequence[str]) -> list[bytes]:
        """The contents of keys; empty where a key is missing."""
        if not keys:
            return []
        paths = [self._key(key) for key in keys]
        found: dict[str, Any] = self._fs.cat(paths, on_error="return")
        for error in found.values():
            if isinstance(error, Exception) and not isinstance(error, FileNotFoundError):
                raise error
        return [found[path] if isinstance(found[path], bytes) else b"" for path in paths]

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""
        if self.exists(key):
            self._fs.rm_file(self._key(key))

    def claim(self, key: str, content: bytes) -> bytes:
        """Write a key unless there is one; return what it holds then.

        Two that claim at once get the same answer where the store can write on condition (S3 can).
        """
        self._fs.invalidate_cache()
        try:
            self._fs.pipe_file(self._key(key), content, mode="create")
        except FileExistsError:
            pass
        return self.read([key])[0]

    def upload(self, folder: Path, last: str) -> None:
        """Copy a folder of files here, one of them last."""
        files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
        self._fs.pipe({self._key(key): file.read_bytes() for key, file in files.items() if key != last})
        self._fs.pipe_file(self._key(last), files[last].read_bytes())

    def _key(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root


def place_of(path: str | os.PathLike[str]) -> Folder | Remote:
    """The place that a path or a URL (such as s3://bucket/name.zarr) names.

    Raises:
        ValueError: what the URL's protocol needs is not installed, or there is no such protocol.
    """
    text = os.fspath(path)
    if "://" in text:
        return Remote(text)
    return Folder(Path(text))

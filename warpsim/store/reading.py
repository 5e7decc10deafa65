"""Reads the chunks of a store for users: one that is damaged or missing is named, with what restores it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zarr.core.array_spec import ArraySpec
from zarr.storage import WrapperStore

from warpsim.results.schema import variable
from warpsim.store.inventory import ROOT
from warpsim.store.place import StoreError
from warpsim.store.status import DONE

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from warpsim.store.zarr_store import Store


class CheckedChunks(WrapperStore[Any]):
    """The files of a store, of which Zarr reads no chunk with a wrong checksum or size, and misses none of what is done."""

    def __init__(self, store: Any, tiles: Store) -> None:
        super().__init__(store)
        self._tiles = tiles
        self._written: dict[int, tuple[bool, Mapping[str, int] | None]] = {}  # of tiles of which a chunk is not there

    def _with_store(self, store: Any) -> CheckedChunks:
        return type(self)(store, self._tiles)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Reads a file.

        Raises:
            StoreError: it is a chunk of a variable, and is damaged, or missing although its tile, or its part of it, is done, or
                the store has been moved or removed.
        """
        content = await super().get(key, prototype, byte_range)
        name, *numbers = key.split("/")
        if byte_range is not None or name not in self._tiles.arrays or numbers[:1] != ["c"]:
            return content
        position = tuple(map(int, numbers[1:]))
        if content is None and await asyncio.to_thread(self._is_needed, name, position):
            content = await super().get(key, prototype, byte_range)  # the tile may have been finished in the meantime
            if content is None:
                raise self._error(key, "is missing")
        if content is None:
            return None
        array: Any = self._tiles.arrays[name]
        spec = ArraySpec(array.chunks, array.metadata.dtype, array.metadata.fill_value, array.config, prototype)
        decoded: Any = content
        try:
            for codec in reversed(array.metadata.codecs):
                (decoded,) = await codec.decode([(decoded, spec)])
        except Exception:  # codecs raise exceptions of any type
            raise self._error(key, "is damaged") from None
        return content

    def _is_needed(self, name: str, position: tuple[int, ...]) -> bool:
        """Whether a chunk belongs to a tile that is done, or to the finished part of one that an extension keeps."""
        axes = len(self._tiles.grid.axes)
        tile = self._tiles.grid.index(position[:axes])
        if tile not in self._written:  # one assignment, because chunks are read in several threads
            done = self._tiles.log.has(DONE, tile)
            if not done and not self._tiles.place.exists(ROOT):
                raise StoreError(f"{self._tiles.path}: the store is no longer there; open it where it is now")
            self._written[tile] = done, self._tiles.log.kept_sizes([tile]).get(tile)
        done, lengths = self._written[tile]
        if done:
            return True
        if lengths is None:
            return False
        steps = self._tiles.arrays[name].chunks[axes:]
        own = zip(variable(name).dims, position[axes:], steps, strict=True)
        return all(number * step < lengths[dim] for dim, number, step in own)

    def _error(self, key: str, what: str) -> StoreError:
        return StoreError(damage_text(self._tiles.path, key, what))


def damage_text(path: Any, key: str, what: str) -> str:
    """Returns a message about a damaged file of a store, with what restores it."""
    return f"{path}: the file {key} {what}; `warpsim verify {path} --repair` restores it"

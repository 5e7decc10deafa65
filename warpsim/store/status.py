"""Records of the tiles of a store.

A tile that is done has a record in the array `tiles/done`, a tile that failed one in `tiles/failed`: a short JSON text with the
time, the host, the seconds, the reason of the failure, and checksums of its values and of the text itself. Both arrays have
one cell for each tile, at the tile's position in the grid of tiles, and each cell is a chunk, so writers share none. The
record of a tile is written after its data, in one operation. A listing of the chunks tells which tiles are done without reading
any record.
"""

from __future__ import annotations

import json
import socket
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.store.grid import TileGrid
from warpsim.store.place import Place

DONE, FAILED, KEPT = "done", "failed", "kept"
TILES = "tiles"
"""Group of these arrays. `kept` describes tiles that were done before the plan grew (`warpsim.store.extend`)."""

INVENTORY = f"{TILES}/inventory"
"""Key of the inventory (`warpsim.store.inventory`), and attribute of the group `tiles` in stores that have one."""

_SAMPLE = 200
"""Records that are read for the mean time of a tile, at most."""

_HEADER = 8
"""Bytes before the text in a chunk with one text (codec vlen-utf8): the number of texts, and the length."""

VALUES = "values"
"""Entry of a record with the checksum of all values of its tile. Chunks have their own, which do not tell their places."""

POINTS = "points"
"""Entry of a record with a checksum of what its points are (`Store.points_checksum`), which other tiles and plans do not have."""

ORIGIN = "origin"
"""Attribute of the group `tiles`: a digest of the plan with which the store was created. An extension does not change it."""

SIZES = "sizes"
"""Entry of a record of `kept`: the lengths of the part of the tile that was done before the store was extended, by dimension."""

_CHECKSUM = "crc32"
_ENTRIES = {"finished", "seconds", "host", "message", "sizes"}
"""Entries of a record without a checksum, as warpsim 0.1 wrote it; later records have one."""


class Status(IntEnum):
    """State of a tile."""

    PENDING = 0
    DONE = 1
    FAILED = 2


@dataclass(frozen=True)
class TileLog:
    """The records of the tiles of one store.

    Attributes:
        place: the place of the store.
        grid: axes and tiles.
        arrays: `done`, `failed` and, in a store that has grown, `kept`.
    """

    place: Place
    grid: TileGrid
    arrays: Mapping[str, zarr.Array[Any]]

    def write(
        self, kind: str, index: int, seconds: float, message: str = "", checksums: Mapping[str, int] | None = None
    ) -> None:
        """Writes the record of a tile, with checksums of its values and points if it is done."""
        record: dict[str, Any] = {"finished": datetime.now(UTC).isoformat(timespec="milliseconds")}
        record |= {"seconds": round(seconds, 3) if np.isfinite(seconds) else None, "host": socket.gethostname()}
        if message:
            record["message"] = message
        self.write_record(kind, index, record | dict(checksums or {}))

    def write_record(self, kind: str, index: int, record: Mapping[str, Any]) -> None:
        """Writes a record with any entries."""
        self.arrays[kind][self.grid.position(index)] = _with_checksum(record)

    def tiles(self, kind: str) -> list[int]:
        """Returns the tiles that have a record, in ascending order."""
        positions = []
        for name in self.place.names(f"{TILES}/{kind}"):
            first, *numbers = name.split(".")
            if first == "c" and len(numbers) == len(self.grid.counts) and all(map(str.isdecimal, numbers)):
                position = [int(number) for number in numbers]
                if all(i < count for i, count in zip(position, self.grid.counts, strict=True)):
                    positions.append(position)
        if not self.grid.counts:
            return [0] * len(positions)
        columns = np.array(positions, dtype=int).reshape(-1, len(self.grid.counts)).T
        return sorted(np.ravel_multi_index(tuple(columns), self.grid.counts).tolist())

    def records(self, kind: str, tiles: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Returns tile -> record, without records that cannot be read, or are of another kind."""
        records = {}
        contents = self.place.read([self.key(kind, index) for index in tiles])
        for index, content in zip(tiles, contents, strict=True):
            record = _checked_record(content)
            if record is not None and _is_of_kind(record, kind):
                records[index] = record
        return records

    def has(self, kind: str, index: int) -> bool:
        """Whether a tile has a record, which perhaps cannot be read."""
        return self.place.exists(self.key(kind, index))

    def kept_sizes(self, tiles: Sequence[int]) -> dict[int, dict[str, int]]:
        """Returns tile -> lengths of its part that was done before the store was extended, by dimension."""
        return {index: record[SIZES] for index, record in self.records(KEPT, tiles).items()}

    def remove(self, kind: str, index: int) -> None:
        """Removes the record of a tile."""
        self.place.remove(self.key(kind, index))

    def key(self, kind: str, index: int) -> str:
        """Returns the key of a tile's record."""
        return f"{TILES}/{kind}/" + ".".join(["c", *map(str, self.grid.position(index))])


def has_values(record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Returns whether these are the values of a record; those of a record without their checksum can be any."""
    return VALUES not in record or record[VALUES] == checksum_of(arrays)


def has_points(record: Mapping[str, Any], checksum: int) -> bool:
    """Returns whether a record is that of points with this checksum; a record without one can be of any."""
    return POINTS not in record or record[POINTS] == checksum


def checksum_of(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Returns a checksum of the values of a tile, by variable in the order of the schema."""
    found = 0
    for name in (declared.name for declared in SWEEP_VARIABLES if declared.name in arrays):
        found = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), zlib.crc32(name.encode(), found))
    return found


def _with_checksum(record: Mapping[str, Any]) -> str:
    """Returns the text of a record, with a checksum of the rest."""
    return json.dumps({**record, _CHECKSUM: zlib.crc32(json.dumps(record).encode())})


def _checked_record(content: bytes) -> dict[str, Any] | None:
    """Returns the record in a chunk without its checksum; None if it is damaged. Records of warpsim 0.1 have no checksum."""
    if content[:_HEADER] != struct.pack("<II", 1, max(0, len(content) - _HEADER)):
        return None
    try:
        text = content[_HEADER:].decode()
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    checked = {key: value for key, value in record.items() if key != _CHECKSUM}
    if _CHECKSUM in record:
        return checked if text == _with_checksum(checked) else None
    return record if record.keys() <= _ENTRIES and text == json.dumps(record) else None


def _is_of_kind(record: Mapping[str, Any], kind: str) -> bool:
    """Returns whether a record belongs to an array of records, and is not one of another array in its place."""
    return (SIZES in record) == (kind == KEPT) and not ("message" in record and kind == DONE)


@dataclass(frozen=True)
class TileCounts:
    """The tiles of a store, counted by state.

    Attributes:
        done: number of tiles that are done.
        failures: tile -> the reason for its failure.
        pending: number of tiles that have not run or were interrupted.
        seconds: mean time of the tiles that are done, or of a sample of them; NaN before the first one.
        hosts: names of the machines that ran the tiles of the sample.
    """

    done: int
    failures: Mapping[int, str]
    pending: int
    seconds: float
    hosts: tuple[str, ...]

    @property
    def seconds_left(self) -> float:
        """Estimated time of one worker for the tiles that are not done; NaN before the first one is done."""
        return self.seconds * (self.pending + len(self.failures))


def tile_status(log: TileLog) -> np.ndarray[Any, Any]:
    """Returns the state of every tile as numbers of `Status`, uint8[tiles]. It lists keys, and reads no record."""
    status = np.full(len(log.grid), Status.PENDING, "u1")
    status[log.tiles(FAILED)] = Status.FAILED
    status[log.tiles(DONE)] = Status.DONE  # a tile that failed may have been done later
    return status


def tile_counts(log: TileLog) -> TileCounts:
    """Counts the tiles of a store by state."""
    status = tile_status(log)
    done, failed = (np.flatnonzero(status == state) for state in (Status.DONE, Status.FAILED))
    sample = done[:: max(1, -(-len(done) // _SAMPLE))].tolist()
    records = log.records(DONE, sample).values()
    seconds = [record["seconds"] for record in records if record.get("seconds") is not None]
    failures = {index: str(record["message"]) for index, record in log.records(FAILED, failed.tolist()).items()}
    return TileCounts(
        done=len(done),
        failures={index: failures.get(index, "the record of its failure cannot be read") for index in failed.tolist()},
        pending=int((status == Status.PENDING).sum()),
        seconds=float(np.mean(seconds)) if seconds else np.nan,
        hosts=tuple(sorted({str(record["host"]) for record in records})),
    )


def tile_records(log: TileLog) -> dict[str, dict[int, dict[str, Any]]]:
    """Returns the records of kind `done` and `failed`: tile -> `finished` (UTC), `seconds`, `host`, `message` of a failure."""
    return {kind: log.records(kind, log.tiles(kind)) for kind in (DONE, FAILED)}


_LONG_NAMES = {
    DONE: "tiles that are done: when, where, in how many seconds",
    FAILED: "tiles that are failed: when, where, in how many seconds",
    KEPT: "tiles that were done before the sweep grew: how much of them is there",
}


def create_log(group: zarr.Group, grid: TileGrid, *kinds: str) -> None:
    """Creates empty arrays of records, by default all."""
    tiles = group.require_group(TILES)
    for kind in kinds or (DONE, FAILED, KEPT):
        tiles.create_array(
            kind,
            shape=grid.counts,
            chunks=tuple(1 for _ in grid.counts),
            dtype="str",
            fill_value="",
            compressors=None,
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=grid.axes,
            attributes={"long_name": _LONG_NAMES[kind]},
        )


def mark_inventory(group: zarr.Group) -> None:
    """Notes in a store that it has an inventory, so that its loss is noticed."""
    group.require_group(TILES).attrs[INVENTORY] = "a copy, with checksums, of the files that do not belong to single tiles"


def forget(log: TileLog, tiles: Iterable[int]) -> None:
    """Makes tiles pending again, so that nothing of them is reused."""
    for index in tiles:
        log.remove(DONE, index)
        log.remove(KEPT, index)

"""What is known of the tiles of a store.

A tile that is done has a cell in the array `tiles/done`, one that has failed in `tiles/failed`: a short JSON text with the
time, the host, the seconds, and why it failed. Both arrays have one cell for each tile, at its place among the tiles along
each axis, and each cell is a chunk of its own: no two writers ever share one. The cell of a tile is written after everything
else of it, and whole or not at all. A list of the chunks says which tiles are done, without reading any.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import numpy as np
import zarr

from warpsim.store.grid import TileGrid
from warpsim.store.place import Place

DONE, FAILED, KEPT = "done", "failed", "kept"
TILES = "tiles"
"""Group of the two arrays."""

_SAMPLE = 200
"""Records read at most for the mean time of a tile."""

_HEADER = 8
"""Bytes before the text in a chunk of one text (codec vlen-utf8): number of texts, length."""


class Status(IntEnum):
    """State of a tile."""

    PENDING = 0
    DONE = 1
    FAILED = 2


@dataclass(frozen=True)
class TileLog:
    """The records of the tiles of one store.

    Attributes:
        place: where the store is.
        grid: axes and tiles.
        arrays: `done` and `failed`.
    """

    place: Place
    grid: TileGrid
    arrays: Mapping[str, zarr.Array[Any]]

    def write(self, kind: str, index: int, seconds: float, message: str = "") -> None:
        """Write the record of a tile."""
        record: dict[str, Any] = {"finished": datetime.now(UTC).isoformat(timespec="milliseconds")}
        record |= {"seconds": round(seconds, 3) if np.isfinite(seconds) else None, "host": socket.gethostname()}
        if message:
            record["message"] = message
        self.arrays[kind][self.position(index)] = json.dumps(record)

    def tiles(self, kind: str) -> list[int]:
        """The tiles that have a record, in order."""
        places = []
        for name in self.place.names(f"{TILES}/{kind}"):
            first, *numbers = name.split(".")
            if first == "c" and len(numbers) == len(self.grid.counts) and all(map(str.isdecimal, numbers)):
                places.append([int(number) for number in numbers])
        if not self.grid.counts:
            return [0] * len(places)
        columns = np.array(places, dtype=int).reshape(-1, len(self.grid.counts)).T
        return sorted(np.ravel_multi_index(tuple(columns), self.grid.counts).tolist())

    def records(self, kind: str, tiles: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Tile -> its record; without those that cannot be read."""
        found = {}
        contents = self.place.read([self.key(kind, index) for index in tiles])
        for index, content in zip(tiles, contents, strict=True):
            try:
                record = json.loads(content[_HEADER:])
            except ValueError:
                continue
            if isinstance(record, dict):
                found[index] = record
        return found

    def remove(self, kind: str, index: int) -> None:
        """Remove the record of a tile."""
        self.place.remove(self.key(kind, index))

    def key(self, kind: str, index: int) -> str:
        """The key of a tile's record."""
        return f"{TILES}/{kind}/" + ".".join(["c", *map(str, self.position(index))])

    def position(self, index: int) -> tuple[int, ...]:
        """The place of a tile among the tiles along each axis."""
        return tuple(int(i) for i in np.unravel_index(index, self.grid.counts)) if self.grid.counts else ()


@dataclass(frozen=True)
class TileCounts:
    """How far a store is.

    Attributes:
        done: tiles that are done.
        failures: tile -> why it failed.
        pending: tiles that have not run, or were interrupted.
        seconds: mean time of a tile that is done, of a sample where there are many; NaN before the first.
        hosts: names of the machines that did the tiles of the sample.
    """

    done: int
    failures: Mapping[int, str]
    pending: int
    seconds: float
    hosts: tuple[str, ...]

    @property
    def seconds_left(self) -> float:
        """Time that one worker needs for the tiles that are not done; NaN before the first is."""
        return self.seconds * (self.pending + len(self.failures))


def tile_status(log: TileLog) -> np.ndarray[Any, Any]:
    """State of every tile, as numbers of `Status`; only names of keys are read."""
    status = np.full(len(log.grid), Status.PENDING, "u1")
    status[log.tiles(FAILED)] = Status.FAILED
    status[log.tiles(DONE)] = Status.DONE  # a tile that failed once and was done later is done
    return status


def tile_counts(log: TileLog) -> TileCounts:
    """Count the tiles of a store by state."""
    status = tile_status(log)
    done, failed = (np.flatnonzero(status == state) for state in (Status.DONE, Status.FAILED))
    sample = done[:: max(1, -(-len(done) // _SAMPLE))].tolist()
    records = log.records(DONE, sample).values()
    seconds = [record["seconds"] for record in records if record.get("seconds") is not None]
    failures = {index: str(record["message"]) for index, record in log.records(FAILED, failed.tolist()).items()}
    return TileCounts(
        done=len(done),
        failures={index: failures.get(index, "its record cannot be read") for index in failed.tolist()},
        pending=int((status == Status.PENDING).sum()),
        seconds=float(np.mean(seconds)) if seconds else np.nan,
        hosts=tuple(sorted({str(record["host"]) for record in records})),
    )


def tile_records(log: TileLog) -> dict[str, dict[int, dict[str, Any]]]:
    """All records: `done` and `failed`, each tile -> `finished` (UTC), `seconds`, `host`, and `message` of a failure."""
    return {kind: log.records(kind, log.tiles(kind)) for kind in (DONE, FAILED)}


_LONG_NAMES = {
    DONE: "tiles that are done: when, where, in how many seconds",
    FAILED: "tiles that are failed: when, where, in how many seconds",
    KEPT: "tiles that were done before the sweep grew: how much of them is there",
}


def create_log(group: zarr.Group, grid: TileGrid, *kinds: str) -> None:
    """Make arrays of records, empty; in a new store those of tiles that are done and failed."""
    tiles = group.require_group(TILES)
    for kind in kinds or (DONE, FAILED):
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


def forget(log: TileLog, tiles: Iterable[int]) -> None:
    """Make tiles pending again; nothing of them counts."""
    for index in tiles:
        log.remove(DONE, index)
        log.remove(KEPT, index)

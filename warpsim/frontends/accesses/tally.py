"""What the accesses of one memory instruction look like: addresses of the threads, sectors, lines, repeated patterns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.accesses.contention import Contention
from warpsim.units import LINE_BYTES, SECTOR_BYTES, WARP_LANES

_MOST_TALLIED = 24
"""Executions of an instruction, over all warps that run together, whose patterns are tallied; sectors are counted for all."""

Addresses = NDArray[np.int64]


def for_each(values: NDArray[Any], active: NDArray[np.bool_]) -> NDArray[Any]:
    """Returns values, perhaps one for all threads, as one for each thread."""
    return values if values.shape == active.shape else np.broadcast_to(values, active.shape)


class Active:
    """Threads that make accesses, and what follows from them alone.

    Args:
        mask: bool[threads].
        weights: float64[warps].

    Attributes:
        warps: which ones have a thread, bool[warps].
        lanes: of these warps the threads, bool[those warps, lanes]; `first` is the first one of each, and `is_full` says whether
            all lanes are.
        weights: of these warps; `weight` is their sum, and `threads` that of their threads.
    """

    def __init__(self, mask: NDArray[np.bool_], weights: NDArray[np.float64]) -> None:
        lanes = mask.reshape(-1, WARP_LANES)
        self.mask, self.warps = mask, np.asarray(lanes.any(axis=1))
        self._are_all = bool(self.warps.all())
        self.lanes, self.weights = (lanes, weights) if self._are_all else (lanes[self.warps], weights[self.warps])
        self.first, self.is_full = self.lanes.argmax(axis=1), bool(self.lanes.all())
        self.weight, self.threads = float(self.weights.sum()), float((self.weights * self.lanes.sum(axis=1)).sum())

    def rows(self, values: Addresses) -> Addresses:
        """Returns the values of the threads of those warps, of values that may be one for all."""
        rows = for_each(values, self.mask).reshape(-1, WARP_LANES)
        return rows if self._are_all else rows[self.warps]


@dataclass
class Tally:
    """Counts of the executions of one memory instruction, in warps, each with the weight of its block.

    Attributes:
        warps: executions with at least one thread.
        doubtful: of the executions, those of which it is not known whether any thread makes the access.
        unknown: executions whose addresses are not known.
        threads: of the executions.
        sectors, lines: sums over the executions with known addresses.
        updates: the same of the threads that have the most frequent address; of atomics only.
        contention: what all of these update; of atomics only.
        patterns: the threads' addresses from the start of the lowest line on, as bytes -> executions; negative of threads that
            are off.
    """

    warps: float = 0.0
    threads: float = 0.0
    unknown: float = 0.0
    sectors: float = 0.0
    lines: float = 0.0
    patterns: dict[bytes, float] = field(default_factory=dict)
    tallied: int = 0
    updates: float = 0.0
    contention: Contention = field(default_factory=Contention)
    doubtful: float = 0.0

    def add(self, other: Tally, times: float) -> None:
        """Adds the counts of another, several times."""
        self.warps += other.warps * times
        self.threads += other.threads * times
        self.unknown += other.unknown * times
        self.sectors += other.sectors * times
        self.lines += other.lines * times
        self.updates += other.updates * times
        self.contention.add(other.contention, times)
        self.doubtful += other.doubtful * times
        self.tallied += other.tallied
        for pattern, count in other.patterns.items():
            self.patterns[pattern] = self.patterns.get(pattern, 0.0) + count * times

    def record(self, addresses: Addresses, active: Active, *, atomic: bool = False) -> None:
        """Counts one execution by several warps.

        Args:
            addresses: int64[threads], or one for all; negative where they are not known.
            active: the threads.
            atomic: whether the threads update what is at their addresses.
        """
        if atomic:
            self.contention.record(np.where(addresses < 0, addresses, addresses // LINE_BYTES), active.mask)
        if not len(active.lanes):
            return
        rows, lanes, first, weights = active.rows(addresses), active.lanes, active.first, active.weights
        self.warps += active.weight
        self.threads += active.threads
        if np.count_nonzero(addresses < 0) and (bad := (lanes & (rows < 0)).any(axis=1)).any():
            self.unknown += float(weights[bad].sum())
            rows, lanes, first, weights = rows[~bad], lanes[~bad], first[~bad], weights[~bad]
            if not len(rows):
                return
        full = rows if active.is_full else np.where(lanes, rows, rows[np.arange(len(rows)), first][:, None])
        relative = full - (full.min(axis=1) // LINE_BYTES * LINE_BYTES)[:, None]
        if atomic:
            self.updates += float((weights * most_alike(rows, lanes)).sum())
        if active.is_full and np.array_equal(relative[1:], relative[:-1]):  # as in most accesses
            relative, lanes, weights = relative[:1], lanes[:1], weights.sum(keepdims=True)
        sectors, lines = _sectors_and_lines(relative.tobytes())
        self.sectors += float((weights * sectors).sum())
        self.lines += float((weights * lines).sum())
        if self.tallied < _MOST_TALLIED:
            self.tallied += 1
            for row, weight in zip(np.where(lanes, relative, -1), weights, strict=True):
                key = row.tobytes()
                self.patterns[key] = self.patterns.get(key, 0.0) + float(weight)

    def pattern(self) -> Addresses | None:
        """Returns the most frequent pattern: int64[32], addresses from the start of the lowest line on; None: none is known.

        Threads that are off have the address of the first one that is not.
        """
        found: dict[bytes, float] = {}
        for key, count in self.patterns.items():
            filled = _filled(np.frombuffer(key, np.int64)).tobytes()
            found[filled] = found.get(filled, 0.0) + count
        return np.frombuffer(max(found, key=lambda key: (found[key], key)), np.int64) if found else None


def _filled(rows: Addresses) -> Addresses:
    """Returns the addresses of warps in which threads that are off, with negative ones, repeat that of the first other thread."""
    first = np.take_along_axis(rows, (rows >= 0).argmax(axis=-1, keepdims=True), axis=-1)
    return np.where(rows < 0, first, rows)


@lru_cache(maxsize=64)
def _sectors_and_lines(rows: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns how many sectors and lines each warp touches; most accesses of a kernel look alike."""
    addresses = np.frombuffer(rows, np.int64).reshape(-1, WARP_LANES)
    return _distinct(addresses // SECTOR_BYTES), _distinct(addresses // LINE_BYTES)


def _distinct(rows: Addresses) -> NDArray[np.int64]:
    ordered = np.sort(rows, axis=1)
    return np.asarray(1 + (np.diff(ordered, axis=1) != 0).sum(axis=1))


def most_alike(rows: Addresses, lanes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns for each warp, a row, how often the most frequent number of some of its lanes occurs; of none, 1."""
    alike = np.diff(np.sort(np.where(lanes, rows, -1 - np.arange(WARP_LANES)), axis=1), axis=1) == 0
    run = most = np.zeros(len(rows), np.int64)
    for column in alike.T:
        run = (run + 1) * column
        most = np.maximum(most, run)
    return 1 + most

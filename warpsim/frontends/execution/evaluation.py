"""What an execution of a kernel's integer part is given, and what it counts (`evaluate.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.accesses.tally import Tally
from warpsim.frontends.execution.steps import Steps
from warpsim.frontends.execution.trips import Totals
from warpsim.frontends.launch.geometry import Geometry
from warpsim.frontends.launch.keys import Key, are_named_by_address, probabilities_by_place, trips_by_loop
from warpsim.frontends.launch.tiles import Tile
from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.machine_code.memory_instructions import space_of
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.waits.async_copies import CopyLog

Counts = NDArray[np.float64]

_ROUNDING = 1e-9
"""Relative error of counts of warps with weights."""


@dataclass(frozen=True)
class Given:
    """What is executed, and what the caller states because the machine code cannot.

    Attributes:
        flow: the kernel.
        geometry: the launch.
        arguments: offset of a byte of the parameters in constant bank 0 -> its value; others are unknown.
        trips: loop -> number of trips, where it depends on data.
        probabilities: branch, or access under a predicate -> probability that a warp does not jump, or makes the access, where
            that depends on data.
        tiles: what copies by tensor maps move, by line or address.
        overruled: blocks that end in a branch which goes as `probabilities` say although its condition is known.
    """

    flow: Flow
    geometry: Geometry
    arguments: Mapping[int, int] = field(default_factory=dict)
    trips: Mapping[Key, int] = field(default_factory=dict)
    probabilities: Mapping[Key, float] = field(default_factory=dict)
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    overruled: frozenset[int] = frozenset()

    @cached_property
    def steps(self) -> Steps:
        """What each instruction does."""
        return Steps(self.flow, self.tiles, trips_by_loop(self.flow, self.trips))

    @cached_property
    def probabilities_by_place(self) -> tuple[dict[int, float], dict[int, float]]:
        """`probabilities` by the block that ends with the branch, and by the instruction that makes the access."""
        return probabilities_by_place(self.flow, self.probabilities)

    @cached_property
    def stated_by_line(self) -> frozenset[int]:
        """The blocks that end in a branch of which the probability is stated by its line."""
        named = are_named_by_address(self.flow, self.probabilities)
        return frozenset(block for block in self.probabilities_by_place[0] if self.flow.blocks[block].code[-1] not in named)


@dataclass
class Record:
    """What was counted; the fields are those of `Evaluation`."""

    counts: dict[int, Counts] = field(default_factory=dict)
    entries: dict[int, Counts] = field(default_factory=dict)
    made: dict[tuple[int, int], Counts] = field(default_factory=dict)
    accesses: dict[tuple[int, int], Tally] = field(default_factory=dict)
    windows: dict[tuple[int, int, str], Tally] = field(default_factory=dict)
    """Of generic addresses: (block, instruction, space) -> the executions all of whose threads access shared or local memory."""
    distances: dict[tuple[int, int], Tally] = field(default_factory=dict)
    """Of the executions of `accesses` with unknown addresses those of which the distances within a warp are known."""

    def is_widened_by(self, other: Record) -> bool:
        """Returns whether atomics of another execution update sectors that are new, so that it cannot stand for several."""
        both = self.accesses.keys() & other.accesses.keys()
        return any(self.accesses[each].contention.is_widened_by(other.accesses[each].contention) for each in both)

    def totals(self) -> Totals:
        """Returns all counts: by the name of the field and its key."""
        counts: dict[str, dict[Any, Counts]] = {"counts": self.counts, "entries": self.entries, "made": self.made}
        found: Totals = {(name, key): value for name, by_key in counts.items() for key, value in by_key.items()}
        tallies: dict[str, dict[Any, Tally]] = {"accesses": self.accesses, "windows": self.windows}
        return found | {(name, key): np.asarray(tally.warps) for name, by_key in tallies.items() for key, tally in by_key.items()}

    def add(self, other: Record, times: int, first: Totals | None = None) -> None:
        """Adds the counts of another, several times; or those of as many trips, which grow evenly from `first` to the other's."""
        for name, mine in (("counts", self.counts), ("entries", self.entries), ("made", self.made)):
            for key, value in getattr(other, name).items():
                begin = value if first is None else first.get((name, key), 0.0)
                add_counts(mine, key, (begin + value) * (times / 2))
        for name, of_all in (("accesses", "accesses"), ("windows", "windows"), ("distances", "accesses")):
            tallies: dict[Any, Tally] = getattr(self, name)
            for key, tally in getattr(other, name).items():
                warps = getattr(other, of_all)[key].warps
                begin = warps if first is None else float(first.get((of_all, key), 0.0))
                share = (begin + warps) / (2 * warps) if warps else 1.0
                tallies.setdefault(key, Tally()).add(tally, times * share)

    def resolved(self) -> dict[tuple[int, int], str]:
        """Takes accesses with generic addresses that all lie in one window for those of its memory. Returns which memory that is.

        Where only some executions access shared or local memory, all stay accesses of global memory, with unknown addresses.
        """
        found = {}
        for (number, index, space), tally in self.windows.items():
            of_all = self.accesses[number, index]
            if tally.warps >= of_all.warps * (1 - _ROUNDING):
                self.accesses[number, index] = replace(tally, doubtful=of_all.doubtful)
                found[number, index] = space
        return found


def add_counts(counts: dict[Any, Counts], key: Any, more: NDArray[Any]) -> None:
    """Adds to the counts of a key, which are 0 before the first time."""
    counts[key] = counts.get(key, 0.0) + more


@dataclass(frozen=True)
class Evaluation:
    """The outcome.

    Attributes:
        counts: block -> executions by each sampled warp, float64[warps].
        entries: loop -> how often each warp entered it.
        made: (block, instruction) -> how often each warp made its access, or may have done so, float64[warps].
        accesses: (block, instruction) -> what its accesses look like.
        spaces: (block, instruction) -> "shared" or "local", where all of its generic addresses are of this memory.
        distances: of the executions in `accesses` with unknown addresses those of which the distances within a warp are known.
        weights: blocks of the grid that each warp stands for, float64[warps].
        warp_in_block: number of each warp in its block, int64[warps].
        stated: block -> probability that a warp does not jump at its end, where nothing else decides.
        notes: what had to be assumed, in words.
        copies: which asynchronous copies are under way at each wait.
    """

    counts: Mapping[int, Counts]
    entries: Mapping[int, Counts]
    made: Mapping[tuple[int, int], Counts]
    accesses: Mapping[tuple[int, int], Tally]
    spaces: Mapping[tuple[int, int], str]
    distances: Mapping[tuple[int, int], Tally]
    weights: Counts
    warp_in_block: NDArray[np.int64]
    stated: Mapping[int, float]
    notes: tuple[str, ...]
    copies: CopyLog

    def is_for_all(self, block: int) -> bool:
        """Returns whether all warps of each block of threads execute a block of the flow equally often."""
        rows = self.counts[block].reshape(-1, self.block_warps)
        return bool((rows == rows[:, :1]).all())

    def space_of(self, place: tuple[int, int], one: MachineInstruction) -> str | None:
        """Returns which memory an instruction accesses, by its opcode, or by its addresses where these are generic."""
        return self.spaces.get(place) or space_of(one)

    def begins_elsewhere(self, place: tuple[int, int]) -> Tally | None:
        """Returns what most executions of an access look like within a warp, where it is not known where they begin; or None."""
        found = self.distances.get(place)
        return None if found is None or 2 * found.warps <= self.accesses[place].warps else found

    @property
    def block_warps(self) -> int:
        """Warps of a block."""
        return int(self.warp_in_block.max()) + 1

    @property
    def whole_grid(self) -> bool:
        """Whether all blocks of the grid were executed."""
        return bool((self.weights == 1).all())

    @property
    def blocks_differ(self) -> bool:
        """Whether blocks that stand for several do not all execute the same, and make the same accesses, or there is only one."""
        size = self.block_warps
        stands_for_several = self.weights.reshape(-1, size)[:, 0] > 1
        if stands_for_several.sum() == 1:
            return True  # it is not known what the others execute
        rows = (each.reshape(-1, size)[stands_for_several] for each in (*self.counts.values(), *self.made.values()))
        return any(bool((of_blocks != of_blocks[:1]).any()) for of_blocks in rows)

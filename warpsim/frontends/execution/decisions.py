"""Which way warps go at branches whose conditions are not known: as the caller states, or as is assumed with a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from warpsim.frontends.accesses.tally import most_alike
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution.evaluation import Given
from warpsim.frontends.execution.trips import Mask
from warpsim.frontends.launch.keys import (
    Key,
    branch_keys,
    branches_of,
    entries_by_block,
    how_to_give_trips,
    loop_keys,
    retries,
    trips_by_loop,
    waits_for_others,
)
from warpsim.frontends.launch.parameters import notes_of_structures
from warpsim.frontends.launch.variables import notes_of_variables
from warpsim.frontends.machine_code.flow import place
from warpsim.frontends.machine_code.rare_operands import common_jumps
from warpsim.frontends.values import Values
from warpsim.units import WARP_LANES

_SEVERAL = 4
"""Branches to one place, at least, that are taken for those of an unrolled loop which leave it early."""

_IN_LOCAL_MEMORY = (
    "numbers in local memory count as data, as those of an array with an index that is not constant; a parameter of that kind "
    "is not copied there if it is `const __grid_constant__`"
)

_IS_SWAP = (
    "it is an update by compare-and-swap, as of a sum of floating-point numbers in shared memory, and takes as many trips as "
    "threads of a warp update one address, 1 if no two do"
)

_IS_WAIT = "it loads a word until another warp has stored it, as grid.sync() does: one trip where no warp has to wait"

_STAYS = "no warp leaves the loop early here; state it with probabilities"


class Decisions:
    """Decides at the branches of a kernel.

    Args:
        given: the kernel, and what the caller states.
        notes: takes what had to be assumed, in words.

    Attributes:
        trips: loop -> the trips that the caller states.
        innermost: of each block, the innermost loop around it.
        tries: loop that repeats an update by compare-and-swap -> trips of each warp, where these are known and not stated.
        common_jumps: index of a branch that tells rare operands apart -> whether warps without any jump.
        drawn: block -> how many decisions at its end have been drawn.
        stated: block -> probability that a warp does not jump at its end, of those that have been drawn.
        assumed: of these blocks those whose probability is assumed.
    """

    def __init__(self, given: Given, notes: dict[str, None]) -> None:
        flow = given.flow
        self.flow, self.function, self.notes = flow, flow.function, notes
        self.trips = trips_by_loop(flow, given.trips)
        self.enters = entries_by_block(flow, self.trips)
        self.probabilities, _ = given.probabilities_by_place
        self.branches_at = Counter(branch_keys(flow, block)[0] for block in branches_of(flow))
        self.innermost = flow.innermost()
        self.common_jumps = common_jumps(flow.function.code)
        self.ways_to = Counter(target for block in flow.blocks if block.following is not None for target in block.targets)
        self.tries: dict[int, Values] = {}
        self.drawn: dict[int, int] = {}
        self.named: dict[Key, Key] = {}  # line -> of its branches whose conditions are not known, the one that a note names
        self.stated: dict[int, float] = {}
        self.assumed = set[int]()

    def are_stated_as_trips(self, number: int, *, leaving: bool = False) -> bool:
        """Returns whether the caller states how often a block closes its loop, so that its condition does not count.

        With `leaving`, blocks that leave such a loop elsewhere count as well.
        """
        loop = self.innermost[number]
        if loop is None or loop not in self.trips:
            return False
        return number in self.flow.closing[loop] or (leaving and number in self.flow.leaving[loop])

    def swap(self, number: int, addresses: Values, active: Mask) -> None:
        """Notes in how many trips each warp makes an update by compare-and-swap: one for each thread that updates one address."""
        loop = self.innermost[number]
        if loop is None or loop in self.trips or not retries(self.flow, loop):
            return
        if (active & (addresses < 0)).any():
            self.tries.pop(loop, None)
            return
        self.tries[loop] = most_alike(addresses.reshape(-1, WARP_LANES), active.reshape(-1, WARP_LANES))

    def jumping(self, number: int, warps: Mask, iterations: Mapping[int, Values]) -> Mask:
        """Returns which of the warps jump, at a branch whose condition is not known, or does not count: bool[warps].

        Args:
            number: the block that ends with the branch.
            warps: that come to it.
            iterations: loop -> trips of each warp so far.

        Raises:
            FrontEndError: how often a loop runs depends on what is not known; the message names it.
        """
        block = self.flow.blocks[number]
        target = block.targets[0] if block.targets else None
        following = block.following
        if self._is_cold(target) != self._is_cold(following):
            return warps if self._is_cold(following) else np.zeros_like(warps)
        probability = self.probabilities.get(number)
        loop = self.innermost[number]
        inside = self.flow.loops[loop].blocks if loop is not None else frozenset()
        leaves, stays = target not in inside, following not in inside
        if loop is not None and leaves != stays and probability is None:
            closing, leaving = self.flow.closing[loop], self.flow.leaving[loop]
            trips = self.trips.get(loop, self.tries.get(loop))
            if trips is not None or number in (self.flow.loops[loop].header, *closing) or leaving == [number]:
                if trips is None:
                    raise self.trips_are_needed(loop, "its number of trips depends on data, or on an argument that is not given")
                closes = number in closing
                if number not in (closing or leaving[:1]):
                    self.notes[f"{self.where(number)}: {_STAYS}"] = None
                if self.trips.get(loop) == 0 and closing:
                    label = loop_keys(self.flow, loop)[-1]
                    raise FrontEndError(f"trips[{label!r}] = 0: warps come to this loop; state the branch before it")
                over = iterations[loop] >= trips + (not closes)
                return warps & (over if leaves else ~over)
            self.notes[f"{self.where(number)}: {_STAYS}"] = None
            return warps & (not leaves)
        if probability is None and number in self.enters:
            how = "the condition is taken as the trips of the loop say: warps"
            self.notes[f"{self.where(number)}: {how} {'jump' if self.enters[number] else 'do not jump'}"] = None
            return warps & self.enters[number]
        if probability is None and (jumps := self.common_jumps.get(block.code[-1])) is not None:
            return warps & jumps
        if probability is None and target is not None and self.ways_to[target] >= _SEVERAL:
            of_a_loop = "as those of an unrolled loop do that can be left early: no warp jumps; state it with probabilities"
            what = f"{self.ways_to[target]} branches jump here, {of_a_loop}"
            self.notes[f"{place(self.function, self.flow.blocks[target].code[0])}: {what}"] = None
            return np.zeros_like(warps)
        if probability is None:
            probability = self._assumed(number)
        self.stated[number] = probability
        order = self.drawn.get(number, 0) + np.cumsum(warps)
        self.drawn[number] = int(order[-1])
        falls = np.floor(order * probability) > np.floor((order - 1) * probability)
        return np.asarray(warps & ~falls)

    def _assumed(self, number: int) -> float:
        """Returns the probability that is assumed of a branch, with a note."""
        ends = self.flow.last(number).base == "EXIT"
        what = "no warp exits" if ends else "half of the warps jump"
        how = "state it with args or probabilities"
        keys = branch_keys(self.flow, number)
        self.assumed.add(number)
        if self.branches_at[keys[0]] > 1:
            of_line = self.named.setdefault(keys[0], keys[-1])
            how += f" of {of_line}, one of {self.branches_at[keys[0]]} branches there"
        self.notes[f"{self.where(number)}: the condition is not known: {what}; {how}"] = None
        return 1.0 if ends else 0.5

    def targets(self, number: int, count: int, warps: int) -> Values:
        """Returns to which of so many targets of a table each warp jumps, all of them equally often: int64[warps]."""
        self.notes[f"{self.where(number)}: a jump through a table: its {count} targets are taken equally often"] = None
        turn = (np.arange(warps) + self.drawn.get(number, 0)) % count
        self.drawn[number] = self.drawn.get(number, 0) + 1
        return turn

    def _is_cold(self, number: int | None) -> bool:
        if number is None:
            return False
        block = self.flow.blocks[number]
        if any(one.base == "BPT" and "TRAP" in one.opcode for one in map(self.function.code.__getitem__, block.code)):
            return True  # a check that fails ends the program
        calls = self.flow.last(number).base == "CALL"
        return block.cold or (calls and any(self.flow.blocks[target].cold for target in block.targets))

    def where(self, number: int) -> str:
        """Returns the place of the end of a block in words."""
        return place(self.function, self.flow.blocks[number].code[-1])

    def trips_are_needed(self, loop: int, why: str) -> FrontEndError:
        """Returns the error that asks for the trips of a loop."""
        where = place(self.function, self.flow.blocks[self.flow.loops[loop].header].code[0])
        notes = f"; {_IS_SWAP}" if retries(self.flow, loop) else f"; {_IS_WAIT}" if waits_for_others(self.flow, loop) else ""
        notes += "".join(f"; {note}" for note in (*notes_of_structures(self.function), *notes_of_variables(self.function)))
        if any(one.base == "LDL" for one in self.function.code):
            notes += f"; {_IN_LOCAL_MEMORY}"
        return FrontEndError(f"the loop at {where}: {why}; {how_to_give_trips(self.flow, loop)}{notes}")

"""How often the words of shared memory have been stored, which tells whether a load finds what an earlier one has found.

Stores are followed in the order in which they are executed, which is that of the program as long as the warps of a block go
together. Where warps wait at an mbarrier, or at a barrier while others of their block are elsewhere, they wait for stores and
copies that may have been executed long before, or come later. So behind each such wait all of shared memory counts as stored
once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from warpsim.frontends.accesses.patterns import rows_named
from warpsim.frontends.execution import windows
from warpsim.frontends.execution.state import State
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.execution.trips import Mask, warps_of
from warpsim.frontends.machine_code.cubin import RESERVED_SHARED_BYTES
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread, space_of
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import Values
from warpsim.units import WARP_LANES

if TYPE_CHECKING:
    from warpsim.frontends.execution.evaluation import Given

WORD_BYTES = 4


class Rewrites:
    """Counts of stores to the shared memory of blocks that are executed together.

    Args:
        blocks: how many.
        block_warps: warps of each.
        end: address behind shared memory; what lies beyond counts as one word.
    """

    def __init__(self, blocks: int, block_warps: int, end: int) -> None:
        self._block_warps = block_warps
        self._waits = np.zeros(blocks * block_warps, np.int64)
        self._stores = np.zeros((blocks, -(-end // WORD_BYTES) + 1), np.int32)  # the last one counts stores to any word

    def copy(self) -> Rewrites:
        """Returns what goes on by itself."""
        other = Rewrites(0, self._block_warps, 0)
        other._waits, other._stores = self._waits.copy(), self._stores.copy()
        return other

    def follow(self, step: Step, state: State, elsewhere: Iterable[Mask]) -> None:
        """Notes what the active threads store, or that they wait; masks say which threads are elsewhere in the program."""
        if step.addresses and _may_store(step.one):
            self._store(step.one, np.broadcast_to(state.address(step.addresses[0]), state.active.shape), state.active)
        elif step.role == "test":
            self._waits += warps_of(state.active)
        elif step.one.base == "BAR" and (masks := list(elsewhere)):
            apart = warps_of(np.logical_or.reduce(masks)).reshape(-1, self._block_warps).any(axis=1)
            self._waits += warps_of(state.active) & np.repeat(apart, self._block_warps)

    def times(self, where: Values) -> Values:
        """Returns how often the word has been stored that each warp loads; where it is not known, how often any has been."""
        return self._stores[np.arange(len(where)) // self._block_warps, self._words(where)] + self._waits

    def _store(self, one: MachineInstruction, where: Values, active: Mask) -> None:
        """Notes what threads store in shared memory: in all words of a block, where an address is not known.

        Generic addresses that are not known are taken for those of global memory. Blocks of a cluster are taken to store in the
        memory of others what those store in theirs.
        """
        active = active & in_shared(one, where)
        if one.base == "STSM":
            active = active & (np.arange(len(active)) % WARP_LANES < rows_named(one))
        blocks = np.arange(len(active)) // (self._block_warps * WARP_LANES)
        known = active & (where >= 0)
        self._stores[np.unique(blocks[active & ~known])] += 1
        self._stores[blocks[known], -1] += 1
        for byte in range(0, bytes_per_thread(one), WORD_BYTES):
            self._stores[blocks[known], self._words(where[known] + byte)] += 1

    def _words(self, where: Values) -> Values:
        """Returns the numbers of words; of addresses that are not known, that of the last one."""
        return np.minimum(windows.of_block(where) // WORD_BYTES, self._stores.shape[1] - 1)


def rewrites_of(given: Given, blocks: int) -> Rewrites | None:
    """Returns what counts the stores of some blocks; None: nothing that matters is loaded from shared memory."""
    if not given.steps.loads_numbers_from_shared():
        return None
    end = RESERVED_SHARED_BYTES + given.flow.function.shared_bytes + given.geometry.dynamic_shared
    return Rewrites(blocks, given.geometry.block_warps, end)


def in_shared(one: MachineInstruction, where: Values) -> Mask:
    """Returns for which of its first addresses an instruction accesses shared memory, as far as is known."""
    if windows.is_generic(one):
        return windows.is_shared(where)
    return np.full(where.shape, space_of(one) == "shared" or one.base == "LDGSTS")


def _may_store(one: MachineInstruction) -> bool:
    """Returns whether an instruction may store in shared memory."""
    is_load = one.base in ("LD", "LDS", "LDSM")
    return one.base == "LDGSTS" or (not is_load and (windows.is_generic(one) or space_of(one) == "shared"))

"""Executions of some blocks that end once enough is known of their accesses."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import numpy as np

from warpsim.frontends.caches.walk import BYPASS_L1, CACHED, LOCAL, STORE
from warpsim.frontends.execution import windows
from warpsim.frontends.execution.evaluation import Evaluation, Given
from warpsim.frontends.execution.evaluator import Evaluator
from warpsim.frontends.execution.local_memory import FIRST_REGION, interleaved, within_stack
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.machine_code.flow import Place
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread, space_of
from warpsim.frontends.machine_code.operands import STACK_POINTER
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import UNKNOWN, Values, array
from warpsim.frontends.waits.async_copies import bulk_of, is_past_l1
from warpsim.units import WARP_LANES

BlockIndex = tuple[int, int, int]

WALKED = ("global", "local")
"""Memory behind the caches."""

_NO_ACCESS = 1 << 62
"""Stands for the address of a thread that does not access, in a pattern of threads; no address is as large."""


def kind_of(one: MachineInstruction, space: str | None = "global") -> int:
    """Returns how the caches treat an access to global or local memory."""
    if space == "local":
        return LOCAL | (STORE if one.base.startswith("ST") else CACHED)
    if (bulk := bulk_of(one)) is not None:
        return BYPASS_L1 if bulk.barrier is not None else STORE
    if one.base in ("RED", "REDG", "ATOM", "ATOMG"):
        return BYPASS_L1
    if one.base.startswith("ST"):
        return STORE
    return BYPASS_L1 if is_past_l1(one) or "STRONG" in one.opcode.split(".") else CACHED


def patterns_of(rows: Values, before: Values) -> tuple[Values, Values]:
    """Returns for each block, a row, the address of its first thread that accesses, and a number for the pattern of all threads.

    Blocks of the same pattern access the same, moved by one distance, and have made as many calls `before`. The pattern is 0, and
    the address too, where no thread accesses.
    """
    active = rows >= 0
    accesses = active.any(axis=1)
    begins = np.where(accesses, rows[np.arange(len(rows)), active.argmax(axis=1)], 0)
    relative = np.where(active, rows - begins[:, None], _NO_ACCESS)
    weights = np.random.default_rng(0).integers(_NO_ACCESS, size=rows.shape[1] + 1, dtype=np.int64)
    return begins, np.where(accesses, (relative @ weights[1:] + before * weights[0]) | 1, 0)


class EnoughError(Exception):
    """Enough has been recorded."""


class UntilEnough(Evaluator):
    """An evaluator that ends once enough has been recorded, or once its steps would be too many. It needs whole addresses.

    `evaluation` tells which memory generic addresses belong to.
    """

    def __init__(
        self, given: Given, blocks: list[BlockIndex], evaluation: Evaluation | None = None, *, made_up: bool = False
    ) -> None:
        super().__init__(given, [(block, 1.0) for block in blocks])
        self.evaluation, self.draws = evaluation, 0
        if not made_up:
            self.bases = None

    def space_of(self, place: Place) -> str | None:
        """Returns which memory the instruction at a place accesses."""
        one = self.function.code[place[1]]
        return space_of(one) if self.evaluation is None else self.evaluation.space_of(place, one)

    def whole_addresses(self, place: Place, step: Step) -> Values:
        """Returns the addresses that an instruction accesses, perhaps with numbers that are made up.

        Those of local memory are where the first warp of a chip has its own.
        """
        with nullcontext() if self.bases is None else self.bases.instead(self.state):
            return self._local_addresses(step) if self.space_of(place) == "local" else self.addresses_of(step)

    def _local_addresses(self, step: Step) -> Values:
        """Returns addresses in local memory. Those that are not known are drawn, one for each warp, in all blocks the same."""
        found, width = self.state.address(step.addresses[0]), bytes_per_thread(step.one)
        if windows.is_generic(step.one):
            found = windows.within(found, "local", array(0))
        drawn = np.random.default_rng(self.draws).random(self.block_warps)
        self.draws += 1
        drawn = np.tile(np.repeat(drawn, WARP_LANES), len(self.weights) // self.block_warps)
        offsets = interleaved(within_stack(found, self.state.register(STACK_POINTER), drawn, width), width)
        return np.where(offsets < 0, UNKNOWN, offsets + FIRST_REGION)

    def runs_to_the_end(self) -> bool:
        """Executes the blocks. Returns whether it did not end before."""
        with suppress(EnoughError):
            self.run()
            return True
        return False

    def _too_much(self, number: int) -> Exception:
        return EnoughError()

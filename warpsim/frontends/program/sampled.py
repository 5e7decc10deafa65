"""What the sampled warps tell of an access beside its addresses."""

from __future__ import annotations

from typing import Any

from warpsim.frontends.accesses.tally import Tally
from warpsim.frontends.execution.evaluation import Counts, Evaluation, Given
from warpsim.frontends.launch.keys import are_named_by_address
from warpsim.frontends.machine_code.flow import place
from warpsim.frontends.program.conditions import which_warps

SPREAD = 0.05
"""Relative difference that does not count: of the mean number of sectors from that of the pattern, from which on an access states
its own requests; of the executions of an access from those of its block, from which on it stands under a condition."""


class Sampled:
    """What the sampled warps tell of an access beside its addresses: which warps make it, and where atomics of all warps meet."""

    def __init__(self, given: Given, evaluation: Evaluation) -> None:
        self.flow, self.evaluation = given.flow, evaluation
        _, self.stated = given.probabilities_by_place
        self.named = are_named_by_address(given.flow, given.probabilities)
        code = given.flow.function.code
        self.doubtful = {code[index].line for (_, index), tally in evaluation.accesses.items() if tally.doubtful}
        self.notes: dict[str, None] = {}

    def condition(self, number: int, index: int, come: Counts) -> dict[str, Any] | None:
        """Returns the rule of a conditional for an access of a block; None: all warps make it, but for a few.

        Each warp comes to the block in the program in proportion to `come`.
        """
        found, here = self.evaluation, self.evaluation.counts[number]
        tally, made = found.accesses[number, index], found.made[number, index]
        if index in self.stated and (tally.doubtful or self._is_overruled(index)):
            if not tally.doubtful and index not in self.named:
                where, what = place(self.flow.function, index), "the predicate of the access follows from indices and arguments"
                self.notes[f"{where}: {what}: its probability holds all the same"] = None
            return {"probability": self.stated[index]}
        if tally.doubtful:
            where, opcode = place(self.flow.function, index), self.flow.function.code[index].opcode
            how = "all warps are taken to make it; state their share with probabilities"
            self.notes[f"{where}: whether a thread makes the access {opcode} depends on data: {how}"] = None
        if tally.warps > (1 - SPREAD) * float((here * found.weights).sum()):
            return None
        return which_warps(made, here, come, found.weights, found.warp_in_block)

    def _is_overruled(self, index: int) -> bool:
        """Returns whether an access under a predicate that is known is made as the caller states, as `as_stated` of branches."""
        return index in self.named or self.flow.function.code[index].line not in self.doubtful

    def share(self, number: int, index: int) -> float:
        """Returns in which share of the executions of a block by warps an instruction under a guard is on for any thread."""
        found = self.evaluation
        here, made = found.counts[number], found.made.get((number, index))
        return 0.0 if made is None else float((made * found.weights).sum() / (here * found.weights).sum())

    def contended(self, tally: Tally) -> int | None:
        """Returns the number of addresses that all warps update; None: they do not meet. Those of a line count as one."""
        return tally.contention.lines(self.evaluation.block_warps, whole_grid=self.evaluation.whole_grid)

"""Register ports of a scheduler of the reference machine (docs/model.md, section 3)."""

from __future__ import annotations

from collections import Counter

from warpsim.kernels import Instruction
from warpsim.reference.warp import Warp

WINDOW = 3
"""Cycles in which an instruction reads its operands."""


class RegisterPorts:
    """The read ports of the register banks, one for each bank, and the reuse cache."""

    def __init__(self, banks: int) -> None:
        self.banks = banks
        self.last = 0  # the p of the last instruction
        self.free: Counter[int] = Counter()  # by bank
        self.held: dict[tuple[int, int], tuple[int, int]] = {}  # (bank, operand slot) -> (warp slot, register)

    def issue(self, instruction: Instruction, warp: Warp, t: int) -> int:
        """Takes an instruction that issues in cycle `t`; returns the cycle before which the scheduler does not issue."""
        banks = (self.port(warp, slot, read) for slot, read in enumerate(instruction.reads) if read)
        needed = Counter(bank for bank in banks if bank is not None)
        before = self.last
        self.last = max([t + 2, before + 1, *(self.free[bank] + n - WINDOW for bank, n in needed.items())])
        for bank, n in needed.items():
            self.free[bank] = max(self.free[bank], self.last) + n
        return before

    def port(self, warp: Warp, slot: int, read: str) -> int | None:
        """Returns the bank whose port a read needs, None if the reuse cache holds it; updates the cache."""
        name, _, reuse = read.partition(".")
        number = int(name[1:])
        bank = number % self.banks
        key = (warp.slot, number)
        hit = self.held.get((bank, slot)) == key
        self.held.pop((bank, slot), None)
        if reuse:
            self.held[bank, slot] = key
        return None if hit else bank

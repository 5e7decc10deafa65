"""Register ports of a scheduler of the reference machine (docs/model.md, section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warpsim.kernels import Instruction
from warpsim.kernels.register_reads import RegisterRead, register_reads
from warpsim.reference.warp import Warp

WINDOW = 3
"""Cycles in which an instruction reads its last operands."""


class RegisterPorts:
    """The read ports of the register banks, one for each bank, and the reuse cache."""

    def __init__(self, banks: int) -> None:
        self.banks = banks
        self.last = 0  # the p of the last instruction
        self.free: Counter[int] = Counter()  # by bank
        self.held: dict[tuple[int, int], tuple[int, int]] = {}  # (bank, operand slot) -> (warp slot, register)

    def issue(self, instruction: Instruction, warp: Warp, t: int) -> int:
        """Takes an instruction that issues in cycle `t`; returns the cycle before which the scheduler does not issue."""
        needed: Counter[int] = Counter()
        for slot, read in register_reads(instruction.reads):
            needed.update(self.ports(warp, slot, read))
        before = self.last
        more = max([0, *(n - WINDOW for n in needed.values())])
        self.last = max([max(t + 2, before + 1) + more, *(self.free[bank] + n - WINDOW for bank, n in needed.items())])
        for bank, n in needed.items():
            self.free[bank] = max(self.free[bank] + n, self.last + min(n, WINDOW))
        return before

    def ports(self, warp: Warp, slot: int, read: RegisterRead) -> Iterator[int]:
        """Yields the bank of each register that needs a port, and not of one that the reuse cache holds; updates the cache."""
        for number in range(read.first, read.first + read.registers):
            bank, key = number % self.banks, (warp.slot, number)
            if read.registers > 1 or self.held.get((bank, slot)) != key:
                yield bank
            self.held.pop((bank, slot), None)
            if read.reuse:
                self.held[bank, slot] = key

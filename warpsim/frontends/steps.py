"""What an execution of the integer part of a kernel does with each instruction: its effect, its guard, the address accessed."""

from __future__ import annotations

from dataclasses import dataclass

from warpsim.frontends.accesses import space_of
from warpsim.frontends.effects import Effect
from warpsim.frontends.flow import Flow
from warpsim.frontends.keys import conditions, guard_of
from warpsim.frontends.operands import Address, Register, addresses, read, registers_of, written
from warpsim.frontends.sass import MachineInstruction
from warpsim.frontends.semantics import effect_of


@dataclass(frozen=True)
class Step:
    """One instruction as it is executed: its effect, its guard, and the address that it accesses."""

    index: int
    one: MachineInstruction
    effect: Effect | None
    results: tuple[str, ...]
    guard: Register | None
    addresses: tuple[Address, ...]


class Steps:
    """The steps of a flow: the instructions on which branches, addresses and guards depend, and those that access memory."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.needed = _needed(flow)
        self.known: dict[int, list[Step]] = {}

    def of_block(self, number: int) -> list[Step]:
        """Returns the steps of a block."""
        if number in self.known:
            return self.known[number]
        steps = self.known[number] = []
        for index in self.flow.blocks[number].code:
            one = self.flow.function.code[index]
            results = tuple(name for name in written(one) if name in self.needed)
            accessed = space_of(one) is not None
            if not results and not accessed:
                continue
            where = addresses(one) if accessed else ()
            effect = effect_of(one) if results else None
            steps.append(Step(index, one, effect, results, guard_of(one), where))
        return steps


def _needed(flow: Flow) -> set[str]:
    """Returns the registers on which branches, addresses and guards depend, wherever they are."""
    needed: set[str] = set()
    by_result: dict[str, list[MachineInstruction]] = {}
    seen: set[int] = set()
    for block in flow.blocks:
        for index in block.code:
            if index in seen:
                continue
            seen.add(index)
            one = flow.function.code[index]
            for name in written(one):
                by_result.setdefault(name, []).append(one)
            if one.base in ("BRA", "JMP", "EXIT"):
                needed |= {part.name for part in conditions(one)}
            elif space_of(one) is not None:
                needed |= {part.name for part in [guard_of(one)] if part}
                for part in addresses(one):
                    needed |= {name for term, _ in part.terms for name in registers_of(term.name, 2 if term.pair else 1)}
    todo = list(needed)
    while todo:
        for one in by_result.get(todo.pop(), ()):
            if space_of(one) is not None:
                continue  # what memory returns is unknown, whatever its address
            fresh = set(read(one)) - needed
            needed |= fresh
            todo += fresh
    return needed

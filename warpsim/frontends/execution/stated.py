"""Comparisons that decide nothing but how often loops run whose trips the caller states, so that they do not count."""

from __future__ import annotations

from collections.abc import Collection

from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.machine_code.operands import conditions, read, written
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.waits.async_copies import role_of

_COMPARISONS = {"ISETP", "FSETP", "PLOP3", "LOP3"}


def unused_comparisons(flow: Flow, closing: Collection[int]) -> set[tuple[int, int]]:
    """Returns the comparisons on whose outcome only the branches at the end of some blocks depend, as (block, instruction)."""
    code = flow.function.code
    if not closing or any(code[index].base == "P2R" for block in flow.blocks for index in block.code):
        return set()  # an instruction that packs all predicates reads them
    needed: list[set[str]] = [set() for _ in flow.blocks]
    unused: set[tuple[int, int]] = set()
    grows = True
    while grows:
        grows, unused = False, set()
        for number in reversed(range(len(flow.blocks))):
            block = flow.blocks[number]
            after: set[str] = set().union(*(needed[one] for one in block.successors))
            for index in reversed(block.code):
                one = code[index]
                if number in closing and index == block.code[-1]:
                    continue
                if _only_compares(one) and after.isdisjoint(written(one)):
                    unused.add((number, index))
                    continue
                if not one.guard:
                    after.difference_update(written(one))
                after.update(read(one), (part.name for part in conditions(one)))
            grows |= not after <= needed[number]
            needed[number] |= after
    return unused


def _only_compares(one: MachineInstruction) -> bool:
    """Returns whether an instruction writes nothing but predicates."""
    return (
        one.base.removeprefix("U") in _COMPARISONS
        and role_of(one) is None
        and bool(written(one))
        and all(name.lstrip("U").startswith("P") for name in written(one))
    )

"""How a user names loops and branches: by line of the source, or by label or address."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.flow import Flow
from warpsim.frontends.operands import Register
from warpsim.frontends.sass import MachineInstruction

Key = str | int
"""A loop, a branch or an access: a line of the source, or a label or address."""


def guard_of(one: MachineInstruction) -> Register | None:
    """Returns the predicate under which an instruction is executed; None: always."""
    if one.guard in ("", "@PT", "@UPT"):
        return None
    return Register(one.guard.lstrip("@!"), negative="!" in one.guard)


def conditions(one: MachineInstruction) -> list[Register]:
    """Returns the predicates that must all hold for a jump or an exit."""
    guard = guard_of(one)
    found = [guard] if guard else []
    if one.base in ("BRA", "JMP"):
        for text in re.findall(r"!?\bU?P\d\b", one.operands.partition("`")[0]):
            found.append(Register(text.lstrip("!"), negative=text.startswith("!")))
    return found


def loop_keys(flow: Flow, loop: int) -> list[Key]:
    """Returns what names a loop: the lines of its header and of the jumps back to it, and its label."""
    header = flow.loops[loop].header
    first = flow.function.code[flow.blocks[header].code[0]]
    back = [flow.last(block) for block in sorted(flow.loops[loop].blocks) if header in flow.blocks[block].successors]
    lines = [one.line for one in (*back, first) if one.line is not None]
    labels = [label for label in first.labels if label.startswith(".")] or [f"{first.address:#x}"]
    return [*dict.fromkeys(lines), labels[-1]]


def branch_keys(flow: Flow, block: int) -> list[Key]:
    """Returns what names the branch at the end of a block: its line, and its address."""
    last = flow.last(block)
    return [*([last.line] if last.line is not None else []), f"{last.address:#x}"]


def trips_by_loop(flow: Flow, trips: Mapping[Key, int]) -> dict[int, int]:
    """Returns loop -> trips.

    Raises:
        FrontEndError: a key names no loop, or a number of trips is below 1.
    """
    names = [loop_keys(flow, loop) for loop in range(len(flow.loops))]
    found: dict[int, int] = {}
    for key, count in trips.items():
        if type(count) is not int or count < 1:
            raise FrontEndError(f"trips[{key!r}] = {count!r}: must be an integer from 1")
        loops = [loop for loop, keys in enumerate(names) if _plain(key) in keys]
        if not loops:
            there = "; ".join(" or ".join(repr(k) for k in keys) for keys in names) or "none"
            raise FrontEndError(f"trips[{key!r}]: there is no such loop; loops: {there}")
        found |= dict.fromkeys(loops, count)
    return found


def probabilities_by_block(flow: Flow, probabilities: Mapping[Key, float]) -> dict[int, float]:
    """Returns block -> probability that a warp does not jump at its end.

    Raises:
        FrontEndError: a key names no branch, or a probability is none.
    """
    branches = [n for n, block in enumerate(flow.blocks) if block.following is not None and conditions(flow.last(n))]
    found: dict[int, float] = {}
    for key, probability in probabilities.items():
        if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
            raise FrontEndError(f"probabilities[{key!r}] = {probability!r}: must be a number from 0 to 1")
        blocks = [n for n in branches if _plain(key) in branch_keys(flow, n)]
        if not blocks:
            there = "; ".join(" or ".join(repr(k) for k in branch_keys(flow, n)) for n in branches) or "none"
            raise FrontEndError(f"probabilities[{key!r}]: there is no such branch; branches: {there}")
        found |= dict.fromkeys(blocks, float(probability))
    return found


def _plain(key: Key) -> Key:
    return int(key) if isinstance(key, str) and key.isdecimal() else key

"""How a user names loops and branches: by line of the source, or by label or address."""

from __future__ import annotations

from collections.abc import Mapping

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.flow import Flow
from warpsim.frontends.machine_code.memory_instructions import is_swap, space_of
from warpsim.frontends.machine_code.operands import conditions, guard_of
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.kernels.statements import MAX_TRIPS

Key = str | int
"""A loop, a branch or an access: a line of the source, or a label or address."""


def _lines(flow: Flow, loop: int) -> tuple[list[int], list[int]]:
    """Returns the lines of the jumps back to a loop's header, and that of the header."""
    header = flow.loops[loop].header
    back = [flow.last(block) for block in sorted(flow.loops[loop].blocks) if header in flow.blocks[block].successors]
    first = _first(flow, loop).line
    return [one.line for one in back if one.line is not None], [] if first is None else [first]


def _first(flow: Flow, loop: int) -> MachineInstruction:
    return flow.function.code[flow.blocks[flow.loops[loop].header].code[0]]


def _label(flow: Flow, loop: int) -> str:
    first = _first(flow, loop)
    labels = [label for label in first.labels if label.startswith(".")] or [f"{first.address:#x}"]
    return labels[-1]


def _loops_named(flow: Flow, key: Key) -> list[int]:
    """Returns the loops with a label, or those of a line: that jump back there, or else that begin there.

    A line does not name a loop in which the threads of a warp only gather, if it names others.
    """
    loops = range(len(flow.loops))
    if not isinstance(key, int):
        return [loop for loop in loops if key == _label(flow, loop)]
    lines = [_lines(flow, loop) for loop in loops]
    found = [loop for loop in loops if key in lines[loop][0]] or [loop for loop in loops if key in lines[loop][1]]
    return [loop for loop in found if not flow.gathers(flow.loops[loop].blocks)] or found


def retries(flow: Flow, loop: int) -> bool:
    """Whether a loop does nothing but an update by compare-and-swap, again until it succeeds."""
    inside = flow.loops[loop].blocks
    within = [each.blocks for each in flow.loops if each.blocks < inside]
    code = (flow.function.code[index] for block in inside for index in flow.blocks[block].code)
    return all(map(flow.gathers, within)) and any(map(is_swap, code))


def waits_for_others(flow: Flow, loop: int) -> bool:
    """Whether a loop does nothing but load a word again, past L1, until another warp has stored it."""
    code = [flow.function.code[index] for block in flow.loops[loop].blocks for index in flow.blocks[block].code]
    loads = [one for one in code if space_of(one) is not None]
    return bool(loads) and all(one.base in ("LD", "LDG") and ".STRONG" in one.opcode for one in loads)


def _stand_apart(flow: Flow, loops: list[int]) -> bool:
    """Whether two of the loops are different code, and neither stands in the other.

    Loops of updates by compare-and-swap do not, as each makes one update, however often the source's loop around is unrolled.
    """
    if all(retries(flow, loop) for loop in loops):
        return False
    pairs = [(flow.loops[a], flow.loops[b]) for a in loops for b in loops if _label(flow, a) != _label(flow, b)]
    return any(a.header not in b.blocks and b.header not in a.blocks for a, b in pairs)


def loop_keys(flow: Flow, loop: int) -> list[Key]:
    """Returns what names a loop: its lines, unless they name other loops or several, and its label."""
    lines = [line for lines in _lines(flow, loop) for line in lines]
    named = {line: _loops_named(flow, line) for line in lines}
    return [*(line for line, loops in named.items() if loop in loops and not _stand_apart(flow, loops)), _label(flow, loop)]


def branches_of(flow: Flow) -> list[int]:
    """Returns the blocks that end in a branch with two ways."""
    return [n for n, block in enumerate(flow.blocks) if block.following is not None and conditions(flow.last(n))]


def branch_keys(flow: Flow, block: int) -> list[Key]:
    """Returns what names the branch at the end of a block: its line, and its address."""
    return keys_of(flow.last(block))


def keys_of(one: MachineInstruction) -> list[Key]:
    """Returns what names an instruction: its line, and its address."""
    return [*([one.line] if one.line is not None else []), f"{one.address:#x}"]


def trips_by_loop(flow: Flow, trips: Mapping[Key, int]) -> dict[int, int]:
    """Returns loop -> trips. A label goes before a line.

    Raises:
        FrontEndError: a key names no loop, a line is that of several, or a number of trips is negative or too large.
    """
    found: dict[int, int] = {}
    for key, count in sorted(trips.items(), key=lambda item: isinstance(_plain(item[0]), str)):
        if type(count) is not int or not 0 <= count <= MAX_TRIPS:
            raise FrontEndError(f"trips[{key!r}] = {count!r}: must be an integer from 0 to {MAX_TRIPS}")
        loops = _loops_named(flow, _plain(key))
        if not loops:
            there = "; ".join(" or ".join(repr(k) for k in loop_keys(flow, loop)) for loop in range(len(flow.loops))) or "none"
            raise FrontEndError(f"trips[{key!r}]: there is no such loop; loops: {there}")
        if _stand_apart(flow, loops):
            raise FrontEndError(f"trips[{key!r}]: {_one_by_one(flow, key, loops)}")
        found |= dict.fromkeys(loops, count)
    return found


def how_to_give_trips(flow: Flow, loop: int) -> str:
    """Returns how the trips of a loop are given; where its line names several loops, those of all of them."""
    for line in (line for lines in _lines(flow, loop) for line in lines):
        loops = _loops_named(flow, line)
        if loop in loops and _stand_apart(flow, loops):
            return f"{_one_by_one(flow, line, loops)}; or give args"
    return f"give trips={{KEY: number}} with KEY {' or '.join(map(repr, loop_keys(flow, loop)))}, or args"


def _one_by_one(flow: Flow, line: Key, loops: list[int]) -> str:
    """Returns how the trips of several loops of a line are given."""
    there = f"the machine code has {len(loops)} loops of line {line}"
    if not any(retries(flow, loop) for loop in loops):
        there += ", such as one that is unrolled and one for the rest"
    return f"{there}; give trips={{LABEL: number}} for each: {'; '.join(_described(flow, loop) for loop in loops)}"


def _described(flow: Flow, loop: int) -> str:
    """Returns a loop's label, with its size, which tells how many iterations of the source one trip does."""
    code = [flow.function.code[index] for block in flow.loops[loop].blocks for index in flow.blocks[block].code]
    accesses = sum(space_of(one) is not None for one in code)
    what = ", an update by compare-and-swap" if retries(flow, loop) else ""
    return f"{_label(flow, loop)!r} ({len(code)} instructions, {accesses} of them accesses to memory{what})"


def entries_by_block(flow: Flow, trips: Mapping[int, int]) -> dict[int, bool]:
    """Returns block -> whether it jumps at its end, where that decides whether a loop whose trips are stated is entered.

    Such a branch has the line of the jump back, as the first test of a `for` has, and one of its sides leads to the loop.
    """
    found: dict[int, bool] = {}
    for loop, count in sorted(trips.items(), key=lambda item: item[1] > 0):  # the trips of one loop go before none of another
        lines, leading = _lines(flow, loop)[0], _leading_to(flow, flow.loops[loop].header)
        for number in leading - flow.loops[loop].blocks:
            block = flow.blocks[number]
            sides = [side in leading for side in (block.following, *block.targets)]
            if conditions(flow.last(number)) and flow.last(number).line in lines and len(sides) == 2 and sides[0] != sides[1]:
                found[number] = sides[1] == (count > 0)
    return found


def _leading_to(flow: Flow, header: int) -> set[int]:
    """Returns the blocks from which the flow can come to a loop without going back, its header included."""
    found = {header}
    for number in range(header - 1, -1, -1):
        if any(number < target and target in found for target in flow.blocks[number].successors):
            found.add(number)
    return found


def _predicated_accesses(flow: Flow) -> list[int]:
    """Returns the instructions that access memory under a predicate."""
    return [n for n, one in enumerate(flow.function.code) if guard_of(one) is not None and space_of(one) is not None]


def probabilities_by_place(flow: Flow, probabilities: Mapping[Key, float]) -> tuple[dict[int, float], dict[int, float]]:
    """Returns block -> probability that a warp does not jump at its end, and access -> probability that a warp makes it.

    A key that names a branch names no access. An address goes before a line.

    Raises:
        FrontEndError: a key names neither, or a probability is none.
    """
    keys_of_branches = {n: branch_keys(flow, n) for n in branches_of(flow)}
    keys_of_accesses = {n: keys_of(flow.function.code[n]) for n in _predicated_accesses(flow)}
    by_block: dict[int, float] = {}
    by_access: dict[int, float] = {}
    for key, probability in sorted(probabilities.items(), key=lambda item: isinstance(_plain(item[0]), str)):
        if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
            raise FrontEndError(f"probabilities[{key!r}] = {probability!r}: must be a number from 0 to 1")
        for known, found in ((keys_of_branches, by_block), (keys_of_accesses, by_access)):
            if named := [n for n, keys in known.items() if _plain(key) in keys]:
                found |= dict.fromkeys(named, float(probability))
                break
        else:
            branches, accesses = (
                "; ".join(" or ".join(map(repr, keys)) for keys in known.values()) or "none"
                for known in (keys_of_branches, keys_of_accesses)
            )
            raise FrontEndError(
                f"probabilities[{key!r}]: there is no such branch; branches: {branches}; accesses under a predicate: {accesses}"
            )
    return by_block, by_access


def are_named_by_address(flow: Flow, probabilities: Mapping[Key, float]) -> set[int]:
    """Returns the instructions that keys name by their addresses."""
    named = {str(key) for key in probabilities}
    return {n for n, one in enumerate(flow.function.code) if keys_of(one)[-1] in named}


def branches_of_lines_with_loops(flow: Flow) -> set[int]:
    """Returns the blocks that end in a branch of a line of which another one, or the same, says how often a loop runs."""
    deciding = (closing or leaving[:1] for closing, leaving in zip(flow.closing, flow.leaving, strict=True))
    lines = {flow.last(block).line for blocks in deciding for block in blocks}
    return {block for block in branches_of(flow) if flow.last(block).line in lines}


def _plain(key: Key) -> Key:
    return int(key) if isinstance(key, str) and key.isdecimal() else key

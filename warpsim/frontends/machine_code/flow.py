"""The control flow of machine code: basic blocks, natural loops, and an order in which loops and joins stand together.

A function that is called is copied to each call, so that there is one flow without returns. Flow that no nest of loops
describes is refused.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.machine_code.operands import calls_outside, conditions
from warpsim.frontends.machine_code.sass import MachineFunction, MachineInstruction

Place = tuple[int, int]
"""Where an instruction stands: block of the flow, and its index in the function."""

MAX_BLOCKS = 100_000
"""Most basic blocks of a kernel, copies of called functions included."""

_JUMPS = ("BRA", "JMP")
_INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")
_GATHERING = ("VOTE", "VOTEU", "LOP3", "MOV", "YIELD", "NOP", "BRA")
"""Instructions by which code of Turing waits until the threads of a warp are together again."""


@dataclass(frozen=True)
class Block:
    """A basic block.

    Attributes:
        code: indices of its instructions in the function.
        following: block that the last instruction falls through to; None: none.
        targets: blocks that it can jump to.
        cold: whether it belongs to a function of the compiler's own library that only rare operands need.
    """

    code: range
    following: int | None
    targets: tuple[int, ...]
    cold: bool

    @property
    def successors(self) -> tuple[int, ...]:
        """The blocks that can come next."""
        return tuple(dict.fromkeys((*self.targets, *(() if self.following is None else (self.following,)))))


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header, its blocks, and the number of the loop around it; None: none."""

    header: int
    blocks: frozenset[int]
    parent: int | None


@dataclass(frozen=True)
class Flow:
    """The flow of a function.

    Attributes:
        function: the machine code.
        blocks: numbered in an order that follows the flow; the blocks of a loop are neighbours. Number 0 is the entry.
        loops: outer ones before inner ones.
    """

    function: MachineFunction
    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]

    def innermost(self) -> list[int | None]:
        """Returns for each block the number of the innermost loop that holds it."""
        found: list[int | None] = [None] * len(self.blocks)
        for number, loop in enumerate(self.loops):
            for block in loop.blocks:
                found[block] = number
        return found

    def loop_at(self) -> dict[int, int]:
        """Returns header -> number of its loop."""
        return {loop.header: number for number, loop in enumerate(self.loops)}

    def passed_to(self, block: int | None) -> int | None:
        """Returns the block to which one leads that holds nothing but a jump, perhaps by way of further ones; else the block."""
        passed: set[int] = set()
        while block is not None and block not in passed:
            passed.add(block)
            here = self.blocks[block]
            if len(here.code) == 1 and here.following is None and len(here.targets) == 1:
                block = here.targets[0]
        return block

    @cached_property
    def leaving(self) -> list[list[int]]:
        """For each loop, its blocks that end with a jump, or an exit, by which some warps leave it and others stay; ascending."""
        return [[block for block in sorted(loop.blocks) if self._leaves(block, loop)] for loop in self.loops]

    def is_closed(self, loop: Loop) -> bool:
        """Returns whether no block of a loop leads out of it."""
        return all(after in loop.blocks for block in loop.blocks for after in self.blocks[block].successors)

    @cached_property
    def closing(self) -> list[list[int]]:
        """For each loop, those of these blocks that decide between another trip and leaving, as its last block does mostly."""
        return [
            [
                block for block in leaving
                if loop.header in map(self.passed_to, self.blocks[block].successors) or self._gathers_behind(block, loop)
            ]
            for loop, leaving in zip(self.loops, self.leaving, strict=True)
        ]  # fmt: skip

    def _gathers_behind(self, block: int, loop: Loop) -> bool:
        """Returns whether warps that stay in a loop behind a block do nothing else there but gather their threads.

        Machine code of Turing does so behind the test of an update by compare-and-swap.
        """
        behind: set[int] = set()
        todo = [after for after in self.blocks[block].successors if after in loop.blocks]
        while todo:
            here = todo.pop()
            if here != loop.header and here not in behind:
                behind.add(here)
                todo += self.blocks[here].successors
        return self.gathers(behind)

    def gathers(self, blocks: Collection[int]) -> bool:
        """Returns whether blocks vote until the threads of a warp are together, and do nothing else but move registers."""
        code = [self.function.code[index] for block in blocks for index in self.blocks[block].code]
        gather = all(one.base in _GATHERING or one.opcode.startswith("IMAD.MOV") for one in code)
        return gather and any(one.base == "VOTE" for one in code)

    def _leaves(self, block: int, loop: Loop) -> bool:
        ends, inside = self.blocks[block], loop.blocks
        target = ends.targets[0] if ends.targets else None
        if ends.following is None or (target is None and self.last(block).base not in ("EXIT", "RET")):
            return False
        return (target in inside) != (ends.following in inside)

    def last(self, block: int) -> MachineInstruction:
        """Returns the last instruction of a block."""
        return self.function.code[self.blocks[block].code[-1]]


def place(function: MachineFunction, index: int) -> str:
    """Returns where an instruction is, for messages: its line in the source, or its address."""
    one = function.code[index]
    if one.line is not None:
        return f"line {one.line}" + (f" of {function.source}" if function.source else "")
    return f"address {one.address:#06x} of {function.name}"


def make_flow(function: MachineFunction) -> Flow:
    """Finds the control flow of a function.

    Raises:
        FrontEndError: a jump whose targets are not known, a call that comes back to itself, irreducible flow, or code that ends
            without EXIT or a jump.
    """
    raw = _Blocks(function).find()
    order = _reverse_postorder([block.successors for block in raw])
    raw = _renumbered(raw, order)
    successors = [block.successors for block in raw]
    loops = _natural_loops(function, raw, successors)
    order = _nested_order(successors, loops)
    place_of = {old: new for new, old in enumerate(order)}
    found = [(place_of[header], frozenset(place_of[b] for b in body)) for header, body in loops.items()]
    found.sort(key=lambda loop: (-len(loop[1]), loop[0]))
    nested: list[Loop] = []
    for header, body in found:
        around = [k for k, other in enumerate(nested) if header in other.blocks]
        nested.append(Loop(header, body, around[-1] if around else None))
    return Flow(function, tuple(_renumbered(raw, order)), tuple(nested))


_Start = tuple[tuple[int, ...], int]
"""The calls that led to a block, and its first instruction."""


class _Blocks:
    """Follows the flow from the entry, with a copy of each called function for each call."""

    def __init__(self, function: MachineFunction) -> None:
        self.function, self.code = function, function.code
        self.labels = {label: k for k, one in enumerate(self.code) for label in one.labels}
        self.leaders = {0}
        for index, one in enumerate(self.code):
            if one.base in (*_JUMPS, *_INDIRECT, "EXIT", "RET", "CALL"):
                self.leaders |= {index + 1, *self.targets(index)}

    def targets(self, index: int) -> list[int]:
        """Returns the indices that an instruction can jump to."""
        one = self.code[index]
        if one.base in (*_JUMPS, "CALL"):
            label = re.search(r"\(([^()\s]+)\)", one.operands)
            if label and label[1] in self.labels:
                return [self.labels[label[1]]]
            if calls_outside(one):
                return []
            if one.base == "CALL":
                what = "calls through a pointer, as those of virtual functions, have unknown targets; call a function by its name"
                raise FrontEndError(f"{place(self.function, index)}: {one.text}: {what}")
            raise FrontEndError(f"{place(self.function, index)}: {one.text}: the target is not in the function")
        if one.base in _INDIRECT:
            note = re.search(r"BRANCH_TARGETS ([^\"]*)", one.operands)
            names = note[1].split(",") if note else []
            if not names or not all(name in self.labels for name in names):
                raise FrontEndError(f"{place(self.function, index)}: {one.text}: an indirect jump with unknown targets")
            return sorted({self.labels[name] for name in names})
        return []

    def find(self) -> list[Block]:
        """Returns the blocks that can be reached, the entry first."""
        if not self.code:
            raise FrontEndError(f"{self.function.name}: holds no instructions")
        numbers: dict[_Start, int] = {((), 0): 0}
        todo: list[_Start] = [((), 0)]
        blocks: list[Block] = []
        while len(blocks) < len(todo):
            calls, start = todo[len(blocks)]
            end = start + 1
            while end < len(self.code) and end not in self.leaders:
                end += 1
            following, targets = self._after(end - 1, calls)
            keys = [key for key in (following, *targets) if key is not None]
            if any(index == len(self.code) for _, index in keys):
                where = place(self.function, len(self.code) - 1)
                raise FrontEndError(f"{where}: {self.code[-1].text}: the code ends here, without EXIT or a jump; is it cut off?")
            for key in keys:
                if key not in numbers:
                    numbers[key] = len(todo)
                    todo.append(key)
            if len(todo) > MAX_BLOCKS:
                raise FrontEndError(
                    f"{self.function.name}: more than {MAX_BLOCKS} basic blocks, copies of called functions included"
                )
            blocks.append(
                Block(
                    range(start, end),
                    None if following is None else numbers[following],
                    tuple(numbers[key] for key in targets),
                    any("$__internal" in self.code[call].operands for call in calls),
                )
            )
        return blocks

    def _returns(self, start: int) -> bool:
        """Returns whether the code from an index on comes to a RET, other than that of a function that it calls."""
        todo, seen = [start], {start}
        while todo:
            index = todo.pop()
            if index == len(self.code):
                continue
            if self.code[index].base == "RET":
                return True
            goes_on, targets = self._next(index)
            after = {*targets, *((index + 1,) if goes_on else ())} - seen
            seen |= after
            todo += after
        return False

    def _next(self, index: int) -> tuple[bool, list[int]]:
        """Returns whether an instruction that neither calls nor returns can go on to the next one, and where it can jump."""
        one = self.code[index]
        guarded = bool(conditions(one))
        if one.base == "EXIT":
            return guarded, []
        if one.base in _JUMPS:
            if ".DIV" in one.opcode or ".CONV" in one.opcode:  # to code for warps whose threads have diverged
                return True, []
            return guarded, self.targets(index)
        return (guarded, self.targets(index)) if one.base in _INDIRECT else (True, [])

    def _after(
        self, index: int, calls: tuple[int, ...]
    ) -> tuple[tuple[tuple[int, ...], int] | None, list[tuple[tuple[int, ...], int]]]:
        one = self.code[index]
        after = (calls, index + 1)
        guarded = bool(conditions(one))
        if one.base == "CALL" and (callee := self.targets(index)):
            if not self._returns(callee[0]):  # compilers close loops in this way, too
                return (after if guarded else None), [(calls, callee[0])]
            if any(self.targets(call) == callee for call in calls):
                raise FrontEndError(f"{place(self.function, index)}: {one.text}: a function that calls itself")
            return (after if guarded else None), [((*calls, index), callee[0])]
        if one.base == "RET":
            back = [(calls[:-1], calls[-1] + 1)] if calls else []
            return (after if guarded else None), back
        goes_on, targets = self._next(index)
        return (after if goes_on else None), [(calls, target) for target in targets]


def _renumbered(blocks: Iterable[Block], order: list[int]) -> list[Block]:
    new = {old: number for number, old in enumerate(order)}
    old_blocks = list(blocks)
    return [
        Block(
            old_blocks[old].code,
            None if (following := old_blocks[old].following) is None else new[following],
            tuple(new[target] for target in old_blocks[old].targets),
            old_blocks[old].cold,
        )
        for old in order
    ]


def _reverse_postorder(successors: list[tuple[int, ...]]) -> list[int]:
    seen, done = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors[following])))
    return done[::-1]


def _dominators(successors: list[tuple[int, ...]]) -> list[int]:
    """Returns the immediate dominators of blocks that are numbered in reverse postorder (Cooper, Harvey & Kennedy 2001)."""
    before: list[list[int]] = [[] for _ in successors]
    for block, nexts in enumerate(successors):
        for target in nexts:
            before[target].append(block)
    above = [-1] * len(successors)
    above[0] = 0
    changed = True
    while changed:
        changed = False
        for block in range(1, len(successors)):
            found = -1
            for other in before[block]:
                if above[other] < 0:
                    continue
                if found < 0:
                    found = other
                    continue
                a, b = other, found
                while a != b:
                    while a > b:
                        a = above[a]
                    while b > a:
                        b = above[b]
                found = a
            if above[block] != found:
                above[block], changed = found, True
    return above


def _natural_loops(function: MachineFunction, blocks: list[Block], successors: list[tuple[int, ...]]) -> dict[int, set[int]]:
    """Returns header -> blocks of each loop; blocks are numbered in reverse postorder."""
    above = _dominators(successors)
    before: list[list[int]] = [[] for _ in successors]
    for block, nexts in enumerate(successors):
        for target in nexts:
            before[target].append(block)
    loops: dict[int, set[int]] = {}
    for block, nexts in enumerate(successors):
        for target in nexts:
            if target > block:
                continue
            at = block
            while at > target:
                at = above[at]
            if at != target:
                here, there = place(function, blocks[block].code[-1]), place(function, blocks[target].code[0])
                raise FrontEndError(f"irreducible control flow: the jump at {here} enters the middle of a loop, at {there}")
            body = loops.setdefault(target, {target})
            todo = [block]
            while todo:
                member = todo.pop()
                if member not in body:
                    body.add(member)
                    todo += before[member]
    return loops


def _nested_order(successors: list[tuple[int, ...]], loops: dict[int, set[int]]) -> list[int]:
    """Returns the blocks in topological order, back edges left out, with the blocks of each loop side by side."""
    by_size = sorted(loops, key=lambda header: len(loops[header]))

    def arrange(region: set[int], entry: int, inner: list[int]) -> list[int]:
        """Arranges a region whose loops, the smallest first, are `inner`."""
        item_of = {block: block for block in region}
        outermost = [h for k, h in enumerate(inner) if not any(loops[h] < loops[o] for o in inner[k + 1 :])]
        for header in outermost:
            for block in loops[header]:
                item_of[block] = header
        edges: dict[int, set[int]] = {}
        waiting: dict[int, int] = dict.fromkeys(set(item_of.values()), 0)
        for block in region:
            for target in successors[block]:
                a, b = item_of[block], item_of.get(target)
                if b is not None and b != a and target != entry and b not in edges.setdefault(a, set()):
                    edges[a].add(b)
                    waiting[b] += 1
        ready = [item for item, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            item = heapq.heappop(ready)
            if item in outermost:
                below = [h for h in inner if h != item and loops[h] <= loops[item]]
                order += arrange(loops[item], item, below)
            else:
                order.append(item)
            for target in edges.get(item, ()):
                waiting[target] -= 1
                if waiting[target] == 0:
                    heapq.heappush(ready, target)
        return order

    return arrange(set(range(len(successors))), 0 if 0 not in loops else -1, by_size)

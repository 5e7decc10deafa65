"""What an execution of the integer part of a kernel does with each instruction: its effect, its guard, the address accessed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.execution.effects import Effect
from warpsim.frontends.execution.predicates import fails
from warpsim.frontends.execution.semantics import effect_of
from warpsim.frontends.execution.stated import unused_comparisons
from warpsim.frontends.launch.keys import keys_of
from warpsim.frontends.launch.tiles import Tile
from warpsim.frontends.machine_code.flow import Flow, Place
from warpsim.frontends.machine_code.memory_instructions import TEXTURES, space_of
from warpsim.frontends.machine_code.operands import (
    STACK_POINTER,
    Address,
    Constant,
    Register,
    addresses,
    calls_outside,
    conditions,
    guard_of,
    is_predicate,
    operands,
    read,
    refilled_words,
    registers_of,
    spilled_words,
    stack_words,
    table_of,
    written,
)
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.waits.async_copies import (
    PHASE_WORD_OFFSET,
    Role,
    barrier_address,
    bulk_of,
    corner_of,
    is_peek,
    phase_word,
    role_of,
)

_WRITERS_OF_A_FRAME = 2
"""Instructions that write the stack pointer where there is one frame only: one that loads it, and one that makes the frame."""

_SUMS = ("FADD", "FFMA")

_HAVE_CARRIES = {"X", "EX"}
"""Suffixes of instructions on upper words."""

_RETURNED = ("R4", "R5", "R6", "R7")
"""Registers in which a function returns up to 16 bytes."""


@dataclass(frozen=True, eq=False)
class Step:
    """One instruction as it is executed: its effect, its guard, and the address that it accesses.

    The effect computes with the registers `inputs`.

    `role` is what it does with asynchronous copies; `barrier` is the address of the barrier in shared memory that it names, and
    `length` the register with the length of its copy, or the number of bytes that the barrier is to expect. A copy by a tensor
    map may move a known `tile`, which begins at a `corner`. `wide` are those of its results that are words of numbers of 64 bits.
    Where nothing of the kind depends on its results, they do not matter.
    """

    index: int
    one: MachineInstruction
    effect: Effect | None
    results: tuple[str, ...]
    guard: Register | None
    addresses: tuple[Address, ...]
    role: Role | None = None
    barrier: Address | None = None
    length: Register | None = None
    tile: Tile | None = None
    corner: tuple[Register, ...] = ()
    wide: frozenset[str] = frozenset()
    matters: bool = True
    inputs: tuple[str, ...] = ()

    @cached_property
    def accesses(self) -> bool:
        """Whether it accesses memory."""
        return bool(self.addresses) or space_of(self.one) is not None

    @cached_property
    def compares(self) -> bool:
        """Whether its effect notes by how much operands differ, as comparisons may."""
        return any(is_predicate(Register(name)) for name in self.results)

    @cached_property
    def is_pure(self) -> bool:
        """Whether one number for all threads follows from such inputs, whichever threads are active."""
        return not any(isinstance(part, Constant) and part.index is not None for part in operands(self.one.operands))


class Steps:
    """The steps of a flow: the instructions on which branches, addresses and guards depend, and those that access memory.

    Args:
        flow: the kernel.
        tiles: of copies by tensor maps, by line or address.
        stated: loops whose trips the caller states, so that the comparisons at their ends do not count.
    """

    def __init__(self, flow: Flow, tiles: Mapping[str, Tile], stated: Collection[int] = ()) -> None:
        self.flow, self.tiles = flow, tiles
        self.unused = unused_comparisons(flow, {block for loop in stated for block in flow.closing[loop]})
        facts = [_facts(one) for one in flow.function.code]
        self.needed = _needed(flow, facts)
        self.read_later = _read_later(flow, facts)
        writers = [one for one in flow.function.code if STACK_POINTER in written(one)]
        self.has_one_frame = len(writers) <= _WRITERS_OF_A_FRAME
        self.innermost = flow.innermost()
        self.known: dict[int, list[Step]] = {}
        self.carried: dict[int, set[Place]] = {}

    def of_block(self, number: int) -> list[Step]:
        """Returns the steps of a block."""
        if number in self.known:
            return self.known[number]
        steps = self.known[number] = []
        for index in self.flow.blocks[number].code:
            if (number, index) in self.unused:
                continue
            one = self.flow.function.code[index]
            results = tuple(name for name in (*_results_of(one), *returned_by(one)) if name in self.needed)
            accessed, role = space_of(one) is not None, role_of(one)
            if not results and not accessed and role is None and one.base != "BAR":
                continue
            where = accessed_by(one) if accessed else ()
            effect = effect_of(one) if results and self._is_followed(number, index) else None
            if role == "test" and is_peek(self.flow.function.code[index : self.flow.blocks[number].code.stop]):
                role, effect = None, fails(operands(one.operands))
            wide = _words_of_pairs(self.flow.function.code, index) if results and accessed else frozenset[str]()
            matters = (number, index) in self.read_later
            inputs = (*read(one), *refilled_words(one))
            step = Step(index, one, effect, results, guard_of(one), where, role, wide=wide, matters=matters, inputs=inputs)
            if role is not None:
                corner, stated = corner_of(one), [self.tiles[str(key)] for key in keys_of(one) if str(key) in self.tiles]
                if corner and stated:
                    step = replace(step, tile=stated[0], corner=_matching(stated[0], corner, one))
                step = replace(step, barrier=_barrier_of(self.flow, number, index), length=_length_of(one))
            steps.append(step)
        return steps

    def loads_numbers_from_shared(self) -> bool:
        """Returns whether anything that matters may follow from a load from shared memory."""
        code = self.flow.function.code
        return any(one.base in ("LDS", "LD") and not self.needed.isdisjoint(written(one)) for one in code)

    def _is_followed(self, number: int, index: int) -> bool:
        """Returns whether the results of an instruction in a block matter enough to be computed.

        Sums of floating-point numbers that a loop carries on are mostly results, and advance unevenly, so that no trip could be
        left out.
        """
        one, loop = self.flow.function.code[index], self.innermost[number]
        if (number, index) not in self.read_later:
            return False
        if one.base in _SUMS and loop is not None and (number, index) in self._carried(loop):
            return False
        return self.has_one_frame or not stack_words(one)

    def _carried(self, loop: int) -> set[Place]:
        """Returns the instructions of a loop from whose results those follow that a trip leaves to the next one."""
        if loop in self.carried:
            return self.carried[loop]
        blocks, header = self.flow.loops[loop].blocks, self.flow.loops[loop].header
        code = {block: [(index, self.flow.function.code[index]) for index in self.flow.blocks[block].code] for block in blocks}

        def before(block: int, after: set[str], *, of_all: bool) -> set[str]:
            """Returns the registers before a block that it reads; or, if not `of_all`, for what is asked for behind it alone."""
            for index, one in reversed(code[block]):
                results = set(written(one))
                if of_all or not after.isdisjoint(results):
                    inputs = set(read(one)) if of_all or space_of(one) is None else set()
                    if not of_all:
                        found.add((block, index))
                    after = (after - results if not one.guard else after) | inputs
            return after

        def at_starts(left: set[str], *, of_all: bool) -> dict[int, set[str]]:
            """Returns the registers at the start of each block, where so many are left to the next trip."""
            asked: dict[int, set[str]] = {block: set() for block in blocks}
            grows = True
            while grows:
                grows = False
                for block in sorted(blocks, reverse=True):
                    ahead = [one for one in self.flow.blocks[block].successors if one in blocks]
                    after = set().union(*(left if one == header and not of_all else asked[one] for one in ahead))
                    here = before(block, after, of_all=of_all)
                    grows |= not here <= asked[block]
                    asked[block] |= here
            return asked

        found: set[Place] = set()
        every = {name for block in blocks for _, one in code[block] for name in written(one)}
        at_starts(at_starts(set(), of_all=True)[header] & every, of_all=False)
        self.carried[loop] = found
        return found


def _words_of_pairs(code: Sequence[MachineInstruction], index: int) -> frozenset[str]:
    """Returns those words that a load of 8 or 16 bytes returns which are taken together as numbers of 64 bits, such as pointers.

    The compiler joins loads of neighbouring words, too. So it counts how the upper word is used first: with the lower one, or
    with a carry. Where it is only moved, the two words are taken for one number.
    """
    names = written(code[index])
    if {"64", "128"}.isdisjoint(code[index].opcode.split(".")):
        return frozenset()
    found: set[str] = set()
    for low, high in zip(names[::2], names[1::2], strict=False):
        first = next((one for one in code[index + 1 :] if high in (*read(one), *written(one)) and not _moves(one)), None)
        if first is None or high not in read(first) or low in read(first) or _HAVE_CARRIES & set(first.opcode.split(".")):
            found |= {low, high}
    return frozenset(found)


def _moves(one: MachineInstruction) -> bool:
    return one.base.removeprefix("U") in ("MOV", "R2UR") or one.opcode.startswith("IMAD.MOV")


def _matching(tile: Tile, corner: tuple[Register, ...], one: MachineInstruction) -> tuple[Register, ...]:
    """Returns those coordinates of a copy that its tile has; the dimensions that it leaves out have one element."""
    if len(tile.shape) > len(corner):
        what = f"{one.opcode} copies a tile of {len(corner)} dimensions, and not {len(tile.shape)}"
        raise FrontEndError(f"patterns[{str(keys_of(one)[0])!r}]: {what}")
    return corner[: len(tile.shape)]


def returned_by(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the registers in which a function returns its result, such as malloc, if the binary does not hold it."""
    return _RETURNED if calls_outside(one) else ()


def accessed_by(one: MachineInstruction) -> tuple[Address, ...]:
    """Returns the addresses of an instruction that accesses memory."""
    bulk = bulk_of(one)
    if bulk is not None:
        return () if bulk.address is None else (bulk.address,)
    return () if one.base in TEXTURES else addresses(one)


def _barrier_of(flow: Flow, number: int, index: int) -> Address | None:
    """Returns the address of the barrier in shared memory that an instruction of a block names, perhaps by its word."""
    one, word = flow.function.code[index], phase_word(flow.function.code[index])
    if word is None:
        return barrier_address(one)
    for before in reversed(range(flow.blocks[number].code.start, index)):
        loaded = flow.function.code[before]
        if word in written(loaded):
            found = barrier_address(loaded) if loaded.base == "LDS" else None
            return None if found is None else Address(found.terms, found.offset - PHASE_WORD_OFFSET)
    return None


def _length_of(one: MachineInstruction) -> Register | None:
    bulk = bulk_of(one)
    if bulk is not None:
        return bulk.length
    last = operands(one.operands)[-1] if one.operands else None
    return last if one.base == "SYNCS" and isinstance(last, Register) else None


def _results_of(one: MachineInstruction) -> tuple[str, ...]:
    """Returns the registers and predicates that an instruction writes, and the words of the stack to which it spills some."""
    return (*written(one), *spilled_words(one))


Facts = Sequence[tuple[frozenset[str], frozenset[str], frozenset[str]]]
"""Of each instruction the registers that it writes, those that are asked for, and those from which its results follow."""


def _facts(one: MachineInstruction) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    return frozenset((*_results_of(one), *returned_by(one))), frozenset(_asked_by(one)), frozenset(_inputs_of(one))


def _needed(flow: Flow, facts: Facts) -> set[str]:
    """Returns the registers on which branches, addresses and guards depend, wherever they are."""
    needed: set[str] = set()
    by_result: dict[str, list[frozenset[str]]] = {}
    for index in {index for block in flow.blocks for index in block.code}:
        results, asked, inputs = facts[index]
        for name in results - set(returned_by(flow.function.code[index])):
            by_result.setdefault(name, []).append(inputs)
        needed |= asked
    todo = list(needed)
    while todo:
        for inputs in by_result.get(todo.pop(), ()):
            fresh = inputs - needed
            needed |= fresh
            todo += fresh
    return needed


def _asked_by(one: MachineInstruction) -> set[str]:
    """Returns the registers on which the branch, the addresses and the guard of an instruction depend."""
    if one.base in ("BRA", "JMP", "CALL", "RET", "EXIT", "BAR"):
        return {part.name for part in conditions(one)}
    if (through := table_of(one)) is not None:
        return {through.name}
    if space_of(one) is None and role_of(one) is None:
        return set()
    found = {part.name for part in [guard_of(one), _length_of(one), *corner_of(one)] if part}
    for where in (*accessed_by(one), barrier_address(one)):
        for term, _ in where.terms if where else ():
            found |= set(registers_of(term.name, 2 if term.pair else 1))
    return found


def _inputs_of(one: MachineInstruction) -> set[str]:
    """Returns the registers on which the results of an instruction depend, as far as they are known."""
    if space_of(one) is not None and not stack_words(one):
        return set()  # what memory returns is unknown, whatever its address
    return {*read(one), *refilled_words(one)}


def _read_later(flow: Flow, facts: Facts) -> set[Place]:
    """Returns the instructions on whose results branches, addresses or guards may depend, by the flow from there on."""
    found: set[Place] = set()
    asked: dict[int, set[str]] = {number: set() for number in range(len(flow.blocks))}
    grows = True
    while grows:
        grows = False
        for number in reversed(range(len(flow.blocks))):
            block = flow.blocks[number]
            after = {STACK_POINTER}.union(*(asked[each] for each in block.successors))
            for index in reversed(block.code):
                results, asked_here, inputs = facts[index]
                is_asked = not after.isdisjoint(results)
                if not flow.function.code[index].guard:
                    after -= results
                after |= asked_here
                if is_asked:
                    found.add((number, index))
                    after |= inputs
            grows |= not after <= asked[number]
            asked[number] |= after
    return found

"""Values from memory that are not known, but the same for all threads of a warp, and the addresses that follow from them.

Threads that load from one address get one value. An address that adds what is known of each thread to it, as that of
`table[row * width + column]` does, is known but for where it begins. To find the distances within a warp, each such load is taken
to return a number that is made up for its address, and in shared memory for how often it has been stored, too. What follows
from it by sums, and by products with factors that the threads of the warp have in common, is computed beside the state of the
threads, in which it stays unknown. So addresses alone come to be known, and no branch, trip or guard of an access.

Where a condition on such a number chooses between it and a value that is known, as where an index is held within the bounds of a
table, or where a padding has a row of its own, the number is taken to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution import windows
from warpsim.frontends.execution.effects import split
from warpsim.frontends.execution.rewrites import WORD_BYTES, Rewrites, in_shared
from warpsim.frontends.execution.state import State
from warpsim.frontends.execution.steps import Step
from warpsim.frontends.machine_code.memory_instructions import bytes_per_thread
from warpsim.frontends.machine_code.operands import Immediate, Operand, Register, is_predicate, operands, read, written
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import MASK, NOTHING, UNKNOWN, Values, array, known
from warpsim.units import WARP_LANES

_LOADS = ("LDG", "LD", "LDS", "LDC")
"""Loads that return the same to threads with the same address. Atomics do not, and the local memory of each thread is its own."""

_SUMS = ("MOV", "R2UR", "IADD3", "IADD", "VIADD", "IMAD", "LEA")
"""Instructions that add, perhaps products; uniform ones have a U before. Their predicates are carries."""

_CHOICES = ("SEL", "IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX")
"""Instructions whose result is one of several values; uniform ones have a U before."""

_MOST, _MOST_OF_BLOCK, _MOST_OF_TWO, _MOST_OF_A_BYTE = (1 << 20) - 1, (1 << 10) - 1, (1 << 15) - 1, (1 << 7) - 1
"""The most of numbers that are made up: in all, for the shared memory of a block, and in words of two bytes and of one."""

_WORDS_APART = 4391
"""Distance of numbers of 32 bits that are made up, so that data does not overlap which begins at the number itself, as the rows
of a sparse matrix do. It is odd, so that multiples of a number begin wherever their factor lets them."""

_PAGE_BYTES = 1 << 14
"""Distance of pointers that are made up."""

_GOLDEN, _SCATTERED_BITS = 0x9E3779B97F4A7C15, 25
"""Odd number by which places are multiplied that are made up themselves, modulo 2^64, and the upper bits of the product that are
the number there: any of so many that thousands follow one another until one comes back, and pointers stay before all arrays."""

_REWRITTEN_APART, _PARTS_APART, _MOST_APART = 0x9E3779B1, 0x85EBCA6B, (1 << 30) - 1
"""Distances of numbers that a word of shared memory holds one after another, and of those that begin parts of it with
`_MOST_OF_BLOCK` numbers; both modulo 2^30, over which multiples of them are spread."""

_APART = 257
"""By how much the numbers of blocks differ that are neighbours along y, or by whose square, along z."""

_SIGN = 0x1F
"""Shift to the right that leaves the sign of a number alone."""


class Bases:
    """What registers would hold if memory returned the numbers that are made up.

    `values` has those registers that hold another value, for some threads, than is known of them.

    Args:
        rewrites: stores to shared memory; None: nothing that matters is loaded from there.
    """

    def __init__(self, rewrites: Rewrites | None = None) -> None:
        self.values: dict[str, Values] = {}
        self.rewrites = rewrites
        self._blocks: Values | None = None

    def copy(self) -> Bases:
        """Returns what goes on by itself."""
        other = Bases(None if self.rewrites is None else self.rewrites.copy())
        other.values, other._blocks = dict(self.values), self._blocks
        return other

    @contextmanager
    def instead(self, state: State) -> Iterator[None]:
        """Lets registers hold these values for a while. Comparisons are not noted meanwhile."""
        values, differences = state.values, state.differences
        state.values, state.differences = values | self.values, None
        try:
            yield
        finally:
            state.values, state.differences = values, differences

    def results(self, step: Step, state: State, found: Mapping[str, Values]) -> dict[str, Values]:
        """Returns the results of an instruction that follow from numbers that are made up; `found` are those that are known."""
        if step.one.base in _LOADS and step.addresses:
            return self._loaded(step, state) if step.matters else {}
        if step.effect is None or self.values.keys().isdisjoint(step.inputs):
            return {}
        with self.instead(state):
            valid = np.repeat(self._keeps_distances(step.one, state), WARP_LANES)
            made_up = dict(step.effect(state)) if valid.any() else {}
        if made_up and _plain(step.one) in _CHOICES:
            made_up |= self._chosen(step, state, made_up)
        return {name: np.where(valid, made_up[name], found.get(name, NOTHING)) for name in step.results if name in made_up}

    def write(self, name: str, made_up: Values, known: Values) -> None:
        """Notes what a register holds: a value that follows from numbers that are made up, and what is known of it."""
        if _is_guess(made_up, known).any():
            self.values[name] = made_up
        else:
            self.values.pop(name, None)

    def merged(
        self, name: str, found: tuple[Values, Values], held: Values, state: State, guard: Operand, sure: NDArray[np.bool_]
    ) -> Values:
        """Returns what a register would hold where it is written under a guard that holds for sure for some threads only.

        Args:
            name: of the register.
            found: what would be written, and what is known of it.
            held: what is known of what the register holds before.
            state: of the threads.
            guard: a predicate.
            sure: bool[threads].
        """
        new, old = found[0], self.values.get(name, held)
        with self.instead(state):
            holds = np.broadcast_to(state.read(guard), state.active.shape)
        decided = np.repeat(_alike(holds, state.active), WARP_LANES) & (holds >= 0)
        chosen = _only_guess(np.where(holds == 1, new, old), [found, (old, held)])
        return np.where(sure, new, np.where(decided, chosen, np.where(new == old, new, UNKNOWN)))

    def forget_uneven(self, before: Mapping[str, Values], mask: NDArray[np.bool_]) -> None:
        """Forgets the registers that have moved since then by distances that differ within a warp."""
        for name, value in list(self.values.items()):
            old = before.get(name)
            if old is value:
                continue
            if old is None or not _alike((value - old) & MASK, mask).all() or ((value < 0) != (old < 0)).any():
                del self.values[name]

    def _loaded(self, step: Step, state: State) -> dict[str, Values]:
        """Returns what a load is taken to return to the warps whose threads load from one address."""
        sure = np.broadcast_to(state.address(step.addresses[0]), state.active.shape)
        where = sure
        if not self.values.keys().isdisjoint(step.inputs):
            with self.instead(state):
                where = np.broadcast_to(state.address(step.addresses[0]), state.active.shape)
        shared = _alike(where, state.active) & ~((where < 0) & state.active).reshape(-1, WARP_LANES).any(axis=1)
        if windows.is_generic(step.one):
            own = (windows.within(where, "local", array(0)) >= 0) & state.active
            shared &= ~own.reshape(-1, WARP_LANES).any(axis=1)
        if not shared.any():
            return {}
        lanes, words = np.repeat(shared, WARP_LANES), written(step.one)
        first = state.active.reshape(-1, WARP_LANES).argmax(axis=1) + np.arange(0, len(where), WARP_LANES)
        blocks = np.where(in_shared(step.one, where)[first], self._blocks_of_warps(state), UNKNOWN)
        sure, where = sure[first], where[first]
        found = {}
        for name in step.results:
            size = 8 if name in step.wide else min(WORD_BYTES, bytes_per_thread(step.one))
            word = words.index(name) * WORD_BYTES
            begin = word // size * size
            times = array(0) if self.rewrites is None else self.rewrites.times(np.where(sure < 0, UNKNOWN, sure + begin))
            numbers = _made_up(size, where + begin, blocks, times, is_known=sure >= 0) >> 8 * (word - begin) & MASK
            found[name] = np.where(lanes, np.repeat(numbers, WARP_LANES), UNKNOWN)
        return found

    def _blocks_of_warps(self, state: State) -> Values:
        """Returns a number for the block of each warp, which differs between neighbours: int64[warps]."""
        if self._blocks is None:
            x, y, z = (np.broadcast_to(state.special[f"SR_CTAID.{letter}"], state.active.shape) for letter in "XYZ")
            self._blocks = (x + _APART * (y + _APART * z))[::WARP_LANES]
        return self._blocks

    def _chosen(self, step: Step, state: State, made_up: Mapping[str, Values]) -> dict[str, Values]:
        """Returns the result of an instruction that chooses a value by numbers that are made up, as `made_up` has it."""
        names = [name for name in step.results if not is_predicate(Register(name))]
        chooser, sure = _alternatives(step.one, state, len(names))
        with self.instead(state):
            would_choose, held = _alternatives(step.one, state, len(names))
        by_guess = _is_guess(would_choose, chooser) if _plain(step.one) == "SEL" else np.ones(1, bool)
        words = zip(names, zip(*held, strict=True), zip(*sure, strict=True), strict=True)
        found = {name: _only_guess(made_up[name], list(zip(values, known, strict=True))) for name, values, known in words}
        return {name: np.where(by_guess, value, made_up[name]) for name, value in found.items()}

    def _keeps_distances(self, one: MachineInstruction, state: State) -> NDArray[np.bool_]:
        """Returns of which warps the results of an instruction differ from thread to thread by what is known: bool[warps].

        Sums and products with a known common factor do. Of others the operands must be the same for all threads of a warp.
        """
        if _is_sum(one):
            return np.ones(len(state.active) // WARP_LANES, bool)
        if _plain(one) == "IMAD" and "HI" not in one.opcode.split("."):
            a, b = split(operands(one.operands))[2][:2]
            of_a, of_b = (_alike(state.read(part), state.active) for part in (a, b))
            return of_a & of_b | of_a & (not self._is_made_up(a)) | of_b & (not self._is_made_up(b))
        alike = [_alike(state.register(name), state.active) for name in read(one)]
        return np.asarray(np.logical_and.reduce(alike))

    def _is_made_up(self, part: Operand) -> bool:
        return isinstance(part, Register) and part.name in self.values


def _plain(one: MachineInstruction) -> str:
    """Returns the opcode of an instruction without suffixes, and without the U of uniform ones."""
    return one.base.removeprefix("U")


def _is_sum(one: MachineInstruction) -> bool:
    """Returns whether results are sums of the operands, each perhaps times a constant; upper words, where lower ones carry."""
    base, suffixes = _plain(one), one.opcode.split(".")[1:]
    if base == "SHF":
        by = operands(one.operands)[2]
        to_the_left, sign = "L" in suffixes, isinstance(by, Immediate) and by.value == _SIGN and "S32" in suffixes
        return isinstance(by, Immediate) and (to_the_left or sign)
    if base == "LEA":
        return "HI" not in suffixes or "X" in suffixes
    return base in _SUMS and base != "IMAD"


def _is_guess(value: Values, known: Values) -> NDArray[np.bool_]:
    """Returns where a value follows from numbers that are made up."""
    return np.asarray((value >= 0) & (known < 0))


def _only_guess(otherwise: Values, alternatives: Sequence[tuple[Values, Values]]) -> Values:
    """Returns the one of several values, each with what is known of it, that follows from numbers that are made up.

    Where none or several of them do, it is `otherwise`; where this is not known, nothing is.
    """
    guesses = [_is_guess(*each) for each in alternatives]
    found, is_one = otherwise, (sum(guess.astype(int) for guess in guesses) == 1) & (otherwise >= 0)
    for (value, _), guess in zip(alternatives, guesses, strict=True):
        found = np.where(is_one & guess, value, found)
    return found


def _alternatives(one: MachineInstruction, state: State, words: int) -> tuple[Values, list[tuple[Values, ...]]]:
    """Returns the last predicate of an instruction, and the values, of one word or two, of which it chooses one."""
    parts = operands(one.operands)
    values = [part for part in parts if not is_predicate(part)][1:]
    found: list[tuple[Values, ...]] = [state.read_pair(part) if words > 1 else (state.read(part),) for part in values]
    if _plain(one) == "VIADDMNMX":
        first, second = (state.read(part) for part in values[:2])
        found = [(known(first + second, first, second),), found[2]]
    return state.read(parts[-1]), found


def _alike(values: Values, active: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns the warps whose active threads have the same value: bool[warps]."""
    lanes = active.reshape(-1, WARP_LANES)
    if values.size == 1:
        return np.ones(len(lanes), bool)
    rows = values.reshape(-1, WARP_LANES)
    first = rows[np.arange(len(rows)), lanes.argmax(axis=1)]
    return np.asarray(((rows == first[:, None]) | ~lanes).all(axis=1))


def _made_up(size: int, where: Values, blocks: Values, times: Values, *, is_known: NDArray[np.bool_]) -> Values:
    """Returns the numbers that memory is taken to hold for warps that load from one address each.

    They are in the order of the addresses, as in a list that names each row once, and scattered where the addresses are made up,
    too, as in a list whose elements name the next one. Each block's shared memory has its own, and others each time when it has
    been stored. Numbers of 32 bits and less are any, so that a row begins where its length lets it; those of 32 bits are far from
    each other. Those of 64 bits may be pointers, and are taken to begin pages.

    Args:
        size: bytes of a number.
        where: address in memory.
        blocks: whose shared memory that is; negative of other memory.
        times: how often a number of shared memory has been stored.
        is_known: whether the address is known; otherwise it follows from numbers that are made up.
    """
    part, of_part = divmod(windows.of_block(where) // size, _MOST_OF_BLOCK + 1)
    of_memory = np.where(is_known, where // size & _MOST, _scattered(where // size))
    numbers = np.where(blocks < 0, of_memory, of_part + blocks * (_MOST_OF_BLOCK + 1))
    apart = np.where(blocks < 0, 0, part * _PARTS_APART + times * _REWRITTEN_APART & _MOST_APART)
    if size > WORD_BYTES:
        return (numbers + apart) * _PAGE_BYTES
    if size == WORD_BYTES:
        return (numbers * _WORDS_APART & MASK >> 4) + apart
    return numbers + apart & (_MOST_OF_A_BYTE if size == 1 else _MOST_OF_TWO)


def _scattered(places: Values) -> Values:
    """Returns numbers that differ from place to place as if by chance."""
    product = (places + 1).astype(np.uint64) * np.uint64(_GOLDEN)
    return (product >> np.uint64(64 - _SCATTERED_BITS)).astype(np.int64)

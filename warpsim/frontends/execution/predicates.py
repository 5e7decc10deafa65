"""Instructions that compare, select, and pack predicates, as functions of the values of registers (`semantics.py`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution import integers
from warpsim.frontends.execution.effects import Effect, Parts, Suffixes, name_of, names_of, predicate, split
from warpsim.frontends.execution.state import State
from warpsim.frontends.machine_code.operands import Immediate, Register, is_predicate, masked_predicates
from warpsim.frontends.values import MASK, NOTHING, UNKNOWN, Values, array, known
from warpsim.frontends.waits.async_copies import first_lanes
from warpsim.units import WARP_LANES


def predicate_logic(suffixes: Suffixes, parts: Parts) -> Effect:
    """PLOP3: two functions of three predicates, each given by a table."""
    first, second = name_of(parts[0]), name_of(parts[1])
    (a, b, c), (table, other) = map(predicate, parts[2:5]), parts[5:7]
    if not isinstance(table, Immediate) or not isinstance(other, Immediate):
        raise ValueError
    tables = ((first, table.value), (second, other.value))
    return lambda s: [(name, integers.predicate_logic(s.read(a), s.read(b), s.read(c), bits)) for name, bits in tables]


def compare(suffixes: Suffixes, parts: Parts) -> Effect:
    """ISETP: compares two values, and combines the outcome with a predicate."""
    first, second, a, b, also = name_of(parts[0]), name_of(parts[1]), parts[2], parts[3], predicate(parts[4])
    how = suffixes[0]
    is_signed, wide = "U32" not in suffixes and "U64" not in suffixes, _is_wide(suffixes)
    combining = next((word for word in suffixes if word in ("AND", "OR", "XOR")), "")
    lower = predicate(parts[5]) if "EX" in suffixes else None
    if how not in integers.COMPARISONS or not combining or "64" in suffixes:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        below = None if lower is None else s.read(lower)
        if wide:
            (low_x, x), (low_y, y) = s.read_pair(a), s.read_pair(b)
            below = integers.compare(low_x, low_y, how, is_signed=False)
            if s.differences is not None:
                s.differences.append(integers.difference(low_x, low_y, is_signed=False))
        else:
            x, y = s.read(a), s.read(b)
        if s.differences is not None:
            s.differences.append(integers.difference(x, y, is_signed=is_signed))
        outcome = integers.compare(x, y, how, is_signed=is_signed, lower=below)
        other = s.read(also)
        opposite = np.where(outcome < 0, UNKNOWN, 1 - outcome)
        return [(first, integers.combine(outcome, other, combining)), (second, integers.combine(opposite, other, combining))]

    return effect


def select(suffixes: Suffixes, parts: Parts) -> Effect:
    """SEL: one of two values."""
    names, a, b, chooser = names_of(parts[0], 2 if "64" in suffixes else 1), parts[1], parts[2], predicate(parts[3])

    def effect(s: State) -> list[tuple[str, Values]]:
        which = s.read(chooser)
        sides = zip(s.read_pair(a), s.read_pair(b), strict=True) if len(names) == 2 else [(s.read(a), s.read(b))]
        found = [np.where(which < 0, np.where(x == y, x, UNKNOWN), np.where(which == 1, x, y)) for x, y in sides]
        return list(zip(names, found, strict=True))

    return effect


def minimum(suffixes: Suffixes, parts: Parts) -> Effect:
    """IMNMX, VIMNMX, VIMNMX3: the smallest or the largest value, as a predicate says; with RELU, at least 0; also of halves."""
    if _is_wide(suffixes):
        return _minimum_of_pairs(suffixes, parts)
    if suffixes in (("S16x2",), ("U16x2",)):
        return _minimum_of_halves(suffixes, parts)
    result, also, values, tail = split(parts)
    is_signed, chooser = "U32" not in suffixes, tail[-1]
    if set(suffixes) - {"U32", "S32", "RELU"}:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        smaller, found = s.read(chooser), s.read(values[0])
        for part in values[1:]:
            other = s.read(part)
            first_is_less = integers.compare(found, other, "LE", is_signed=is_signed)
            found = known(np.where(first_is_less == smaller, found, other), found, other, smaller)
        return [(result, _at_least_0(found, suffixes)), *((name, NOTHING) for name in also)]

    return effect


def _minimum_of_halves(suffixes: Suffixes, parts: Parts) -> Effect:
    """VIMNMX.S16x2: the smaller or the larger of the lower halves of two values, and of the upper ones."""
    if len(parts) != 4:
        raise ValueError
    result, a, b, chooser = name_of(parts[0]), *parts[1:3], predicate(parts[3])
    is_signed = suffixes == ("S16x2",)

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, smaller = s.read(a), s.read(b), s.read(chooser)
        total = array(0)
        for first_bit in (0, 16):
            one, other = (each >> first_bit & 0xFFFF for each in (x, y))
            first, second = (integers.extended(half, 16, is_signed=is_signed) & MASK for half in (one, other))
            first_is_less = integers.compare(first, second, "LE", is_signed=True)
            total = total | np.where(first_is_less == smaller, one, other) << first_bit
        return [(result, known(total, x, y, smaller))]

    return effect


def _minimum_of_pairs(suffixes: Suffixes, parts: Parts) -> Effect:
    """IMNMX.U64: the smaller or the larger of two values of 64 bits, as the predicate after them says."""
    parts = parts[next(k for k, part in enumerate(parts) if not is_predicate(part)) :]
    names, a, b, chooser = names_of(parts[0], 2), parts[1], parts[2], predicate(parts[3])

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, smaller = s.read_pair(a), s.read_pair(b), s.read(chooser)
        below = integers.compare(x[0], y[0], "LE", is_signed=False)
        first_is_less = integers.compare(x[1], y[1], "LE", is_signed="U64" not in suffixes, lower=below)
        first = known(np.where(first_is_less == smaller, 1, 0), first_is_less, smaller)
        words = zip(names, x, y, strict=True)
        return [(name, np.where(first < 0, UNKNOWN, np.where(first == 1, one, other))) for name, one, other in words]

    return effect


def _at_least_0(value: Values, suffixes: Suffixes) -> Values:
    return np.where(value >> 31 == 1, 0, value) if "RELU" in suffixes else value


def _is_wide(suffixes: Suffixes) -> bool:
    return "U64" in suffixes or "S64" in suffixes


def add_minimum(suffixes: Suffixes, parts: Parts) -> Effect:
    """VIADDMNMX: the smaller or the larger of a + b and c; with RELU, at least 0."""
    result, a, b, c, chooser = name_of(parts[0]), *parts[1:4], predicate(parts[4])
    if set(suffixes) - {"U32", "S32", "RELU"}:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, z, smaller = s.read(a), s.read(b), s.read(c), s.read(chooser)
        total = known(x + y, x, y)
        first_is_less = integers.compare(total, z, "LE", is_signed="U32" not in suffixes)
        found = known(np.where(first_is_less == smaller, total, z), total, z, smaller)
        return [(result, _at_least_0(found, suffixes))]

    return effect


def first_check(suffixes: Suffixes, parts: Parts) -> Effect:
    """FCHK asks whether a division needs its slow path, which only rare operands do."""
    flag = name_of(parts[0])
    return lambda s: [(flag, array(0))]


def pack_predicates(suffixes: Suffixes, parts: Parts) -> Effect:
    """P2R, UP2UR: predicates become bits of a register, whose other bits come from another one."""
    result, rest, mask = name_of(parts[0]), parts[2], parts[3]
    if suffixes or not isinstance(mask, Immediate):
        raise ValueError
    names, kept = masked_predicates(parts), ~mask.value & MASK

    def effect(s: State) -> list[tuple[str, Values]]:
        other, flags = s.read(rest), [s.register(name) for name in names]
        total = other & kept
        for name, flag in zip(names, flags, strict=True):
            total = total | flag << int(name.lstrip("UP"))
        return [(result, known(total, other, *flags))]

    return effect


def unpack_predicates(suffixes: Suffixes, parts: Parts) -> Effect:
    """R2P, UR2UP: bits of a register become predicates."""
    source, names = parts[1], masked_predicates(parts)
    if suffixes or not isinstance(source, Register):
        raise ValueError
    first = _first_bit_of(source)

    def effect(s: State) -> list[tuple[str, Values]]:
        bits = s.register(source.name)
        return [(name, known(bits >> first + int(name.lstrip("UP")) & 1, bits)) for name in names]

    return effect


def _first_bit_of(part: Register) -> int:
    """Returns where the byte of a register begins that an operand names; 0 where it names the whole register."""
    if part.suffix not in ("", ".B0", ".B1", ".B2", ".B3") or part.negative or part.inverted:
        raise ValueError
    return 8 * int(part.suffix[2:] or 0)


def vote(suffixes: Suffixes, parts: Parts) -> Effect:
    """VOTE: whether a predicate holds for any, or all, threads of the warp that execute it; or a bit for each of them."""
    result, voted = name_of(parts[0]), predicate(parts[-1])
    if is_predicate(parts[0]) and suffixes in (("ANY",), ("ALL",)):
        return lambda s: [(result, _vote(s.read(voted), s.active, for_all=suffixes == ("ALL",)))]
    if is_predicate(parts[0]):
        raise ValueError
    return lambda s: [(result, ballot(s.read(voted), s.active))]


def _vote(values: Values, active: NDArray[np.bool_], *, for_all: bool) -> Values:
    lanes, votes = active.reshape(-1, WARP_LANES), np.broadcast_to(values, active.shape).reshape(-1, WARP_LANES)
    decisive, otherwise = (0, 1) if for_all else (1, 0)
    open_votes = (lanes & (votes < 0)).any(axis=1)
    decided = (lanes & (votes == decisive)).any(axis=1)
    return np.repeat(np.where(decided, decisive, np.where(open_votes, UNKNOWN, otherwise)), WARP_LANES)


def elect(suffixes: Suffixes, parts: Parts) -> Effect:
    """ELECT: true for one of the threads of the warp that execute it, the first one."""
    flag = name_of(parts[0])
    return lambda s: [(flag, first_lanes(s.active).astype(np.int64))]


def succeeds(suffixes: Suffixes, parts: Parts) -> Effect:
    """What a warp tries until it succeeds, which it does at once.

    That is a test of the phase of a barrier in shared memory, since the warp waits for the barrier elsewhere, and the allocation
    of registers, which another warp group releases when it begins.
    """
    flag = name_of(parts[0])
    return lambda s: [(flag, array(1))]


def fails(parts: Parts) -> Effect:
    """What a warp tries before it waits for the same thing: it does not succeed, so that it waits."""
    flag = name_of(parts[0])
    return lambda s: [(flag, array(0))]


def ballot(values: Values, active: NDArray[np.bool_]) -> Values:
    """Returns for each thread a word with a bit for each active thread of its warp for which a predicate holds."""
    lanes, votes = active.reshape(-1, WARP_LANES), np.broadcast_to(values, active.shape).reshape(-1, WARP_LANES)
    words = (lanes & (votes == 1)) @ (1 << np.arange(WARP_LANES, dtype=np.int64))
    return np.repeat(np.where((lanes & (votes < 0)).any(axis=1), UNKNOWN, words), WARP_LANES)

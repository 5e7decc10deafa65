"""Machine instructions as functions of the values of registers: which integer instruction does what.

`effect_of` returns a function that computes the results of an instruction, or None where nothing is known of them. Uniform
instructions (UIADD3, ULEA, ...) do for uniform registers what their namesakes do for others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from warpsim.frontends.execution import floats, integers, predicates, windows
from warpsim.frontends.execution.effects import Effect, Parts, Suffixes, name_of, names_of, split
from warpsim.frontends.execution.state import State
from warpsim.frontends.machine_code.operands import (
    Constant,
    Immediate,
    Operand,
    Other,
    Register,
    addresses,
    is_predicate,
    operands,
    refilled_words,
    stack_words,
)
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import (
    MASK,
    NOTHING,
    UNKNOWN,
    ZERO,
    Values,
    array,
    is_any_unknown,
    known,
    known_bits,
    of_known_bits,
    signed,
)
from warpsim.frontends.waits.async_copies import is_phase_test
from warpsim.units import WARP_LANES


def effect_of(one: MachineInstruction) -> Effect | None:
    """Returns a function that computes the results of an instruction, as (register, value); None where they are not known."""
    if words := stack_words(one):
        return _spill_or_refill(one, words)
    if (asks_if_shared := windows.is_query(one)) or windows.is_refused_in_shared(one):
        return _query(one, if_shared=asks_if_shared)
    base, _, rest = one.opcode.partition(".")
    plain = base[1:] if base.startswith("U") and base[1:] in _MAKERS else base
    maker = predicates.succeeds if is_phase_test(one) else _MAKERS.get(plain)
    if maker is None:
        return None
    try:
        return maker(tuple(rest.split(".")) if rest else (), operands(one.operands))
    except (IndexError, ValueError, AttributeError, KeyError):
        return None  # a form that is not foreseen: what it writes is unknown


def _spill_or_refill(one: MachineInstruction, words: tuple[str, ...]) -> Effect:
    """STL and LDL of registers: the words of the stack hold their values meanwhile."""
    (register,) = (part for part in operands(one.operands) if isinstance(part, Register))
    names = names_of(register, len(words))
    pairs = list(zip(names, words, strict=True) if refilled_words(one) else zip(words, names, strict=True))
    return lambda s: [(result, s.register(source)) for result, source in pairs]


def _query(one: MachineInstruction, *, if_shared: bool) -> Effect:
    """QSPC.S, and sums of ATOM: a predicate that tells whether an address is one of shared memory, or that it is none."""
    flag, where = name_of(operands(one.operands)[0]), addresses(one)[0]

    def effect(s: State) -> list[tuple[str, Values]]:
        generic = s.address(where)
        return [(flag, known((windows.is_shared(generic) == if_shared).astype(np.int64), generic))]

    return effect


def _move(suffixes: Suffixes, parts: Parts) -> Effect:
    result, source = name_of(parts[0]), parts[1]
    if "64" in suffixes:
        names = names_of(parts[0], 2)
        return lambda s: list(zip(names, s.read_pair(source), strict=True))
    return lambda s: [(result, s.read(source))]


def _move_to_uniform(suffixes: Suffixes, parts: Parts) -> Effect:
    """R2UR; a predicate tells threads that have another value than the first one. Here, each thread has uniform registers."""
    if not is_predicate(parts[0]):
        return _move(suffixes, parts)
    flag, result, source = name_of(parts[0]), name_of(parts[1]), parts[2]
    return lambda s: [(flag, array(0)), (result, s.read(source))]


def _constant_load(suffixes: Suffixes, parts: Parts) -> Effect:
    source, result = parts[1], name_of(parts[0])
    if not isinstance(source, Constant):
        raise ValueError
    part = next((word for word in suffixes if word in ("U8", "S8", "U16", "S16")), None)
    if part:
        bits = int(part[1:])
        return lambda s: [(result, integers.extended(s.constant(source, bits // 8), bits, is_signed=part[0] == "S"))]
    count = 2 if "64" in suffixes else 4 if "128" in suffixes else 1
    names = names_of(parts[0], count)
    words = [Constant(source.bank, source.offset + 4 * k, source.index) for k in range(count)]
    return lambda s: [(name, s.read(word)) for name, word in zip(names, words, strict=True)]


def _special(suffixes: Suffixes, parts: Parts) -> Effect:
    result = name_of(parts[0])
    source = parts[1]
    if isinstance(source, Other) and source.text == "SRZ":
        names = names_of(parts[0], 1 if "32" in suffixes else 2)
        return lambda s: [(name, array(0)) for name in names]
    return lambda s: [(result, s.read(source))]


def _add(suffixes: Suffixes, parts: Parts) -> Effect:
    result, carries, values, tail = split(parts)
    extended = "X" in suffixes
    if set(suffixes) - {"X"} or len(values) > 3:
        raise ValueError
    values = values + [Immediate(0)] * (3 - len(values))
    ins = tail if extended else []

    def effect(s: State) -> list[tuple[str, Values]]:
        terms, ones = [], ZERO
        for part in values:
            if getattr(part, "negative", False):  # -x is ~x + 1, which decides the carry
                positive = s.read(_positive(part))
                terms.append(_complement(positive))
                ones = ones + 1
            else:
                terms.append(s.read(part))
        more = [s.read(part) for part in ins] + [ZERO, ZERO]
        a, b, c = terms
        second = more[1] if ones is ZERO else np.where(more[1] < 0, UNKNOWN, more[1] + ones)
        found = integers.add(a, b, c, more[0], second, carries=min(len(carries), 2))
        return list(zip([result, *carries], found, strict=False))

    return effect


def _positive(part: Operand) -> Operand:
    return replace(part, negative=False) if isinstance(part, Register | Constant) else part


def _add_wide(parts: Parts) -> Effect:
    """IADD.64: a sum of pairs."""
    _, carries, values, _ = split(parts)
    names = names_of(parts[0], 2)

    def effect(s: State) -> list[tuple[str, Values]]:
        low, high = array(0), array(0)
        for part in values:
            a, b = s.read_pair(_positive(part))
            negative = getattr(part, "negative", False)
            if negative:
                a, b = _complement(a), _complement(b)
            low, carry = integers.add(low, a, array(int(negative)), carries=1)
            (high,) = integers.add(high, b, carry)
        return [*zip(names, (low, high), strict=True), *((name, NOTHING) for name in carries)]

    return effect


def _integer_add(suffixes: Suffixes, parts: Parts) -> Effect:
    return _add_wide(parts) if "64" in suffixes else _add(suffixes, parts)


def _multiply_add(suffixes: Suffixes, parts: Parts) -> Effect:
    result, carries, values, tail = split(parts)
    is_signed = "U32" not in suffixes
    if len(values) == 2:
        values.append(Immediate(0))
    a, b, c = values
    carry = tail[0] if "X" in suffixes and tail else None
    if "WIDE" in suffixes or "HI" in suffixes:
        wanted = [result] if "HI" in suffixes else names_of(parts[0], 2)

        def wide(s: State) -> list[tuple[str, Values]]:
            more = array(0) if carry is None else s.read(carry)
            factors, sums = (s.read(a), s.read(b)), s.read_pair(c)
            found = integers.multiply_add(*factors, *sums, more, is_signed=is_signed, carries=len(carries))
            return list(zip([*wanted, *carries], found[2 - len(wanted) :], strict=True))

        return wide

    def narrow(s: State) -> list[tuple[str, Values]]:
        x, y, z = s.read(a), s.read(b), s.read(c)
        more = array(0) if carry is None else s.read(carry)
        if not is_any_unknown(x, y, z, more):
            return [(result, (x * y + z + more) & MASK), *((name, NOTHING) for name in carries)]
        if _is_one(a) or _is_one(b):  # a sum, also of halves of numbers
            (total,) = integers.add(y if _is_one(a) else x, z, more)
            return [(result, total), *((name, NOTHING) for name in carries)]
        zero = ((x == 0) | (y == 0)) & True  # nothing depends on the other factor
        product = np.where(zero, 0, (x.view(np.uint64) * y.view(np.uint64)).view(np.int64))
        bad = ((x < 0) | (y < 0)) & ~zero | (z < 0) | (more < 0)
        nothing_added = zero & (more == 0)  # a move, also of half a number
        total = np.where(bad, np.where(nothing_added, z, UNKNOWN), (product + z + more) & MASK)
        return [(result, total), *((name, NOTHING) for name in carries)]

    return narrow


def _is_one(part: Operand) -> bool:
    return isinstance(part, Immediate) and part.value == 1


def _shift_add(suffixes: Suffixes, parts: Parts) -> Effect:
    """LEA: (a << n) + b; with HI the upper word of (c:a) << n, plus b."""
    result, carries, values, tail = split(parts)
    carry = tail[0] if "X" in suffixes and tail else None
    upper, extends = "HI" in suffixes, "SX32" in suffixes
    a, b = values[0], values[1]
    by = values[-1]
    if not isinstance(by, Immediate) or len(values) < 3:
        raise ValueError
    n = by.value
    above = values[2] if len(values) == 4 else Immediate(0)

    def effect(s: State) -> list[tuple[str, Values]]:
        low = s.read(a)
        high = known(signed(low) >> 32, low) if extends else s.read(above)
        term = known((low << n) & MASK, low)
        if upper:
            term = integers.funnel(low, array(n), high, left=True, upper=True, wide=True, is_signed=False, wraps=False)
        other = s.read(b)
        more = array(0) if carry is None else s.read(carry)
        complements = 0  # a negative number is the complement of the positive one, and 1 more
        if getattr(b, "negative", False):
            other, complements = _complement(s.read(_positive(b))), complements + 1
        if getattr(a, "negative", False) and not upper and carry is None:
            shifted = s.read(_positive(a)) << n
            term, complements = _complement(known(shifted & MASK, low)), complements + 1
        found = integers.add(term, other, more, array(complements), carries=len(carries[:1]))
        return list(zip([result, *carries[:1]], found, strict=True))

    return effect


def _complement(value: Values) -> Values:
    bits, mask = known_bits(value)
    return of_known_bits(~bits, mask)


def _funnel(suffixes: Suffixes, parts: Parts) -> Effect:
    result, a, by, c = name_of(parts[0]), parts[1], parts[2], parts[3]
    wide = "U64" in suffixes or "S64" in suffixes
    is_signed = "S32" in suffixes or "S64" in suffixes
    left, upper, wraps = suffixes[0] == "L", "HI" in suffixes, "W" in suffixes
    return lambda s: [
        (
            result,
            integers.funnel(
                s.read(a), s.read(by), s.read(c), left=left, upper=upper, wide=wide, is_signed=is_signed, wraps=wraps
            ),
        )
    ]


def _logic(suffixes: Suffixes, parts: Parts) -> Effect:
    places = list(parts)
    flag = name_of(places.pop(0)) if is_predicate(places[0]) else None
    result, a, b, c, table = places[:5]
    if not isinstance(table, Immediate):
        raise ValueError
    name, bits = name_of(result), table.value

    def effect(s: State) -> list[tuple[str, Values]]:
        value = integers.logic(s.read(a), s.read(b), s.read(c), bits)
        test = [] if flag is None else [(flag, known((value != 0).astype(np.int64), value))]
        return [(name, value), *test]

    return effect


def _absolute(suffixes: Suffixes, parts: Parts) -> Effect:
    result, a = name_of(parts[0]), parts[1]
    return lambda s: [(result, known(np.abs(signed(x := s.read(a))), x))]


def _permute(suffixes: Suffixes, parts: Parts) -> Effect:
    result, a, selector, b = name_of(parts[0]), parts[1], parts[2], parts[3]
    if suffixes:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        is_empty = isinstance(b, Register) and b.name not in s.values  # it holds nothing yet: its half is not read later
        other = array(0) if is_empty else s.read(b)
        return [(result, integers.permute(s.read(a), s.read(selector), other))]

    return effect


def _shuffle(suffixes: Suffixes, parts: Parts) -> Effect:
    """SHFL.IDX: the value that another lane of the warp has, or the lane itself where that is not active."""
    result, a, lane, clamp = name_of(parts[1]), parts[2], parts[3], parts[4]
    if suffixes != ("IDX",) or not isinstance(clamp, Immediate) or clamp.value != WARP_LANES - 1:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        values, lanes = (np.broadcast_to(s.read(part), s.active.shape) for part in (a, lane))
        asked = np.arange(len(values)) // WARP_LANES * WARP_LANES + lanes % WARP_LANES
        return [(result, np.where(lanes < 0, UNKNOWN, np.where(s.active[asked], values[asked], UNKNOWN)))]

    return effect


def _count_bits(suffixes: Suffixes, parts: Parts) -> Effect:
    result, a = name_of(parts[0]), parts[1]
    return lambda s: [(result, known(np.bitwise_count(np.where((x := s.read(a)) < 0, 0, x)).astype(np.int64), x))]


def _first_bit(suffixes: Suffixes, parts: Parts) -> Effect:
    places = [part for part in parts if not is_predicate(part)]
    result, a = name_of(places[0]), places[1]
    is_signed, distance = "U32" not in suffixes, "SH" in suffixes
    return lambda s: [(result, integers.first_bit(s.read(a), is_signed=is_signed, distance=distance))]


def _extend(suffixes: Suffixes, parts: Parts) -> Effect:
    """SGXT: the low n bits, with or without their sign."""
    result, a, n = name_of(parts[0]), parts[1], parts[2]
    if not isinstance(n, Immediate) or not 0 < n.value < 33:
        raise ValueError
    bits, is_signed = n.value, "U32" not in suffixes
    return lambda s: [(result, integers.extended(s.read(a), bits, is_signed=is_signed))]


def _reverse(suffixes: Suffixes, parts: Parts) -> Effect:
    """BREV: the bits from the last to the first."""
    result, a = name_of(parts[0]), parts[1]
    return lambda s: [(result, integers.reversed_bits(s.read(a)))]


def _bit_mask(suffixes: Suffixes, parts: Parts) -> Effect:
    """BMSK: n ones from bit p."""
    result, start, count = name_of(parts[0]), parts[1], parts[2]

    def effect(s: State) -> list[tuple[str, Values]]:
        p, n = s.read(start), s.read(count)
        ones = (1 << np.clip(n, 0, 32).astype(np.int64)) - 1
        return [(result, known(ones << np.clip(p, 0, 32), p, n))]

    return effect


_MAKERS: dict[str, Callable[[Suffixes, Parts], Effect]] = {
    "MOV": _move, "MOV32I": _move, "R2UR": _move_to_uniform, "S2R": _special, "S2UR": _special, "CS2R": _special,
    "CS2UR": _special, "LDC": _constant_load, "ULDC": _constant_load, "LDCU": _constant_load, "IADD3": _integer_add,
    "IADD": _integer_add, "VIADD": _add, "IADD32I": _add, "IMAD": _multiply_add, "LEA": _shift_add, "SHF": _funnel,
    "LOP3": _logic, "IABS": _absolute, "PRMT": _permute, "POPC": _count_bits, "FLO": _first_bit, "SGXT": _extend,
    "BREV": _reverse, "BMSK": _bit_mask, "SHFL": _shuffle, "PLOP3": predicates.predicate_logic, "ISETP": predicates.compare,
    "SEL": predicates.select, "IMNMX": predicates.minimum, "VIMNMX": predicates.minimum, "VIMNMX3": predicates.minimum,
    "VIADDMNMX": predicates.add_minimum, "FCHK": predicates.first_check, "VOTE": predicates.vote, "VOTEU": predicates.vote,
    "P2R": predicates.pack_predicates, "R2P": predicates.unpack_predicates,
    "UP2UR": predicates.pack_predicates, "UR2UP": predicates.unpack_predicates,
    "ELECT": predicates.elect, "I2F": floats.to_float,
    "I2FP": floats.to_float, "F2I": floats.to_integer, "F2IP": floats.to_integer, "MUFU": floats.special_function,
    "HFMA2": floats.halves, "FMUL": floats.multiply, "FADD": floats.add, "FFMA": floats.multiply_add, "FSEL": floats.select,
    "FSETP": floats.compare, "FMNMX": floats.minimum, "FRND": floats.to_whole, "USETMAXREG": predicates.succeeds,
}  # fmt: skip

"""What the integer instructions compute, for all threads at once (`values.py`).

Only what addresses and branches are made of is here; whatever comes from memory is unknown, and most of floating point
(`floats.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.values import (
    MASK,
    UNKNOWN,
    ZERO,
    Values,
    any_unknown,
    array,
    is_any_unknown,
    known,
    known_bits,
    of_known_bits,
    signed,
    unless,
)


def add(*terms: Values, carries: int = 0) -> list[Values]:
    """Returns the sum of values and carries, and so many predicates, as many of which hold as 2^32 is carried over.

    Where the lower halves of all terms are known, so is that of the sum.
    """
    some = [one for one in terms if one is not ZERO] or [ZERO]
    total, bad = reduce(np.add, some), any_unknown(some)
    word = unless(bad, total) if not np.count_nonzero(bad) else _sum_of_known_bits(some)
    return [word, *(unless(bad, (total >> 32 > k).astype(np.int64)) for k in range(carries))]


def _sum_of_known_bits(terms: Sequence[Values]) -> Values:
    bits, masks = zip(*(known_bits(one) for one in terms), strict=True)
    return of_known_bits(reduce(np.add, bits), reduce(np.bitwise_and, masks))  # a half takes no carry from above


def multiply_add(
    a: Values, b: Values, low: Values, high: Values, more: Values, *, is_signed: bool, carries: int = 0
) -> list[Values]:
    """Returns the low and high words of a * b plus a 64-bit value and a carry, and perhaps the carry of that sum."""
    x, y = (signed(a), signed(b)) if is_signed else (a, b)
    product = x.view(np.uint64) * y.view(np.uint64)
    total = product if low is ZERO and high is ZERO else product + (low.view(np.uint64) | high.view(np.uint64) << np.uint64(32))
    total = total if more is ZERO else total + more.view(np.uint64)
    words = [total.view(np.int64), (total >> np.uint64(32)).view(np.int64)]
    words += [(total < product).astype(np.int64)] * carries
    bad = any_unknown((a, b, low, high, more))
    return [unless(bad, word) for word in words]


def negated_pair(low: Values, high: Values) -> tuple[Values, Values]:
    """Returns the low and high words of a 64-bit value with the other sign."""
    total = ~(low.view(np.uint64) | high.view(np.uint64) << np.uint64(32)) + np.uint64(1)
    return known(total.view(np.int64), low, high), known((total >> np.uint64(32)).view(np.int64), low, high)


def funnel(
    low: Values, shift: Values, high: Values, *, left: bool, upper: bool, wide: bool, is_signed: bool, wraps: bool
) -> Values:
    """Returns a word of a 64-bit value that is shifted (SHF): the upper word, or the lower one."""
    by: Values = np.asarray(shift & (63 if wide else 31) if wraps else np.minimum(shift, 63 if wide else 32), dtype=np.int64)
    inputs = (low, shift, high)
    if left:
        if not upper:
            return known(np.where(by >= 32, 0, low << np.minimum(by, 31)), *inputs)
        whole = low.view(np.uint64) | high.view(np.uint64) << np.uint64(32)
        return known(((whole << by.view(np.uint64)) >> np.uint64(32)).view(np.int64), *inputs)
    top = signed(high) if is_signed else high
    if upper:
        return known(top >> np.minimum(by, 63), *inputs)
    whole = (low.view(np.uint64) | top.view(np.uint64) << np.uint64(32)).view(np.int64)
    shifted = whole >> by if is_signed else (whole.view(np.uint64) >> by.view(np.uint64)).view(np.int64)
    return known(shifted, *inputs)


def extended(value: Values, bits: int, *, is_signed: bool) -> Values:
    """Returns the low bits of a value as a number of 32 bits, with or without their sign."""
    cut = value & ((1 << bits) - 1)
    return known(cut - ((cut >> (bits - 1)) << bits) if is_signed else cut, value)


def logic(a: Values, b: Values, c: Values, table: int) -> Values:
    """Returns the bitwise function of three values that a table of 8 bits gives (LOP3). Bits that matter must be known."""
    matter, products = _inputs_and_products(table)
    inputs = {bit: x for bit, x in ((4, a), (2, b), (1, c)) if matter & bit}
    if not is_any_unknown(*inputs.values()):
        return _sum_of_products(inputs, products)
    parts = [(bit, *known_bits(x)) for bit, x in inputs.items()]
    can_be: list[Values] = [array(0), array(0)]  # bits that can be 0, and bits that can be 1
    for row in (row for row in range(8) if not row & ~matter):
        fits: Values = array(MASK)
        for bit, bits, mask in parts:
            fits = fits & ((bits if row & bit else ~bits) | ~mask)
        can_be[table >> row & 1] = can_be[table >> row & 1] | fits
    return of_known_bits(can_be[1], ~(can_be[0] & can_be[1]))


@cache
def _inputs_and_products(table: int) -> tuple[int, tuple[int, ...]]:
    """Returns which inputs of a bitwise function matter, as bits, and of which of them it is the sum of products, modulo 2.

    Each bitwise function is such a sum, its algebraic normal form: a choice of b or c by a is ab + ac + c.
    """
    matter = sum(bit for bit in (4, 2, 1) if any((table >> row ^ table >> (row ^ bit)) & 1 for row in range(8)))
    ones = [row for row in range(8) if table >> row & 1]
    return matter, tuple(product for product in range(8) if sum(not row & ~product for row in ones) % 2)


def _sum_of_products(inputs: Mapping[int, Values], products: tuple[int, ...]) -> Values:
    """Returns the sum, modulo 2, of products of the bits of known inputs."""
    factors = [[value for bit, value in inputs.items() if product & bit] for product in products]
    return reduce(np.bitwise_xor, [reduce(np.bitwise_and, each) if each else array(MASK) for each in factors] or [array(0)])


def predicate_logic(a: Values, b: Values, c: Values, table: int) -> Values:
    """Returns the function of three predicates that a table of 8 bits gives; known where unknown ones do not matter."""
    return np.asarray(_outcomes(table)[np.atleast_1d(9 * a + 3 * b + c) + 13])


@cache
def _outcomes(table: int) -> Values:
    """Returns what `predicate_logic` does of a, b, c, each of them UNKNOWN, 0 and 1 in turn, c fastest: int64[27]."""
    found = []
    for each in product((UNKNOWN, 0, 1), repeat=3):
        values = product(*((0, 1) if one == UNKNOWN else (one,) for one in each))
        can_be = {table >> (4 * a + 2 * b + c) & 1 for a, b, c in values}
        found.append(can_be.pop() if len(can_be) == 1 else UNKNOWN)
    return np.array(found, np.int64)


def combine(a: Values, b: Values, how: str) -> Values:
    """Returns a AND b, a OR b, or a XOR b of two predicates."""
    table = {"AND": 0xC0, "OR": 0xFC, "XOR": 0x3C}[how]
    return predicate_logic(a, b, array(0), table)


COMPARISONS: dict[str, Callable[[Values, Values], NDArray[np.bool_]]] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


def difference(a: Values, b: Values, *, is_signed: bool) -> Values:
    """Returns by how much one value exceeds another; 0 where that is not known."""
    x, y = (signed(a), signed(b)) if is_signed else (a, b)
    return np.where((a < 0) | (b < 0), 0, x - y)


def compare(a: Values, b: Values, how: str, *, is_signed: bool, lower: Values | None = None) -> Values:
    """Returns whether a comparison holds; `lower` is its outcome for the lower words of 64-bit values."""
    x, y = (signed(a), signed(b)) if is_signed else (a, b)
    if lower is None:
        return known(COMPARISONS[how](x, y).astype(np.int64), a, b)
    if how in ("EQ", "NE"):
        decided, outcome = x != y, array(int(how == "NE"))
    else:
        decided, outcome = x != y, COMPARISONS[how](x, y).astype(np.int64)
    result = np.where(decided, outcome, lower)
    return np.where((a < 0) | (b < 0), UNKNOWN, result)


def reversed_bits(value: Values) -> Values:
    """Returns 32 bits in the opposite order (BREV)."""
    total = value
    for by, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        total = (total >> by & mask) | (total & mask) << by
    return known(total, value)


def permute(a: Values, selector: Values, b: Values) -> Values:
    """Returns four bytes chosen from eight (PRMT); bit 3 of a choice copies the sign of the byte."""
    (of_a, mask_a), (of_b, mask_b) = known_bits(a), known_bits(b)
    found = of_known_bits(_permuted(of_a, selector, of_b), _permuted(mask_a, selector, mask_b))
    return np.where(selector < 0, UNKNOWN, found)


def _permuted(a: Values, selector: Values, b: Values) -> Values:
    whole = a.view(np.uint64) | b.view(np.uint64) << np.uint64(32)
    total: Values = array(0)
    for place in range(4):
        choice = selector >> (4 * place) & 15
        byte = (whole >> ((choice & 7) * 8).view(np.uint64)).view(np.int64) & 0xFF
        total = total | np.where(choice & 8, (byte >> 7) * 0xFF, byte) << (8 * place)
    return total


def first_bit(value: Values, *, is_signed: bool, distance: bool) -> Values:
    """Returns the position of the highest bit that differs from the sign, or its distance from bit 31 (FLO)."""
    bits = np.where((value >> 31 & 1) == 1, ~value & MASK, value) if is_signed else value
    found = np.frexp(bits.astype(np.float64))[1].astype(np.int64) - 1
    return known(np.where(bits == 0, MASK, 31 - found if distance else found), value)

"""Instructions of single precision with which compilers divide integers, as functions of the values of registers.

The value of a register is its bits. Numbers too small to be normal, the last bit of MUFU, and now and then that of sums of very
different numbers are not as on the hardware.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution.effects import Effect, Parts, Suffixes, name_of, predicate
from warpsim.frontends.execution.integers import combine, extended
from warpsim.frontends.execution.state import State
from warpsim.frontends.machine_code.operands import Constant, Immediate, Operand, Other, Register, is_predicate
from warpsim.frontends.values import MASK, NOTHING, UNKNOWN, Values, array, known, signed

Floats = NDArray[np.float32]

_COMPARISONS = {"LT": np.less, "EQ": np.equal, "LE": np.less_equal, "GT": np.greater, "NE": np.not_equal, "GE": np.greater_equal}
_WHOLE = {"TRUNC": np.trunc, "CEIL": np.ceil, "FLOOR": np.floor}
_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16}
_PART = re.compile(r"[FSU](16|64|8)$")


def to_float(suffixes: Suffixes, parts: Parts) -> Effect:
    """I2F, I2FP: an integer, or the lowest bits of a register, as a number, rounded to nearest, up, or towards 0."""
    result, a = name_of(parts[0]), parts[1]
    bits = _BITS.get("".join(suffixes[:1]), 32)
    if any(_PART.match(word) for word in suffixes[bits < 32 :]) or "RM" in suffixes:
        raise ValueError
    is_signed = not any(word.startswith("U") for word in suffixes)

    def effect(s: State) -> list[tuple[str, Values]]:
        value = s.read(a)
        whole = extended(value, bits, is_signed=is_signed) if bits < 32 else value
        exact = (signed(whole) if is_signed else whole).astype(np.float64)
        return [(result, known(_rounded(exact, suffixes), value))]

    return effect


def to_integer(suffixes: Suffixes, parts: Parts) -> Effect:
    """F2I: a number as an integer that is rounded as the instruction says, and kept in range."""
    result, read, to_whole = name_of(parts[0]), _reader(parts[1]), _whole(suffixes)
    if any(_PART.match(word) for word in suffixes):
        raise ValueError
    low, high = (0, MASK) if "U32" in suffixes else (-(2**31), 2**31 - 1)

    def effect(s: State) -> list[tuple[str, Values]]:
        bits = read(s)
        number = np.nan_to_num(_floats(bits).astype(np.float64), nan=0.0, posinf=2.0**62, neginf=-(2.0**62))
        return [(result, known(np.clip(to_whole(number), low, high).astype(np.int64), bits))]

    return effect


def to_whole(suffixes: Suffixes, parts: Parts) -> Effect:
    """FRND: a number without its fraction."""
    result, read, rounded = name_of(parts[0]), _reader(parts[1]), _whole(suffixes)
    if set(suffixes) - {*_WHOLE, "FTZ"}:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        bits = read(s)
        with np.errstate(invalid="ignore"):
            return [(result, known(_bits(rounded(_floats(bits))), bits))]

    return effect


def _whole(suffixes: Suffixes) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns the function that an instruction names to round to whole numbers; none is the nearest, of two the even one."""
    return next((_WHOLE[word] for word in suffixes if word in _WHOLE), np.rint)


def minimum(suffixes: Suffixes, parts: Parts) -> Effect:
    """FMNMX: the smaller or the larger of two numbers, as a predicate says; of a number and none, the number."""
    result, read_a, read_b, chooser = name_of(parts[0]), _reader(parts[1]), _reader(parts[2]), predicate(parts[3])
    if set(suffixes) - {"FTZ"}:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, smaller = read_a(s), read_b(s), s.read(chooser)
        a, b = _floats(x), _floats(y)
        first = np.where(smaller == 1, a <= b, a >= b) | np.isnan(b)
        return [(result, known(np.where(first, x, y), x, y, smaller))]

    return effect


def special_function(suffixes: Suffixes, parts: Parts) -> Effect:
    """MUFU: the reciprocal, the square root, and its reciprocal (RCP, SQRT, RSQ)."""
    result, read = name_of(parts[0]), _reader(parts[1])
    if suffixes == ("RCP",):
        return lambda s: [(result, reciprocal(read(s)))]
    if suffixes not in (("SQRT",), ("RSQ",)):
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        bits = read(s)
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(_floats(bits).astype(np.float64))
            return [(result, known(_bits((root if suffixes == ("SQRT",) else 1.0 / root).astype(np.float32)), bits))]

    return effect


def reciprocal(bits: Values) -> Values:
    """Returns the bits of 1 / x."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return known(_bits(np.float32(1.0) / _floats(bits)), bits)


def multiply(suffixes: Suffixes, parts: Parts) -> Effect:
    """FMUL: a product, rounded to nearest, up, or towards 0."""
    return _multiply_add(suffixes, parts[0], parts[1], parts[2], Other("-0"))


def add(suffixes: Suffixes, parts: Parts) -> Effect:
    """FADD: a sum, rounded as a product is."""
    return _multiply_add(suffixes, parts[0], parts[1], Other("1"), parts[2])


def multiply_add(suffixes: Suffixes, parts: Parts) -> Effect:
    """FFMA: a product and a third number, rounded once."""
    result, a, b, c = parts[:4]
    return _multiply_add(suffixes, result, a, b, c)


def _multiply_add(suffixes: Suffixes, result: Operand, a: Operand, b: Operand, c: Operand) -> Effect:
    name, read_a, read_b, read_c = name_of(result), _reader(a), _reader(b), _reader(c)
    if set(suffixes) - {"FTZ", "RZ", "RP"}:
        raise ValueError

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, z = read_a(s), read_b(s), read_c(s)
        if (x < 0).all() or (y < 0).all() or (z < 0).all():  # as most are, which memory has returned
            return [(name, NOTHING)]
        with np.errstate(invalid="ignore", over="ignore"):  # the product is exact: 24 bits each
            exact = _floats(x).astype(np.float64) * _floats(y).astype(np.float64) + _floats(z).astype(np.float64)
        return [(name, known(_rounded(exact, suffixes), x, y, z))]

    return effect


def select(suffixes: Suffixes, parts: Parts) -> Effect:
    """FSEL: one of two numbers."""
    result, read_a, read_b, chooser = name_of(parts[0]), _reader(parts[1]), _reader(parts[2]), predicate(parts[3])

    def effect(s: State) -> list[tuple[str, Values]]:
        which, x, y = s.read(chooser), read_a(s), read_b(s)
        return [(result, np.where(which < 0, np.where(x == y, x, UNKNOWN), np.where(which == 1, x, y)))]

    return effect


def compare(suffixes: Suffixes, parts: Parts) -> Effect:
    """FSETP: compares two numbers, and combines the outcome with a predicate; U: true as well if one of them is none."""
    first, second, also = name_of(parts[0]), name_of(parts[1]), predicate(parts[4])
    read_a, read_b = _reader(parts[2]), _reader(parts[3])
    how, combining = suffixes[0], next(word for word in suffixes[1:] if word in ("AND", "OR", "XOR"))
    function, unordered = _COMPARISONS[how.removesuffix("U")], how.endswith("U")

    def effect(s: State) -> list[tuple[str, Values]]:
        x, y, other = read_a(s), read_b(s), s.read(also)
        left, right = _floats(x), _floats(y)
        if s.differences is not None:  # of numbers that advance evenly, as their bits do within a power of 2
            with np.errstate(invalid="ignore"):  # of two that are infinite
                apart = left.astype(np.float64) - right.astype(np.float64)
            s.differences.append(np.where((x < 0) | (y < 0) | ~np.isfinite(apart), 0.0, apart))
        none = np.isnan(left) | np.isnan(right)
        outcome = known(np.where(none, unordered, function(left, right)).astype(np.int64), x, y)
        opposite = np.where(outcome < 0, UNKNOWN, 1 - outcome)
        return [(first, combine(outcome, other, combining)), (second, combine(opposite, other, combining))]

    return effect


def halves(suffixes: Suffixes, parts: Parts) -> Effect:
    """HFMA2 R, -RZ, RZ, x, y: a constant, made of two half-precision numbers."""
    result = name_of(parts[0])
    if [getattr(part, "name", "") for part in parts[1:3]] != ["RZ", "RZ"] or len(parts) != 5:
        raise ValueError
    words = [int(np.float16(_constant(part)).view(np.uint16)) for part in parts[3:5]]
    value = array(words[0] << 16 | words[1])
    return lambda s: [(result, value)]


def _constant(part: Operand) -> str:
    text = part.text if isinstance(part, Other) else "0" if isinstance(part, Immediate) and not part.value else ""
    if not re.match(r"[-+]?(\d|INF|QNAN)", text.strip()):
        raise ValueError
    return text.strip().replace("QNAN", "NAN")


def _reader(part: Operand) -> Callable[[State], Values]:
    """Returns what reads the bits of an operand of single precision with its signs."""
    if isinstance(part, Immediate | Other):
        bits = _bits(np.array([_constant(part)], np.float32))
        return lambda s: bits
    if not isinstance(part, Register | Constant) or is_predicate(part) or part.suffix:
        raise ValueError

    def read(s: State) -> Values:
        bits = s.register(part.name) if isinstance(part, Register) else s.constant(part)
        value = np.where(bits < 0, bits, bits & 0x7FFFFFFF) if part.absolute else bits
        return known(value ^ 0x80000000, bits) if part.negative else value

    return read


def _rounded(exact: NDArray[np.float64], suffixes: Suffixes) -> Values:
    """Returns the bits of numbers in single precision, rounded as an instruction says."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = exact.astype(np.float32)
        back = nearest.astype(np.float64)
    if "RP" in suffixes:
        nearest = np.where(back < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
    if "RZ" in suffixes:
        nearest = np.where(np.abs(back) > np.abs(exact), np.nextafter(nearest, np.float32(0.0)), nearest)
    return _bits(nearest)


def _floats(bits: Values) -> Floats:
    return np.where(bits < 0, 0, bits).astype(np.uint32).view(np.float32)


def _bits(numbers: Floats) -> Values:
    return numbers.astype(np.float32).view(np.uint32).astype(np.int64)

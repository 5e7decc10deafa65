"""Values of registers, for all threads at once; a value that is not known stays unknown.

A value is an int64 array of one number per thread, or of one number for all: 0 to 2^32 - 1, or less than 0 where it is not known.
That is UNKNOWN where nothing is, and a lower number where the lower half is known, in which compilers keep truth values and
numbers of 16 bits (`of_known_bits`). Predicates are 0, 1 or UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64]

UNKNOWN = -1
MASK = 0xFFFFFFFF

_LOWER_HALF = 0xFFFF
_NOTHING_ABOVE_0 = UNKNOWN - 1
"""A value of which the lower half is known to be 0, and nothing else; one with a greater lower half is as much less."""

_FALSE = np.zeros(1, bool)


@lru_cache(maxsize=65536)
def array(value: int) -> Values:
    """Returns one number for all threads, which nobody may write to: the same array each time."""
    found = np.array([value], dtype=np.int64)
    found.flags.writeable = False
    return found


NOTHING, ZERO = array(UNKNOWN), array(0)


def one_array(value: Values) -> Values:
    """Returns a value, as the same array each time where it is one number for all threads."""
    return array(int(value[0])) if value.shape == (1,) else value


def known_bits(value: Values) -> tuple[Values, Values]:
    """Returns the bits of a value, and a mask of those that are known; the others are 0."""
    is_known, is_half = value >= 0, value < UNKNOWN
    bits = np.where(is_known, value, np.where(is_half, _NOTHING_ABOVE_0 - value, 0))
    return bits, np.where(is_known, MASK, np.where(is_half, _LOWER_HALF, 0))


def of_known_bits(bits: Values, mask: Values) -> Values:
    """Returns a value of which the bits of a mask are known: all of it, the lower half, or nothing, as values can say."""
    half = np.where(mask & _LOWER_HALF == _LOWER_HALF, _NOTHING_ABOVE_0 - (bits & _LOWER_HALF), UNKNOWN)
    return np.where(mask & MASK == MASK, bits & MASK, half)


def known(value: Values, *inputs: Values) -> Values:
    """Returns the low 32 bits of a value, unknown where an input is unknown."""
    return unless(any_unknown(inputs), value)


def any_unknown(inputs: Sequence[Values]) -> NDArray[np.bool_]:
    """Returns whether an input is unknown, of all threads at once if that is so of none."""
    doubtful = [one for one in inputs if one.size > 1 or one[0] < 0]
    return reduce(np.bitwise_or, doubtful) < 0 if doubtful else _FALSE  # the sign of any is that of all


def is_any_unknown(*inputs: Values) -> bool:
    """Returns whether an input is unknown, of any thread."""
    return bool(np.count_nonzero(any_unknown(inputs)))


def unless_unknown(value: Values, *inputs: Values) -> Values:
    """Returns a value that is no word, such as an address; unknown where an input is, or where it is negative itself."""
    bad = any_unknown((value, *inputs))
    return np.where(bad, UNKNOWN, value) if np.count_nonzero(bad) else value


def unless(bad: NDArray[np.bool_], value: Values) -> Values:
    """Returns the low 32 bits of a value, unknown where it is bad."""
    value = value & MASK
    return np.where(bad, UNKNOWN, value) if np.count_nonzero(bad) else value


def signed(value: Values) -> Values:
    """Returns 32-bit values as signed numbers."""
    return value - ((value >> 31) << 32)

"""Sets of cycles of a window, as bits of words of 64 cycles.

A few cycles may lie in two of these words. So they are read and written in one that begins at any multiple of 16 cycles; the
number of its first 16 is the *place* of that word. This holds where a processor has the lowest byte of a word first.
"""

import numpy as np

from warpsim.engine import lane_rules as rule
from warpsim.engine.bits import ALL, ONE, at, bit, size
from warpsim.engine.constants import FEW_CYCLES, LONGEST_WINDOW
from warpsim.jit.decorators import compiled_as, inline, seldom

_PLACE_BITS = 4
_WITHIN = (1 << _PLACE_BITS) - 1
assert FEW_CYCLES + _WITHIN == 64


@compiled_as(rule.word_at)
def word_at(cycles, place):
    """Returns the word of a set that begins at a place."""
    return cycles.view("<u2")[place : place + 4].copy().view("<u8")[0]


@compiled_as(rule.enter_word)
def enter_word(cycles, place, members):
    """Enters the members of a word that begins at a place into a set."""
    cycles.view("<u2")[place : place + 4] |= np.array([members]).view("<u2")


@inline
def enter_cycles(cycles, begin, end):
    """Enters the cycles begin..end-1 into a set; mostly they lie in one word."""
    word = begin >> 6
    if word == end - 1 >> 6:
        cycles[at(word)] |= cycles_of_word(word, begin, end)
    else:
        enter_many_cycles(cycles, begin, end)


@inline
def enter_few_cycles(cycles, begin, count):
    """Enters so many cycles, 0..FEW_CYCLES, from one of the window on into a set, which has room for some after the window."""
    enter_word(cycles, begin >> _PLACE_BITS, (bit(count) - ONE) << np.uint64(begin & _WITHIN))


@inline
def enter_next_cycles(cycles, begin, count):
    """Enters so many cycles, mostly few, from one of the window on into a set. It may lack those behind the longest window."""
    if count <= FEW_CYCLES:
        enter_few_cycles(cycles, begin, count)
    else:
        enter_many_cycles(cycles, begin, min(begin + count, LONGEST_WINDOW))


@seldom
def enter_many_cycles(cycles, begin, end):
    """Enters the cycles begin..end-1 into a set."""
    for word in range(begin >> 6, (end + 63) >> 6):
        cycles[at(word)] |= cycles_of_word(word, begin, end)


@inline
def word_near(cycles, begin):
    """Returns the word of a set in which the FEW_CYCLES from one on lie."""
    return word_at(cycles, begin >> _PLACE_BITS)


@inline
def few_cycles(word, begin, count):
    """Returns those of so many cycles, 0..FEW_CYCLES, from one on, that are in a word from `word_near`, as a set.

    The members count from `begin`.
    """
    return word >> np.uint64(begin & _WITHIN) & (bit(count) - ONE)


@seldom
def size_of_cycles(cycles, begin, end):
    """Returns how many of the cycles in begin..end-1 a set has."""
    found = 0
    for word in range(begin >> 6, (end + 63) >> 6):
        found += size(cycles[at(word)] & cycles_of_word(word, begin, end))
    return found


@inline
def cycles_of_word(word, begin, end):
    """Returns the set of those of the 64 cycles of a word, at least one, that lie in begin..end-1."""
    return ALL << np.uint64(max(begin - 64 * word, 0)) & ALL >> np.uint64(max(64 * word + 64 - end, 0))

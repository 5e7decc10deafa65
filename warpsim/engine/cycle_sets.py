"""Sets of cycles of a window, as bits of words of 64 cycles."""

import numpy as np

from warpsim.engine.bits import ONE, at, below, bit, size
from warpsim.engine.jit import inline, seldom


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
    """Enters so many cycles, 0..63, from one of the window on into a set, which has room for some after the window."""
    some, first_one = bit(count) - ONE, np.uint64(begin)
    word, within = at(first_one >> np.uint64(6)), first_one & np.uint64(63)
    cycles[word] |= some << within
    cycles[at(word + at(1))] |= some >> ONE >> (np.uint64(63) - within)


@seldom
def enter_many_cycles(cycles, begin, end):
    """Enters the cycles begin..end-1 into a set."""
    for word in range(begin >> 6, (end + 63) >> 6):
        cycles[at(word)] |= cycles_of_word(word, begin, end)


@inline
def few_cycles(word, next_word, begin, count):
    """Returns the set of those of so many cycles, 0..63, from one of the window on, that a set has, of which two words are given.

    The members count from `begin`.
    """
    within = np.uint64(begin) & np.uint64(63)
    return (word >> within | next_word << ONE << (np.uint64(63) - within)) & (bit(count) - ONE)


@seldom
def size_of_cycles(cycles, begin, end):
    """Returns how many of the cycles in begin..end-1 a set has."""
    found = 0
    for word in range(begin >> 6, (end + 63) >> 6):
        found += size(cycles[at(word)] & cycles_of_word(word, begin, end))
    return found


@inline
def cycles_of_word(word, begin, end):
    """Returns the set of those of the 64 cycles of a word that lie in begin..end-1, which has some."""
    return below(min(end - 64 * word, 64)) & ~below(max(begin - 64 * word, 0))

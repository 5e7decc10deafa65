"""Sets of up to 64 warps, or SMs, as one uint64; a cycle with a label as one int64.

LLVM turns each of these into a few machine instructions.
"""

import numpy as np

from warpsim.engine.jit import inline
from warpsim.engine.state import LABEL_BITS

ONE = np.uint64(1)
NONE = np.uint64(0)
_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_LABEL = (1 << LABEL_BITS) - 1


@inline
def at(index):
    """An index that is not negative, said to the compiler: it leaves out Python's counting from the end."""
    return np.uintp(index)


@inline
def bit(member):
    """The set {member}, 0 <= member < 64."""
    return ONE << np.uint64(member)


@inline
def size(members):
    """How many members a set has."""
    x = members - ((members >> _1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _2) & _NIBBLES)
    x = (x + (x >> _4)) & _BYTES
    return np.int64((x * _SUM) >> _56)


@inline
def first(members):
    """The smallest member of a set that is not empty."""
    return size((members & (~members + ONE)) - ONE)


@inline
def rest(members):
    """The set without its smallest member."""
    return members & (members - ONE)


@inline
def after(members, member):
    """Those members that are larger than `member`; -1 <= member < 64."""
    return members & ~((ONE << np.uint64(member + 1)) - ONE) if member < 63 else NONE


@inline
def labelled(cycle, label):
    """A cycle and a label in one word; 0 <= label < 1 << LABEL_BITS."""
    return (cycle << LABEL_BITS) | label


@inline
def cycle_of(word):
    """The cycle of a word that holds a label, too."""
    return word >> LABEL_BITS


@inline
def label_of(word):
    """The label of such a word."""
    return word & _LABEL

"""Sets of up to 64 warps, or SMs, as one uint64. LLVM turns each of these into one or two machine instructions."""

import numpy as np

from warpsim.engine.jit import inline

ONE = np.uint64(1)
NONE = np.uint64(0)
_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


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

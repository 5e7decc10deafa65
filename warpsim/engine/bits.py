"""Sets of up to 64 members as one uint64, and words that hold several numbers: a cycle with a step, a unit with an access.

LLVM turns each of these functions into a few machine instructions.
"""

import numpy as np

from warpsim.engine.constants import ACCESS_BITS, CAUSE_BITS, REASON_BITS
from warpsim.jit.decorators import inline

ONE = np.uint64(1)
NONE = np.uint64(0)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_PAIRS = np.uint64(0x5555555555555555)
_NIBBLES = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_CYCLE_SHIFT = CAUSE_BITS + REASON_BITS
_CAUSE_MASK, _REASON_MASK = (1 << CAUSE_BITS) - 1, (1 << REASON_BITS) - 1


@inline
def at(index):
    """Returns an index as an unsigned integer.

    Numba then leaves out the code that counts a negative index from the end of the array.
    """
    return np.uintp(index)


@inline
def bit(member):
    """Returns the set {member}, 0 <= member < 64."""
    return ONE << np.uint64(member)


@inline
def size(members):
    """Returns the number of members of a set."""
    x = members - ((members >> _1) & _PAIRS)
    x = (x & _NIBBLES) + ((x >> _2) & _NIBBLES)
    x = (x + (x >> _4)) & _BYTES
    return np.int64((x * _SUM) >> _56)


@inline
def first(members):
    """Returns the smallest member of a set that is not empty."""
    return size((members & (~members + ONE)) - ONE)


@inline
def rest(members):
    """Returns the set without its smallest member."""
    return members & (members - ONE)


@inline
def below(count):
    """Returns the set {0, ..., count - 1}, 0 <= count <= 64."""
    return ALL if count >= 64 else bit(count) - ONE


@inline
def wait_until(cycle, cause, reason):
    """Returns a wait as one word: the cycle in which it ends, the step that causes it, and its WarpState.

    The time at which a register can be read and the step that wrote it form such a word, too, with reason 0.
    """
    return (np.int64(cycle) << _CYCLE_SHIFT) | (np.int64(cause) << REASON_BITS) | np.int64(reason)


@inline
def known_wait_from(cycle, ins):
    """Returns the wait that follows the issue of a step at a cycle, if it is known before the run."""
    return (cycle << _CYCLE_SHIFT) + ins.known_wait


@inline
def end_of(wait):
    """Returns the cycle in which a wait ends: the first one in which the warp is eligible."""
    return wait >> _CYCLE_SHIFT


@inline
def cause_of(wait):
    """Returns the step that causes a wait, or that wrote a register."""
    return (wait >> REASON_BITS) & _CAUSE_MASK


@inline
def reason_of(wait):
    """Returns the WarpState of a wait."""
    return wait & _REASON_MASK


@inline
def unit_in(uses):
    """Returns the unit that a step uses, of which `uses` is given."""
    return np.int64(uses) >> ACCESS_BITS

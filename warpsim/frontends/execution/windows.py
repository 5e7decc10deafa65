"""The windows of shared and of local memory in the generic address space, through which pointers of any kind reach them.

A generic address (LD, ST, ATOM, RED) in one of the two windows is that of a byte of shared or of local memory; all others are of
global memory. Where the windows lie does not matter to a program. Here they are where no array is (`parameters.ARRAYS_APART`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.operands import is_predicate, operands
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.frontends.values import UNKNOWN, Values

UPPER_WORDS = {"shared": 1 << 27, "local": (1 << 27) + 1}
"""The upper words of the addresses in each window: 2^59 bytes and further on, behind all arrays that pointers name, and before
the variables of the device. The lower words are 0 at the beginning of a window."""

_GENERIC = ("LD", "ST", "ATOM", "RED")

OFFSET_BITS = 24
"""Bits of an address within a window; above are those of the rank of a block in its cluster, whose shared memory it is."""


def window_words(arch: int) -> dict[int, int]:
    """Returns where constant bank 0 holds the words of the addresses of the windows, and what they are.

    From Hopper on the window of shared memory comes from special registers (SR_SWINHI). Of Pascal and before nothing is known.
    """
    if arch < 70:
        return {}
    local_at = 0x2F8 if arch >= 100 else 0x20
    found = {local_at: 0, local_at + 4: UPPER_WORDS["local"]}
    return found | ({} if arch >= 90 else {0x18: 0, 0x1C: UPPER_WORDS["shared"]})


def is_generic(one: MachineInstruction) -> bool:
    """Returns whether the address of an instruction says which memory it accesses."""
    return one.base in _GENERIC


def is_query(one: MachineInstruction) -> bool:
    """Returns whether an instruction asks whether a generic address is one of shared memory."""
    return one.opcode == "QSPC.E.S"


def is_refused_in_shared(one: MachineInstruction) -> bool:
    """Returns whether an instruction adds floating-point numbers in global memory only, and its predicate says whether it did.

    In shared memory the program then makes the update itself, by compare-and-swap.
    """
    first = operands(one.operands)[:1]
    return one.base == "ATOM" and "RN" in one.opcode.split(".") and all(is_predicate(part) for part in first)


def is_shared(addresses: Values) -> NDArray[np.bool_]:
    """Returns which generic addresses lie in the window of shared memory."""
    return np.asarray(addresses >> 32 == UPPER_WORDS["shared"])


def of_block(addresses: Values) -> Values:
    """Returns where addresses of shared memory are in the memory of their block; of UNKNOWN ones, beyond all others."""
    return addresses & (1 << OFFSET_BITS) - 1


def outside(addresses: Values) -> Values:
    """Returns generic addresses of global memory; UNKNOWN where they lie in a window."""
    return np.where(is_shared(addresses) | (addresses >> 32 == UPPER_WORDS["local"]), UNKNOWN, addresses)


def within(addresses: Values, space: str, ranks: Values) -> Values:
    """Returns the addresses within a window of those that lie in it; UNKNOWN for others.

    Args:
        addresses: generic ones.
        space: "shared" or "local".
        ranks: of the threads' blocks in their clusters: shared memory of other blocks counts as unknown, too.
    """
    own = addresses >> 32 == UPPER_WORDS[space]
    if space == "shared":
        own &= (addresses & 0xFFFFFFFF) >> OFFSET_BITS == ranks
    return np.where(own, of_block(addresses), UNKNOWN)

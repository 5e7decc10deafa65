"""Where the local memory of threads lies: within a warp, within a thread's stack, and behind all other memory.

Each resident warp has a region of its own, which the next warp in its place takes over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution.windows import OFFSET_BITS, UPPER_WORDS
from warpsim.frontends.values import Values
from warpsim.units import WARP_LANES

STACK_END = 0xFFFD00
"""Address in local memory at which the stack of a thread ends: it grows downwards."""

REGION_BITS = OFFSET_BITS + WARP_LANES.bit_length() - 1
"""Bits of an address within the local memory of a warp."""

FIRST_REGION = UPPER_WORDS["local"] << 32
"""Address of the region of the first warp of a chip."""


def interleaved(offsets: Values, width: int) -> Values:
    """Returns where the local memory of the threads of a warp lies, for accesses of so many bytes: theirs side by side.

    `offsets` are int64[threads], those of whole warps; negative where they are not known.
    """
    lanes = np.arange(len(offsets)) % WARP_LANES
    return np.where(offsets < 0, offsets, offsets // width * WARP_LANES * width + lanes * width + offsets % width)


def within_stack(offsets: Values, pointer: Values, drawn: NDArray[np.float64], width: int) -> Values:
    """Returns offsets of accesses of so many bytes that lie between the stack pointer and the end of the stack.

    Those that are not known are where `drawn`, from 0 to 1, says. Others that lie elsewhere, since they follow from numbers that
    are made up, go around. All stay as they are where the stack pointer is not known, or nothing is on the stack.
    """
    places = (STACK_END - pointer) // width
    has_places = (pointer >= 0) & (places > 0)
    places = np.where(has_places, places, 1)
    offset = np.where(offsets < 0, (drawn * places).astype(np.int64) * width, (offsets - pointer) % (places * width))
    return np.where(has_places, pointer + offset, offsets)

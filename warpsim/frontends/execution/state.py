"""Values of registers, constants and special registers of many threads, and what they are at the start of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.execution.integers import negated_pair
from warpsim.frontends.execution.local_memory import STACK_END
from warpsim.frontends.execution.windows import UPPER_WORDS, window_words
from warpsim.frontends.launch.geometry import Geometry, threads
from warpsim.frontends.launch.parameters import ARRAYS_APART
from warpsim.frontends.machine_code.cubin import NO_CLUSTER
from warpsim.frontends.machine_code.operands import (
    TRUE,
    ZERO,
    Address,
    Constant,
    Immediate,
    Operand,
    Other,
    Register,
    registers_of,
)
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.variables_read import OF_VARIABLES
from warpsim.frontends.values import MASK, NOTHING, UNKNOWN, Values, array, known, signed, unless_unknown
from warpsim.units import WARP_LANES

_OF_BLOCK = 0xFFFFFF
"""Mask of addresses of 32 bits. Above, those of shared memory have the rank of a block in its cluster."""

_MOST_INDICES = 64
"""Different indices of a constant in a table, at most, of the threads that ask; of more its value is taken as unknown."""


class State:
    """The values of registers and predicates by name, the constants, and the special registers.

    `active` says which threads execute the present instruction. `differences`, where it is a list, gathers by how much the
    operands of comparisons differ.
    """

    def __init__(self, constants: Callable[..., Values], special: Mapping[str, Values], active: NDArray[np.bool_]) -> None:
        self.values: dict[str, Values] = {}
        self.active = active
        self.constants, self.special = constants, special
        self.differences: list[Values] | None = None

    def register(self, name: str) -> Values:
        """Returns the value of a register or predicate."""
        if name in ZERO:
            return array(0)
        if name in TRUE:
            return array(1)
        return self.values.get(name, NOTHING)

    def read(self, part: Operand) -> Values:
        """Returns the value of an operand with its signs."""
        if isinstance(part, Register) and not (part.negative or part.inverted or part.absolute or part.suffix):
            return self.register(part.name)
        if isinstance(part, Immediate):
            return array(part.value)
        if isinstance(part, Constant):
            value = self.constant(part)
        elif isinstance(part, Register):
            value = self.register(part.name)
            if part.name.lstrip("U").startswith("P"):
                return np.where(value < 0, UNKNOWN, 1 - value) if part.negative else value
        elif isinstance(part, Other) and part.text.startswith(("SR_", "SRZ")):
            value = self.special.get(part.text, NOTHING)
        else:
            return NOTHING
        if isinstance(part, Register | Constant) and (part.absolute or part.suffix not in ("", ".64")):
            return NOTHING  # a number without its sign, or a part of a register or word
        if getattr(part, "inverted", False):
            value = known(~value, value)
        return known(-value, value) if getattr(part, "negative", False) else value

    def constant(self, part: Constant, size: int = 4) -> Values:
        """Returns a constant of so many bytes, without the signs of the operand, of each thread if a register is its index."""
        if part.index is None or part.index.name in ZERO:
            return self.constants(part.bank, part.offset, size)
        index = self.register(part.index.name)
        asking = (index >= 0) & self.active  # other threads may hold anything
        places = np.unique(np.broadcast_to(index, asking.shape)[asking])
        found = np.full(index.shape, UNKNOWN)
        for place in places if len(places) <= _MOST_INDICES else ():
            found = np.where(index == place, self.constants(part.bank, int(part.offset + signed(place)), size), found)
        return found

    def read_pair(self, part: Operand) -> tuple[Values, Values]:
        """Returns the low and the high word of a 64-bit operand."""
        if isinstance(part, Register):
            if part.name in ZERO:
                return array(0), array(0)
            names = registers_of(part.name, 2)
            low, high = self.register(names[0]), self.register(names[1])
        elif isinstance(part, Constant):
            low, high = self.constant(part), self.constant(replace(part, offset=part.offset + 4))
        else:
            value = self.read(part)
            return value, array(part.high if isinstance(part, Immediate) else 0) | np.minimum(value, 0)
        if part.inverted or part.absolute:
            return NOTHING, NOTHING
        return negated_pair(low, high) if part.negative else (low, high)

    def address(self, part: Address) -> Values:
        """Returns the byte addresses of an access."""
        total, words = array(part.offset), []
        for term, factor in part.terms:
            if term.pair:
                low, high = self.read_pair(Register(term.name))
                value = low | (high & 0x3FFFFFFF) << 32
                words += [low, high]
            else:
                value = self.register(term.name)
                words.append(value)
            total = total + (value if factor == 1 else value * factor)
        if len(part.terms) == 0 or not any(term.pair for term, _ in part.terms):
            total = total & _OF_BLOCK
        return unless_unknown(total, *words)


def _rank_in_cluster(block: tuple[int, int, int], cluster: tuple[int, int, int]) -> int:
    """Returns the number of a block in its cluster, counted along x, y and z."""
    x, y, z = (index % size for index, size in zip(block, cluster, strict=True))
    return x + cluster[0] * (y + cluster[1] * z)


_OF_CALLER, _OF_COMPILER = 0, 2
"""Constant banks with parameters, and with constants that the compiler makes."""

_OF_ADDRESSES, _FIRST_VARIABLE = 4, 1 << 20
"""Constant bank with the addresses of variables of the device, of 8 bytes each, which are arrays as pointers are; the first one's
number."""


def initial_state(
    geometry: Geometry, blocks: list[tuple[int, int, int]], arguments: Mapping[int, int], function: MachineFunction
) -> tuple[State, NDArray[np.bool_]]:
    """Returns the state at the start, and which threads exist: bool[threads], with whole warps for each block.

    Args:
        geometry: the launch.
        blocks: indices of the blocks whose threads there are.
        arguments: offset in constant bank 0 -> value of the bytes of the parameters that are known.
        function: the kernel: its architecture decides where the sizes of grid and block are.
    """
    lanes = geometry.block_warps * WARP_LANES
    ids = np.array(list(threads(geometry.block)), dtype=np.int64)
    padded = np.zeros((lanes, 3), dtype=np.int64)
    padded[: len(ids)] = ids
    special: dict[str, Values] = {
        "SR_CgaCtaId": np.repeat([_rank_in_cluster(block, function.cluster) for block in blocks], lanes).astype(np.int64),
        "SR_SWINLO": array(0),
        "SR_SWINHI": array(UPPER_WORDS["shared"]),
        "SR_LANEID": np.tile(np.arange(WARP_LANES), lanes // WARP_LANES * len(blocks)),
    }
    for d, letter in enumerate("XYZ"):
        special[f"SR_TID.{letter}"] = np.tile(padded[:, d], len(blocks))
        special[f"SR_CTAID.{letter}"] = np.repeat([block[d] for block in blocks], lanes).astype(np.int64)
    alive = np.tile(np.arange(lanes) < len(ids), len(blocks))
    words = window_words(function.arch)
    block_at, grid_at, stack_at = _launch_words(function.arch)
    for d in range(3):
        words[block_at + 4 * d] = geometry.block[d]
        words[grid_at + 4 * d] = geometry.grid[d]
    words[stack_at] = STACK_END
    if function.arch >= _FIRST_WITH_CLUSTERS:
        words[_clusters_word(function.arch)] = int(function.cluster != NO_CLUSTER)
    values = {one.offset + k: byte for one in function.variables for k, byte in enumerate(one.value)}
    banks = {_OF_CALLER: dict(arguments), _OF_COMPILER: dict(enumerate(function.constants)), OF_VARIABLES: values}
    for offset, word in words.items():
        banks[_OF_CALLER].update(enumerate((word & MASK).to_bytes(4, "little"), offset))

    @cache
    def constant(bank: int, offset: int, size: int = 4) -> Values:
        if bank == _OF_ADDRESSES:
            address = _FIRST_VARIABLE + offset // 8 << ARRAYS_APART
            return array(address >> 8 * (offset % 8) & (1 << 8 * size) - 1)
        known_bytes = banks.get(bank, {})
        places = range(offset, offset + size)
        if not all(place in known_bytes for place in places):
            return NOTHING
        return array(int.from_bytes(bytes(known_bytes[place] for place in places), "little"))

    return State(constant, special, alive), alive


def _launch_words(arch: int) -> tuple[int, int, int]:
    """Returns where constant bank 0 holds the sizes of block and grid, and the stack pointer."""
    if arch >= 100:
        return 0x360, 0x370, 0x37C
    return (0x0, 0xC, 0x28) if arch >= 70 else (0x8, 0x14, 0x20)


_FIRST_WITH_CLUSTERS = 90
"""The first architecture whose blocks can be launched in clusters."""


def _clusters_word(arch: int) -> int:
    """Returns where constant bank 0 says whether the launch states clusters: 1 or 0, the %is_explicit_cluster of PTX."""
    return 0x36C if arch >= 100 else 0x140

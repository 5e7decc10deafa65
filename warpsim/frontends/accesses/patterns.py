"""The addresses of an access as a pattern of a kernel, and the bank conflicts that they make."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from warpsim.frontends.accesses.tally import Addresses, Tally
from warpsim.frontends.machine_code.memory_instructions import Width, bytes_per_thread, is_update, space_of
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.hardware.gpu import Shared
from warpsim.kernels.access import thread_addresses, ways_of_today
from warpsim.kernels.instruction import MAX_ADDRESS, MAX_STRIDE, Access
from warpsim.units import LINE_BYTES, WARP_LANES

_BANKS = Shared(banks=32, bank_bytes=4, lanes_per_pass=32)
"""Banks of shared memory of all chips since Maxwell (CUDA C Programming Guide)."""

_DRAWS = 1000
"""Warps over which the mean conflict of random places is taken."""

_JOINS = 0.5
"""Share of the lines that pass L1 with the one before, of those that may (`passes_in_l1`)."""


def ways_of(one: MachineInstruction, tally: Tally) -> float:
    """Returns the mean degree of the conflicts of an access: how many times as long as without them it occupies its unit.

    In shared memory these are bank conflicts. Threads of an atomic that have one address follow one another, but where they only
    count (`POPC`, `ARRIVE`). Constants come one address at a time (CUDA C Programming Guide, constant memory).
    """
    width = bytes_per_thread(one)
    patterns = [np.frombuffer(key, np.int64) for key in tally.patterns]
    is_constant = space_of(one) == "constant"
    degrees = [len(np.unique(each[each >= 0] // width)) if is_constant else conflict_degree(each, width) for each in patterns]
    mean = float(np.average(degrees, weights=list(tally.patterns.values())))
    if not is_update(one) or {"POPC", "ARRIVE"} & set(one.opcode.split(".")):
        return mean
    return min(WARP_LANES, max(mean, tally.updates / (tally.warps - tally.unknown)))


def conflict_degree(addresses: Addresses, width: Width) -> int:
    """Returns the degree of the bank conflict of a pattern, in the banks of all chips since Volta.

    Addresses of threads that are off are negative.
    """
    return ways_of_today(addresses.tolist(), _BANKS, width)


def ways_of_pattern(access: Access) -> int:
    """Returns the same of a pattern of a kernel."""
    return ways_of_today(thread_addresses(access), _BANKS, access.bytes_per_thread)


@lru_cache(maxsize=8)
def random_conflict(width: Width) -> int:
    """Returns the degree of the bank conflict of threads that access any places of shared memory: the mean of many, rounded."""
    generator = np.random.default_rng(2016)
    draws = generator.integers(0, 1 << 16, (_DRAWS, WARP_LANES)) * max(width, _BANKS.bank_bytes)
    return round(float(np.mean([conflict_degree(each, width) for each in draws])))


def passes_in_l1(tally: Tally, width: Width) -> float:
    """Returns the mean number of passes that a load or a store makes in L1: one for each line, less those that pass with another.

    Threads of 8 bytes come in groups of 16, and those of 16 bytes in groups of 8. Within a group, a line passes with the one
    before in half of the cases if no bank has words of both, and if that one has not passed with another already: 16 such lines
    make 10.9 passes. Counters of public reports have 10.4 and 11.1 (set_halo_values of NCAR/GPU_workshop, V100), and 1.2 to 1.5
    where the 128 bytes of a warp begin within a line (a stencil of LeRatonLaveurSolitaire/A5_TP_conway, T4).
    """
    patterns = [_in_l1(key, width) for key in tally.patterns]
    return float(np.average(patterns, weights=list(tally.patterns.values())))


@lru_cache(maxsize=4096)
def _in_l1(pattern: bytes, width: Width) -> float:
    """Returns the mean number of passes of a pattern of 32 addresses, negative of threads that are off."""
    addresses, lanes = np.frombuffer(pattern, np.int64), WARP_LANES * _BANKS.bank_bytes // max(width, _BANKS.bank_bytes)
    return sum(_of_group(group[group >= 0].tolist(), width) for group in addresses.reshape(-1, lanes))


def _of_group(addresses: list[int], width: Width) -> float:
    """Returns the mean number of passes of threads that come together."""
    banks: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(address // _BANKS.bank_bytes, (address + width - 1) // _BANKS.bank_bytes + 1):
            banks.setdefault(word * _BANKS.bank_bytes // LINE_BYTES, set()).add(word % _BANKS.banks)
    passes, alone, before = 0.0, 0.0, set[int]()  # alone: how likely the line before has passed by itself
    for of_line in banks.values():
        joins = alone * _JOINS if before and not before & of_line else 0.0
        passes, alone, before = passes + 1.0 - joins, 1.0 - joins, of_line
    return passes


def matrix_rows(one: MachineInstruction, addresses: Addresses) -> Addresses:
    """Returns the addresses of the threads that name rows of the matrices that a warp loads or stores."""
    return addresses[: rows_named(one)]


def rows_named(one: MachineInstruction) -> int:
    """Returns how many threads of a warp name rows of the matrices that it loads or stores, the first ones: 8 for each."""
    suffix = one.opcode.rpartition(".")[2]
    return 8 * (int(suffix) if suffix in ("2", "4") else 1)


@lru_cache(maxsize=4096)
def as_access(addresses: tuple[int, ...], width: Width) -> Access:
    """Returns an access pattern: that of `Access` with a name, where one fits, or the addresses themselves.

    Args:
        addresses: of the 32 threads, in bytes from the start of a line on.
        width: bytes of each thread.
    """
    aligned = [address // width * width for address in (addresses if max(addresses) <= MAX_ADDRESS else _nearer(addresses))]
    steps = {second - first for first, second in pairwise(aligned)}
    fields: dict[str, Any] = {"bytes_per_thread": width, "offset_bytes": aligned[0]}
    step = steps.pop() if len(steps) == 1 else -1
    if step == 0:
        return Access(pattern="broadcast", **fields)
    if step == width:
        return Access(pattern="coalesced", **fields)
    if step > 0 and step % width == 0 and step // width <= MAX_STRIDE:
        return Access(pattern="stride", stride=step // width, **fields)
    return Access(pattern="addresses", bytes_per_thread=width, addresses=tuple(aligned))


def _nearer(addresses: tuple[int, ...]) -> list[int]:
    """Returns the addresses of threads of which some access another array so far away that `Access` cannot say it, less far."""
    lines, places = np.unique(np.array(addresses) // LINE_BYTES, return_inverse=True)
    steps = np.minimum(np.diff(lines, prepend=lines[0]), MAX_ADDRESS // LINE_BYTES // len(addresses))
    nearer: list[int] = (np.cumsum(steps)[places] * LINE_BYTES + np.array(addresses) % LINE_BYTES).tolist()
    return nearer

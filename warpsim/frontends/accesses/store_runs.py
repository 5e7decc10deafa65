"""Stores of a warp to the same lines, one right behind another, which L1 joins before it sends them to L2.

Where threads store neighbouring words one after another, as `a[4 * i]` to `a[4 * i + 3]`, each store asks for all sectors.
Reports of public repositories (experiments/profiles) count those that leave L1: a quarter for four such stores on RTX 3080 and
H100, a third to a half in other kernels on RTX 3080, and 0.6 on a T4. Not all are joined where a store has 32 lines: 0.64 to
0.98 are left (RTX 3080, RTX 40). Hardly any are where loads stand between the stores (0.95 on a T4, 0.98 on an RTX 3080), or
where all warps of a block come from a barrier and store at the same time, so that stores of others lie between (0.96, RTX
3080).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.frontends.machine_code.memory_instructions import space_of
from warpsim.frontends.machine_code.operands import addresses, written
from warpsim.frontends.machine_code.sass import MachineInstruction
from warpsim.kernels.access import port_sectors
from warpsim.units import LINE_BYTES, SECTOR_BYTES, WARP_LANES

_FURTHEST = 8
"""Instructions from a store to the next one of a run, at most."""

_AFTER_BARRIER = 16
"""Instructions from a barrier to the first store of a run, at least."""

_MOST_LINES = 8
"""Lines that the stores of a run write, at most."""

_NEXT_TO_NOTHING = 0.001
"""Bytes, or sectors, of a store that is joined with the first one, since a store moves something."""


@dataclass
class StoreRun:
    """Stores to global memory with one address, but for what is added to it.

    Attributes:
        offsets: place of each store in the code -> what is added to the address, in bytes.
    """

    offsets: dict[int, int] = field(default_factory=dict)

    def costs(self, index: int, threads: NDArray[np.int64], width: int, share: float) -> dict[str, Any]:
        """Returns costs of a store: the first one moves what all write. There are none of its own if L1 does not join them.

        Args:
            index: place of the store in the code.
            threads: addresses of its threads.
            width: bytes of each thread.
            share: how many sectors the store writes on average, for each one that these threads write.
        """
        starts = [threads + offset - self.offsets[index] for offset in self.offsets.values()]
        sectors, lines = (_parts(starts, width, size) for size in (SECTOR_BYTES, LINE_BYTES))
        if lines > _MOST_LINES or sectors >= sum(_parts([start], width, SECTOR_BYTES) for start in starts):
            return {}
        passes = str(max(_parts([threads], width, LINE_BYTES), -(-WARP_LANES * width // LINE_BYTES)))
        if index != next(iter(self.offsets)):
            return {"passes": passes, "requests": 1, "bytes_per_request": _NEXT_TO_NOTHING, "port_sectors": _NEXT_TO_NOTHING}
        written_bytes = min(len(starts) * WARP_LANES * width, sectors * SECTOR_BYTES)
        return {
            "passes": passes,
            "requests": lines,
            "bytes_per_request": round(share * sectors * SECTOR_BYTES / lines, 3),
            "port_sectors": round(share * port_sectors(sectors, written_bytes, lines) / lines, 3),
        }


def _parts(starts: Sequence[NDArray[np.int64]], width: int, size: int) -> int:
    """Returns the sectors, or lines, of a size over which accesses of some bytes are spread."""
    return int(np.unique(np.concatenate([start + last for start in starts for last in (0, width - 1)]) // size).size)


def store_runs(code: Sequence[MachineInstruction], indices: Iterable[int]) -> dict[int, StoreRun]:
    """Returns the run of each store that belongs to one with several stores; `indices` are the places of a block's code."""
    found: dict[int, StoreRun] = {}
    run, key, last, barrier = StoreRun(), None, 0, -_AFTER_BARRIER
    for index in indices:
        one = code[index]
        barrier = index if one.base == "BAR" else barrier
        parts = addresses(one) if space_of(one) == "global" and one.base in ("ST", "STG") else ()
        if len(parts) == 1 and index >= barrier + _AFTER_BARRIER:
            own = parts[0].terms, one.guard, one.opcode
            if own != key or index > last + _FURTHEST:
                run, key = StoreRun(), own
            run.offsets[index], last = parts[0].offset, index
            if len(run.offsets) > 1:
                found |= dict.fromkeys(run.offsets, run)
        elif space_of(one) is not None or one.base in ("CALL", "MEMBAR"):
            key = None
        if key is not None and {register.name for register, _ in key[0]} & set(written(one)):
            key = None
    return found

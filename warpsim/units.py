"""Constants shared by the whole package, and conversions between the units of the papers.

GB/s means 1e9 bytes per second of the whole chip; bytes per cycle also refer to the whole chip. IPC is warp
instructions per cycle. Ops per cycle count the lanes of these instructions, 32 per instruction (V Table 6.1).
V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

WARP_LANES = 32
"""Threads of a warp (V 2.2)."""

MAX_SCHEDULERS = 8
"""Largest number of schedulers of an SM that the package can describe and simulate."""

MAX_WARPS = 64
"""Largest number of warps of an SM that the package can describe and simulate."""

MAX_REGISTER_BANKS = 4
"""Largest number of register banks of a scheduler."""

OPS = ("alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit")
"""Operation classes of every chip, in the order of the `op` dimension of a result. A chip may add classes."""

ATOMIC_OPS = ("atomic", "reduction")
"""Operation classes that update global memory; the first one also loads what was there."""

ACCESS_KINDS = {
    "load": "load", "store": "store", "texture": "load", "atomic": "load", "reduction": "store", "async_copy": "load"
}  # fmt: skip
"""Operation class that accesses global memory -> whether the memory system has a load or a store to serve."""

MEMORY_OPS = tuple(ACCESS_KINDS)
"""Operation classes that access global memory."""

ACCESSING_OPS = (*MEMORY_OPS, "smem")
"""Operation classes that access global or shared memory."""

NEEDED_FRACTION = 0.9
"""Share of a throughput limit that needed warps attain unless another one is asked for (V 4.5)."""

COALESCED_BYTES = 4 * WARP_LANES
"""Bytes requested by a coalesced 32-bit access of a warp (V 3.2)."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Bytes of a cache line, in which a coalesced access enters the memory queues, and of a sector, a part of it that moves alone."""


def gbs_to_bytes_per_cycle(gbs: float, clock_ghz: float) -> float:
    """Converts a rate in GB/s to bytes per clock cycle."""
    return gbs / clock_ghz


def bytes_per_cycle_to_gbs(bytes_per_cycle: float, clock_ghz: float) -> float:
    """Converts a rate in bytes per clock cycle to GB/s."""
    return bytes_per_cycle * clock_ghz


def gbs_to_ipc(gbs: float, clock_ghz: float, sms: int, instruction_bytes: float = COALESCED_BYTES) -> float:
    """Converts the chip's GB/s to memory instructions per cycle of one SM (V 3.2)."""
    return gbs_to_bytes_per_cycle(gbs, clock_ghz) / (sms * instruction_bytes)


def ipc_to_gbs(ipc: float, clock_ghz: float, sms: int, instruction_bytes: float = COALESCED_BYTES) -> float:
    """Converts memory instructions per cycle of one SM to the chip's GB/s (V 6.5)."""
    return bytes_per_cycle_to_gbs(ipc * sms * instruction_bytes, clock_ghz)


def ipc_to_ops_per_cycle(ipc: float) -> float:
    """Converts warp instructions per cycle to operations of single threads per cycle."""
    return ipc * WARP_LANES

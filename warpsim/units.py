"""Conversions between the units of the papers: the only place that does them.

GB/s are 1e9 bytes per second of the whole chip; bytes per cycle are those of the whole chip too. IPC is warp
instructions per cycle, and ops per cycle are its lanes: 32 to an instruction (V Table 6.1).
V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

WARP_LANES = 32
"""Threads of a warp (V 2.2)."""

COALESCED_BYTES = 4 * WARP_LANES
"""Bytes that a warp's coalesced 32-bit access asks for (V 3.2)."""


def gbs_to_bytes_per_cycle(gbs: float, clock_ghz: float) -> float:
    """Convert a rate in GB/s to bytes per clock cycle."""
    return gbs / clock_ghz


def bytes_per_cycle_to_gbs(bytes_per_cycle: float, clock_ghz: float) -> float:
    """Convert a rate in bytes per clock cycle to GB/s."""
    return bytes_per_cycle * clock_ghz


def gbs_to_ipc(gbs: float, clock_ghz: float, sms: int, instruction_bytes: float = COALESCED_BYTES) -> float:
    """Convert the chip's GB/s to memory instructions per cycle of one SM (V 3.2)."""
    return gbs_to_bytes_per_cycle(gbs, clock_ghz) / (sms * instruction_bytes)


def ipc_to_gbs(ipc: float, clock_ghz: float, sms: int, instruction_bytes: float = COALESCED_BYTES) -> float:
    """Convert memory instructions per cycle of one SM to the chip's GB/s (V 6.5)."""
    return bytes_per_cycle_to_gbs(ipc * sms * instruction_bytes, clock_ghz)


def ipc_to_ops_per_cycle(ipc: float) -> float:
    """Convert warp instructions per cycle to operations of single threads per cycle."""
    return ipc * WARP_LANES


def ops_per_cycle_to_ipc(ops_per_cycle: float) -> float:
    """Convert operations of single threads per cycle to warp instructions per cycle."""
    return ops_per_cycle / WARP_LANES

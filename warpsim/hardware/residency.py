"""The occupancy calculator and the launch of a kernel.

V is Volkov, Understanding Latency Hiding on GPUs, 2016 (2.10, 2.11, 5.7), and OC the CUDA Occupancy Calculator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from warpsim import units
from warpsim.arguments import InvalidPoint, NoWholeBlocks, integer, spans
from warpsim.hardware.fields import Between, Count, StrictModel
from warpsim.hardware.gpu import Gpu

MAX_BLOCKS = 2**31 - 1
"""Blocks of a grid, at most: CUDA's limit in x."""


class Resources(Protocol):
    """The resources that a kernel needs."""

    @property
    def registers_per_thread(self) -> int:
        """32-bit registers per thread."""

    @property
    def shared_bytes_per_block(self) -> int:
        """Bytes of shared memory per thread block."""


class Program(Resources, Protocol):
    """A kernel that is launched."""

    @property
    def block_warps(self) -> int | None:
        """Warps of a block for which the kernel was made; None: any."""


class Launch(StrictModel):
    """A launch: the thread blocks of a grid and their residency.

    Attributes:
        blocks: blocks of the grid; None: an endless supply, for a steady state.
        block_warps: warps of a block.
        resident_blocks: resident blocks of an SM; None: as many as fit.
        persistent: whether the grid is exactly one wave, so that no block is replaced. Then `blocks` is None.
    """

    blocks: Annotated[int, Between(1, MAX_BLOCKS)] | None = None
    block_warps: Count
    resident_blocks: Count | None = None
    persistent: bool = False

    @property
    def finite(self) -> bool:
        """Whether the grid ends, so that it runs to completion."""
        return self.blocks is not None or self.persistent

    @property
    def resident_warps(self) -> int:
        """Warps of an SM when all its resident blocks are full; `resident_blocks` must be known (`resolve_launch`)."""
        if self.resident_blocks is None:
            raise ValueError("launch.resident_blocks: must be given, or resolved, where resident warps are asked for")
        return self.resident_blocks * self.block_warps


@dataclass(frozen=True)
class Residency:
    """Maximum residency of a kernel on an SM.

    Attributes:
        blocks: resident blocks; 0 if not even one fits.
        warps: resident warps.
        limits: resource (warps, blocks, registers, shared memory) -> blocks that it alone would admit.
        limiter: the resource that admits the fewest blocks; on a tie, the first of them.
    """

    blocks: int
    warps: int
    limits: dict[str, int]
    limiter: str


def occupancy(gpu: Gpu, kernel: Resources, block_warps: int) -> Residency:
    """Returns how many blocks of `block_warps` warps an SM can hold (V 2.11; granularities of V 5.7 and OC).

    A resource that the kernel does not use admits the chip's maximum number of blocks. The 4 bytes of shared memory
    per kernel argument (V, for G80 and GT200) are not modeled.

    Raises:
        TypeError: `block_warps` is not an integer.
        ValueError: `block_warps` is below 1.
        InvalidPoint: `block_warps` is above the chip's limit (a ValueError).
    """
    if not isinstance(gpu, Gpu):
        raise TypeError(f"gpu = {gpu!r}: must be a Gpu, such as load_gpu returns")
    if isinstance(kernel, str):
        raise TypeError(f"kernel = {kernel!r}: must be a Kernel, such as load_kernel returns")
    sm = gpu.sm
    block_warps = integer("block_warps", block_warps, 1, sm.max_block_warps, of=gpu.name)
    shared = _round_up(kernel.shared_bytes_per_block + sm.shared_overhead_bytes, sm.shared_granularity_bytes)
    limits = {
        "warps": sm.max_warps // block_warps,
        "blocks": sm.max_blocks,
        "registers": _blocks_by_registers(gpu, kernel.registers_per_thread, block_warps),
        "shared memory": sm.shared_bytes // shared if shared else sm.max_blocks,
    }
    if kernel.registers_per_thread > sm.max_registers_per_thread:
        limits["registers"] = 0
    if kernel.shared_bytes_per_block > sm.max_shared_bytes_per_block:
        limits["shared memory"] = 0
    limiter = min(limits, key=limits.__getitem__)
    blocks = limits[limiter]
    return Residency(blocks, blocks * block_warps, limits, limiter)


def default_block_warps(gpu: Gpu, warps: int) -> int:
    """Returns the smallest block size, in warps, that gives an occupancy of `warps` within the chip's limits.

    Raises:
        TypeError: `warps` is not an integer.
        ValueError: `warps` is below 1.
        InvalidPoint: `warps` is above the chip's limit, or no block size gives it (a ValueError).
    """
    warps = integer("warps", warps, 1, gpu.sm.max_warps, of=gpu.name)
    size = _smallest_block(gpu, warps)
    if size is None:
        fit = [n for n in range(1, gpu.sm.max_warps + 1) if _smallest_block(gpu, n)]
        raise NoWholeBlocks(
            f"warps = {warps}: no block size gives this occupancy on {gpu.name}, which holds at most {gpu.sm.max_blocks} "
            f"blocks of at most {gpu.sm.max_block_warps} warps; allowed: {spans(fit)}"
        )
    return size


def resolve_launch(
    gpu: Gpu,
    kernel: Program,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
) -> Launch:
    """Returns a launch in which all fields have values, except `blocks`, which can be None.

    Args:
        gpu: the chip.
        kernel: the kernel, whose registers and shared memory limit residency.
        warps: requested occupancy, in warps per SM; None: as many as fit.
        block_warps: warps of a block; None: that of `launch`, or that for which the kernel was made, or `default_block_warps`.
        launch: requested launch.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the arguments contradict each other.
        InvalidPoint: the arguments request more than the chip can hold (a ValueError).
    """
    if launch is not None and not isinstance(launch, Launch):
        raise TypeError(f"launch = {launch!r}: must be a Launch or None")
    if launch and launch.persistent and launch.blocks is not None:
        raise ValueError(f"launch.blocks = {launch.blocks}: must be left out if launch.persistent is true")
    sm = gpu.sm
    if warps is not None:
        warps = integer("warps", warps, 1, sm.max_warps, of=gpu.name)
    if block_warps is not None:
        block_warps = integer("block_warps", block_warps, 1, sm.max_block_warps, of=gpu.name)
    if launch:
        if block_warps not in (None, launch.block_warps):
            raise ValueError(f"block_warps = {block_warps}: must be {launch.block_warps}, as in launch, or left out")
        block_warps = integer("launch.block_warps", launch.block_warps, 1, sm.max_block_warps, of=gpu.name)
    if block_warps is None:
        block_warps = kernel.block_warps or default_block_warps(gpu, sm.max_warps if warps is None else warps)

    fit = occupancy(gpu, kernel, block_warps)
    why = f"on {gpu.name} with block_warps = {block_warps}, limited by {fit.limiter}: {_needs(gpu, kernel)}"
    if fit.blocks == 0:
        raise InvalidPoint(f"kernel: no block fits {why}")
    resident = launch.resident_blocks if launch else None
    if resident is not None and resident > fit.blocks:
        raise InvalidPoint(f"launch.resident_blocks = {resident}: must be at most {fit.blocks} {why}")
    if warps is not None:
        if warps % block_warps:
            raise NoWholeBlocks(f"warps = {warps}: must be a multiple of block_warps = {block_warps}")
        if warps > fit.warps:
            raise InvalidPoint(f"warps = {warps}: must be at most {fit.warps} {why}")
        if resident is not None and warps != resident * block_warps:
            raise ValueError(f"warps = {warps}: must be {resident * block_warps}, as in launch, or left out")
        resident = warps // block_warps
    return Launch(
        blocks=launch.blocks if launch else None,
        block_warps=block_warps,
        resident_blocks=fit.blocks if resident is None else resident,
        persistent=launch.persistent if launch else False,
    )


def _blocks_by_registers(gpu: Gpu, registers_per_thread: int, block_warps: int) -> int:
    """Returns the blocks that the registers of an SM admit.

    Registers that are allocated by the warp belong to sub-partitions, as many as `warp_granularity`. Each holds whole warps, and
    the warps of a block are dealt among them. A block fits only if it would with its last round filled up (OC).
    """
    sm = gpu.sm
    dealt = _round_up(block_warps, sm.warp_granularity)
    per_warp = registers_per_thread * units.WARP_LANES
    if sm.register_allocation == "block":
        block = _round_up(dealt * per_warp, sm.register_granularity)
        return sm.registers // block if block else sm.max_blocks
    per_warp = _round_up(per_warp, sm.register_granularity)
    if not per_warp:
        return sm.max_blocks
    warps = sm.registers // sm.warp_granularity // per_warp * sm.warp_granularity
    return warps // block_warps if dealt * per_warp <= sm.registers else 0


def _smallest_block(gpu: Gpu, warps: int) -> int | None:
    """Returns the smallest divisor of `warps` that is a valid block size, or None."""
    low = -(-warps // gpu.sm.max_blocks)
    return next((size for size in range(low, gpu.sm.max_block_warps + 1) if warps % size == 0), None)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _needs(gpu: Gpu, kernel: Resources) -> str:
    sm = gpu.sm
    return (
        f"the kernel needs {kernel.registers_per_thread} registers per thread "
        f"(at most {sm.max_registers_per_thread}, {sm.registers} per SM) "
        f"and {kernel.shared_bytes_per_block} bytes of shared memory per block "
        f"(at most {sm.max_shared_bytes_per_block}, {sm.shared_bytes} per SM)"
    )

"""From resources to resident blocks: how many warps an SM can hold, and what a launch asks for.

V is Volkov, Understanding Latency Hiding on GPUs, 2016 (2.10, 2.11, 5.7); OC the CUDA Occupancy Calculator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from warpsim import units
from warpsim.arguments import InvalidPoint, integer, spans
from warpsim.hardware.gpu import Gpu

Count = Annotated[int, Field(ge=1)]


class Resources(Protocol):
    """What residency needs to know of a kernel."""

    @property
    def registers_per_thread(self) -> int:
        """32-bit registers."""

    @property
    def shared_bytes_per_block(self) -> int:
        """Bytes of shared memory."""


class Launch(BaseModel):
    """A launch: the blocks and how they reside.

    Attributes:
        blocks: of the whole grid; None is an endless supply, for a steady state.
        block_warps: warps of a block.
        resident_blocks: blocks that an SM holds at a time; None is as many as fit.
        persistent: exactly one wave, as many blocks as the chip holds, and none replaced. It has no `blocks`.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    blocks: Count | None = None
    block_warps: Count
    resident_blocks: Count | None = None
    persistent: bool = False


@dataclass(frozen=True)
class Residency:
    """What an SM can hold of a kernel.

    Attributes:
        blocks: blocks at a time; 0 where not even one fits.
        warps: warps at a time.
        limits: the blocks that each resource alone admits: warps, blocks, registers, shared memory.
        limiter: the resource that admits the fewest; the first of them on a tie.
    """

    blocks: int
    warps: int
    limits: dict[str, int]
    limiter: str


def occupancy(gpu: Gpu, kernel: Resources, block_warps: int) -> Residency:
    """Return how many blocks of `block_warps` warps an SM can hold (V 2.11; granularities of V 5.7 and OC).

    A resource that the kernel does not use admits as many blocks as the chip does. V's 4 bytes of shared
    memory per kernel argument (G80, GT200) are left out.

    Raises:
        TypeError: `block_warps` is not an integer.
        ValueError: `block_warps` is not from 1 to the chip's limit.
    """
    sm = gpu.sm
    block_warps = integer("block_warps", block_warps, 1, sm.max_block_warps, of=gpu.name)
    registers = _block_registers(gpu, kernel.registers_per_thread, block_warps)
    shared = _round_up(kernel.shared_bytes_per_block + sm.shared_overhead_bytes, sm.shared_granularity_bytes)
    limits = {
        "warps": sm.max_warps // block_warps,
        "blocks": sm.max_blocks,
        "registers": sm.registers // registers if registers else sm.max_blocks,
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
    """Return the smallest block, in warps, of which a whole number makes `warps` within the chip's limits.

    Raises:
        TypeError: `warps` is not an integer.
        InvalidPoint: `warps` is above the chip's limit, or no block size makes it (a ValueError).
        ValueError: `warps` is below 1.
    """
    warps = integer("warps", warps, 1, gpu.sm.max_warps, of=gpu.name)
    size = _smallest_block(gpu, warps)
    if size is None:
        fit = [n for n in range(1, gpu.sm.max_warps + 1) if _smallest_block(gpu, n)]
        raise InvalidPoint(
            f"warps = {warps}: no block size makes it on {gpu.name} with at most {gpu.sm.max_blocks} blocks "
            f"of at most {gpu.sm.max_block_warps} warps; allowed: {spans(fit)}"
        )
    return size


def resolve_launch(
    gpu: Gpu,
    kernel: Resources,
    warps: int | None = None,
    block_warps: int | None = None,
    launch: Launch | None = None,
) -> Launch:
    """Return the launch in full: every field a number, but for `blocks`, which may stay None.

    Args:
        gpu: the chip.
        kernel: its registers and shared memory are what limits residency.
        warps: occupancy asked for, in warps per SM; None is as many as fit.
        block_warps: warps of a block; None is `launch`'s, or else `default_block_warps`.
        launch: what is asked for in full.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the arguments contradict each other, or ask for more than the chip, its registers or its
            shared memory allow.
    """
    if launch is not None and not isinstance(launch, Launch):
        raise TypeError(f"launch = {launch!r}: a Launch or None")
    if launch and launch.persistent and launch.blocks is not None:
        raise ValueError(f"launch.blocks = {launch.blocks}: left out where launch.persistent is true")
    sm = gpu.sm
    if warps is not None:
        warps = integer("warps", warps, 1, sm.max_warps, of=gpu.name)
    if block_warps is not None:
        block_warps = integer("block_warps", block_warps, 1, sm.max_block_warps, of=gpu.name)
    if launch:
        if block_warps not in (None, launch.block_warps):
            raise ValueError(f"block_warps = {block_warps}: {launch.block_warps}, as in launch, or left out")
        block_warps = integer("launch.block_warps", launch.block_warps, 1, sm.max_block_warps, of=gpu.name)
    if block_warps is None:
        block_warps = default_block_warps(gpu, sm.max_warps if warps is None else warps)

    fit = occupancy(gpu, kernel, block_warps)
    why = f"on {gpu.name} with block_warps = {block_warps}, limited by {fit.limiter}: {_needs(gpu, kernel)}"
    if fit.blocks == 0:
        raise InvalidPoint(f"kernel: not one block fits {why}")
    resident = launch.resident_blocks if launch else None
    if resident is not None and resident > fit.blocks:
        raise InvalidPoint(f"launch.resident_blocks = {resident}: at most {fit.blocks} {why}")
    if warps is not None:
        if warps % block_warps:
            raise InvalidPoint(f"warps = {warps}: a multiple of block_warps = {block_warps}")
        if warps > fit.warps:
            raise InvalidPoint(f"warps = {warps}: at most {fit.warps} {why}")
        if resident is not None and warps != resident * block_warps:
            raise ValueError(f"warps = {warps}: {resident * block_warps}, as in launch, or left out")
        resident = warps // block_warps
    return Launch(
        blocks=launch.blocks if launch else None,
        block_warps=block_warps,
        resident_blocks=fit.blocks if resident is None else resident,
        persistent=launch.persistent if launch else False,
    )


def _block_registers(gpu: Gpu, registers_per_thread: int, block_warps: int) -> int:
    """Return the registers that a block takes, as the chip rounds them up."""
    sm = gpu.sm
    warps = _round_up(block_warps, sm.warp_granularity)
    of_warp = registers_per_thread * units.WARP_LANES
    if sm.register_allocation == "warp":
        return warps * _round_up(of_warp, sm.register_granularity)
    return _round_up(warps * of_warp, sm.register_granularity)


def _smallest_block(gpu: Gpu, warps: int) -> int | None:
    """Return the smallest divisor of `warps` that is a block within the chip's limits."""
    low = -(-warps // gpu.sm.max_blocks)
    return next((size for size in range(low, gpu.sm.max_block_warps + 1) if warps % size == 0), None)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _needs(gpu: Gpu, kernel: Resources) -> str:
    sm = gpu.sm
    return (
        f"the kernel takes {kernel.registers_per_thread} registers per thread "
        f"(at most {sm.max_registers_per_thread}, {sm.registers} per SM) "
        f"and {kernel.shared_bytes_per_block} bytes of shared memory per block "
        f"(at most {sm.max_shared_bytes_per_block}, {sm.shared_bytes} per SM)"
    )

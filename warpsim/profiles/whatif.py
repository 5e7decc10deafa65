"""A profiled launch on a changed machine, or cut into other blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsFloat

from warpsim.arguments import integer
from warpsim.hardware.architectures import number_of
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.hardware.residency import Launch, occupancy
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.traversal import expected_executions
from warpsim.kernels.whatif import with_instructions
from warpsim.profiles.chip import scaled, with_rates_of_l2
from warpsim.profiles.errors import ProfileError
from warpsim.profiles.kernel import to_kernel
from warpsim.simulation.endless import without_exits
from warpsim.units import WARP_LANES

if TYPE_CHECKING:
    from warpsim.profiles.api import Profile

_MOST_FACTOR = 1000


def changed(
    profile: Profile,
    *,
    resident_blocks: int | None,
    block_threads: int | None,
    latency: float,
    bandwidth: float,
    l1_hit: float | None,
    l2_hit: float | None,
    l1_size: float,
    gpu: Gpu | str | None,
) -> Profile:
    """Returns a launch with changes; `Profile.what_if` describes them.

    Raises:
        ProfileError: the chip does not execute the machine code, or a value is not allowed.
        TypeError: a value is of another type.
        ValueError: the chip cannot hold as many blocks.
    """
    other = profile if gpu is None else _on_another_chip(profile, as_gpu(gpu))
    chip = other.gpu
    for name, factor in (("latency", latency), ("bandwidth", bandwidth), ("l1_size", l1_size)):
        _check(name, factor, f"a number above 0 and below {_MOST_FACTOR}", lambda value: 0 < value < _MOST_FACTOR)
    for name, share in (("l1_hit", l1_hit), ("l2_hit", l2_hit)):
        if share is not None:
            _check(name, share, "a probability from 0 to 1", lambda value: 0 <= value <= 1)
    kernel, launch = _with_l1(other, l1_hit, l1_size), other.launch
    if l2_hit is not None:
        kernel = with_hits(kernel, l2_hit=l2_hit)
    if block_threads is not None:
        kernel, launch = _in_blocks(chip, kernel, launch, block_threads)
    if resident_blocks is not None:
        most = occupancy(chip, kernel, launch.block_warps).blocks
        launch = _with(launch, resident_blocks=integer("resident_blocks", resident_blocks, 1, most, of=chip.title))
    before, after = (dram_bytes(one) for one in (other.kernel, kernel))
    moved = other.dram_bytes * after / before if before else after * (launch.blocks or 1) * launch.block_warps
    profiled = other.profiled if kernel is other.kernel else None
    chip = scaled(chip, latency, bandwidth)
    return replace(other, gpu=chip, kernel=kernel, launch=launch, dram_bytes=moved, profiled=profiled, changed=True)


def _check(name: str, value: object, allowed: str, holds: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} = {value!r}: must be {allowed}")
    if not holds(float(value)):
        raise ProfileError(f"{name} = {value}: must be {allowed}")


def _on_another_chip(profile: Profile, chip: Gpu) -> Profile:
    """Returns a launch on another chip: as many blocks are resident as fit, but for what the kernel does not show."""
    chip = with_rates_of_l2(chip, profile.gpu, profile.code)
    arch = None if chip.architecture == profile.gpu.architecture else _checked_arch(profile, chip)
    kernel, notes = profile.kernel, profile.notes
    if profile.profiled is not None:
        made = to_kernel(profile.profiled, chip, arch)
        kernel, notes = _with_resources(made.kernel, of=kernel), tuple(dict.fromkeys((*notes, *made.notes)))
    launch, warps = profile.launch, profile.launch.block_warps
    fits = occupancy(chip, kernel, warps).blocks
    if not fits:
        raise ProfileError(f"gpu = {chip.name!r}: must be a chip that holds a block of the launch")
    held = _held_back(launch, occupancy(profile.gpu, profile.kernel, warps).blocks, fits, warps)
    launch = _with(launch, resident_blocks=held)
    return replace(profile, gpu=chip, kernel=kernel, launch=launch, notes=notes)


def _checked_arch(profile: Profile, chip: Gpu) -> int:
    """Returns the architecture of a chip, as a number, if it executes the machine code of another one."""
    if profile.profiled is None:
        raise ProfileError(f"gpu = {chip.name!r}: a chip of another architecture must be the first of several changes")
    own, arch = profile.profiled.arch, number_of(chip.architecture)
    if arch // 10 != own // 10 or arch < own:
        last = own // 10 * 10 + 9
        allowed = f"sm_{own}" if own == last else f"sm_{own} to sm_{last}"
        raise ProfileError(
            f"gpu = {chip.name!r}: must be a chip of {allowed}, which execute the machine code of the profile; {chip.name} is of "
            f"{chip.architecture or 'an older architecture'}"
        )
    return arch


def _with_resources(kernel: Kernel, of: Kernel) -> Kernel:
    """Returns a kernel that was made anew, with the registers and the shared memory that it had."""
    return kernel.model_copy(update=of.model_dump(include={"registers_per_thread", "shared_bytes_per_block"}))


def _held_back(launch: Launch, before: int, fits: int, warps: int) -> int:
    """Returns how many blocks of so many warps are resident, of those that fit.

    Where fewer were resident than fitted `before`, the profiler knows of a limit that the kernel does not show; it stays.
    """
    if not launch.resident_blocks or before <= launch.resident_blocks:
        return fits
    return max(1, min(fits, launch.resident_warps // warps))


def _with(launch: Launch, **fields: int) -> Launch:
    return Launch.model_validate(launch.model_dump() | fields)


def _in_blocks(gpu: Gpu, kernel: Kernel, launch: Launch, threads: int) -> tuple[Kernel, Launch]:
    """Returns the same warps in blocks of other size. Shared memory is divided in proportion, registers of a thread stay."""
    most = gpu.sm.max_block_warps * WARP_LANES
    if integer("block_threads", threads, 1, most, of=gpu.name) % WARP_LANES:
        raise ProfileError(f"block_threads = {threads}: must be a multiple of {WARP_LANES}, since the warps stay as they are")
    warps = threads // WARP_LANES
    shared = math.ceil(kernel.shared_bytes_per_block * warps / launch.block_warps)
    kernel = kernel.model_copy(update={"shared_bytes_per_block": shared})
    fits = occupancy(gpu, kernel, warps).blocks
    if not fits:
        raise ProfileError(f"block_threads = {threads}: must be fewer: no such block fits on {gpu.name}")
    held = _held_back(launch, occupancy(gpu, kernel, launch.block_warps).blocks, fits, warps)
    blocks = math.ceil((launch.blocks or 1) * launch.block_warps / warps)
    return kernel, _with(launch, blocks=blocks, block_warps=warps, resident_blocks=held)


def _with_l1(profile: Profile, l1_hit: float | None, l1_size: float) -> Kernel:
    """Returns the kernel of a launch of whose sectors L1 holds another share.

    A larger L1 has fewer misses, of local loads too, by the square root of its size.
    """
    if l1_hit is None and l1_size == 1:
        return profile.kernel
    if profile.profiled is None:
        raise ProfileError("l1_hit, l1_size: must be the first of several changes, since they make the kernel anew")
    arch = number_of(profile.gpu.architecture) or None
    made = to_kernel(profile.profiled, profile.gpu, arch, l1_hit, 1.0 / math.sqrt(l1_size)).kernel
    return _with_resources(made, of=profile.kernel)


def with_hits(kernel: Kernel, **rates: float) -> Kernel:
    """Returns the kernel with other hit probabilities of its loads that can miss L1: `l1_hit`, `l2_hit`."""

    def edit(one: Instruction) -> Instruction:
        access = one.access
        if one.op != "load" or access is None or access.l1_hit == 1.0:
            return one
        return one.model_copy(update={"access": access.model_copy(update=rates)})

    return with_instructions(kernel, edit)


def dram_bytes(kernel: Kernel) -> float:
    """Returns the bytes that a warp moves from and to DRAM, as its hit probabilities say."""
    total = 0.0
    for one, times in expected_executions(without_exits(kernel.body), kernel.block_warps):
        if isinstance(one, Instruction) and one.access is not None and one.cost is not None and one.cost.bytes_per_request:
            missed = (1.0 - one.access.l1_hit) * (1.0 - one.access.l2_hit)
            total += times * missed * (one.cost.requests or 0) * one.cost.bytes_per_request
    return total

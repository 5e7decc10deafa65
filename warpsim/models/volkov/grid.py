"""The finite grids that Volkov ran and timed (V 5.9, 5.10). V is Volkov 2016 (docs/bibliography.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsim.arguments import integer
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch, resolve_launch
from warpsim.kernels.access import transactions
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Loop
from warpsim.kernels.traversal import walk
from warpsim.models.parts.common import accepts_names
from warpsim.models.volkov.bounds import latency_bound
from warpsim.units import MEMORY_OPS

WARP_CYCLES = 10**6
"""Latency of a warp that runs alone, in cycles (V 5.9)."""

ARRAY_BYTES = 2**29
"""Size of the array that a grid reads once: 512 MB (V 5.10)."""

WAVES = 100
"""Waves of a grid without memory accesses, and the work of a persistent warp without them, in `WARP_CYCLES` (V 5.9)."""


@dataclass(frozen=True)
class MeasuredGrid:
    """A finite grid: `simulate(gpu, grid.kernel, launch=grid.launch)` runs it from its start to its end.

    Attributes:
        kernel: the kernel, whose endless loop has become a finite one.
        launch: the launch, with every field resolved.
        iterations: trips of the loop.
        waves: blocks of the grid over the blocks that the chip or the slice holds at a time.
    """

    kernel: Kernel
    launch: Launch
    iterations: int
    waves: float


@accepts_names
def measured_grid(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: int,
    block_warps: int | None = None,
    persistent: bool = False,
    whole_waves: bool = True,
    share: float = 1.0,
    sms: int | None = None,
) -> MeasuredGrid:
    """Returns the grid with which Volkov measured the throughput of an instruction mix at one occupancy (V 5.9, 5.10).

    He divided the work of the whole grid by its total time, from the first start of a warp to the last end on an SM (V 5.5).
    So his numbers contain the start of the grid and its end, where warps run out, which `simulate` with an endless supply of
    blocks leaves out.

    * The loop has as many trips as make a warp that runs alone last for 10^6 cycles.
    * Oversubscription, used on all chips but GT200: the blocks read "the entire or the most of" an array of 512 MB once;
      without memory accesses there are 100 times as many blocks as the chip holds. V used fewer blocks for large
      intensities and does not say how many; here 100 waves are the most.
    * Persistent threads, used on GT200: the chip holds the whole grid at once, and its warps share the array; without memory
      accesses a warp that runs alone lasts for 10^8 cycles, which is also the most here. A grid of less than one wave is one
      wave with fewer trips, too.

    V does not say how he rounded the number of blocks. `whole_waves` rounds it down to a multiple of what the chip holds. A
    partly filled last wave would contradict his own measurement of loads alone: on Kepler at 64 warps it attains 86 % of the
    peak, where V Table 6.4 has 95 %; a grid of whole waves attains 93 %, and the steady state 94 %.

    `share` below 1 shortens the runs. It multiplies the trips and the size of the array, so that the number of waves stays.
    Shorter warps overstate what each block costs once (its launch), and how far warps drift apart relative to their
    duration, which falls with the square root of the trips. On six mixes of adds and loads, near the occupancies that
    saturate four chips, the throughput of the full grid of whole waves was 0.6 % below to 1.2 % above the steady state; that
    of 0.3 of it 0.5 to 1.1 % below (five mixes), and that of a tenth 1.2 to 2.1 % below.

    Args:
        gpu: the chip.
        kernel: a kernel whose last statement is an endless loop, such as `kernels.mix` or `kernels.chain`.
        warps: occupancy, in warps per SM.
        block_warps: warps of a block; left out: the smallest that divides `warps` within the chip's limit on blocks.
        persistent: whether the grid is one wave of longer warps.
        whole_waves: whether the number of blocks is rounded down to whole waves.
        share: share of the work of V's grid, above 0 and up to 1.
        sms: SMs of the slice that is simulated, which gets its share of the grid; left out: the whole chip.

    Raises:
        ValueError: an argument is out of range, the kernel has no endless loop, or the chip lacks what the kernel needs.
        InvalidPoint: the chip cannot hold the warps (a ValueError).
        NotCoveredError: some warps of a block leave the endless loop, or repeat it faster than others.
    """
    if not kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: must end in an endless loop")
    if not 0 < share <= 1:
        raise ValueError(f"share = {share}: must be a number above 0 and up to 1")
    sms = gpu.sms if sms is None else integer("sms", sms, 1, gpu.sms)
    resolved = resolve_launch(gpu, kernel, warps, block_warps)
    assert resolved.resident_blocks is not None
    alone = latency_bound(gpu, kernel, block_warps=resolved.block_warps)
    bytes_per_trip = _bytes_per_trip(gpu, kernel)
    array, held = share * ARRAY_BYTES * sms / gpu.sms, sms * resolved.resident_blocks
    trips = share * WARP_CYCLES * (WAVES if persistent else 1) / alone
    waves = 1.0 if persistent else float(WAVES)
    if bytes_per_trip:
        of_array = array / (held * resolved.block_warps * bytes_per_trip)  # trips of one wave that reads the whole array
        trips, waves = min(trips, of_array), min(waves, max(1.0, of_array / trips))
    iterations, blocks = max(1, round(trips)), int((math.floor(waves) if whole_waves else waves) * held)
    return MeasuredGrid(
        kernel=_with_trips(kernel, iterations),
        launch=Launch(blocks=blocks, block_warps=resolved.block_warps, resident_blocks=resolved.resident_blocks),
        iterations=iterations,
        waves=blocks / held,
    )


def _bytes_per_trip(gpu: Gpu, kernel: Kernel) -> float:
    """Returns the bytes that a warp requests from memory in one trip of the endless loop; a conditional's sides both count."""
    accesses = [s.access for _, s in walk(kernel.body[-1:]) if isinstance(s, Instruction) and s.op in MEMORY_OPS]
    return float(sum(transactions(access, gpu).requested_bytes for access in accesses if access is not None))


def _with_trips(kernel: Kernel, trips: int) -> Kernel:
    """Returns the kernel with a finite last loop."""
    last = kernel.body[-1]
    assert isinstance(last, Loop)
    return kernel.model_copy(update={"body": (*kernel.body[:-1], Loop(body=last.body, trips=trips))})

"""Pipelines of copies: one block on each SM, whose producer fills a ring of buffers while its consumers work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import warpsim as ws
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import producer_consumer

TILE_BYTES = 8192
SHORT, LONG = 16, 64
"""Tiles of a block: the difference of two runs is without the start and the end."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """One block on each SM, which works on tiles.

    Attributes:
        gpu: the chip.
        load: time that a tile takes at the sustained rate of memory, over the time of its work.
    """

    gpu: Gpu
    load: float

    @property
    def transfer(self) -> float:
        """Cycles that a tile takes at the sustained rate of memory, where all SMs copy."""
        bytes_per_cycle = self.gpu.memory.bandwidth_gbs / self.gpu.clock_ghz / self.gpu.sms
        return TILE_BYTES / bytes_per_cycle

    @property
    def alpha(self) -> int:
        """Dependent adds of each consumer for a tile."""
        return round(self.transfer / self.load / self.gpu.ops["alu"].latency_cycles)

    def simulated(self, stages: int, replicates: int) -> NDArray[np.float64]:
        """Returns the cycles of a tile, for each replicate."""
        cycles = []
        for tiles in (SHORT, LONG):
            kernel = producer_consumer(stages, tile_bytes=TILE_BYTES, alpha=self.alpha, iterations=tiles)
            launch = ws.Launch(blocks=self.gpu.sms, block_warps=kernel.block_warps, resident_blocks=1)
            cycles.append(ws.simulate(self.gpu, kernel, launch=launch, replicates=replicates).cycles.values)
        return np.asarray((cycles[1] - cycles[0]) / (LONG - SHORT), np.float64)

    def work(self) -> float:
        """Returns the cycles of a consumer's dependent adds for a tile."""
        return self.alpha * self.gpu.ops["alu"].latency_cycles

    def formula(self, stages: int) -> float:
        """Returns the cycles of a tile by Little's law: the slower of work and transfer, or a stage's share of its round trip."""
        return max(self.work(), self.transfer, (self.gpu.memory.latency_cycles + self.work()) / stages)


@dataclass(frozen=True)
class TileTime:
    """A row of the results: the cycles of a tile, simulated and by the formula."""

    chip: str
    load: float
    stages: int
    cycles: float
    standard_error: float
    formula: float

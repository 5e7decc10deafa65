"""Fits the turnover of blocks to V100's `read` and `init`: two numbers, as multiples of the latency of L2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from streams import bandwidth, below_the_knee, measured, residency

import warpsim as ws

CHIP = "v100"
WARP_LAUNCH = 6
"""Cycles by which the warps of a block follow each other: `init` alone comes nearest with 2 (rms error 0.7 %, and 1.1 % with 6),
and `read` alone with 10 or more."""

_CYCLES = 300_000  # of each run, so that chance hardly matters
_STEPS = 3  # of the fixed-point search; the residency follows the launch cycle by cycle
_FEW = (32, 64)  # threads of a block: the launch and the drain are fitted where the memory is nearly idle


@dataclass(frozen=True)
class Turnover:
    """Fitted costs of a block, in cycles of the V100, and the rms error of the bandwidths of `read` and `init` in percent."""

    block_launch: int
    store_drain: int
    warp_launch: int
    rms_percent: float


def with_turnover(gpu: ws.Gpu, found: Turnover) -> ws.Gpu:
    """Returns a chip with other costs of a block."""
    memory = gpu.memory.model_copy(update={"store_drain_cycles": found.store_drain})
    launch = {"block_launch_cycles": found.block_launch, "warp_launch_cycles": found.warp_launch}
    return gpu.model_copy(update={**launch, "memory": memory})


def fit() -> Turnover:
    """Returns the costs for which the residency of small blocks is that of the measurement."""
    gpu, curves = ws.load_gpu(CHIP), measured()[CHIP]
    launch, drain = 280.0, 20.0
    for _ in range(_STEPS):
        chip = with_turnover(gpu, Turnover(round(launch), round(drain), WARP_LAUNCH, 0.0))
        late = {name: float(np.mean([_late(chip, name, threads, curves[name]) for threads in _FEW])) for name in ("read", "init")}
        launch, drain = launch + late["read"], max(1.0, drain + late["init"] - late["read"])
    points = [(name, threads) for name in ("read", "init") for threads in below_the_knee(curves[name])]
    errors = np.log([bandwidth(chip, name, threads, cycles=_CYCLES) / curves[name][threads] for name, threads in points])
    drained = chip.memory.store_drain_cycles
    assert drained is not None
    return Turnover(chip.block_launch_cycles, drained, WARP_LAUNCH, float(100 * np.sqrt(np.mean(errors**2))))


def _late(gpu: ws.Gpu, name: str, threads: int, curve: dict[int, float]) -> float:
    """Returns by how many cycles a block stays longer in the measurement than in the simulation."""
    simulated = bandwidth(gpu, name, threads, cycles=_CYCLES)
    return residency(gpu, name, threads, curve[threads]) - residency(gpu, name, threads, simulated)

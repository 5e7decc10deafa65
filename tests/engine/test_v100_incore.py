"""Chains of double-precision instructions on one SM of a V100, against te42kyfo/gpu-benches, commit 1c36d509, cuda-incore."""

from __future__ import annotations

import pytest

import warpsim as ws

# Cycles per warp instruction and SM; V100 PCIe, DFMA: warps -> at 1, 2, 3, 4, 5 independent chains.
MEASURED = {
    1: (8.67, 4.63, 4.57, 4.66, 4.63),
    2: (4.29, 2.32, 2.29, 2.33, 2.32),
    4: (2.14, 1.16, 1.14, 1.17, 1.16),
    8: (1.08, 1.05, 1.05, 1.08, 1.08),
    16: (1.03, 1.04, 1.04, 1.08, 1.07),
    32: (1.03, 1.04, 1.04, 1.08, 1.07),
}


@pytest.mark.parametrize("warps", MEASURED)
def test_chains_of_dfma(warps: int) -> None:
    """The simulated chain has no loop around it, whose overhead the measurement contains and only further warps hide."""
    launch = ws.Launch(block_warps=warps, resident_blocks=1)
    for chains, measured in enumerate(MEASURED[warps], start=1):
        kernel = ws.kernels.chain("fp64", ilp=chains)
        run = ws.simulate("v100", kernel, launch=launch, sms=1, memory="fixed", warmup=200, cycles=2_000)
        cycles = 2_000 / float(run.instructions.sum())
        assert 0.85 * measured <= cycles <= measured
        if warps >= 8:
            assert cycles >= 0.92 * measured

"""The occupancy calculator for chips and kernels that are given by name."""

from __future__ import annotations

import os
from typing import Any

from warpsim.hardware import residency
from warpsim.hardware.gpu import Gpu, as_gpu
from warpsim.hardware.residency import Residency
from warpsim.kernels.files import as_kernel
from warpsim.kernels.program import Kernel


def occupancy(
    gpu: Gpu | str | os.PathLike[str], kernel: Kernel | str | os.PathLike[str], block_warps: int, **arguments: Any
) -> Residency:
    """Returns how many blocks of `block_warps` warps an SM can hold (V 2.11; granularities of V 5.7 and OC).

    Args:
        gpu: the chip, or its name or file.
        kernel: the program, whose registers and shared memory limit residency, or its name or file.
        block_warps: warps of a block.
        arguments: arguments of the builder of a named kernel.

    Raises:
        TypeError: an argument is of the wrong type.
        ValueError: `block_warps` is below 1, or a name or argument is unknown.
        InvalidPoint: `block_warps` is above the chip's limit (a ValueError).
    """
    return residency.occupancy(as_gpu(gpu), as_kernel(kernel, **arguments), block_warps)

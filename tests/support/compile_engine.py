"""Compiles the engine's variants that the tests need, two at a time: `make test` runs it first.

Each of pytest's processes would compile each variant for itself, since they need the same ones at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import load_kernel
from warpsim.simulation.api import compile_engine
from warpsim.simulation.point import make_point

MOST_WARPS = 64
"""Resident warps of an SM, which are up to 16, 32 or 64 of a scheduler if there are 4, 2 or 1."""


def variants() -> Iterator[tuple[Gpu, str]]:
    """Yields a chip and the name of a kernel for each variant, those first that take longest."""
    for name, kernel in (("a100", "cuda/vabs"), ("kepler", "mix")):  # with the options of today's cores, and without
        for schedulers in (4, 2, 1):
            yield changed_gpu(load_gpu(name), {"sm.schedulers": schedulers}), kernel


def compile_variant(variant: tuple[Gpu, str]) -> None:
    gpu, kernel = variant
    compile_engine([make_point(gpu, load_kernel(kernel), warps=MOST_WARPS)])


if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        list(processes.map(compile_variant, variants()))

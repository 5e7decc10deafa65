"""The kernels of kernels.csv: their published rates, and their simulation from source alone."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from _cards import chip_of

import warpsim as ws

HERE = Path(__file__).parent
SIZE = 4096
"""Rows and columns of all matrices."""

ARCH = "sm_86"
ARGUMENTS = {
    "siboehm/SGEMM_CUDA": dict.fromkeys(("M", "N", "K"), SIZE),
    "leimao/CUDA-GEMM-Optimization": dict.fromkeys(("m", "n", "k", "lda", "ldb", "ldc"), SIZE),
}
OPTIONS = {
    "siboehm/SGEMM_CUDA": ["-DWARPSIZE=32"],  # stands in another file of the repository
    "leimao/CUDA-GEMM-Optimization": ["-I{folder}/include"],
}


@dataclass(frozen=True)
class Rate:
    """A kernel: published and simulated rate in TFLOP/s, half the width of the latter's 95 % interval, and what was simulated."""

    gpu: str
    kernel: str
    published: float
    simulated: float
    half_width: float
    sampling: str

    @property
    def error(self) -> float:
        """The relative error of the simulation in percent."""
        return 100 * (self.simulated / self.published - 1)


def of_kernel(task: tuple[Mapping[str, str], Path, bool]) -> Rate:
    """Imports a kernel and simulates its launch."""
    row, folder, full = task
    repository, (gpu, caches) = row["repository"], chip_of(row["gpu"])
    copy = folder / repository.replace("/", "+")
    function = re.sub(r"(?<=\w) (?=[\d])", ", ", row["function"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what NVRTC refuses is for the host; a barrier of one kernel stands under a condition
        kernel = ws.kernels.from_cuda(
            copy / row["file"], ARCH, function, f"{row['grid']},{row['block']}", args=ARGUMENTS[repository],
            options=[option.format(folder=copy) for option in OPTIONS[repository]], caches=caches,
        )  # fmt: skip
    blocks = math.prod(map(int, row["grid"].split("x")))
    how = {"replicates": 5, "budget": 120_000_000} if full else {"replicates": 2}
    time = ws.launch_time(gpu, kernel, blocks, **how)
    operations = 2 * SIZE**3 / 1e6  # and TFLOP/s are as many in a microsecond
    rate = operations / time.microseconds.mean
    half = rate * time.microseconds.half_width / time.microseconds.mean
    name = f"{Path(row['file']).stem.partition('_')[0]} `{function}`"
    return Rate(row["gpu"], name, float(row["tflops"]), round(rate, 3), round(half, 3), time.sampling or "all")

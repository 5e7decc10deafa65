"""The kernels of kernels.csv: their published rates, and their simulation from source alone."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
CHIPS = {
    "a6000": {"title": "NVIDIA RTX A6000", "sms": 84, "clock_ghz": 1.80, "pin_bandwidth_gbs": 768.0, "sustained": 679 / 696},
    "rtx3090": {"title": "NVIDIA RTX 3090", "sms": 82, "clock_ghz": 1.695, "pin_bandwidth_gbs": 936.0, "sustained": 930 / 1008},
}
"""What the data sheets of two cards with the die of the A40 (GA102) say. `sustained` is the bandwidth over that of the pins: the
A40's for GDDR6, and the RTX 4090's for GDDR6X."""


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
    repository, gpu = row["repository"], chip(row["gpu"])
    copy = folder / repository.replace("/", "+")
    function = re.sub(r"(?<=\w) (?=[\d])", ", ", row["function"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what NVRTC refuses is for the host; a barrier of one kernel stands under a condition
        kernel = ws.kernels.from_cuda(
            copy / row["file"], ARCH, function, f"{row['grid']},{row['block']}", args=ARGUMENTS[repository],
            options=[option.format(folder=copy) for option in OPTIONS[repository]], caches=gpu,
        )  # fmt: skip
    blocks = math.prod(map(int, row["grid"].split("x")))
    how = {"replicates": 5, "budget": 120_000_000} if full else {"replicates": 2}
    time = ws.launch_time(gpu, kernel, blocks, **how)
    operations = 2 * SIZE**3 / 1e6  # and TFLOP/s are as many in a microsecond
    rate = operations / time.microseconds.mean
    half = rate * time.microseconds.half_width / time.microseconds.mean
    name = f"{Path(row['file']).stem.partition('_')[0]} `{function}`"
    return Rate(row["gpu"], name, float(row["tflops"]), round(rate, 3), round(half, 3), time.sampling or "all")


def chip(name: str) -> ws.Gpu:
    """Returns an A40 with the size, clock and memory of another card with its die."""
    facts, card = ws.load_gpu("a40").to_dict(), CHIPS[name]
    sustained = card["pin_bandwidth_gbs"] * card["sustained"]
    facts |= {key: card[key] for key in ("title", "sms", "clock_ghz")}
    facts["memory"] |= {"pin_bandwidth_gbs": card["pin_bandwidth_gbs"], "bandwidth_gbs": sustained}
    facts["memory"]["queue"]["dram_gbs"] = 1.1 * sustained  # docs/chips.md
    return ws.Gpu.model_validate(facts)

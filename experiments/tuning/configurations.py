"""Configurations of a convolution from public search spaces: their measured times, and their simulation from source alone."""

from __future__ import annotations

import gzip
import json
import random
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from _cards import chip_of

import warpsim as ws
from warpsim.kernels.traversal import walk

SIZE = 4096
"""Rows and columns of the image."""

HUB, MEASURED_KERNEL = "AutoTuningAssociation+benchmark_hub", "MiloLurati+AutoTuning_AMD_vs_Nvidia_GPUs"


@dataclass(frozen=True)
class Space:
    """A search space in which all configurations have been measured.

    Attributes:
        gpu: name of a chip, or of a card of `_cards`.
        arch: for which the kernel is compiled.
        times: file of the measured times.
        source: file of the kernel.
    """

    gpu: str
    arch: str
    times: str
    source: str


_EARLIER, _LATER = f"{HUB}/currently_unused/kernels/convolution.cu", f"{MEASURED_KERNEL}/cache_scripts/convolution/convolution.cu"

_SPACES = (
    Space("a4000", "sm_86", f"{HUB}/cachefiles/convolution_milo/A4000.json.gz", _LATER),
    Space("a6000", "sm_86", f"{HUB}/cachefiles/convolution_milo/A6000.json.gz", _LATER),
    Space("a100_40gb", "sm_80", f"{HUB}/cachefiles/convolution_milo/A100.json.gz", _LATER),
    Space("rtx2080ti", "sm_75", f"{HUB}/currently_unused/cachefiles/convolution/RTX_2080_Ti.json.gz", _EARLIER),
    Space("rtx3090", "sm_86", f"{HUB}/currently_unused/cachefiles/convolution/RTX_3090.json.gz", _EARLIER),
)

SPACES = {space.gpu: space for space in _SPACES}
"""GPU -> its search space."""

_PARAMETERS = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "read_only", "use_padding", "use_shmem")
_NOT_TUNED = {"filter_height": 15, "filter_width": 15, "use_cmem": 1}


@dataclass(frozen=True)
class Configuration:
    """A configuration with its measured and its simulated time.

    Attributes:
        gpu: key of SPACES.
        variant: where the threads read the image: "shared memory", "L1", or "L1, read-only loads".
        block: threads of a block, in x and y.
        tile: outputs of a thread, in x and y.
        padding: 1 if rows of shared memory are padded.
        read_only: 1 if loads of global memory are read-only ones.
        measured_ms: mean of the measured times.
        simulated_ms: simulated time.
        half_width_ms: half the width of its 95 % interval.
        local_words: loads and stores of local memory in the machine code that is simulated.
    """

    gpu: str
    variant: str
    block: str
    tile: str
    padding: int
    read_only: int
    measured_ms: float
    simulated_ms: float
    half_width_ms: float
    local_words: int

    @property
    def ratio(self) -> float:
        """The simulated time over the measured one."""
        return self.simulated_ms / self.measured_ms


def sample(folder: Path, gpu: str, count: int) -> list[tuple[str, Mapping[str, int], float]]:
    """Returns random configurations of a space with at least one full warp in a block: GPU, parameters, measured milliseconds."""
    measured = json.loads(gzip.decompress((folder / SPACES[gpu].times).read_bytes()))["cache"]
    valid = [one for _, one in sorted(measured.items()) if isinstance(one["time"], float)]
    full = [one for one in valid if one["block_size_x"] * one["block_size_y"] >= 32]
    chosen = random.Random(1).sample(full, count)
    return [(gpu, {name: one.get(name, 1) for name in _PARAMETERS}, one["time"]) for one in chosen]


def simulate(task: tuple[Path, str, Mapping[str, int], float, bool]) -> Configuration:
    """Imports a configuration and simulates its launch."""
    folder, name, given, measured_ms, full = task
    space = SPACES[name]
    gpu, caches = chip_of(space.gpu)
    block, tile = ((given[f"{of}_x"], given[f"{of}_y"]) for of in ("block_size", "tile_size"))
    grid = [-(-SIZE // (threads * outputs)) for threads, outputs in zip(block, tile, strict=True)]
    defined = {**given, **_NOT_TUNED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the walk of the caches leaves out the ends of the longest programs
        kernel = ws.kernels.from_cuda(
            folder / space.source, space.arch, "convolution_kernel", f"{grid[0]}x{grid[1]},{block[0]}x{block[1]}",
            options=[f"-D{key}={value}" for key, value in defined.items()], caches=caches,
        )  # fmt: skip
        time = ws.launch_time(gpu, kernel, grid[0] * grid[1], replicates=5 if full else 2)
    local = sum((getattr(one, "comment", "") or "").split(" ")[1:2] in (["LDL"], ["STL"]) for _, one in walk(kernel.body))
    in_l1 = "L1, read-only loads" if given["read_only"] else "L1"
    return Configuration(
        name, "shared memory" if given["use_shmem"] else in_l1, "x".join(map(str, block)), "x".join(map(str, tile)),
        given["use_padding"], given["read_only"], round(measured_ms, 4), round(time.microseconds.mean / 1e3, 4),
        round(time.microseconds.half_width / 1e3, 4), local,
    )  # fmt: skip

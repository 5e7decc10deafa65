"""Products of matrices with tensor copies and warp groups: published rates of an H100 beside those simulated from the sources.

    git clone https://github.com/pranjalssh/fast.cu && git -C fast.cu checkout 38eb642e
    python experiments/hardware/products.py fast.cu 1.7

The second argument is the clock of the SMs in GHz; left out, that of the chip's file.

The rates are those of the author's text, "Outperforming cuBLAS on H100: a Worklog", 2024, for matrices of 4096 x 4096 in bf16.
The simulation gets the source, its launch and arguments, and the shapes that the host gives to its tensor maps.
"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import warpsim as ws

N, BYTES = 4096, 2


@dataclass(frozen=True)
class Product:
    """A kernel: its name, the tile of a block, threads, stages, blocks, the lines of the copies of A and B, published TFLOP/s."""

    function: str
    tile: tuple[int, int, int]
    threads: int
    stages: int
    blocks: int
    lines: tuple[int, int]
    published: int


PRODUCTS = {
    "tensor instructions": Product("matmulKernel2", (64, 64, 64), 128, 0, 64 * 64, (115, 117), 317),
    "larger tiles": Product("matmulKernel3<128, 128, 64, 128, false>", (128, 128, 64), 128, 1, 32 * 32, (302, 304), 423),
    "a warp group that copies": Product("matmulKernel4", (128, 128, 64), 256, 5, 32 * 32, (306, 306), 498),
    "tiles for two warp groups": Product("matmulKernel5", (128, 256, 64), 384, 3, 32 * 16, (317, 318), 631),
    "blocks that stay": Product("matmulKernel6", (128, 256, 64), 384, 3, 128, (356, 357), 660),
}
"""Those whose blocks copy for themselves; the later ones copy for clusters of blocks."""


def simulated(source: Path, one: Product, clock_ghz: float | None) -> float:
    """Returns the simulated TFLOP/s of a product at a clock; None: that of the chip's file."""
    m, n, k = one.tile
    tiles = {one.lines[0]: f"tile:{N}x{N}:{k}x{m}:{BYTES}", one.lines[1]: f"tile:{N}x{N}:{k}x{n}:{BYTES}"}
    launch = (one.blocks, one.threads, (m + n) * k * BYTES * one.stages)
    arguments = {"M": N, "N": N, "K": N}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = ws.kernels.from_cuda(source, "sm_90a", one.function, launch, args=arguments, patterns=tiles, caches="h100")
    time = ws.launch_time("h100", kernel, one.blocks, clock_ghz=clock_ghz, scheduler="gty", replicates=2)
    return 2 * N**3 / time.microseconds.mean / 1e6


def main() -> None:
    """Prints a table."""
    source, clock = Path(sys.argv[1]) / "matmul.cu", float(sys.argv[2]) if len(sys.argv) > 2 else None
    print("| kernel | | published, TFLOP/s | simulated | difference, % |\n| --- | --- | --- | --- | --- |")
    for what, one in PRODUCTS.items():
        found = simulated(source, one, clock)
        name = one.function.partition("<")[0]
        print(f"| `{name}` | {what} | {one.published} | {found:.0f} | {100 * (found / one.published - 1):+.0f} |", flush=True)


if __name__ == "__main__":
    main()

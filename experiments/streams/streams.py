"""The kernels of gpu-stream and their measured curves, and the bandwidth that the simulator gives."""

from __future__ import annotations

import csv
from pathlib import Path

import warpsim as ws
from warpsim.kernels import Access, Cost, Instruction, Kernel

HERE = Path(__file__).parent
BLOCKS = 2  # resident on each SM
WARP = 32  # threads
BYTES = 8  # of a double
STREAMS = {"read": (1, False), "init": (0, True), "scale": (1, True), "triad": (2, True), "3pt": (1, True), "5pt": (1, True)}
"""Kernel -> the streams that it reads, and whether it writes one."""

NEIGHBOURS = {"3pt": 2, "5pt": 4}
"""Kernel -> further loads of a thread, of its neighbours' elements."""

_ELEMENT = Access(bytes_per_thread=BYTES)
_NEIGHBOUR = Access(bytes_per_thread=BYTES, l1_hit=1.0)  # its line is that of this warp or of a neighbour
_SAME_BYTES = Cost(requested_bytes=0)  # the bandwidth counts each stream once


def kernel(name: str) -> Kernel:
    """Returns a kernel of gpu-stream as loads, an operation in double precision, a store and the exit.

    The few instructions that compute addresses are left out; their time is part of the fitted block launch.
    """
    reads, writes = STREAMS[name]
    data = tuple(f"r{k}" for k in range(reads))
    near = tuple(f"n{k}" for k in range(NEIGHBOURS.get(name, 0)))
    loads = [Instruction("load", dst=register, access=_ELEMENT) for register in data]
    loads += [Instruction("load", dst=register, access=_NEIGHBOUR, cost=_SAME_BYTES) for register in near]
    compute = [Instruction("fp64", dst="result", src=(*data, *near))] if reads else []
    store = [Instruction("store", src=("result",) if reads else (), access=_ELEMENT)] if writes else []
    body = (*loads, *compute, *store)
    return Kernel(name=f"stream_{name}", title=f"{name} of gpu-stream", source="gpu-stream", body=body)


def measured() -> dict[str, dict[str, dict[int, float]]]:
    """Returns the measured bandwidths in GB/s: chip -> kernel -> threads of a block -> bandwidth."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    with (HERE / "gpu_stream.csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            for name in STREAMS:
                found.setdefault(row["chip"], {}).setdefault(name, {})[int(row["threads"])] = float(row[name])
    return found


def below_the_knee(curve: dict[int, float], share: float = 0.9) -> list[int]:
    """Returns the block sizes at which a curve is below a share of its peak."""
    peak = max(curve.values())
    return [threads for threads, gbs in curve.items() if gbs < share * peak]


def bandwidth(
    gpu: ws.Gpu, name: str, threads: int, *, sms: int = 8, warmup: int = 10_000, cycles: int = 50_000, seed: int = 0
) -> float:
    """Returns the simulated bandwidth of the chip in GB/s, in the steady state of a slice."""
    launch = ws.Launch(block_warps=threads // WARP, resident_blocks=BLOCKS)
    run = ws.simulate(gpu, kernel(name), launch=launch, sms=sms, warmup=warmup, cycles=cycles, seed=seed, replicates=1)
    return float(run.bandwidth.values.mean())


def residency(gpu: ws.Gpu, name: str, threads: int, gbs: float) -> float:
    """Returns for how many cycles a seat is taken up by a block, from the bandwidth (Little's law)."""
    reads, writes = STREAMS[name]
    moved = BLOCKS * threads * BYTES * (reads + writes) * gpu.sms
    return moved * gpu.clock_ghz / gbs

"""The benchmark cuda-incore of te42kyfo/gpu-benches, chains of double-precision multiply-adds in a loop, and its measurement."""

from __future__ import annotations

from pathlib import Path

from _tables import read_rows

import warpsim as ws
from warpsim.kernels import Cost, Instruction, Kernel, Loop

HERE = Path(__file__).resolve().parent

COUNTED = 128
"""Multiply-adds of an iteration for which the benchmark divides its time, whatever the number of chains."""

BRANCH_LATENCY = 12
"""Cycles from the comparison of the loop's counter to its branch: the stall count that ptxas writes for sm_70."""


def measured() -> dict[tuple[int, int], float]:
    """Returns the published cycles for each multiply-add of a warp: (warps of the SM, chains of a warp) -> cycles."""
    rows = read_rows(HERE / "v100_dfma.csv")
    return {(int(row["warps"]), int(row["chains"])): float(row["cycles"]) for row in rows}


def loop(chains: int) -> Kernel:
    """Returns the benchmark's loop: each iteration starts all chains anew, runs them, and compares each result.

    Beside the multiply-adds, an iteration has the conversion of its number, an addition for all chains, one for each of them, and
    a comparison for each of them, all of double precision, with a store that is off.
    """
    sums = tuple(f"t{chain}" for chain in range(chains))
    body = [
        Instruction("int", dst="n", src=("n",), comment="n = n + 1"),
        Instruction("int", dst="more", src=("n",), cost=Cost(latency_cycles=BRANCH_LATENCY), comment="n < iterations"),
        Instruction("sfu", dst="x", src=("n",), comment="x = double(n)"),
        Instruction("fp64", dst="b", src=("x",), comment="b = p + thread + x"),
        *(Instruction("fp64", dst=t, src=("b",), comment="t = b + chain") for t in sums),
        *(Instruction("fp64", dst=t, src=(t,), comment="t = t * 0.9 + 0.5") for _ in range(COUNTED // chains) for t in sums),
        *(Instruction("fp64", dst=f"high_{t}", src=(t,), comment="t > 22313") for t in sums),
        *(Instruction("int", src=(f"high_{t}",), comment="a store, off") for t in sums),
        Instruction("branch", src=("more",)),
    ]
    return Kernel(name="dfma", inputs=("n",), body=(Loop(body=tuple(body), trips=None),))


def bare(chains: int) -> Kernel:
    """Returns the chains alone, without the loop around them."""
    return ws.kernels.chain("fp64", ilp=chains)


def cycles(kernel: Kernel, warps: int, *, per_iteration: int, counted: int) -> float:
    """Returns the simulated cycles for each counted multiply-add of a warp, on one SM of a V100.

    Args:
        kernel: an endless loop.
        warps: warps of the block, which is alone on its SM.
        per_iteration: instructions of an iteration.
        counted: multiply-adds by which the time of an iteration is divided.
    """
    launch = ws.Launch(block_warps=warps, resident_blocks=1)
    window = 30_000
    run = ws.simulate("v100", kernel, launch=launch, sms=1, memory="fixed", replicates=1, warmup=3_000, cycles=window)
    return window * per_iteration / (float(run.instructions.sum()) * counted)


def simulated(warps: int, chains: int) -> tuple[float, float]:
    """Returns the cycles for each multiply-add: of the benchmark's loop, and of the chains alone."""
    kernel = loop(chains)
    whole = cycles(kernel, warps, per_iteration=len(kernel.body[0].body), counted=COUNTED)
    return whole, cycles(bare(chains), warps, per_iteration=1, counted=1)

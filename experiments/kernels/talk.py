"""VT: fewer threads with more parallelism in each, on the GTX 480 and on today's chips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from _tables import comparison
from curves import Curve, needed
from matplotlib.figure import Figure
from numpy.typing import NDArray

import warpsim as ws
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.views.plots.style import COLOURS, LINES, MARKERS

WARP = 32
FULL_SPEED = 0.99  # of the peak, as in V Table 6.3; VT says "100 %"
NEEDED = {  # (chip, chains of each thread) -> threads of the one block of an SM
    ("fermi", 1): 576, ("fermi", 2): 320, ("fermi", 3): 256, ("fermi", 4): 192, ("fermi", 5): 192,
    ("g80", 1): 192, ("g80", 3): 64, ("gt200", 1): 192, ("gt200", 3): 64,
}  # fmt: skip
"""VT, part I. The row with five chains is his remark that the gain ends at four."""

COPIES = {  # (elements, words of an element) -> share of the pin bandwidth that VT states at some occupancy
    (1, 1): {}, (2, 1): {}, (4, 1): {}, (8, 1): {}, (8, 2): {4: 0.87}, (8, 4): {2: 0.84}, (14, 4): {2: 0.84},
}  # fmt: skip
"""VT, part II. Our copy of the talk does not show whether 84 % belongs to 8 or to 14 float4 per thread, so both are compared."""

OCCUPANCIES = (2, 4, 6, 8, 12, 16, 24, 32, 40, 48)
PIN_GBS = 177.4  # V Table 2.7
QUARTER = 12  # of 48 warps: "mere 25 % occupancy is sufficient" for four floats
OUTPUTS = {1: (21, 32, 242.0), 2: (28, 32, 341.0), 4: (41, 24, 427.0), 8: (63, 16, 485.0)}
"""Outputs of a thread -> registers, warps per SM, Gflop/s (VT, part IV: 67, 67, 50 and 33 % of 48 warps)."""

TILE, WIDTH = 32, 1024
TODAY = {"v100": "sm_75", "a100": "sm_80", "rtx4090": "sm_89", "h100": "sm_90"}
"""Chip -> the architecture of the machine code that it runs."""

SUSTAINED = 0.8
SEAT_STEPS = 12  # occupancies of a copy on them, denser where they are small


@dataclass
class Talk:
    """The results: shares of the peak by warps, shares of the pin bandwidth by warps, and Gflop/s by outputs."""

    chains: dict[tuple[str, int], Curve] = field(default_factory=dict)
    copies: dict[tuple[int, int], Curve] = field(default_factory=dict)
    products: dict[int, tuple[float, NDArray[np.float64]]] = field(default_factory=dict)


def simulate(replicates: int) -> Talk:
    """Runs the three parts of the talk."""
    found = Talk()
    for chip, ilp in NEEDED:
        found.chains[chip, ilp] = chain(ws.load_gpu(chip), ilp)
    fermi = ws.load_gpu("fermi")
    for elements, words in COPIES:
        found.copies[elements, words] = copies(fermi, ws.kernels.copy(elements, words), replicates)
    for outputs in OUTPUTS:
        found.products[outputs] = product(fermi, outputs, replicates)
    return found


def chain(gpu: ws.Gpu, ilp: int) -> Curve:
    """Returns the share of the peak of adds with one block of 1 to 20 warps on an SM."""
    of, peak = ws.kernels.chain("alu", ilp), min(gpu.issue_ipc, gpu.unit_ipc("alu"))
    settings = {"sms": 1, "memory": "fixed", "replicates": 1, "warmup": 2_000, "cycles": 10_000}
    launches = {warps: ws.Launch(block_warps=warps, resident_blocks=1) for warps in range(1, min(20, gpu.sm.max_block_warps) + 1)}
    return {n: ws.simulate(gpu, of, launch=launch, **settings).ipc.sel(op="alu").values / peak for n, launch in launches.items()}


def copies(gpu: ws.Gpu, of: Kernel, replicates: int) -> Curve:
    """Returns the share of the pin bandwidth of a copy at the occupancies that its registers allow."""
    most = gpu.sm.registers // (WARP * of.registers_per_thread)
    settings = {"replicates": replicates, "warmup": 20_000, "cycles": 50_000}
    return {n: ws.simulate(gpu, of, warps=n, **settings).bandwidth.values / PIN_GBS for n in OCCUPANCIES if n <= most}


def several_outputs(outputs: int) -> Kernel:
    """Builds VT's matrix product with several outputs of a column for each thread, in tiles of 32 x 32.

    Address arithmetic is left out, and all loads of global memory miss the caches (assumed; VT prints the source only).
    """
    sums = tuple(f"sum{k}" for k in range(outputs))
    loads = [Instruction("load", dst=f"x{name}{k}", src=("index",)) for k in range(outputs) for name in "ab"]
    stores = [Instruction("smem", src=(f"x{name}{k}",)) for k in range(outputs) for name in "ab"]
    reads = [Instruction("smem", dst=name, src=("local",)) for name in ("b", *(f"a{k}" for k in range(outputs)))]
    products = [Instruction("alu", dst=total, src=(f"a{k}", "b", total)) for k, total in enumerate(sums)]
    barrier, jump = Instruction("barrier"), Instruction("branch", src=("index",))
    trip = (*loads, *stores, barrier, *TILE * (*reads, *products), barrier, jump)
    return Kernel(
        name=f"outputs_{outputs}",
        title=f"matrix product with {outputs} outputs for each thread",
        source="VT, part IV",
        registers_per_thread=OUTPUTS[outputs][0],
        shared_bytes_per_block=2 * TILE * TILE * 4,
        inputs=("index", "local", *sums),
        body=(Loop(body=trip, trips=WIDTH // TILE), *(Instruction("store", src=(total,)) for total in sums)),
    )


def product(gpu: ws.Gpu, outputs: int, replicates: int) -> tuple[float, NDArray[np.float64]]:
    """Returns the warps per SM that registers and shared memory allow, and the Gflop/s of the whole grid, one per replicate."""
    of, size = several_outputs(outputs), TILE // outputs
    grid = ws.simulate(gpu, of, launch=ws.Launch(block_warps=size, blocks=(WIDTH // TILE) ** 2), replicates=replicates)
    return ws.occupancy(gpu, of, block_warps=size).warps, 2 * WIDTH**3 / (grid.cycles.values / gpu.clock_ghz)


def rows(found: Talk) -> Iterator[dict[str, str]]:
    """Yields the numbers of the talk beside the simulated ones."""
    for (chip, ilp), threads in NEEDED.items():
        what = f"adds, {ilp} independent per thread: threads for {FULL_SPEED:.0%} of the peak"
        yield comparison("VT part I", chip, what, threads, WARP * needed(found.chains[chip, ilp], FULL_SPEED), "prediction")
    for (elements, words), stated in COPIES.items():
        curve = found.copies[elements, words]
        for warps, share in stated.items():
            what = f"copy of {_of_thread(elements, words)}, {warps} warps per SM: % of pin bandwidth"
            yield comparison("VT part II", "fermi", what, 100 * share, 100 * curve[warps], "prediction")
    enough = found.copies[4, 1]
    share = 100 * enough[QUARTER] / max(values.mean() for values in enough.values())
    what = "copy of 4 floats, 25 % occupancy (“sufficient”): % of its largest bandwidth"
    yield comparison("VT part II", "fermi", what, None, share, "prediction")
    for outputs, (_, warps, gflops) in OUTPUTS.items():
        possible, attained = found.products[outputs]
        yield comparison("VT part IV", "fermi", f"{outputs} outputs per thread: warps per SM", warps, possible, "prediction")
        yield comparison("VT part IV", "fermi", f"{outputs} outputs per thread: Gflop/s", gflops, attained, "prediction")


def _of_thread(elements: int, words: int) -> str:
    return f"{elements} float{words if words > 1 else ''}{'s' if words == 1 and elements > 1 else ''}"


def today(replicates: int) -> Iterator[dict[str, str]]:
    """Yields both effects on today's chips, from the machine code of the everyday kernels; nothing is published for them."""
    functions = {1: "matmul_32", 2: "matmul_outputs_2", 4: "matmul_outputs_4", 8: "matmul_outputs_8"}
    for chip, arch in TODAY.items():
        gpu = ws.load_gpu(chip)
        row = {"chip": chip}
        for outputs, function in functions.items():
            of = ws.load_kernel("cuda/matmul_outputs", arch=arch, function=function, block=f"32x{32 // outputs}", args={"n": 256})
            run = ws.simulate(gpu, of, sms=2, replicates=replicates, warmup=40_000, cycles=60_000)
            gflops = 2 * WARP * gpu.sms * gpu.clock_ghz * float(run.ipc.sel(op="alu").mean())
            row[f"{outputs} output{'s' * (outputs > 1)}: Gflop/s at warps"] = f"{gflops:.0f} at {float(run.occupancy.mean()):.0f}"
        for floats in (1, 4, 14):
            share = _needed(gpu, arch, floats, replicates)
            what = f"copy of {floats} float{'s' * (floats > 1)}: % of max. warps for {SUSTAINED:.0%} of the bandwidth"
            row[what] = "not attained" if np.isnan(share) else f"{share:.0f}"
        yield row


def _needed(gpu: ws.Gpu, arch: str, floats: int, replicates: int) -> float:
    """Returns the least occupancy in percent at which a copy attains SUSTAINED of the chip's sustained bandwidth; NaN: none."""
    of = ws.load_kernel("cuda/copy", arch=arch, function=f"copy_{floats}", block=64)
    most = ws.occupancy(gpu, of, block_warps=of.block_warps).blocks
    for seats in sorted({max(1, round(most * (step / SEAT_STEPS) ** 2)) for step in range(1, SEAT_STEPS + 1)}):
        launch = ws.Launch(block_warps=of.block_warps, resident_blocks=seats)
        run = ws.simulate(gpu, of, launch=launch, sms=2, replicates=replicates, warmup=20_000, cycles=40_000)
        if run.bandwidth.values.mean() >= SUSTAINED * gpu.memory.bandwidth_gbs:
            return 100 * seats * of.block_warps / gpu.sm.max_warps
    return np.nan


def figure(found: Talk) -> Figure:
    """Draws the three parts on the GTX 480, with VT's numbers as crosses."""
    page = Figure(figsize=(11, 3.6), layout="constrained")
    adds, copied, products = page.subplots(1, 3)
    for number, ilp in enumerate((1, 2, 3, 4)):
        curve = found.chains["fermi", ilp]
        style = {"color": COLOURS[number], "linestyle": LINES[number], "marker": MARKERS[number], "markersize": 3}
        adds.plot([WARP * n for n in curve], [float(v.mean()) for v in curve.values()], label=f"{ilp} independent", **style)
        adds.plot(NEEDED["fermi", ilp], 1.0, "x", color=COLOURS[number], markersize=9)
    adds.set(title="adds", xlabel="threads per SM", ylabel="share of the peak", ylim=(0, 1.1))
    for number, ((elements, words), curve) in enumerate(found.copies.items()):
        style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 3, "linewidth": 1}
        copied.plot(list(curve), [float(v.mean()) for v in curve.values()], label=_of_thread(elements, words), **style)
    for warps, share in ((4, 0.87), (2, 0.84)):
        copied.plot(warps, share, "kx", markersize=9)
    copied.set(title="copies", xlabel="warps per SM", ylabel="share of the pin bandwidth", ylim=(0, 1))
    outputs = list(OUTPUTS)
    for values, label, mark in (
        ([OUTPUTS[n][2] for n in outputs], "VT", "x"),
        ([float(found.products[n][1].mean()) for n in outputs], "simulated", "o"),
    ):
        products.plot([found.products[n][0] for n in outputs], values, mark, label=label, color="k", fillstyle="none")
    for n in outputs:
        products.annotate(f"{n}", (found.products[n][0], OUTPUTS[n][2]), textcoords="offset points", xytext=(7, -4))
    products.set(title="matrix product, outputs per thread", xlabel="warps per SM", ylabel="Gflop/s")
    products.set(ylim=(0, None), xlim=(12, 36))
    for ax in (adds, copied, products):
        ax.legend(fontsize=7)
    return page

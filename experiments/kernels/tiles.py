"""L Figure 3: tiled matrix multiplication with and without bank conflicts, on the simulated chip beside the pipeline model of L.

The values of the figure are not in the text. What the text says about them is checked, and a measurement of VT stands in for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _tables import comparison
from curves import largest
from matplotlib.figure import Figure
from numpy.typing import NDArray

import warpsim as ws
from warpsim.models.lemeire import pipeline
from warpsim.views.plots.style import COLOURS, LINES, MARKERS

CHIPS = {"fermi": "fermi_c2050", "titan_x": "pascal_gtx_1060"}
"""Simulated chip -> chip of L, of the same architecture. Work per SM and cycle is compared, since SMs and clocks differ."""

TILES, WIDTH, WARP = (8, 16), 1024, 32
WAYS = 8  # of the conflicts: L's latencies on Fermi grow from 2 to 16
SDK_GFLOPS = 240.0  # VT part IV: CUDA SDK 3.1 on a GTX 480, 1024 x 1024, tiles of 16 x 16, an output for each thread
MODEL_TRIPS = 16  # of the model's loop over tiles

Case = tuple[str, int, int]
"""Simulated chip, tile, ways."""


@dataclass
class Tiles:
    """Flops per SM and cycle by warps, of the simulated chips and of the model of L; Gflop/s of VT's measurement."""

    simulated: dict[Case, dict[int, NDArray[np.float64]]]
    model: dict[Case, dict[int, float]]
    sdk: NDArray[np.float64]


def simulate(replicates: int) -> Tiles:
    """Runs both tile sizes with and without conflicts, at the occupancies that L explores."""
    simulated: dict[Case, dict[int, NDArray[np.float64]]] = {}
    model: dict[Case, dict[int, float]] = {}
    for name, of_paper in CHIPS.items():
        gpu, chip = ws.load_gpu(name), pipeline.load_pipelines(of_paper)
        for tile in TILES:
            size = tile * tile // WARP
            groups = sorted({groups for warps, groups in pipeline.configurations(chip) if warps == size})
            groups = groups if len(groups) <= 8 else groups[:: -(-len(groups) // 8)]
            for ways in (1, WAYS):
                case = (name, tile, ways)
                simulated[case] = {n * size: flops(gpu, tile, ways, n, replicates) for n in groups}
                model[case] = {n * size: modelled(chip, tile, ways, n) for n in groups}
    fermi, product = ws.load_gpu("fermi"), ws.kernels.matrix_multiply(16, width=WIDTH)
    launch = ws.Launch(block_warps=8, blocks=(WIDTH // 16) ** 2)
    grid = ws.simulate(fermi, product, launch=launch, replicates=1)
    return Tiles(simulated, model, 2 * WIDTH**3 / (grid.cycles.values / fermi.clock_ghz))


def flops(gpu: ws.Gpu, tile: int, ways: int, groups: int, replicates: int) -> NDArray[np.float64]:
    """Returns the flops per SM and cycle in the steady state of a slice of 2 SMs."""
    launch = ws.Launch(block_warps=tile * tile // WARP, resident_blocks=groups)
    of = ws.kernels.matrix_multiply(tile, width=WIDTH // 4, ways=ways)
    run = ws.simulate(gpu, of, launch=launch, sms=2, replicates=replicates, warmup=30_000, cycles=60_000)
    return 2 * WARP * run.ipc.sel(op="alu").values


def modelled(chip: pipeline.Pipelines, tile: int, ways: int, groups: int) -> float:
    """Returns the same by the model of L with the latencies of its Table III, for two waves of groups."""
    size, waves = tile * tile // WARP, 2
    of = ws.kernels.matrix_multiply(tile, width=MODEL_TRIPS * tile, ways=ways, table_iii=True)
    cycles = pipeline.execution_cycles(chip, of, groups=waves * groups, resident_groups=groups, group_warps=size)
    return 2 * WARP * size * waves * groups * MODEL_TRIPS * tile / cycles


def rows(found: Tiles) -> Iterator[dict[str, str]]:
    """Yields VT's measurement of this kernel beside the simulation and the model."""
    fermi, paper = ws.load_gpu("fermi"), pipeline.load_pipelines("fermi_c2050")
    what = "mmul16, 48 warps per SM: Gflop/s of a GTX 480"
    yield comparison("VT part IV (SDK)", "fermi", what, SDK_GFLOPS, found.sdk, "prediction")
    most = max(found.model["fermi", 16, 1])
    of_model = found.model["fermi", 16, 1][most] * fermi.sms * fermi.clock_ghz
    what = f"mmul16, {most} warps per SM: the model of L, with as many SMs and cycles per second as a GTX 480"
    yield comparison("VT part IV (SDK)", paper.name, what, SDK_GFLOPS, of_model, "prediction")


def statements(found: Tiles) -> Iterator[dict[str, str]]:
    """Yields what the text of L says about Figure 3, and what the simulated chips give."""
    for name in CHIPS:
        gpu, row = ws.load_gpu(name), {"chip": name}
        best = {(tile, ways): largest(found.simulated[name, tile, ways]) for tile in TILES for ways in (1, WAYS)}
        for tile in TILES:
            row[f"mmul{tile:02}: slower with conflicts, times"] = f"{best[tile, 1] / best[tile, WAYS]:.1f}"
        bound = 2 * WARP * _reads_bound(gpu)
        row["with conflicts: share of the bound by shared memory, mmul08, mmul16"] = ", ".join(
            f"{best[tile, WAYS] / bound:.2f}" for tile in TILES
        )
        for tile in TILES:
            for ways, label in ((1, "without"), (WAYS, "with")):
                simulated, model = found.simulated[name, tile, ways], found.model[name, tile, ways]
                error = [100 * (model[warps] / float(values.mean()) - 1) for warps, values in simulated.items()]
                what = f"mmul{tile:02}, {label} conflicts: model of L against simulation, %"
                row[what] = f"{np.mean(error):+.0f} ± {np.std(error):.0f}"
        yield row


def _reads_bound(gpu: ws.Gpu) -> float:
    """Returns the multiply-adds per SM and cycle if the two conflicting reads of each are all that takes time."""
    of = ws.kernels.chain("smem", ways=WAYS)
    warps = gpu.sm.max_warps
    run = ws.simulate(gpu, of, warps=warps, sms=1, memory="fixed", replicates=1, warmup=5_000, cycles=20_000)
    return float(run.ipc.sel(op="smem").mean()) / 2


def figure(found: Tiles) -> Figure:
    """Draws flops per SM and cycle against occupancy: simulated chips as marks, the model of L as lines."""
    page = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, (name, of_paper) in zip(page.subplots(1, 2), CHIPS.items(), strict=True):
        for number, (tile, ways) in enumerate((tile, ways) for tile in TILES for ways in (1, WAYS)):
            simulated, model = found.simulated[name, tile, ways], found.model[name, tile, ways]
            label = f"mmul{tile:02}{', conflicts' if ways > 1 else ''}"
            means = [float(values.mean()) for values in simulated.values()]
            ax.plot(list(simulated), means, MARKERS[number], color=COLOURS[number], markersize=4, label=label)
            ax.plot(list(model), list(model.values()), linestyle=LINES[number], color=COLOURS[number], linewidth=1)
        ax.set(title=f"marks: {name}; lines: model of L, {of_paper}", xlabel="warps per SM", ylabel="flops per SM and cycle")
        ax.set(xlim=(0, None), ylim=(0, None))
        ax.legend()
    return page

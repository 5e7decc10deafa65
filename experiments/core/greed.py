"""How much more greedy policies issue than round robin, with and without the options of a core of an H100."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warpsim.hardware.core import Fetch
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import Access, Instruction, Kernel, Loop
from warpsim.results.statistics import half_width
from warpsim.simulation.api import simulate

FETCH = Fetch(lines=32, line_instructions=8, miss_cycles=39, prefetch_lines=8, prefetch_cycles=4)
OPTIONS = {"no option": (), "fetch": ("fetch",), "register ports": ("ports",), "both": ("fetch", "ports")}
OF_THE_SM = ((8, 16), (24, 16), (24, 32))
"""Adds per load, and warps, of the first table."""

OF_A_SCHEDULER = ((8, 4), (24, 4), (24, 8), (32, 12))
"""The same of the second one, in which the SM has one scheduler."""

_READS = (("R2", "R4", "R7"), ("R3", "R5.reuse", "R9"), ("R2", "R5", "R8"), ("R4", "R6", "R8"))


def program(adds: int) -> Kernel:
    """Returns an endless loop of a load that hits L1, and adds in four chains whose operands lie in the machine's registers."""
    load = Instruction("load", dst="x", src=("x",), access=Access(l1_hit=1.0))
    chains = [Instruction("alu", dst=f"c{n % 4}", src=(f"c{n % 4}", "x"), reads=_READS[n % 4]) for n in range(adds)]
    return Kernel(name=f"greed_{adds}", inputs=("x", "c0", "c1", "c2", "c3"), body=(Loop(body=(load, *chains), trips=None),))


def chip(options: tuple[str, ...], schedulers: int = 4) -> Gpu:
    """Returns an H100 with some options of its core, and fewer schedulers with their share of the warps."""
    gpu = load_gpu("h100")
    core = {
        "register_banks": gpu.core.register_banks if "ports" in options else None,
        "fetch": FETCH if "fetch" in options else None,
    }
    share = {"schedulers": schedulers, "max_warps": gpu.sm.max_warps * schedulers // gpu.sm.schedulers}
    sm = gpu.sm.model_copy(update=share | {"warp_granularity": schedulers})
    return gpu.model_copy(update={"core": gpu.core.model_copy(update=core), "sm": sm})


def issued(gpu: Gpu, adds: int, warps: int, policy: str, cycles: int = 2000) -> NDArray[np.float64]:
    """Returns the instructions per cycle of one SM by replicate, which all policies share."""
    run = simulate(gpu, program(adds), warps=warps, scheduler=policy, sms=1, warmup=cycles, cycles=cycles, replicates=32)
    return np.asarray(run["ipc"].sum("op").values, dtype=np.float64)


def of_the_sm() -> list[dict[str, str]]:
    """Returns the instructions per cycle of an SM with `lrr`, `gto` and `gty`."""
    table = []
    for adds, warps in OF_THE_SM:
        row = {"adds per load": str(adds), "warps": str(warps)}
        for name, options in OPTIONS.items():
            found = [issued(chip(options), adds, warps, policy).mean() for policy in ("lrr", "gto", "gty")]
            row[name] = " / ".join(f"{ipc:.2f}" for ipc in found)
        table.append(row)
    return table


def of_a_scheduler() -> list[dict[str, str]]:
    """Returns by how many percent `gto` issues more than `lrr` on one scheduler, with 95 % intervals."""
    table = []
    for adds, warps in OF_A_SCHEDULER:
        row = {"adds per load": str(adds), "warps": str(warps)}
        for name, options in OPTIONS.items():
            lrr, gto = (issued(chip(options, schedulers=1), adds, warps, policy) for policy in ("lrr", "gto"))
            gain = 100 * (gto / lrr - 1)
            row[name] = f"{gain.mean():+.1f} ± {float(half_width(gain)):.1f}"
        table.append(row)
    return table

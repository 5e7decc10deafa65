"""The model of Baghsorkhi et al.: the longest path through the program graph of one warp (V 7.2).

Source: S. Baghsorkhi, M. Delahaye, S. Patel, W. Gropp, W. Hwu, An adaptive performance modeling tool for GPU architectures,
PPoPP 2010, as restated in V 7.2. V is Volkov 2016 (docs/bibliography.md).

The "latency" of a warp is the longest path through its program graph, and the execution time is the sum of the "latencies" of
all warps. With n warps per SM, the weights of the arcs are::

    an arithmetic instruction   max(1 / alu_thru, alu_lat / n)                                       (eq. 3)
    a memory instruction        issue + max(0, CYC_mem - CYC_compute) / NUM_mem                      (eq. 4)
    from a load to its use      mem_lat - (n - 1) CYC_compute / (NUM_mem + NUM_sync + 1)             (eq. 5, 6)

CYC_compute is the sum of the weights before eq. 4, where a memory instruction takes its issue time. CYC_mem is the time of the
warp's accesses at peak memory throughput. For the mix of V 4.1 the "latency" is
max(CYC_mem, x, mem_lat - issue - (n - 2) x) with x = alpha max(1 / alu_thru, alu_lat / n) + issue. The 1 in eq. 5 applies only
to kernels that end.

Assumptions: Warps switch only at memory accesses. While one warp waits, the others run at the rate that n warps attain without
memory accesses.

Limits: The model fails where memory binds, by up to a factor of 8 at alpha = 0 (V Figure 7.2), since n - 1 issue times of a
few cycles have to hide the whole latency. Where latency binds at intermediate alpha it overestimates throughput, which may
even fall with n. It covers arithmetic, special functions, loads and stores in straight code or in loops. V does not restate
barriers, branches and shared memory.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel
from warpsim.models.parts.by_class import Part, busy, class_counts, count, dataset, part_of, refuse, sequence
from warpsim.models.parts.common import accepts_names, axis, quantity
from warpsim.models.parts.longest_path import longest_path
from warpsim.models.parts.needed import smallest_warps
from warpsim.units import MEMORY_OPS

_HIDDEN = 1e6  # enough warps to hide any latency


@accepts_names
def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.Dataset:
    """Returns the throughput: one warp, or repetition, per "latency" of a warp and SM (V 7.2).

    Args:
        gpu: the chip.
        kernel: straight code and loops of arithmetic, special functions, loads and stores.
        warps: warps per SM, at least 0.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`, and
        `warp_latency`, the "latency" of the paper in cycles.

    Raises:
        NotCoveredError: the kernel has barriers, conditionals, shared memory accesses or random loops.
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0.
    """
    n = axis("warps", warps, at_least=0)
    model = _Model(gpu, kernel)
    latency = quantity(n.copy(data=model.warp_latency(n.values)), "cycles", f"latency of a {model.of.per}, amortized")
    return dataset(model.of, 1 / latency, n, source="warpsim.models.baghsorkhi, V 7.2", warp_latency=latency)


@accepts_names
def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Returns the smallest occupancy in warps per SM that attains a fraction of the model's largest throughput.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1.
        NotCoveredError: as `throughput`.
    """
    check_fraction(fraction)
    model = _Model(gpu, kernel)

    def rate(warps: float) -> float:
        return float(1 / model.warp_latency(np.array(warps)))

    return smallest_warps(rate, fraction * rate(_HIDDEN))


@accepts_names
def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps)["execution_time"]


class _Model:
    """The program graph of a kernel, whose weights depend on the number of warps."""

    def __init__(self, gpu: Gpu, kernel: Kernel) -> None:
        refuse(kernel, "baghsorkhi", "barrier", "smem")
        self.code = sequence(kernel, "baghsorkhi")
        self.of = class_counts(gpu, kernel)
        self.endless = kernel.endless
        self.issue = max(1 / gpu.unit_ipc("alu"), 1 / gpu.issue_ipc)
        self.parts: dict[Instruction, Part] = {i: part_of(gpu, i) for i in self.code}

    def warp_latency(self, warps: np.ndarray) -> np.ndarray:
        """Returns the "latency" of a warp in cycles; infinite without warps."""
        n = np.where(warps > 0, warps, np.nan)
        arithmetic = {i: np.maximum(p.interval, p.latency / n) for i, p in self.parts.items() if i.op not in MEMORY_OPS}
        accesses = count(self.of.accesses)
        compute = self.issue * accesses + sum((arithmetic[i] for i in self.code if i in arithmetic), 0.0 * n)
        memory = self.issue + np.maximum(0, busy(self.of.accesses) - compute) / max(accesses, 1)
        between = compute / max(accesses + (0 if self.endless else 1), 1)  # NBC_avg
        weights = [arithmetic.get(i, memory) for i in self.code]
        exposed = [
            {"": self.parts[i].latency - (n - 1) * between} if i.op == "load" else {"": 0.0 * n} for i in self.code
        ]
        cycles = longest_path(self.code, weights, exposed, endless=self.endless).cycles
        return np.where(warps > 0, cycles, np.inf)

"""The model of Baghsorkhi et al. as V 7.2 restates it.

S. Baghsorkhi, M. Delahaye, S. Patel, W. Gropp, W. Hwu, An adaptive performance modeling tool for GPU architectures, PPoPP
2010; V is V. Volkov, Understanding Latency Hiding on GPUs, 2016. The "latency" of a warp is the longest path of its program
graph, and the execution time the sum of all warps' "latencies". With n warps per SM, the weights of the arcs are

    an arithmetic instruction   max(1 / alu_thru, alu_lat / n)                                       (eq. 3)
    a memory instruction        issue + max(0, CYC_mem - CYC_compute) / NUM_mem                      (eq. 4)
    a load to what uses it      mem_lat - (n - 1) CYC_compute / (NUM_mem + NUM_sync + 1)             (eq. 5, 6)

where CYC_compute adds up the weights before eq. 4, with 1 / alu_thru to issue a memory instruction, and CYC_mem is the
time of the warp's accesses at peak memory throughput. For the mix of V 4.1 it is
max(CYC_mem, x, mem_lat - issue - (n - 2) x) with x = alpha max(1 / alu_thru, alu_lat / n) + issue. The 1 of eq. 5 counts for
finite kernels only.

Assumed: warps switch at memory accesses only; while one waits the others run at the rate that n warps attain without
memory. It fails where memory binds, by up to a factor of 8 at alpha = 0 (V Figure 7.2), since n - 1 issue times of a few
cycles are to hide the whole latency; and where latency binds at intermediate alpha, where it overestimates and need not
even rise with n. Covered are arithmetic, special functions, loads and stores in a straight line or in loops; V does not
restate barriers, branches and shared memory.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim.hardware.gpu import Gpu
from warpsim.kernels import Instruction, Kernel
from warpsim.kernels.statements import MEMORY_OPS
from warpsim.models.parts.common import axis, check_fraction, quantity
from warpsim.models.parts.longest_path import longest_path
from warpsim.models.parts.needed import smallest_warps
from warpsim.models.parts.profile import Part, busy, count, dataset, part_of, profile, refuse, sequence

_HIDDEN = 1e6  # warps that hide any latency


def throughput(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.Dataset:
    """Return the throughput: one warp, or repetition, per warp "latency" and SM (V 7.2).

    Args:
        gpu: the chip.
        kernel: straight code and loops of arithmetic, special functions, loads and stores.
        warps: warps per SM, at least 0.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `execution_time`, and in cycles
        `warp_latency`, the paper's.

    Raises:
        NotCoveredError: the kernel has barriers, conditionals, shared memory accesses or random loops.
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0.
    """
    n = axis("warps", warps, at_least=0)
    model = _Model(gpu, kernel)
    latency = quantity(n.copy(data=model.warp_latency(n.values)), "cycles", f"latency of a {model.of.per}, amortized")
    return dataset(model.of, 1 / latency, n, source="warpsim.models.baghsorkhi, V 7.2", warp_latency=latency)


def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0) -> float:
    """Return the smallest occupancy that attains a fraction of the model's largest throughput.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1.
        NotCoveredError: as `throughput`.
    """
    check_fraction(fraction)
    model = _Model(gpu, kernel)

    def rate(warps: float) -> float:
        return float(1 / model.warp_latency(np.array(warps)))

    return smallest_warps(rate, fraction * rate(_HIDDEN))


def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once."""
    return throughput(gpu, kernel, warps=warps)["execution_time"]


class _Model:
    """The graph of a kernel; its weights depend on the warps."""

    def __init__(self, gpu: Gpu, kernel: Kernel) -> None:
        refuse(kernel, "baghsorkhi", "barrier", "smem")
        self.code = sequence(kernel, "baghsorkhi")
        self.of = profile(gpu, kernel)
        self.endless = kernel.endless
        self.issue = max(1 / gpu.unit_ipc("alu"), 1 / gpu.issue_ipc)
        self.parts: dict[Instruction, Part] = {i: part_of(gpu, i) for i in self.code}

    def warp_latency(self, warps: np.ndarray) -> np.ndarray:
        """Return the "latency" in cycles; it is infinite without warps."""
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

"""Throughput where the memory's latency depends on it (V 6.4, 6.5).

V is Volkov, Understanding Latency Hiding on GPUs, 2016.
"""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

from warpsim.hardware.gpu import Gpu
from warpsim.hardware.latency import contention_latency


def memory_latency(gpu: Gpu, bandwidth_gbs: float, *, refined: bool) -> float:
    """Return the memory latency in cycles at a rate of the chip in GB/s.

    It is constant (V Table 6.2), or with `refined` that of V Table 6.5 (G80: the two terms of V 6.4),
    infinite from c on.
    """
    if not refined:
        return float(gpu.memory.latency_cycles)
    return float(contention_latency(gpu.memory.contention, bandwidth_gbs, refined=True))


def solve(attained: Callable[[float], float], most: float) -> float:
    """Return the throughput x = attained(x), from 0 to `most`, which is attained(0).

    `attained` is the throughput that the latencies at the throughput x allow, and does not rise with x. V 6.5
    solves the equation by bisection; Brent's method brackets the root too.
    """
    if most == 0 or attained(most) >= most:
        return most
    return float(brentq(lambda x: attained(x) - x, 0.0, most, xtol=1e-15, rtol=1e-12))

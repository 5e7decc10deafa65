"""Throughput if memory latency depends on it (V 6.4, 6.5).

V is Volkov 2016 (docs/bibliography.md).
"""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

from warpsim.hardware.gpu import Gpu


def memory_latency(gpu: Gpu, bandwidth_gbs: float, *, refined: bool) -> float:
    """Returns the memory latency in cycles at a bandwidth of the chip in GB/s.

    It is constant (V Table 6.2). With `refined` it is that of V Table 6.5 (G80: the two terms of V 6.4), and infinite at
    bandwidths from c on.
    """
    if not refined:
        return float(gpu.memory.latency_cycles)
    return float(gpu.memory.contention.latency(bandwidth_gbs, refined=True))


def solve(attained: Callable[[float], float], most: float) -> float:
    """Solves x = attained(x) for the throughput x, from 0 to `most` = attained(0).

    `attained(x)` is the throughput that the latencies at the throughput x allow; it must not increase with x. V 6.5 uses
    bisection; Brent's method brackets the root as well.
    """
    if most == 0 or attained(most) >= most:
        return most
    return float(brentq(lambda x: attained(x) - x, 0.0, most, xtol=1e-15, rtol=1e-12))

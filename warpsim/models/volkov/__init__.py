"""Volkov's model of latency hiding: the smaller of a latency bound and a throughput bound, for any kernel.

Source: V. Volkov, Understanding Latency Hiding on GPUs, PhD dissertation, University of California, Berkeley, 2016 (V).
Chapter 3 has the framework for any kernel (`volkov.bounds`); 6.4 and 6.5 refine it by memory contention; chapter 4 has closed
forms for mixes of adds and one other class of instructions (`volkov.mix`). With n warps per SM::

    warp throughput = min(n / latency bound, throughput bound).          (V 3.5)

Throughput counts warps per cycle and SM, or repetitions if the kernel ends in an endless loop. Latency is that of a warp or
of a repetition.

Assumptions: Warps interfere only at barriers. Occupancy is constant. Memory latency does not depend on the load; in the
refined model it is the mean latency of V Table 6.5 at that load. The memory system treats reads and writes alike. Caches hit
with the probabilities that the kernel states.

Limits: Near the knee between the two bounds the throughput of hardware saturates gradually, and the model overestimates it by
up to 28 % (G80: 34 %); the refined model by up to 20 % at intermediate intensities (V 7.9). The model also fails where a warp
pairs its instructions differently under load, and where hit rates fall with occupancy.
"""

from warpsim.models.volkov.bounds import (
    LATENCY,
    bottleneck,
    latency_bound,
    needed_warps,
    throughput,
    throughput_bound,
)
from warpsim.models.volkov.grid import MeasuredGrid, measured_grid
from warpsim.models.volkov.mix import MixParameters, mix_needed_warps, mix_parameters, mix_throughput

__all__ = [
    "LATENCY",
    "MeasuredGrid",
    "MixParameters",
    "bottleneck",
    "latency_bound",
    "measured_grid",
    "mix_needed_warps",
    "mix_parameters",
    "mix_throughput",
    "needed_warps",
    "throughput",
    "throughput_bound",
]

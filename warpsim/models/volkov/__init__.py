"""Volkov's model of latency hiding (2016): `bounds` for any kernel, and `mix` with the closed forms for two instructions."""

from warpsim.models.volkov.bounds import (
    LATENCY,
    bottleneck,
    latency_bound,
    needed_warps,
    throughput,
    throughput_bound,
)
from warpsim.models.volkov.mix import MixParameters, mix_needed_warps, mix_parameters, mix_throughput

__all__ = [
    "LATENCY",
    "MixParameters",
    "bottleneck",
    "latency_bound",
    "mix_needed_warps",
    "mix_parameters",
    "mix_throughput",
    "needed_warps",
    "throughput",
    "throughput_bound",
]

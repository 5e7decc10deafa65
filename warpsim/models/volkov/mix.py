"""Volkov's closed forms for a mix of adds and one other class of instructions (V 4.1, 4.5, 4.7, 6.5).

The mix is the kernel `kernels.mix`: evenly interleaved, all instructions dependent, endless. `warpsim.models.volkov`
states the assumptions and limits. V is Volkov 2016 (docs/bibliography.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.arguments import check_fraction, choice
from warpsim.hardware.gpu import Gpu
from warpsim.models.parts.common import accepts_names, axis, quantity, result
from warpsim.models.parts.contention import memory_latency, solve


class MixParameters(NamedTuple):
    """Parameters of the closed forms (V Table 4.1): latencies in cycles, throughputs in instructions per cycle and SM.

    `other` is the instruction that is not an add. `other_to_alu_latency` is its latency to an add that depends on it
    (shorter on Maxwell, V 4.7), and `alu_to_other_latency` is the latency from an add to it. The issue rate limits both
    throughputs.
    """

    other_latency: float
    other_throughput: float
    alu_latency: float
    alu_throughput: float
    issue_throughput: float
    other_to_alu_latency: float
    alu_to_other_latency: float


@accepts_names
def mix_parameters(gpu: Gpu, other: str = "load") -> MixParameters:
    """Returns V Table 4.1 for a chip: adds with coalesced loads, with "sfu", or with "smem" without bank conflicts.

    Raises:
        ValueError: `other` is another operation class.
    """
    other = choice("other", other, ("load", "sfu", "smem"))
    alu = gpu.ops["alu"]
    if other == "load":
        latency = to_alu = float(gpu.memory.latency_cycles)
        peak = units.gbs_to_ipc(gpu.memory.bandwidth_gbs, gpu.clock_ghz, gpu.sms)
    else:
        latency, to_alu = float(gpu.ops[other].latency_for(other)), float(gpu.ops[other].latency_for("alu"))
        peak = gpu.unit_ipc(other)
    return MixParameters(
        latency,
        min(peak, gpu.issue_ipc),
        float(alu.latency_for("alu")),
        min(gpu.unit_ipc("alu"), gpu.issue_ipc),
        gpu.issue_ipc,
        to_alu,
        float(alu.latency_for(other)),
    )


@accepts_names
def mix_throughput(
    gpu: Gpu,
    alpha: ArrayLike | xr.DataArray,
    warps: ArrayLike | xr.DataArray,
    *,
    other: str = "load",
    refined: bool = False,
) -> xr.Dataset:
    """Returns the throughput of a mix of adds and one other class of instructions (V 4.1, Table 4.2, 4.7).

    It is::

        memory throughput =
            min(n / (mem_lat + alpha alu_lat), mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))

    in instructions per cycle and SM. In the refined model (V 6.5) mem_lat is a + b x / (c - x) at the memory throughput x. As
    in V, an instruction takes one issue slot. On chips where loads, SFU or shared memory take more (Maxwell), `throughput`
    of the kernel `mix` is lower where issue binds.

    Args:
        gpu: the chip.
        alpha: adds per other instruction, at least 0; infinity is allowed. An array becomes the dimension `alpha`.
        warps: warps per SM, at least 0. An array becomes the dimension `warps`.
        other: "load", "sfu" or "smem".
        refined: let memory latency grow with the load; only with loads.

    Returns:
        A Dataset over `alpha` and `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `memory_latency`.

    Raises:
        TypeError: `alpha` or `warps` is not numeric.
        ValueError: `alpha` or `warps` is below 0, `other` is another operation class, or `refined` is set without loads.
    """
    share, n = xr.broadcast(1 / (1 + axis("alpha", alpha, at_least=0, finite=False)), axis("warps", warps, at_least=0))
    rates = np.empty(share.shape)
    latencies = np.empty(share.shape)
    for i in np.ndindex(share.shape):
        mix = _Mix(gpu, other, float(share.values[i]), refined)
        rates[i] = mix.rate(float(n.values[i]))
        latencies[i] = mix.load_latency(float(rates[i])) if other == "load" else np.nan
    rate = share.copy(data=rates)
    moved = rate * share if other == "load" else 0.0 * rate
    return result(
        gpu,
        {"alu": rate * (1 - share), other: rate * share},
        {
            "bandwidth": units.ipc_to_gbs(1.0, gpu.clock_ghz, gpu.sms) * moved,
            "memory_latency": share.copy(data=latencies),
        },
        source=f"warpsim.models.volkov, V {'6.5' if refined else '4.1'}",
    )


@accepts_names
def mix_needed_warps(
    gpu: Gpu,
    alpha: ArrayLike | xr.DataArray,
    *,
    fraction: float = 1.0,
    other: str = "load",
    refined: bool = False,
) -> xr.DataArray:
    """Returns the warps per SM that attain a fraction of the peak throughput of a mix (V 4.5, Figures 4.5, 4.6).

    It is::

        n = (mem_lat + alpha alu_lat) fraction min(mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))

    As a function of alpha it has a cusp where the binding peak changes. The number is not rounded, and the limits of the chip
    are not checked. In the refined model mem_lat is the latency at that memory throughput, and infinite if memory cannot
    attain it. Arguments are those of `mix_throughput`.

    Raises:
        ValueError: `fraction` is not above 0 and at most 1; otherwise as `mix_throughput`.
    """
    check_fraction(fraction)
    share = 1 / (1 + axis("alpha", alpha, at_least=0, finite=False))
    needed = np.empty(share.shape)
    for i in np.ndindex(share.shape):
        mix = _Mix(gpu, other, float(share.values[i]), refined)
        rate = fraction * mix.bound
        needed[i] = rate * mix.latency(rate)
    return quantity(share.copy(data=needed), "warps/SM", "needed occupancy").rename("needed_warps")


class _Mix:
    """A mix, per instruction: `share` of the instructions are not adds."""

    def __init__(self, gpu: Gpu, other: str, share: float, refined: bool) -> None:
        if refined and other != "load":
            raise ValueError(f"refined = True: must be False with other = {other!r}; only loads have a refined model")
        self.gpu, self.share, self.refined = gpu, share, refined
        self.parameters = p = mix_parameters(gpu, other)
        self.is_load = other == "load"
        limits = [p.issue_throughput]
        limits += [p.other_throughput / share] if share > 0 else []
        limits += [p.alu_throughput / (1 - share)] if share < 1 else []
        self.bound = min(limits)

    def load_latency(self, rate: float) -> float:
        gbs = units.ipc_to_gbs(rate * self.share, self.gpu.clock_ghz, self.gpu.sms)
        return memory_latency(self.gpu, gbs, refined=self.refined)

    def latency(self, rate: float) -> float:
        """Returns the mean latency of an instruction at a rate in instructions per cycle and SM."""
        p, others, adds = self.parameters, self.share, 1 - self.share
        meet = min(others, adds)  # share of instructions whose predecessor is of the other class
        cycles = meet * p.alu_to_other_latency + (adds - meet) * p.alu_latency
        if not self.is_load:
            return cycles + meet * p.other_to_alu_latency + (others - meet) * p.other_latency
        return cycles + (others * self.load_latency(rate) if others > 0 else 0.0)

    def rate(self, warps: float) -> float:
        """Returns the throughput in instructions per cycle and SM."""

        def attained(rate: float) -> float:
            return min(warps / self.latency(rate), self.bound)

        return solve(attained, attained(0.0))

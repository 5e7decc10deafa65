"""GPUPerf, the model of Sim et al.: computation, memory, their overlap, and what optimizations could gain (S).

S is J. Sim, A. Dasgupta, H. Kim, R. Vuduc, A Performance Analysis Framework for Identifying Potential Benefits in
GPGPU Applications, 2012; V is Volkov 2016, whose section 7.4 evaluates it. `equations` are S's equations 1 to 23 and
A.1 to A.7 in the paper's symbols; `throughput`, `benefits` and `grid` feed them with a chip and a kernel, as V 7.4
does.

Assumed: a warp's instructions all have the latency of an add, and N warps hide it together; of memory accesses,
min(CWP - 1, MWP) warps' overlap; computation and memory overlap fully, but for one warp's share where CWP <= MWP.
Stores are accesses as loads are. A divergent conditional costs its shorter side as overhead. Γ = 64 and Δ were fitted
for Fermi; a bank conflict costs the passes of the SM's shared memory. ILP and MLP are those of basic blocks
(`block_parallelism`), unless given.

It fails at intermediate intensities, where throughput at low occupancy is up to 1.8 (Fermi) and 2.0 times (Kepler) too
high, since a warp's arithmetic and its accesses are taken to overlap with each other; with few warps and mostly
accesses it is up to 2 times too low, from CWP - 1 in place of CWP (V 7.4, 7.9). Equation 22 can turn negative where
ITILP is below its maximum, since 20 has the latency of an instruction hidden and 18 has not; it is reported as it is.
Equation 19 is read with the size of data in transactions of an SM, without which it is no time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.models.parts.block_parallelism import instruction_parallelism, memory_parallelism
from warpsim.models.parts.common import NotCoveredError, axis, check_fraction, quantity, result
from warpsim.models.parts.costs import access_latency
from warpsim.models.parts.counts import Counts, bank_conflicts, counts
from warpsim.models.parts.needed import smallest_warps
from warpsim.models.parts.warp_path import names_warps
from warpsim.models.sim_2012.equations import Parameters, Solution, equations

__all__ = [
    "Parameters",
    "Solution",
    "benefits",
    "bottleneck",
    "equations",
    "execution_time",
    "grid",
    "needed_warps",
    "parameters",
    "throughput",
]

COSTS = {
    "t_comp": "computation cost",
    "t_mem": "memory cost",
    "t_overlap": "overlapped cost",
    "t_exec": "execution time",
    "t_mem_exposed": "memory cost that is not overlapped",
    "t_fp": "ideal computation cost",
    "t_mem_min": "ideal memory cost",
    "w_parallel": "base computation cost",
    "w_serial": "cost of serialization",
    "o_sync": "cost of synchronization",
    "o_sfu": "cost of contention for the SFU",
    "o_cfdiv": "cost of divergence",
    "o_bank": "cost of bank conflicts",
}
"""S Table 1 and equation 6, with T'mem as `t_mem_exposed`."""

BENEFITS = {
    "b_itilp": "benefit of more inter-thread ILP",
    "b_memlp": "benefit of more MLP",
    "b_fp": "benefit of only essential computation",
    "b_serial": "benefit of no serialization",
}
"""S Table 1."""

_OVERHEADS = {"o_sfu": "sfu", "o_bank": "smem", "o_sync": "barrier", "o_cfdiv": "branch"}


_TOLERANCE = 1e-9  # Tmem equals Tcomp where ITMLP is CWP - 1


class _Fed(NamedTuple):
    """The parameters of a kernel on a chip at some occupancies."""

    occupancy: xr.DataArray
    counted: Counts
    solution: Solution


def parameters(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike,
    block_warps: int | None = None,
    bandwidth: Literal["sustained", "pin"] = "sustained",
    departure_delay: float | None = None,
    ilp: float | None = None,
    mlp: float | None = None,
    fp_insts: float | None = None,
    gamma: float = 64,
) -> Parameters:
    """Return S's parameters for N warps of a kernel on each SM, as V 7.4 feeds them; per repetition if it is endless.

    Latencies are the chip's: of adds for avg_inst_lat and FP_lat, of a coalesced load for DRAM_lat, which contains
    the way through caches that miss; hit_lat is what hits add to the mean. SIMD_width is the peak rate of adds, which
    issue may limit (Kepler: 128, V Table 7.1).

    Args:
        gpu: the chip.
        kernel: any kernel.
        warps: N.
        block_warps: warps of a thread block; only needed where the kernel tells them apart.
        bandwidth: mem_peak_bandwidth: "sustained" (V 7.4) or "pin" (S Table 3).
        departure_delay: Δ in cycles; S Table 3 has 20 for Tesla C2050. Left out: none, as V 7.4 has it with the
            sustained bandwidth; accesses of several transactions are then not covered.
        ilp: left out: that of the basic blocks.
        mlp: left out: that of the basic blocks.
        fp_insts: #FP_insts of a warp or repetition; left out: all "alu" instructions, integer ones among them.
        gamma: Γ; S finds 64.

    Raises:
        ValueError: an argument's value is not allowed, or `block_warps` or the latency of a cache is missing.
        NotCoveredError: an access makes several transactions, and Δ is left out.
    """
    rates = {"pin": gpu.memory.pin_bandwidth_gbs, "sustained": gpu.memory.bandwidth_gbs}
    if bandwidth not in rates:
        raise ValueError(f"bandwidth = {bandwidth!r}: 'sustained' or 'pin'")
    for name, value, least in (("departure_delay", departure_delay, 0), ("ilp", ilp, 1), ("mlp", mlp, 1), ("gamma", gamma, 0)):
        if value is not None and not value >= least:
            raise ValueError(f"{name} = {value!r}: at least {least}")
    counted = counts(gpu, kernel, block_warps=block_warps)
    ops = counted.ops
    if fp_insts is not None and not 0 <= fp_insts <= counted.total:
        raise ValueError(f"fp_insts = {fp_insts!r}: from 0 to all instructions, {counted.total:g}")
    memory = _memory(gpu, counted)
    if departure_delay is None and memory["avg_trans_warp"] > 1:
        raise NotCoveredError(f"{kernel.name}: departure_delay is needed where an access makes several transactions")
    extra = sum(len(block.instructions) * block.times for block in counted.blocks if block.extra)
    sfu = ops.get("sfu", 0.0)
    n = np.asarray(warps, dtype=float)
    latency = gpu.ops["alu"].latency_for("alu")
    return Parameters(
        n=n,
        total_warps=n * gpu.sms,
        active_sms=gpu.sms,
        insts=counted.total - sfu - extra,
        sync_insts=ops.get("barrier", 0.0),
        sfu_insts=sfu,
        fp_insts=ops.get("alu", 0.0) if fp_insts is None else fp_insts,
        cfdiv_insts=extra,
        bank_conflict_cycles=bank_conflicts(gpu, counted) / gpu.unit_ipc("smem"),
        avg_inst_lat=latency,
        fp_lat=latency,
        dram_lat=gpu.memory.latency_cycles,
        departure_delay=departure_delay or 0,
        ilp=instruction_parallelism(counted) if ilp is None else ilp,
        mlp=memory_parallelism(counted) if mlp is None else mlp,
        simd_width=units.ipc_to_ops_per_cycle(min(gpu.unit_ipc("alu"), gpu.issue_ipc)),
        sfu_width=units.ipc_to_ops_per_cycle(gpu.unit_ipc("sfu")),
        freq=gpu.clock_ghz,
        mem_peak_bandwidth=rates[bandwidth],
        gamma=gamma,
        size_of_data=memory.pop("bytes_per_warp") * n * gpu.sms,
        **memory,
    )


def throughput(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, block_warps: int | None = None, **arguments: Any
) -> xr.Dataset:
    """Return the throughput at an occupancy, or at an array of them (V 7.4).

    Args:
        gpu: the chip.
        kernel: any kernel; accesses of several transactions need `departure_delay`.
        warps: N, warps per SM, at least 0; not held against the chip's limits.
        block_warps: as for `parameters`; where needed and left out, what `simulate` takes for the largest of `warps`.
        arguments: as for `parameters`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `memory_latency` (AMAT) as from
        `simulate`, and `execution_time` in cycles, `mwp`, `cwp`, `mwp_peak_bw`, `itilp`, `itmlp`, `bottleneck` (see
        the function of this name).

    Raises:
        TypeError: `warps` are no numbers, or there is no such argument.
        ValueError: `warps` is below 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    fed = _feed(gpu, kernel, warps, {**arguments, "block_warps": block_warps})
    occupancy, counted, s = fed
    rate = occupancy.copy(data=np.where(occupancy.values > 0, occupancy.values / s.t_exec, 0.0))
    asked = sum(made.requested_bytes * count for _, made, count in counted.accesses(gpu))
    return result(
        gpu,
        {op: rate * count for op, count in counted.ops.items()},
        {
            "bandwidth": rate * asked * units.bytes_per_cycle_to_gbs(gpu.sms, gpu.clock_ghz),
            "memory_latency": _over(occupancy, s.amat),
            "execution_time": quantity(_over(occupancy, s.t_exec), "cycles", f"time of the SM's warps per {counted.per}"),
            **_parallelism(fed),
        },
        source="warpsim.models.gpuperf, S",
    )


def benefits(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.Dataset:
    """Return the costs of S's equations, and what four kinds of optimization could save at most (S 4.2).

    Args:
        gpu: the chip.
        kernel: as for `throughput`.
        warps: N, warps per SM, above 0.
        arguments: as for `parameters`.

    Returns:
        A Dataset over `warps`: the variables of `COSTS` and `BENEFITS`, in cycles in which an SM executes its warps
        once (repeats their endless loop once), and `mwp`, `cwp`, `mwp_peak_bw`, `itilp`, `itmlp`, `bottleneck`.
        `warpsim.plots.benefit_chart` draws it.

    Raises:
        TypeError: `warps` are no numbers, or there is no such argument.
        ValueError: `warps` is not above 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    if not bool((axis("warps", warps, at_least=0) > 0).all()):
        raise ValueError(f"warps = {warps!r}: numbers above 0")
    fed = _feed(gpu, kernel, warps, arguments)
    found = {
        name: quantity(_over(fed.occupancy, getattr(fed.solution, name)), "cycles", text)
        for name, text in {**COSTS, **BENEFITS}.items()
    }
    found |= _parallelism(fed)
    return xr.Dataset(found, attrs={"source": "warpsim.models.gpuperf, S", "gpu": gpu.name, "kernel": kernel.name})


def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


def grid(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, blocks: int, block_warps: int, **arguments: Any
) -> xr.DataArray:
    """Return the cycles that a grid takes (equation 1).

    A grid of fewer blocks than SMs has that many active SMs.

    Args:
        gpu: the chip.
        kernel: one that ends; otherwise as for `throughput`.
        warps: N, at least a block.
        blocks: of the grid.
        block_warps: warps of a thread block.
        arguments: as for `parameters`.

    Raises:
        TypeError: `warps` are no numbers, or there is no such argument.
        ValueError: `warps` is less than a block, the kernel is endless, or `blocks` is below 1; otherwise as
            `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=block_warps)
    if kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: one that ends")
    if blocks < 1:
        raise ValueError(f"blocks = {blocks}: at least 1")
    p = parameters(gpu, kernel, warps=occupancy.values, block_warps=block_warps, **arguments)
    share = blocks * block_warps / np.asarray(p.total_warps)
    whole = replace(
        p, total_warps=blocks * block_warps, active_sms=min(gpu.sms, blocks), size_of_data=np.asarray(p.size_of_data) * share
    )
    return quantity(_over(occupancy, equations(whole).t_exec), "cycles", "execution time of the grid").rename("cycles")


def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, **arguments: Any) -> float:
    """Return the smallest number of warps per SM that attains a fraction of the model's peak (V 7.10).

    The peak is that of many warps: of computation at the largest ITILP, or of memory at the peak bandwidth. It is
    approached without being reached where computation binds, so that a fraction of 1 may need infinitely many.

    Raises:
        TypeError: there is no such argument.
        ValueError: `fraction` is not above 0 and at most 1; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    check_fraction(fraction)
    many = equations(parameters(gpu, kernel, warps=1e6, **arguments))
    peak = 1e6 / max(float(many.t_comp), float(many.t_mem))

    def rate(warps: float) -> float:
        if warps <= 0:
            return 0.0
        return warps / float(equations(parameters(gpu, kernel, warps=warps, **arguments)).t_exec)

    return smallest_warps(rate, fraction * peak)


def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float, **arguments: Any) -> str:
    """Return what binds at an occupancy; arguments and errors of `throughput`.

    Where Tmem is above Tcomp: "memory" if ITMLP is at the peak bandwidth, or else "latency". Otherwise what costs
    most: "alu" ("latency", if ITILP is below its maximum), "sfu", "smem" (bank conflicts), "barrier" or "branch"
    (divergence).
    """
    return str(throughput(gpu, kernel, warps=float(axis("warps", warps, at_least=0)), **arguments).bottleneck.item())


def _feed(gpu: Gpu, kernel: Kernel, warps: ArrayLike | xr.DataArray, arguments: dict[str, Any]) -> _Fed:
    occupancy = axis("warps", warps, at_least=0)
    block_warps = arguments.pop("block_warps", None)
    if block_warps is None and names_warps(kernel):
        block_warps = default_block_warps(gpu, int(occupancy.max()))
    p = parameters(gpu, kernel, warps=occupancy.values, block_warps=block_warps, **arguments)
    return _Fed(occupancy, counts(gpu, kernel, block_warps=block_warps), equations(p))


def _memory(gpu: Gpu, counted: Counts) -> dict[str, float]:
    """Return what the accesses are like, in the mean; and a warp's bytes that the caches do not hold."""
    accesses = counted.accesses(gpu)
    number = sum(count for _, _, count in accesses)
    hits = missing = trans = moved = 0.0
    for instruction, made, count in accesses:
        assert instruction.access is not None
        latency, misses = access_latency(gpu, instruction.access, 0.0)
        hits += count * latency
        missing += count * misses
        trans += count * made.requests
        moved += count * misses * made.requested_bytes
    return {
        "mem_insts": number,
        "avg_trans_warp": trans / number if number else 1.0,
        "miss_ratio": missing / number if number else 1.0,
        "hit_lat": hits / number if number else 0.0,
        "bytes_per_warp": moved,
    }


def _over(occupancy: xr.DataArray, values: NDArray[Any]) -> xr.DataArray:
    return occupancy.copy(data=np.broadcast_to(values, occupancy.shape).copy())


def _parallelism(fed: _Fed) -> dict[str, xr.DataArray]:
    occupancy, _, s = fed
    texts = {
        "mwp": "memory warp parallelism",
        "cwp": "computation warp parallelism",
        "mwp_peak_bw": "memory warps at the peak bandwidth",
    }
    found = {name: quantity(_over(occupancy, getattr(s, name)), "warps/SM", text) for name, text in texts.items()}
    found["itilp"] = quantity(_over(occupancy, s.itilp), "instructions/SM", "inter-thread ILP")
    found["itmlp"] = quantity(_over(occupancy, s.itmlp), "requests/SM", "inter-thread MLP")
    found["bottleneck"] = quantity(_over(occupancy, _binds(s)), "1", "bound that binds")
    return found


def _binds(s: Solution) -> NDArray[np.str_]:
    names = list(_OVERHEADS.values())
    overheads = np.stack([getattr(s, name) for name in _OVERHEADS])
    largest = np.array(names)[np.argmax(overheads, axis=0)]
    computation = np.where(
        overheads.max(axis=0) > s.w_parallel, largest, np.where(s.itilp < s.itilp_max, "latency", "alu")
    )
    memory = np.where(s.itmlp < s.mwp_peak_bw, "latency", "memory")
    found: NDArray[np.str_] = np.where(s.t_mem > s.t_comp * (1 + _TOLERANCE), memory, computation)
    return found

"""GPUPerf, the model of Sim et al.: costs of computation and memory, their overlap, and benefits of optimizations.

Source: J. Sim, A. Dasgupta, H. Kim, R. Vuduc, A performance analysis framework for identifying potential benefits in GPGPU
applications, PPoPP 2012 (S). V 7.4 evaluates it; V is Volkov 2016 (docs/bibliography.md). `equations` solves equations 1 to 23
and A.1 to A.7 of S in the symbols of the paper. `throughput`, `benefits` and `grid` derive the parameters from a chip and a
kernel, as V 7.4 does.

Abbreviations of the paper: MWP and CWP are memory and computation warp parallelism, ILP and MLP instruction-level and
memory-level parallelism of a warp, ITILP and ITMLP the same of all warps of an SM (inter-thread), FP floating point, AMAT the
average memory access time.

Assumptions: All instructions of a warp have the latency of an add, and N warps hide it together. The memory accesses of
min(CWP - 1, MWP) warps overlap. Computation and memory overlap fully, except for the share of one warp if CWP <= MWP. Stores
count as memory accesses. A divergent conditional costs its shorter side as overhead. Gamma = 64 and Delta were fitted for
Fermi. A bank conflict costs the extra passes of the shared memory. ILP and MLP are those of basic blocks
(`parts.block_parallelism`), unless given.

Limits: At intermediate intensities and low occupancy the model overestimates throughput by up to a factor of 1.8 (Fermi) or 2.0
(Kepler), since it lets the arithmetic and the memory accesses of one warp overlap. With few warps and mostly memory accesses it
underestimates throughput by up to a factor of 2, because of CWP - 1 in place of CWP (V 7.4, 7.9). Equation 22 can be negative
if ITILP is below its maximum, since 20 hides the instruction latency and 18 does not; the value is returned as it is. Equation
19 is read with the size of data in transactions per SM, without which its units are inconsistent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim import units
from warpsim.arguments import check_fraction
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.kernels.program import names_warps
from warpsim.models.parts.block_parallelism import instruction_parallelism, memory_parallelism
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis, check_grid, peak_bandwidth, quantity
from warpsim.models.parts.costs import access_latency, unit_cycles
from warpsim.models.parts.counts import Counts, bank_conflicts, counts
from warpsim.models.parts.needed import smallest_warps
from warpsim.models.parts.warp_parallelism import counted_result, over_warps, warp_parallelism
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
"""Costs of S Table 1 and equation 6; `t_mem_exposed` is T'mem of the paper."""

BENEFITS = {
    "b_itilp": "benefit of more inter-thread ILP",
    "b_memlp": "benefit of more MLP",
    "b_fp": "benefit of only essential computation",
    "b_serial": "benefit of no serialization",
}
"""Potential benefits of S Table 1."""

_OVERHEADS = {"o_sfu": "sfu", "o_bank": "smem", "o_sync": "barrier", "o_cfdiv": "branch"}
_TOLERANCE = 1e-9  # Tmem equals Tcomp if ITMLP is CWP - 1


class _Fed(NamedTuple):
    """The solution for a kernel on a chip at some occupancies."""

    occupancy: xr.DataArray
    counted: Counts
    solution: Solution


@accepts_names
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
    """Returns the parameters of S for N warps of a kernel on each SM, as in V 7.4; per repetition if the kernel is endless.

    Latencies are those of the chip: of adds for avg_inst_lat and FP_lat, of a coalesced load for DRAM_lat, which contains the
    caches that miss. hit_lat is the latency that hits add to the mean. SIMD_width is the peak rate of adds, which issue may
    limit (Kepler: 128, V Table 7.1), lowered by instructions that have longer intervals of their own.

    Args:
        gpu: the chip.
        kernel: any kernel.
        warps: N.
        block_warps: warps of a thread block; only needed if the kernel treats them differently.
        bandwidth: mem_peak_bandwidth: "sustained" (V 7.4) or "pin" (S Table 3).
        departure_delay: Delta in cycles; 20 for Tesla C2050 in S Table 3. Left out, there is none, as in V 7.4 with the
            sustained bandwidth, and accesses of several transactions are not covered.
        ilp: instruction-level parallelism of a warp; left out, that of its basic blocks.
        mlp: memory-level parallelism of a warp; left out, that of its basic blocks.
        fp_insts: #FP_insts of a warp or repetition; left out, all "alu" instructions, which include integer ones.
        gamma: Gamma, cost of a barrier; 64 in S.

    Raises:
        ValueError: an argument's value is not allowed, or `block_warps` or the latency of a cache is missing.
        NotCoveredError: an access makes several transactions, and `departure_delay` is left out.
    """
    gbs = peak_bandwidth(gpu, bandwidth)
    for name, value, least in (("departure_delay", departure_delay, 0), ("ilp", ilp, 1), ("mlp", mlp, 1), ("gamma", gamma, 0)):
        if value is not None and not value >= least:
            raise ValueError(f"{name} = {value!r}: must be at least {least}")
    counted = counts(gpu, kernel, block_warps=block_warps)
    ops = counted.ops
    if fp_insts is not None and not 0 <= fp_insts <= counted.total:
        raise ValueError(f"fp_insts = {fp_insts!r}: must be from 0 to the number of instructions, {counted.total:g}")
    memory = _memory(gpu, counted)
    if departure_delay is None and memory["avg_trans_warp"] > 1:
        raise NotCoveredError(f"{kernel.name}: departure_delay is needed for accesses of several transactions")
    sfu = ops.get("sfu", 0.0)  # also those that a warp executes only because its threads diverge
    extra = sum(b.times * sum(i.op != "sfu" for i in b.instructions) for b in counted.blocks if b.extra)
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
        simd_width=units.ipc_to_ops_per_cycle(_rate(gpu, counted)),
        sfu_width=units.ipc_to_ops_per_cycle(gpu.unit_ipc("sfu")),
        freq=gpu.clock_ghz,
        mem_peak_bandwidth=gbs,
        gamma=gamma,
        size_of_data=memory.pop("bytes_per_warp") * n * gpu.sms,
        **memory,
    )


def _rate(gpu: Gpu, counted: Counts) -> float:
    """Returns the mean peak rate of the instructions in instructions per cycle and SM."""
    peak, longer = min(gpu.unit_ipc("alu"), gpu.issue_ipc), 0.0
    for instruction, count in counted:
        own = instruction.cost
        if own is not None and (own.interval_cycles is not None or own.multiply_adds is not None):
            longer += count * max(unit_cycles(gpu, instruction) - 1 / peak, 0.0)
    return counted.total / (counted.total / peak + longer) if longer else peak


@accepts_names
def throughput(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, block_warps: int | None = None, **arguments: Any
) -> xr.Dataset:
    """Returns the throughput at one or several occupancies (V 7.4).

    Args:
        gpu: the chip.
        kernel: any kernel; accesses of several transactions need `departure_delay`.
        warps: N, warps per SM, at least 0; the limits of the chip are not checked.
        block_warps: as for `parameters`; if needed and left out, the default of `simulate` for the largest of `warps`.
        arguments: further arguments of `parameters`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `memory_latency` (AMAT) as from
        `simulate`, and `execution_time` in cycles, `mwp`, `cwp`, `mwp_peak_bw`, `itilp`, `itmlp`, `bottleneck` (see
        the function of this name).

    Raises:
        TypeError: `warps` is not numeric, or an argument is unknown.
        ValueError: `warps` is below 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    fed = _feed(gpu, kernel, warps, {**arguments, "block_warps": block_warps})
    occupancy, counted, s = fed
    return counted_result(
        gpu, counted, occupancy, cycles=s.t_exec, memory_latency=s.amat, source="warpsim.models.gpuperf, S", **_named(fed)
    )


@accepts_names
def benefits(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.Dataset:
    """Returns the costs of the equations, and the most that four kinds of optimization could save (S 4.2).

    Args:
        gpu: the chip.
        kernel: as for `throughput`.
        warps: N, warps per SM, above 0.
        arguments: further arguments of `parameters`.

    Returns:
        A Dataset over `warps` with the variables of `COSTS` and `BENEFITS` in cycles, for one execution of the warps of an SM
        (one repetition of their endless loop), and `mwp`, `cwp`, `mwp_peak_bw`, `itilp`, `itmlp`, `bottleneck`.
        `warpsim.plots.benefit_chart` draws it.

    Raises:
        TypeError: `warps` is not numeric, or an argument is unknown.
        ValueError: `warps` is not above 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    if not bool((axis("warps", warps, at_least=0) > 0).all()):
        raise ValueError(f"warps = {warps!r}: must be above 0")
    fed = _feed(gpu, kernel, warps, arguments)
    found = {
        name: quantity(over_warps(fed.occupancy, getattr(fed.solution, name)), "cycles", text)
        for name, text in {**COSTS, **BENEFITS}.items()
    }
    found |= _named(fed)
    return xr.Dataset(found, attrs={"source": "warpsim.models.gpuperf, S", "gpu": gpu.name, "kernel": kernel.name})


@accepts_names
def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


@accepts_names
def grid(
    gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, blocks: int, block_warps: int, **arguments: Any
) -> xr.DataArray:
    """Returns the time of a grid in cycles (equation 1).

    A grid with fewer blocks than SMs has one active SM per block.

    Args:
        gpu: the chip.
        kernel: a kernel that ends; otherwise as for `throughput`.
        warps: N, at least the warps of a block.
        blocks: blocks of the grid.
        block_warps: warps of a thread block.
        arguments: further arguments of `parameters`.

    Raises:
        TypeError: `warps` is not numeric, or an argument is unknown.
        ValueError: `warps` is less than a block, the kernel is endless, or `blocks` is below 1; otherwise as
            `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=block_warps)
    check_grid(kernel, blocks)
    p = parameters(gpu, kernel, warps=occupancy.values, block_warps=block_warps, **arguments)
    share, active = blocks * block_warps / np.asarray(p.total_warps), min(gpu.sms, blocks)
    whole = replace(
        p,
        n=np.minimum(p.n, blocks * block_warps / active),
        total_warps=blocks * block_warps,
        active_sms=active,
        size_of_data=np.asarray(p.size_of_data) * share,
    )
    return quantity(over_warps(occupancy, equations(whole).t_exec), "cycles", "execution time of the grid").rename("cycles")


@accepts_names
def needed_warps(gpu: Gpu, kernel: Kernel, *, fraction: float = 1.0, **arguments: Any) -> float:
    """Returns the smallest number of warps per SM that attains a fraction of the model's peak (V 7.10).

    The peak is the limit for many warps: of computation at the largest ITILP, or of memory at the peak bandwidth. If
    computation binds, throughput only approaches the peak, and a fraction of 1 may need infinitely many warps.

    Raises:
        TypeError: an argument is unknown.
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


@accepts_names
def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float, **arguments: Any) -> str:
    """Returns the bound that binds at an occupancy.

    If Tmem exceeds Tcomp it is "memory" where ITMLP is at the peak bandwidth, and "latency" elsewhere. Otherwise it is the
    largest part of Tcomp: "alu" ("latency" if ITILP is below its maximum), "sfu", "smem" (bank conflicts), "barrier" or
    "branch" (divergence). Arguments and errors are those of `throughput`.
    """
    return str(throughput(gpu, kernel, warps=float(axis("warps", warps, at_least=0)), **arguments).bottleneck.item())


def _feed(gpu: Gpu, kernel: Kernel, warps: ArrayLike | xr.DataArray, arguments: dict[str, Any]) -> _Fed:
    occupancy = axis("warps", warps, at_least=0)
    block_warps = arguments.pop("block_warps", None)
    if block_warps is None and names_warps(kernel):
        block_warps = kernel.block_warps or default_block_warps(gpu, int(occupancy.max()))
    p = parameters(gpu, kernel, warps=occupancy.values, block_warps=block_warps, **arguments)
    return _Fed(occupancy, counts(gpu, kernel, block_warps=block_warps), equations(p))


def _memory(gpu: Gpu, counted: Counts) -> dict[str, float]:
    """Returns the parameters of the mean memory access, and the bytes of a warp that miss the caches."""
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


def _named(fed: _Fed) -> dict[str, xr.DataArray]:
    """Returns the parallelism and the bottleneck as variables of a result."""
    occupancy, _, s = fed
    return {
        **warp_parallelism(occupancy, s),
        "itilp": quantity(over_warps(occupancy, s.itilp), "instructions/SM", "inter-thread ILP"),
        "itmlp": quantity(over_warps(occupancy, s.itmlp), "requests/SM", "inter-thread MLP"),
        "bottleneck": quantity(over_warps(occupancy, _binds(s)), "1", "bound that binds"),
    }


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

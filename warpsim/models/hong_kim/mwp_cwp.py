"""The model of Hong and Kim: memory warp parallelism (MWP) against computation warp parallelism (CWP).

Source: S. Hong, H. Kim, An analytical model for a GPU architecture with memory-level and thread-level parallelism awareness,
ISCA 2009 (HK). V 7.1 evaluates it; V is Volkov 2016 (docs/bibliography.md). `equations` solves equations 5 to 28 of HK with the
extensions 29 to 31 of its chapter 6, in the symbols of the paper. `throughput` and `grid` derive the parameters from a chip and
a kernel, as V 7.1 does.

Assumptions: All instructions of a warp depend on each other, so its memory accesses are serialized. Computation costs its issue
cycles and has no latency. Each SM has its own queue to memory, with a constant latency. N warps run all the time. Stores count
as memory instructions. Caches and bank conflicts are not covered (HK 5.2, 6.5).

Limits: The model fails where arithmetic latency matters. Adds alone run at full rate at any occupancy; at intermediate
intensities and low occupancy it overestimates throughput by up to a factor of 2.1 (V 7.1). N, MWP and CWP are not rounded, so
the throughput jumps where they meet.

The paper contradicts itself in five places:

1. Equation 23 holds "if CWP >= MWP or Comp_cycles > Mem_cycles". The second half drops all computation where computation takes
   longest, against case 5 and Figure 7 of HK and against V (4 CPI of adds alone). This model uses equation 24 there, as the
   text of HK does; `as_printed` keeps the condition.
2. Equation 29 gives no warps at all if no request is independent, although both models agree in this case (footnote 10). Here N
   is the lower limit.
3. Equation 30 could never exceed N if it contained equation 17. It contains equation 16 here.
4. The paper has no equation for MWP above N. This model uses the first line of equation 4, of which 22 is the special case
   MWP = N. It divides computation by MWP as well, so that few warps of independent requests may exceed the issue rate, and
   throughput falls where N reaches CWP.
5. Equation 1 counts MWP computation periods, equation 23 one fewer. The example of the paper uses 23.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from warpsim import units
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import default_block_warps
from warpsim.kernels import Kernel
from warpsim.kernels.access import conflict_ways
from warpsim.kernels.program import names_warps
from warpsim.models.hong_kim.equations import Parameters, Solution, equations, parallel_warps
from warpsim.models.hong_kim.transactions import HalfWarpTransactions, coalesces, half_warp_transactions
from warpsim.models.parts.common import NotCoveredError, accepts_names, axis, check_grid, peak_bandwidth, quantity, result
from warpsim.models.parts.costs import unit_cycles
from warpsim.models.parts.counts import Counts, counts
from warpsim.models.parts.warp_parallelism import counted_result, warp_parallelism

__all__ = [
    "ALU",
    "DEPARTURE_DELAYS",
    "LATENCY",
    "MEMORY",
    "DepartureDelays",
    "HalfWarpTransactions",
    "Parameters",
    "Solution",
    "bottleneck",
    "coalesces",
    "equations",
    "execution_time",
    "grid",
    "half_warp_transactions",
    "parallel_warps",
    "parameters",
    "throughput",
]

LATENCY, MEMORY, ALU = "latency", "memory", "alu"
"""Values of `bottleneck`, for equations 22, 23 and 24."""


class DepartureDelays(NamedTuple):
    """Cycles between two transactions of an SM, uncoalesced and coalesced, as fitted in HK Table 6."""

    uncoal: float
    coal: float


DEPARTURE_DELAYS = {"G80": DepartureDelays(10, 4), "GT200": DepartureDelays(40, 4)}
"""HK Table 6 by generation. G80 is the FX5600, which also represents 8800GTX and 8800GT (HK 5.1); GT200 is the GTX280."""


@accepts_names
def parameters(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike,
    block_warps: int | None = None,
    bandwidth: Literal["pin", "sustained"] = "pin",
    departure_delays: DepartureDelays | None = None,
    ind_mem_req: float = 0.0,
) -> Parameters:
    """Returns the parameters of HK for a kernel on a chip, as in V 7.1; per repetition if the kernel is endless.

    #Issue_cycles is the time of an add at its peak rate (4 cycles on GT200). M_Factor is the time of the other classes over
    it, at least 1. Mem_LD is the memory latency of the chip. An access is coalesced if it makes no more transactions than a
    coalesced access of its width (HK 3.4.5; `coalesces` and `half_warp_transactions` are algorithms 1 and 2). #Uncoal_per_mw
    is the mean number of transactions of the other accesses.

    Args:
        gpu: the chip.
        kernel: any kernel without cache hits and bank conflicts.
        warps: N.
        block_warps: warps of a thread block; only needed if the kernel has barriers or treats warps of a block differently.
        bandwidth: Mem_Bandwidth: "pin" (HK Table 3, V 7.1) or "sustained".
        departure_delays: departure delays. Left out, those of HK Table 6 on G80 and GT200. On other chips only the bandwidth
            bounds coalesced accesses, as in V 7.1 and 7.4, and uncoalesced accesses are not covered.
        ind_mem_req: memory requests of a warp (repetition) that wait for no earlier one.

    Raises:
        ValueError: an argument's value is not allowed, or `block_warps` is missing.
        NotCoveredError: the kernel hits caches or has bank conflicts, or departure delays are missing.
    """
    gbs = peak_bandwidth(gpu, bandwidth)
    counted = counts(gpu, kernel, block_warps=block_warps)
    coal, uncoal, made, asked = _memory(gpu, kernel, counted)
    if not 0 <= ind_mem_req <= coal + uncoal:
        raise ValueError(f"ind_mem_req = {ind_mem_req!r}: must be from 0 to the number of memory requests, {coal + uncoal:g}")
    synch = counted.ops.get("barrier", 0.0)
    if synch and block_warps is None:
        raise ValueError(f"block_warps = None: must be a number, since {kernel.name} has barriers")
    delays = departure_delays or DEPARTURE_DELAYS.get(gpu.generation)
    if delays is None and (uncoal or synch):
        raise NotCoveredError(
            f"{kernel.name} on {gpu.name}: departure_delays are needed for uncoalesced accesses and barriers; HK has them"
            f" for {', '.join(DEPARTURE_DELAYS)}"
        )
    delays = delays or DepartureDelays(0, 0)
    issue = 1 / min(gpu.unit_ipc("alu"), gpu.issue_ipc)
    slowed = sum(
        count * (max(1.0, unit_cycles(gpu, instruction) / issue) if instruction.op not in ("load", "store") else 1.0)
        for instruction, count in counted
    )
    return Parameters(
        n=np.asarray(warps, dtype=float),
        mem_ld=gpu.memory.latency_cycles,
        departure_del_uncoal=delays.uncoal,
        departure_del_coal=delays.coal,
        mem_bandwidth=gbs,
        freq=gpu.clock_ghz,
        active_sms=gpu.sms,
        comp_insts=counted.total - coal - uncoal,
        uncoal_mem_insts=uncoal,
        coal_mem_insts=coal,
        uncoal_per_mw=made,
        load_bytes_per_warp=asked,
        synch_insts=synch,
        active_warps_per_block=block_warps or 1,
        issue_cycles=issue,
        m_factor=slowed / counted.total,
        ind_mem_req=ind_mem_req,
    )


@accepts_names
def throughput(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    block_warps: int | None = None,
    bandwidth: Literal["pin", "sustained"] = "pin",
    departure_delays: DepartureDelays | None = None,
    ind_mem_req: float = 0.0,
    as_printed: bool = False,
) -> xr.Dataset:
    """Returns the throughput at one or several occupancies (V 7.1).

    N warps take `Solution.exec_cycles`. For an endless kernel the terms that occur once per run are dropped, as in V 7.1.

    Args:
        gpu: the chip.
        kernel: any kernel without cache hits and bank conflicts.
        warps: N, warps per SM, at least 0; the limits of the chip are not checked.
        block_warps: as for `parameters`; if needed and left out, the default of `simulate` for the largest of `warps`.
        bandwidth: as for `parameters`.
        departure_delays: as for `parameters`.
        ind_mem_req: as for `parameters`.
        as_printed: as for `equations`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `memory_latency` (Mem_L) as from
        `simulate`, and `execution_time` in cycles, `mwp`, `cwp`, `mwp_peak_bw`, `bottleneck`: "latency", "memory" or "alu".

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: `warps` is below 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=0)
    if block_warps is None and ("barrier" in kernel.ops or names_warps(kernel)):
        block_warps = kernel.block_warps or default_block_warps(gpu, int(occupancy.max()))
    p = parameters(
        gpu, kernel, warps=occupancy.values, block_warps=block_warps, bandwidth=bandwidth,
        departure_delays=departure_delays, ind_mem_req=ind_mem_req,
    )  # fmt: skip
    counted = counts(gpu, kernel, block_warps=block_warps)
    s = equations(p, as_printed=as_printed)
    cycles = s.steady_cycles + s.synch_cost if counted.per == "repetition" else s.exec_cycles
    source = "warpsim.models.mwp_cwp, HK"
    return counted_result(gpu, counted, occupancy, cycles=cycles, memory_latency=s.mem_l, source=source, **_named(occupancy, s))


@accepts_names
def grid(
    gpu: Gpu,
    kernel: Kernel,
    *,
    warps: ArrayLike | xr.DataArray,
    blocks: int,
    block_warps: int,
    bandwidth: Literal["pin", "sustained"] = "pin",
    departure_delays: DepartureDelays | None = None,
    ind_mem_req: float = 0.0,
    as_printed: bool = False,
) -> xr.Dataset:
    """Returns the time of a grid in cycles, and its CPI (equations 21 to 28).

    A grid with fewer blocks than SMs has one active SM per block. #Rep is not rounded, as in the paper.

    Args:
        gpu: the chip.
        kernel: a kernel that ends; otherwise as for `throughput`.
        warps: #Active_warps_per_SM, above 0.
        blocks: #Blocks of the grid.
        block_warps: warps of a thread block.
        bandwidth: as for `parameters`.
        departure_delays: as for `parameters`.
        ind_mem_req: as for `parameters`.
        as_printed: as for `equations`.

    Returns:
        A Dataset over `warps` with `cycles` (equation 28), the share of barriers in it `synch_cost` (26), `rep` (21), `cpi`
        (25), and `mwp`, `cwp`, `mwp_peak_bw`, `bottleneck`.

    Raises:
        TypeError: `warps` is not numeric.
        ValueError: `warps` is less than a block, the grid does not fill the active SMs once, or the kernel is endless;
            otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=block_warps)
    check_grid(kernel, blocks)
    active_sms = min(gpu.sms, blocks)
    rep = blocks / (occupancy / block_warps * active_sms)
    if not bool((rep >= 1).all()):
        raise ValueError(f"blocks = {blocks}: must be at least the blocks that {active_sms} SMs hold at a time")
    fed = parameters(
        gpu, kernel, warps=occupancy.values, block_warps=block_warps, bandwidth=bandwidth,
        departure_delays=departure_delays, ind_mem_req=ind_mem_req,
    )  # fmt: skip
    s = equations(replace(fed, active_sms=active_sms, rep=rep.values), as_printed=as_printed)
    insts = counts(gpu, kernel, block_warps=block_warps).total
    app = occupancy.copy(data=s.exec_cycles_app)
    return result(
        gpu,
        {},
        {
            "cycles": occupancy.copy(data=s.exec_cycles),
            "synch_cost": quantity(occupancy.copy(data=s.synch_cost), "cycles", "cost of synchronization"),
            "rep": quantity(rep, "1", "times that an SM executes its active blocks"),
            "cpi": quantity(
                app / (insts * block_warps * blocks / active_sms), "cycles/instruction", "cycles per warp instruction"
            ),
            **_named(occupancy, s),
        },
        source="warpsim.models.mwp_cwp, HK",
    ).drop_vars(["ipc", "throughput", "op"])


@accepts_names
def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Returns the cycles in which an SM executes all its warps once, or one repetition of their endless loop.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


@accepts_names
def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float, **arguments: Any) -> str:
    """Returns the bound that binds at an occupancy: "latency", "memory" or "alu".

    Arguments and errors are those of `throughput`.
    """
    return str(throughput(gpu, kernel, warps=float(axis("warps", warps, at_least=1)), **arguments).bottleneck.item())


def _named(occupancy: xr.DataArray, s: Solution) -> dict[str, xr.DataArray]:
    """Returns MWP, CWP and the bottleneck as variables of a result."""
    binds = np.select([s.equation == 22, s.equation == 23], [LATENCY, MEMORY], ALU)
    bottlenecks = quantity(occupancy.copy(data=binds), "1", "bound that binds")
    return {**warp_parallelism(occupancy, s), "bottleneck": bottlenecks}


def _memory(gpu: Gpu, kernel: Kernel, counted: Counts) -> tuple[float, float, float, float]:
    """Returns the numbers of coalesced and of uncoalesced accesses, transactions per uncoalesced access, and bytes per access."""
    if any(conflict_ways(instruction, gpu) > 1 for instruction, _ in counted):
        raise NotCoveredError(f"{kernel.name}: mwp_cwp does not cover bank conflicts (HK 5.2)")
    coal = uncoal = made_by_uncoal = asked = 0.0
    for instruction, made, count in counted.accesses(gpu):
        access = instruction.access
        if access is not None and (access.l1_hit or access.l2_hit):
            raise NotCoveredError(f"{kernel.name}: mwp_cwp does not cover caches (HK 6.5)")
        asked += count * made.requested_bytes
        if made.extra == 0:
            coal += count
        else:
            uncoal += count
            made_by_uncoal += count * made.transactions
    total = coal + uncoal
    return coal, uncoal, made_by_uncoal / uncoal if uncoal else 1.0, asked / total if total else units.COALESCED_BYTES

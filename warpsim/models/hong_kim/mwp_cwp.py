"""Hong and Kim's model: memory warp parallelism against computation warp parallelism (HK).

HK is S. Hong, H. Kim, An Analytical Model for a GPU Architecture with Memory-level and Thread-level
Parallelism Awareness, 2009; V is Volkov 2016, whose section 7.1 evaluates it. `equations` are HK's equations 5
to 28 with the extensions 29 to 31 of chapter 6, in the paper's symbols; `throughput` and `grid` feed them with a
chip and a kernel, as V 7.1 does.

Assumed: all instructions of a warp depend on each other, so that its memory accesses follow one another;
computation costs its issue cycles and has no latency; each SM has its own queue to memory, with a constant
latency; N warps run all the time. Stores are memory instructions as loads are. Not covered: caches and
bank conflicts (HK 5.2, 6.5).

It fails where arithmetic latency matters: adds alone run at full rate at any occupancy, and at intermediate
intensities throughput at low occupancy is up to 2.1 times too high (V 7.1). N, MWP and CWP are not rounded, so
that throughput jumps where they meet.

Five places of the paper contradict others of it. (1) Equation 23 is chosen "if CWP >= MWP or Comp_cycles >
Mem_cycles": the second half drops all computation where it takes longest, against HK's case 5 and Figure 7,
and against V's reading (4 CPI of adds alone). Equation 24 is used there, as the text has it; `as_printed` keeps
the condition. (2) Equation 29 gives no warps at all where no request is independent, though both models then
agree (footnote 10): N is the least. (3) Equation 30 could never exceed N with equation 17 in it; it takes
equation 16. (4) For MWP above N no equation is said; the first line of equation 4, of which 22 is the special
case MWP = N, is used. (5) Equation 1 counts MWP computation periods, 23 one fewer; the example takes 23.
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
from warpsim.models.hong_kim.equations import Parameters, Solution, equations, parallel_warps
from warpsim.models.hong_kim.transactions import HalfWarpTransactions, coalesces, half_warp_transactions
from warpsim.models.parts.common import NotCoveredError, axis, quantity, result
from warpsim.models.parts.counts import Counts, bank_conflicts, counts
from warpsim.models.parts.warp_path import names_warps

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
"""What binds: equation 22, 23 or 24."""

class DepartureDelays(NamedTuple):
    """Cycles between two transactions of an SM, uncoalesced and coalesced, as HK Table 6 fits them."""

    uncoal: float
    coal: float


DEPARTURE_DELAYS = {"G80": DepartureDelays(10, 4), "GT200": DepartureDelays(40, 4)}
"""HK Table 6 by generation: FX5600, which stands for 8800GTX and 8800GT too (5.1), and GTX280."""


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
    """Return HK's parameters for a kernel on a chip, as V 7.1 feeds them; of an endless kernel, per repetition.

    #Issue_cycles is the time of an add at its peak rate (4 cycles on GT200); M_Factor that of the other classes
    over it, at least 1; Mem_LD the chip's latency. An access is coalesced if it makes no more transactions
    than a coalesced one of its width (HK 3.4.5, Algorithms 1 and 2: `coalesces`, `half_warp_transactions`); of the others, the
    mean number of transactions is #Uncoal_per_mw.

    Args:
        gpu: the chip.
        kernel: any kernel without cache hits and bank conflicts.
        warps: N.
        block_warps: warps of a thread block; only needed with barriers, and where the kernel tells warps apart.
        bandwidth: Mem_Bandwidth: "pin" (HK Table 3, V 7.1) or "sustained".
        departure_delays: left out: HK Table 6 on G80 and GT200; elsewhere coalesced accesses are bounded by the
            bandwidth alone, as V 7.1 and 7.4 have it, and others are not covered.
        ind_mem_req: of a warp's (repetition's) memory requests, those that wait for no earlier one.

    Raises:
        ValueError: an argument's value is not allowed, or `block_warps` is missing.
        NotCoveredError: caches are hit, banks conflict, or departure delays are missing.
    """
    rates = {"pin": gpu.memory.pin_bandwidth_gbs, "sustained": gpu.memory.bandwidth_gbs}
    if bandwidth not in rates:
        raise ValueError(f"bandwidth = {bandwidth!r}: 'pin' or 'sustained'")
    counted = counts(gpu, kernel, block_warps=block_warps)
    coal, uncoal, made, asked = _memory(gpu, kernel, counted)
    if not 0 <= ind_mem_req <= coal + uncoal:
        raise ValueError(f"ind_mem_req = {ind_mem_req!r}: from 0 to the memory requests, {coal + uncoal:g}")
    synch = counted.ops.get("barrier", 0.0)
    if synch and block_warps is None:
        raise ValueError(f"block_warps = None: a number, as {kernel.name} has barriers")
    delays = departure_delays or DEPARTURE_DELAYS.get(gpu.generation)
    if delays is None and (uncoal or synch):
        raise NotCoveredError(
            f"{kernel.name} on {gpu.name}: departure_delays are needed where accesses do not coalesce or warps wait at"
            f" barriers; HK give them for {', '.join(DEPARTURE_DELAYS)}"
        )
    delays = delays or DepartureDelays(0, 0)
    issue = 1 / min(gpu.unit_ipc("alu"), gpu.issue_ipc)
    slowed = sum(
        count * (max(1.0, 1 / gpu.unit_ipc(op) / issue) if op not in ("load", "store") else 1.0)
        for op, count in counted.ops.items()
    )
    return Parameters(
        n=np.asarray(warps, dtype=float),
        mem_ld=gpu.memory.latency_cycles,
        departure_del_uncoal=delays.uncoal,
        departure_del_coal=delays.coal,
        mem_bandwidth=rates[bandwidth],
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
    """Return the throughput at an occupancy, or at an array of them (V 7.1).

    N warps take `Solution.exec_cycles`, once; of an endless kernel, the terms that occur once in a run are left
    out, as V 7.1 does.

    Args:
        gpu: the chip.
        kernel: any kernel without cache hits and bank conflicts.
        warps: N, warps per SM, at least 0; not held against the chip's limits.
        block_warps: as for `parameters`; where needed and left out, what `simulate` takes for the largest of `warps`.
        bandwidth: as for `parameters`.
        departure_delays: as for `parameters`.
        ind_mem_req: as for `parameters`.
        as_printed: as for `equations`.

    Returns:
        A Dataset over `warps` with `ipc(op)`, `throughput(op)`, `bandwidth`, `memory_latency` (Mem_L) as from
        `simulate`, and `execution_time` in cycles, `mwp`, `cwp`, `mwp_peak_bw`, `bottleneck`: "latency", "memory" or "alu".

    Raises:
        TypeError: `warps` are no numbers.
        ValueError: `warps` is below 0; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=0)
    if block_warps is None and ("barrier" in kernel.ops or names_warps(kernel)):
        block_warps = default_block_warps(gpu, int(occupancy.max()))
    p = parameters(
        gpu, kernel, warps=occupancy.values, block_warps=block_warps, bandwidth=bandwidth,
        departure_delays=departure_delays, ind_mem_req=ind_mem_req,
    )  # fmt: skip
    counted = counts(gpu, kernel, block_warps=block_warps)
    s = equations(p, as_printed=as_printed)
    cycles = s.steady_cycles + s.synch_cost if counted.per == "repetition" else s.exec_cycles
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = occupancy.copy(data=np.where(occupancy.values > 0, occupancy.values / cycles, 0.0))
    asked = sum(made.requested_bytes * count for _, made, count in counted.accesses(gpu))
    return result(
        gpu,
        {op: rate * count for op, count in counted.ops.items()},
        {
            "bandwidth": rate * asked * units.bytes_per_cycle_to_gbs(gpu.sms, gpu.clock_ghz),
            "memory_latency": occupancy.copy(data=s.mem_l),
            "execution_time": quantity(
                occupancy.copy(data=cycles), "cycles", f"time of the SM's warps per {counted.per}"
            ),
            **_parallelism(occupancy, s),
        },
        source="warpsim.models.mwp_cwp, HK",
    )


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
    """Return the time of a grid in cycles, and CPI (equations 21 to 28).

    A grid of fewer blocks than SMs has that many active SMs. #Rep is not rounded, as in the paper.

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
        A Dataset over `warps` with `cycles` (equation 28), of which `synch_cost` is that of barriers (26), `rep`
        (21), `cpi` (25), and `mwp`, `cwp`, `mwp_peak_bw`, `bottleneck`.

    Raises:
        TypeError: `warps` are no numbers.
        ValueError: `warps` is less than a block, the grid does not fill the active SMs once, or the kernel is
            endless; otherwise as `parameters`.
        NotCoveredError: as `parameters`.
    """
    occupancy = axis("warps", warps, at_least=block_warps)
    if kernel.endless:
        raise ValueError(f"kernel = {kernel.name}: one that ends")
    if blocks < 1:
        raise ValueError(f"blocks = {blocks}: at least 1")
    active_sms = min(gpu.sms, blocks)
    rep = blocks / (occupancy / block_warps * active_sms)
    if not bool((rep >= 1).all()):
        raise ValueError(f"blocks = {blocks}: at least as many as {active_sms} SMs hold at a time with these warps")
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
            **_parallelism(occupancy, s),
        },
        source="warpsim.models.mwp_cwp, HK",
    ).drop_vars(["ipc", "throughput", "op"])


def execution_time(gpu: Gpu, kernel: Kernel, *, warps: ArrayLike | xr.DataArray, **arguments: Any) -> xr.DataArray:
    """Return the cycles in which the warps of an SM are executed once, or repeat their endless loop once.

    Arguments and errors are those of `throughput`.
    """
    return throughput(gpu, kernel, warps=warps, **arguments)["execution_time"]


def bottleneck(gpu: Gpu, kernel: Kernel, *, warps: float, **arguments: Any) -> str:
    """Return what binds at an occupancy: "latency", "memory" or "alu"; arguments and errors of `throughput`."""
    return str(throughput(gpu, kernel, warps=float(axis("warps", warps, at_least=1)), **arguments).bottleneck.item())


def _parallelism(occupancy: xr.DataArray, s: Solution) -> dict[str, xr.DataArray]:
    binds = np.select([s.equation == 22, s.equation == 23], [LATENCY, MEMORY], ALU)
    return {
        "mwp": quantity(occupancy.copy(data=s.mwp), "warps/SM", "memory warp parallelism"),
        "cwp": quantity(occupancy.copy(data=s.cwp), "warps/SM", "computation warp parallelism"),
        "mwp_peak_bw": quantity(occupancy.copy(data=s.mwp_peak_bw), "warps/SM", "memory warps at the peak bandwidth"),
        "bottleneck": quantity(occupancy.copy(data=binds), "1", "bound that binds"),
    }


def _memory(gpu: Gpu, kernel: Kernel, counted: Counts) -> tuple[float, float, float, float]:
    """Return the coalesced and the other accesses, the transactions of one of these, and the bytes of any."""
    if bank_conflicts(gpu, counted) > 0:
        raise NotCoveredError(f"{kernel.name}: HK do not cover bank conflicts (5.2)")
    coal = uncoal = made_by_uncoal = asked = 0.0
    for instruction, made, count in counted.accesses(gpu):
        access = instruction.access
        if access is not None and (access.l1_hit or access.l2_hit):
            raise NotCoveredError(f"{kernel.name}: HK do not cover caches (6.5)")
        asked += count * made.requested_bytes
        if made.extra == 0:
            coal += count
        else:
            uncoal += count
            made_by_uncoal += count * made.transactions
    total = coal + uncoal
    return coal, uncoal, made_by_uncoal / uncoal if uncoal else 1.0, asked / total if total else units.COALESCED_BYTES

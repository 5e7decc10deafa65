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

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from warpsim import units
from warpsim.gpu import Gpu
from warpsim.kernels import Kernel
from warpsim.models.common import NotCoveredError, axis, quantity, result
from warpsim.models.counts import Counts, bank_conflicts, counts
from warpsim.residency import default_block_warps

__all__ = [
    "ALU",
    "DEPARTURE_DELAYS",
    "LATENCY",
    "MEMORY",
    "DepartureDelays",
    "Parameters",
    "Solution",
    "bottleneck",
    "equations",
    "execution_time",
    "grid",
    "parallel_warps",
    "parameters",
    "throughput",
]

LATENCY, MEMORY, ALU = "latency", "memory", "alu"
"""What binds: equation 22, 23 or 24."""

Numbers = NDArray[np.float64]


class DepartureDelays(NamedTuple):
    """Cycles between two transactions of an SM, uncoalesced and coalesced, as HK Table 6 fits them."""

    uncoal: float
    coal: float


DEPARTURE_DELAYS = {"G80": DepartureDelays(10, 4), "GT200": DepartureDelays(40, 4)}
"""HK Table 6 by generation: FX5600, which stands for 8800GTX and 8800GT too (5.1), and GTX280."""


@dataclass(frozen=True)
class Parameters:
    """HK Table 1, by the paper's symbols in lower case; numbers, or arrays that broadcast.

    Attributes:
        n: #Active_warps_per_SM.
        mem_ld: DRAM latency in cycles.
        departure_del_uncoal: cycles between two uncoalesced transactions.
        departure_del_coal: cycles between two coalesced transactions; with both 0, equation 16 has no bound.
        mem_bandwidth: GB/s of the chip.
        freq: GHz.
        active_sms: #Active_SMs.
        comp_insts: #Comp_insts of a warp.
        uncoal_mem_insts: #Uncoal_Mem_insts of a warp.
        coal_mem_insts: #Coal_Mem_insts of a warp.
        uncoal_per_mw: transactions of an uncoalesced access.
        load_bytes_per_warp: bytes of an access.
        synch_insts: #Synch_insts of a warp, which are among `comp_insts` too.
        active_warps_per_block: warps of a thread block.
        rep: #Rep (equation 21).
        issue_cycles: #Issue_cycles.
        m_factor: mean M_Factor over all instructions (equation 31).
        ind_mem_req: #ind_mem_req of a warp (equation 29).
    """

    n: ArrayLike
    mem_ld: ArrayLike
    departure_del_uncoal: ArrayLike
    departure_del_coal: ArrayLike
    mem_bandwidth: ArrayLike
    freq: ArrayLike
    active_sms: ArrayLike
    comp_insts: ArrayLike
    uncoal_mem_insts: ArrayLike
    coal_mem_insts: ArrayLike
    uncoal_per_mw: ArrayLike = 32
    load_bytes_per_warp: ArrayLike = units.COALESCED_BYTES
    synch_insts: ArrayLike = 0
    active_warps_per_block: ArrayLike = 1
    rep: ArrayLike = 1
    issue_cycles: ArrayLike = 4
    m_factor: ArrayLike = 1
    ind_mem_req: ArrayLike = 0


class Solution(NamedTuple):
    """What the equations give: arrays of the parameters' common shape, in cycles unless said otherwise.

    `exec_cycles_app` is rep x (`steady_cycles` + `once_cycles`), of which the second part, V's epsilon, does
    not grow with the number of a warp's memory accesses. `exec_cycles` adds `synch_cost`. `equation` is 22, 23
    or 24.
    """

    mem_l: Numbers
    departure_delay: Numbers
    mwp_without_bw_full: Numbers
    mwp_peak_bw: Numbers
    mwp: Numbers
    cwp_full: Numbers
    cwp: Numbers
    mem_cycles: Numbers
    comp_cycles: Numbers
    equation: NDArray[np.int64]
    steady_cycles: Numbers
    once_cycles: Numbers
    exec_cycles_app: Numbers
    synch_cost: Numbers
    exec_cycles: Numbers


def parallel_warps(n: ArrayLike, mem_req: ArrayLike, ind_mem_req: ArrayLike) -> Numbers:
    """Return N_pw, equation 29 as printed: infinite where all requests are independent, 0 where none is."""
    requests, independent = np.asarray(mem_req, dtype=float), np.asarray(ind_mem_req, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Numbers = np.where(
            independent > 0, np.asarray(n, dtype=float) * independent / (requests - independent), 0.0
        )
    return found


def equations(p: Parameters, *, mwp: ArrayLike | None = None, as_printed: bool = False) -> Solution:
    """Solve HK's equations 5 to 28, with 29 to 31.

    Args:
        p: the parameters.
        mwp: MWP, to be used in place of equation 30; HK's example goes on from a rounded one.
        as_printed: choose equation 23 wherever computation takes longer than memory, as printed.
    """
    n = np.asarray(p.n, dtype=float)
    uncoal, coal = np.asarray(p.uncoal_mem_insts, dtype=float), np.asarray(p.coal_mem_insts, dtype=float)
    per_mw, delay_uncoal = np.asarray(p.uncoal_per_mw, dtype=float), np.asarray(p.departure_del_uncoal, dtype=float)
    mem_insts = uncoal + coal
    total_insts = np.asarray(p.comp_insts, dtype=float) + mem_insts
    with np.errstate(divide="ignore", invalid="ignore"):
        mem_l_uncoal = np.asarray(p.mem_ld, dtype=float) + (per_mw - 1) * delay_uncoal  # 10
        mem_l_coal = np.asarray(p.mem_ld, dtype=float)  # 11
        weight_uncoal = np.where(mem_insts > 0, uncoal / mem_insts, 0.0)  # 13
        weight_coal = 1 - weight_uncoal  # 14
        mem_l = mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal  # 12
        departure_delay = delay_uncoal * per_mw * weight_uncoal + np.asarray(p.departure_del_coal) * weight_coal  # 15
        without_bw_full = mem_l / departure_delay  # 16
        bw_per_warp = np.asarray(p.freq) * np.asarray(p.load_bytes_per_warp) / mem_l  # 7
        peak_bw = np.asarray(p.mem_bandwidth) / (bw_per_warp * np.asarray(p.active_sms))  # 6
        n_pw = np.maximum(n, parallel_warps(n, mem_insts, p.ind_mem_req))  # 29
        bound = np.minimum(np.minimum(without_bw_full, peak_bw), n_pw)  # 30; 5 where n_pw is n
        parallel = bound if mwp is None else np.asarray(mwp, dtype=float)
        mem_cycles = mem_l_uncoal * uncoal + mem_l_coal * coal  # 18
        comp_cycles = np.asarray(p.issue_cycles) * np.asarray(p.m_factor) * total_insts  # 31; 19 where M_Factor is 1
        cwp_full = np.where(mem_cycles > 0, (mem_cycles + comp_cycles) / comp_cycles, 1.0)  # 8
        cwp = np.minimum(cwp_full, n)  # 9
        comp_p = np.where(mem_insts > 0, comp_cycles / mem_insts, 0.0)  # 2

        few = (parallel >= n) & (cwp >= n)
        memory = (cwp >= parallel) & (mem_insts > 0)
        if as_printed:
            memory |= comp_cycles > mem_cycles
        waves = n / parallel
        steady = np.where(
            few,
            (mem_cycles + comp_cycles) * waves,  # 22, in the form of 4
            np.where(memory, mem_cycles * waves, comp_cycles * n),  # 23, 24
        )
        once = np.where(few | memory, comp_p * (parallel - 1), np.where(mem_insts > 0, mem_l, 0.0))
        app = (steady + once) * np.asarray(p.rep)
        npwb = np.maximum(np.minimum(parallel, np.asarray(p.active_warps_per_block)), 1)  # 27; never a gain
        blocks = n / np.asarray(p.active_warps_per_block)
        synch = departure_delay * (npwb - 1) * np.asarray(p.synch_insts) * blocks * np.asarray(p.rep)  # 26
    synch = np.where(np.asarray(p.synch_insts, dtype=float) > 0, synch, 0.0)
    equation = np.where(few, 22, np.where(memory, 23, 24))
    found = (
        mem_l, departure_delay, without_bw_full, peak_bw, parallel, cwp_full, cwp, mem_cycles, comp_cycles,
        equation, steady, once, app, synch, app + synch,
    )  # fmt: skip
    return Solution(*np.broadcast_arrays(*found))


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
    than a coalesced one of its width (HK 3.4.5, Algorithms 1 and 2 in `hk_transactions`); of the others, the
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
        block_warps: as for `parameters`; with barriers and left out, what `simulate` takes for the largest of `warps`.
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
    if block_warps is None and "barrier" in kernel.ops:
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

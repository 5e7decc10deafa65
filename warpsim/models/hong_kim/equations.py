"""Hong and Kim's equations in the symbols of the paper (HK).

Equations 1 to 4 are special cases, 20 is N, and 21 and 25 are in `mwp_cwp.grid`. `mwp_cwp` states the assumptions and where the
equations of the paper contradict each other. HK is Hong and Kim 2009 (docs/bibliography.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpsim import units

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Parameters:
    """Parameters of HK Table 1, with the paper's symbols in lower case; numbers, or arrays that broadcast.

    Attributes:
        n: #Active_warps_per_SM.
        mem_ld: DRAM latency in cycles.
        departure_del_uncoal: cycles between two uncoalesced transactions.
        departure_del_coal: cycles between two coalesced transactions; if both are 0, equation 16 sets no bound.
        mem_bandwidth: GB/s of the chip.
        freq: GHz.
        active_sms: #Active_SMs.
        comp_insts: #Comp_insts of a warp.
        uncoal_mem_insts: #Uncoal_Mem_insts of a warp.
        coal_mem_insts: #Coal_Mem_insts of a warp.
        uncoal_per_mw: transactions of an uncoalesced access.
        load_bytes_per_warp: bytes of an access.
        synch_insts: #Synch_insts of a warp; `comp_insts` contains them.
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
    """Results of the equations: arrays of the parameters' common shape.

    MWP and CWP are in warps; all other values except `equation` are in cycles. `exec_cycles_app` is
    rep x (`steady_cycles` + `once_cycles`). `once_cycles`, the epsilon of V, does not grow with the number of memory accesses
    of a warp. `exec_cycles` adds `synch_cost`. `equation` is the number of the equation that holds: 22, 23 or 24.
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
    """Returns N_pw by equation 29 as printed: infinite if all requests are independent, 0 if none is."""
    requests, independent = np.asarray(mem_req, dtype=float), np.asarray(ind_mem_req, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Numbers = np.where(
            independent > 0, np.asarray(n, dtype=float) * independent / (requests - independent), 0.0
        )
    return found


def equations(p: Parameters, *, mwp: ArrayLike | None = None, as_printed: bool = False) -> Solution:
    """Solves equations 5 to 28 with the extensions 29 to 31.

    Args:
        p: the parameters.
        mwp: MWP to use instead of equation 30; the example of HK continues with a rounded MWP.
        as_printed: use equation 23 wherever computation takes longer than memory, as printed.
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
        bound = np.minimum(np.minimum(without_bw_full, peak_bw), n_pw)  # 30; 5 if n_pw is n
        parallel = bound if mwp is None else np.asarray(mwp, dtype=float)
        mem_cycles = mem_l_uncoal * uncoal + mem_l_coal * coal  # 18
        comp_cycles = np.asarray(p.issue_cycles) * np.asarray(p.m_factor) * total_insts  # 31; 19 if M_Factor is 1
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
        npwb = np.maximum(np.minimum(parallel, np.asarray(p.active_warps_per_block)), 1)  # 27; never below 1
        blocks = n / np.asarray(p.active_warps_per_block)
        synch = departure_delay * (npwb - 1) * np.asarray(p.synch_insts) * blocks * np.asarray(p.rep)  # 26
    synch = np.where(np.asarray(p.synch_insts, dtype=float) > 0, synch, 0.0)
    equation = np.where(few, 22, np.where(memory, 23, 24))
    found = (
        mem_l, departure_delay, without_bw_full, peak_bw, parallel, cwp_full, cwp, mem_cycles, comp_cycles,
        equation, steady, once, app, synch, app + synch,
    )  # fmt: skip
    return Solution(*np.broadcast_arrays(*found))

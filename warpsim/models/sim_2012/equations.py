"""The equations of Sim et al. in the symbols of the paper (S).

`gpuperf` states the assumptions and limits. S is Sim et al. 2012 (docs/bibliography.md).
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
    """Parameters of S Table 2, with the paper's symbols in lower case; numbers, or arrays that broadcast.

    Attributes:
        n: running warps per SM.
        total_warps: warps of the grid.
        active_sms: SMs in use.
        insts: #insts of a warp, without `sfu_insts` and `cfdiv_insts`.
        mem_insts: memory accesses among `insts`.
        sync_insts: barriers among `insts`.
        sfu_insts: instructions of the SFU.
        fp_insts: floating-point instructions.
        cfdiv_insts: instructions that a warp executes only because its threads diverge, without `sfu_insts`.
        bank_conflict_cycles: cycles of shared memory that the bank conflicts of a warp take.
        avg_inst_lat: mean instruction latency in cycles.
        fp_lat: latency of floating-point instructions in cycles.
        dram_lat: memory latency in cycles.
        departure_delay: Delta in cycles; 0 removes this bound of MWP.
        avg_trans_warp: transactions per access.
        miss_ratio: fraction of the accesses that miss the caches.
        hit_lat: cycles that cache hits add to the mean latency of an access.
        ilp: instruction-level parallelism of a warp.
        mlp: memory-level parallelism of a warp.
        simd_width: arithmetic lanes of an SM.
        sfu_width: SFU lanes of an SM.
        freq: GHz.
        mem_peak_bandwidth: GB/s of the chip.
        transaction_size: bytes of a transaction.
        size_of_data: bytes that the grid has to move.
        gamma: cost of a barrier, fitted for Fermi in S.
    """

    n: ArrayLike
    total_warps: ArrayLike
    active_sms: ArrayLike
    insts: ArrayLike
    mem_insts: ArrayLike
    avg_inst_lat: ArrayLike
    fp_lat: ArrayLike
    dram_lat: ArrayLike
    simd_width: ArrayLike
    sfu_width: ArrayLike
    freq: ArrayLike
    mem_peak_bandwidth: ArrayLike
    departure_delay: ArrayLike = 0
    sync_insts: ArrayLike = 0
    sfu_insts: ArrayLike = 0
    fp_insts: ArrayLike = 0
    cfdiv_insts: ArrayLike = 0
    bank_conflict_cycles: ArrayLike = 0
    avg_trans_warp: ArrayLike = 1
    miss_ratio: ArrayLike = 1
    hit_lat: ArrayLike = 0
    ilp: ArrayLike = 1
    mlp: ArrayLike = 1
    transaction_size: ArrayLike = 128
    size_of_data: ArrayLike = 0
    gamma: ArrayLike = 64


class Solution(NamedTuple):
    """Results of the equations: arrays of the parameters' common shape.

    Costs `t_`, overheads `o_`, benefits `b_`, `amat`, `w_parallel` and `w_serial` are in cycles. `itilp` counts instructions,
    `itmlp` memory requests, `cwp` and `mwp` warps, all per SM.
    """

    itilp: Numbers
    itilp_max: Numbers
    cwp: Numbers
    mwp: Numbers
    mwp_peak_bw: Numbers
    itmlp: Numbers
    amat: Numbers
    w_parallel: Numbers
    o_sync: Numbers
    o_sfu: Numbers
    o_cfdiv: Numbers
    o_bank: Numbers
    w_serial: Numbers
    t_comp: Numbers
    t_mem: Numbers
    t_overlap: Numbers
    t_exec: Numbers
    t_mem_exposed: Numbers
    t_fp: Numbers
    t_mem_min: Numbers
    b_itilp: Numbers
    b_serial: Numbers
    b_fp: Numbers
    b_memlp: Numbers


def equations(p: Parameters) -> Solution:
    """Solves equations 1 to 23 and A.1 to A.7."""
    at = {name: np.asarray(value, dtype=float) for name, value in vars(p).items()}
    n, insts, mem_insts, sfu_insts = at["n"], at["insts"], at["mem_insts"], at["sfu_insts"]
    warps_per_sm = at["total_warps"] / at["active_sms"]
    lat = at["avg_inst_lat"]
    with np.errstate(divide="ignore", invalid="ignore"):
        itilp_max = lat / (units.WARP_LANES / at["simd_width"])  # 5
        itilp = np.minimum(at["ilp"] * n, itilp_max)  # 4
        dram_lat = at["dram_lat"] + (at["avg_trans_warp"] - 1) * at["departure_delay"]  # 13
        amat = dram_lat * at["miss_ratio"] + at["hit_lat"]  # 12

        comp_cycles = insts * lat / itilp  # A.3
        mem_cycles = mem_insts * amat / at["mlp"]  # A.4
        cwp_full = np.where(mem_cycles > 0, (mem_cycles + comp_cycles) / comp_cycles, 1.0)  # A.2
        cwp = np.minimum(cwp_full, n)  # A.1
        bw_per_warp = at["freq"] * at["transaction_size"] / dram_lat  # A.7
        mwp_peak_bw = at["mem_peak_bandwidth"] / (bw_per_warp * at["active_sms"])  # A.6
        by_delay = np.where(at["departure_delay"] > 0, dram_lat / at["departure_delay"], np.inf)
        mwp = np.minimum(np.minimum(by_delay, mwp_peak_bw), n)  # A.5

        w_parallel = insts * warps_per_sm * lat / itilp  # 3
        f_sync = np.where(insts > 0, at["gamma"] * dram_lat * mem_insts / insts, 0.0)  # 8
        o_sync = at["sync_insts"] * warps_per_sm * f_sync  # 7
        ratio = np.where(insts > 0, sfu_insts / insts, np.inf)
        f_sfu = np.clip(ratio - at["sfu_width"] / at["simd_width"], 0.0, 1.0)  # 10
        o_sfu = sfu_insts * warps_per_sm * units.WARP_LANES / at["sfu_width"] * f_sfu  # 9
        o_cfdiv = at["cfdiv_insts"] * warps_per_sm * lat / itilp
        o_bank = at["bank_conflict_cycles"] * warps_per_sm
        w_serial = o_sync + o_sfu + o_cfdiv + o_bank  # 6
        t_comp = w_parallel + w_serial  # 2

        mwp_cp = np.minimum(np.maximum(1, cwp - 1), mwp)  # 15
        itmlp = np.minimum(at["mlp"] * mwp_cp, mwp_peak_bw)  # 14
        t_mem = mem_insts * warps_per_sm / itmlp * amat  # 11
        zeta = np.where(cwp <= mwp, 1.0, 0.0)
        t_overlap = np.minimum(t_comp * (n - zeta) / n, t_mem)  # 16, 17
        t_exec = t_comp + t_mem - t_overlap  # 1

        t_fp = at["fp_insts"] * warps_per_sm * at["fp_lat"] / itilp  # 18
        requests = at["size_of_data"] / (at["transaction_size"] * at["active_sms"])
        t_mem_min = requests * dram_lat / mwp_peak_bw  # 19
        b_itilp = w_parallel - insts * warps_per_sm * lat / itilp_max  # 20
        b_fp = t_comp - t_fp - b_itilp - w_serial  # 22
        b_memlp = np.maximum(t_mem - t_overlap - t_mem_min, 0.0)  # 23
    found = (
        itilp, itilp_max, cwp, mwp, mwp_peak_bw, itmlp, amat, w_parallel, o_sync, o_sfu, o_cfdiv, o_bank, w_serial,
        t_comp, t_mem, t_overlap, t_exec, t_mem - t_overlap, t_fp, t_mem_min, b_itilp, w_serial, b_fp, b_memlp,
    )  # fmt: skip
    return Solution(*np.broadcast_arrays(*found))

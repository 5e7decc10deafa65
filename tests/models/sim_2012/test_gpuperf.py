"""The model of Sim et al. against V 7.4 and Table 7.1, and against the figures and equations of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from tests.support.model_inputs import ADD, LOAD, changed, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.models import NotCoveredError, over_alpha
from warpsim.models.hong_kim import mwp_cwp
from warpsim.models.parts.block_parallelism import instruction_parallelism, memory_parallelism
from warpsim.models.parts.counts import counts
from warpsim.models.sim_2012 import gpuperf
from warpsim.simulation.api import simulate

FERMI = load_gpu("fermi")
C2050 = changed(
    "fermi", sms=14, clock_ghz=1.15, memory__pin_bandwidth_gbs=144.0, memory__bandwidth_gbs=144.0, memory__latency_cycles=440
)  # S Table 3
BARRIER = Instruction("barrier")
SFU = Instruction("sfu", dst="r2", src=("r2",))


def loop(*body):
    return kernel(Loop(body=body, trips=None))


@pytest.mark.parametrize(
    ("chip", "alu_latency", "alu_cpi", "memory_latency", "peak"),
    [("fermi", 18, 1, 513, 30.7), ("kepler", 9, 0.25, 301, 40.3), ("maxwell", 6, 0.25, 368, 29.9)],
)
@pytest.mark.parametrize("alpha", [0, 1, 32, 512])
def test_v_7_4(chip, alu_latency, alu_cpi, memory_latency, peak, alpha):
    # V Table 7.1, and V's restatement of S's equations.
    ds = gpuperf.throughput(load_gpu(chip), kernels.mix(alpha), warps=np.arange(1, 65))
    assert ds.mwp_peak_bw.values == pytest.approx(peak, abs=0.05)
    n, cap = ds.warps.values.astype(float), ds.mwp_peak_bw.values
    each = np.maximum(alu_latency / n, alu_cpi)
    t_comp = (alpha + 1) * n * each
    cwp = np.minimum(n, 1 + memory_latency / ((alpha + 1) * each))
    mwp = np.minimum(n, cap)
    t_mem = n * memory_latency / np.minimum(mwp, np.maximum(1, cwp - 1))
    time = np.where(cwp > mwp, np.maximum(t_comp, t_mem), np.maximum(t_comp, t_mem + t_comp / n))
    np.testing.assert_allclose(ds.cwp, cwp)
    np.testing.assert_allclose(ds.mwp, mwp)
    np.testing.assert_allclose(ds.ipc.sum("op"), n * (alpha + 1) / time)


def test_two_warps_of_loads_are_taken_for_one():
    # V 7.4: max(1, CWP - 1) gives half the rate at n = 2.
    one, two = gpuperf.throughput(FERMI, kernels.mix(0), warps=[1, 2]).bandwidth.values
    assert two == pytest.approx(one, rel=0.03)
    assert two == pytest.approx(2 / (2 * 513 + 18 / 2) * 128 * 15 * FERMI.clock_ghz)


def test_departure_delay_of_c2050():
    # V 7.4: 30.7 warps by bandwidth, 22 by Delta; 0.335 GB/s per warp, 103 GB/s with 22 warps on 14 SMs.
    ds = gpuperf.throughput(C2050, kernels.mix(0), warps=48, bandwidth="pin", departure_delay=20)
    assert ds.mwp_peak_bw.item() == pytest.approx(30.7, abs=0.05)
    assert ds.mwp == 22
    assert 128 * 1.15 / 440 == pytest.approx(0.335, abs=0.0005)
    assert ds.bandwidth.item() == pytest.approx(103, abs=0.1)
    assert gpuperf.throughput(C2050, kernels.mix(0), warps=48).bandwidth.item() == pytest.approx(144)


@pytest.mark.parametrize(("ilp", "enough"), [(1, 18), (2, 9), (3, 6)])
def test_itilp_saturates(ilp, enough):
    # S 6.1: performance is stable from an ITILP of 18 to 24 on; equation 5 gives 18.
    ds = gpuperf.throughput(C2050, kernels.chain("alu", ilp=ilp), warps=np.arange(1, 33))
    np.testing.assert_allclose(ds.itilp, np.minimum(ilp * ds.warps, 18))
    np.testing.assert_allclose(ds.ipc.sel(op="alu"), np.minimum(ilp * ds.warps / 18, 1))
    assert gpuperf.needed_warps(C2050, kernels.chain("alu", ilp=ilp)) == pytest.approx(enough)


@pytest.mark.parametrize(("ilp", "measured"), [(1, 18), (2, 10), (3, 8)])
def test_simulated_itilp_saturates_at_18_to_24(ilp, measured):
    # S 6.1 measured; an SM's two schedulers share its warps evenly, so that 9 warps of ILP 2 are not enough.
    rates = {}
    for warps in range(2, 25, 2):
        ds = simulate(C2050, kernels.chain("alu", ilp=ilp), warps=warps, sms=1, warmup=500, cycles=3600, memory="fixed")
        rates[warps] = float(ds.ipc.sel(op="alu").item())
    needed = min(warps for warps, rate in rates.items() if rate > 0.99)
    assert 18 <= needed * ilp <= 24
    assert needed in (measured, measured - 2)


@pytest.mark.parametrize(("sfu", "seen"), [(1, 0.0), (2, 0.125), (4, 0.375), (8, 0.875), (10, 1.0)])
def test_sfu_contention(sfu, seen):
    # S Figure 8: one SFU instruction to eight FMAs is hidden; 4 SFUs take 8 cycles.
    ds = gpuperf.benefits(C2050, loop(*(ADD,) * 8, *(SFU,) * sfu), warps=24)
    assert ds.t_comp == pytest.approx(24 * 8 + 24 * sfu * 8 * seen)
    assert ds.b_serial == ds.o_sfu
    assert gpuperf.bottleneck(C2050, loop(*(ADD,) * 8, *(SFU,) * sfu), warps=24) == ("alu" if sfu < 4 else "sfu")


def test_synchronization():
    # Equations 7 and 8: 64 x 440 x 1/10 cycles a barrier.
    ds = gpuperf.benefits(C2050, loop(LOAD, *(ADD,) * 8, BARRIER), warps=24, departure_delay=20)
    assert ds.o_sync == pytest.approx(24 * 64 * 440 / 10)
    assert gpuperf.benefits(C2050, loop(LOAD, *(ADD,) * 8, BARRIER), warps=24, gamma=0).o_sync == 0
    assert gpuperf.bottleneck(C2050, loop(LOAD, *(ADD,) * 8, BARRIER), warps=24) == "barrier"


def test_bank_conflicts_and_divergence():
    conflict = loop(*(ADD,) * 10, Instruction("smem", dst="r2", src=("r2",), ways=8))
    ds = gpuperf.benefits(C2050, conflict, warps=24)
    assert ds.o_bank == 24 * 7 * 2  # shared memory takes 2 cycles
    assert gpuperf.bottleneck(C2050, conflict, warps=24) == "smem"
    ds = gpuperf.benefits(C2050, loop(Conditional(diverges=True, then=(ADD,) * 9, orelse=(ADD,) * 4)), warps=24)
    assert (ds.o_cfdiv, ds.w_parallel, ds.t_comp) == (24 * 4, 24 * 10, 24 * 14)
    more = loop(Conditional(diverges=True, then=(ADD,), orelse=(Conditional(diverges=True, then=(ADD,), orelse=(ADD,)),)))
    assert gpuperf.parameters(C2050, more, warps=1).cfdiv_insts == 2


def test_sfu_instructions_of_a_divergent_side_count_once():
    # What all warps would execute without divergence, and not on the SFU, is the branch.
    both = loop(Conditional(diverges=True, then=(SFU,) * 10, orelse=(ADD, *(SFU,) * 8)))
    p = gpuperf.parameters(C2050, both, warps=1)
    assert (p.insts, p.sfu_insts, p.cfdiv_insts) == (1, 18, 1)
    assert gpuperf.execution_time(C2050, both, warps=8, ilp=1) == pytest.approx(8 * (18 * 8 + 2 * 18 / 8))


def test_amat():
    load = Instruction("load", dst="r1", src=("r1",), access=Access(l1_hit=0.5, l2_hit=0.2))
    assert gpuperf.throughput(C2050, loop(load), warps=1).memory_latency == pytest.approx(0.4 * 440 + 0.5 * 18 + 0.1 * 130)
    far = kernels.chain("load", pattern="random")
    ds = gpuperf.throughput(C2050, far, warps=48, departure_delay=20)
    assert ds.memory_latency == 440 + 31 * 20
    assert ds.mwp == pytest.approx(min(48, 1060 / 20, 144 / (1.15 * 128 / 1060 * 14)))
    with pytest.raises(NotCoveredError, match="departure_delay is needed for accesses of several"):
        gpuperf.throughput(C2050, far, warps=48)


def test_parallelism_of_basic_blocks():
    def both(program):
        counted = counts(FERMI, program)
        return instruction_parallelism(counted), memory_parallelism(counted)

    assert both(kernels.mix(32)) == (1, 1)
    assert both(kernels.chain("alu", ilp=5)) == (5, 1)
    assert both(kernels.chain("load", ilp=3)) == (3, 2)  # 3, 2 and 1 requests to the end of the block
    # Four loads, an add, four stores that each wait for a load: every load has 4 requests to its first use.
    assert both(kernels.copy(floats=4))[1] == 4
    # 3 groups in 4 instructions twice, 1 in 2 four times.
    twice = Loop(body=(ADD, Instruction("alu", dst="r2", src=("r3",)), ADD, ADD), trips=2)
    pair = Loop(body=(ADD, Instruction("alu", dst="r2", src=("r3",))), trips=4)
    program = kernel(twice, pair)
    assert both(program)[0] == pytest.approx((2 * 4 / 3 + 4 * 2 + 1) / 7)


def test_mlp_of_a_warp_counts():
    slow, fast = (gpuperf.throughput(FERMI, kernels.chain("load", ilp=4), warps=4, ilp=4, mlp=m).bandwidth for m in (1, 4))
    assert fast.item() == pytest.approx(4 * slow.item(), rel=0.01)  # computation overlaps but for a warp's share
    assert gpuperf.throughput(FERMI, kernels.chain("load", ilp=4), warps=48, mlp=4).bandwidth.item() == pytest.approx(161)


def test_benefits_add_up():
    program = kernels.worksheet_3_2(iterations=10)
    ds = gpuperf.benefits(FERMI, program, warps=[4, 16, 48], departure_delay=20)
    np.testing.assert_allclose(ds.t_exec, ds.t_comp + ds.t_mem_exposed)
    np.testing.assert_allclose(ds.t_comp, ds.w_parallel + ds.w_serial)
    np.testing.assert_allclose(ds.w_serial, ds.o_sync + ds.o_sfu + ds.o_cfdiv + ds.o_bank)
    np.testing.assert_allclose(ds.b_itilp + ds.b_serial + ds.b_fp, ds.t_comp - ds.t_fp)
    assert (ds.b_memlp >= 0).all()
    assert ds.b_itilp[2] == 0  # ITILP is at its maximum
    assert (ds.b_serial == ds.w_serial).all()
    assert all(ds[name].attrs["units"] == "cycles" for name in (*gpuperf.COSTS, *gpuperf.BENEFITS))


def test_ideal_costs():
    # Equation 19 is the bytes over the bandwidth.
    ds = gpuperf.benefits(C2050, kernels.mix(3), warps=24)
    assert ds.t_mem_min == pytest.approx(24 * 14 * 128 * 1.15 / 144)
    assert ds.t_fp == 24 * 3
    assert gpuperf.benefits(C2050, kernels.mix(3), warps=24, fp_insts=1).t_fp == 24
    # Equation 22 turns negative where instructions are not hidden but all essential.
    assert gpuperf.benefits(C2050, kernels.chain("alu"), warps=6).b_fp == pytest.approx(6 - 18)


def test_grid():
    program = kernels.mix(32, iterations=50)
    cycles = gpuperf.grid(C2050, program, warps=[12, 24], blocks=140, block_warps=4)
    per_sm = gpuperf.execution_time(C2050, program, warps=[12, 24])
    np.testing.assert_allclose(cycles, per_sm * 140 * 4 / (14 * per_sm.warps))
    p = gpuperf.parameters(C2050, program, warps=4, block_warps=4)
    one_sm = gpuperf.equations(replace(p, total_warps=4, active_sms=1))
    assert gpuperf.grid(C2050, program, warps=4, blocks=1, block_warps=4) == pytest.approx(float(one_sm.t_exec))


@pytest.mark.parametrize("model", [gpuperf, mwp_cwp])
def test_arrays_of_warps_and_alpha(model):
    grid = xr.DataArray([[1.0, 4.0], [16.0, 48.0]], dims=("a", "b"))
    ds = over_alpha(model.throughput, FERMI, [1, 32], warps=grid)
    assert dict(ds.ipc.sizes) == {"alpha": 2, "a": 2, "b": 2, "op": 8}
    one = model.throughput(FERMI, kernels.mix(32), warps=16)
    xr.testing.assert_allclose(ds.ipc.isel(alpha=1, a=1, b=0, drop=True), one.ipc.drop_vars("warps"))
    assert ds.bottleneck.isel(alpha=1, a=1, b=0) == one.bottleneck
    assert ds.execution_time.attrs["units"] == "cycles"


def test_no_cusp():
    # V 7.10: but for a subtle effect, the needed occupancy has no cusp.
    needed = over_alpha(gpuperf.needed_warps, FERMI, [0, 1, 4, 8, 32, 128, 512, np.inf], fraction=0.9)
    assert needed.max() < 1.02 * needed[0]
    assert needed[-1] == pytest.approx(0.9 * 18)


def test_bottlenecks():
    assert gpuperf.bottleneck(FERMI, kernels.mix(32), warps=8) == "latency"
    assert gpuperf.bottleneck(FERMI, kernels.mix(32), warps=24) == "alu"
    assert gpuperf.bottleneck(FERMI, kernels.mix(1), warps=48) == "memory"
    assert gpuperf.throughput(FERMI, kernels.mix(1), warps=0).ipc.sum() == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="bandwidth = 'peak': must be one of sustained, pin"):
        gpuperf.throughput(FERMI, kernels.mix(1), warps=1, bandwidth="peak")
    with pytest.raises(ValueError, match=r"ilp = 0\.5: must be at least 1"):
        gpuperf.throughput(FERMI, kernels.mix(1), warps=1, ilp=0.5)
    with pytest.raises(ValueError, match="departure_delay = -1: must be at least 0"):
        gpuperf.throughput(FERMI, kernels.mix(1), warps=1, departure_delay=-1)
    with pytest.raises(ValueError, match="fp_insts = 3: must be from 0 to the number of instructions, 2"):
        gpuperf.throughput(FERMI, kernels.mix(1), warps=1, fp_insts=3)
    with pytest.raises(ValueError, match="warps = 0: must be above 0"):
        gpuperf.benefits(FERMI, kernels.mix(1), warps=0)
    with pytest.raises(ValueError, match="kernel = mix: must end"):
        gpuperf.grid(FERMI, kernels.mix(1), warps=4, blocks=1, block_warps=4)
    with pytest.raises(ValueError, match="blocks = 0: must be an integer from 1"):
        gpuperf.grid(FERMI, kernels.vector_add(), warps=4, blocks=0, block_warps=4)
    with pytest.raises(TypeError, match="latency"):
        gpuperf.throughput(FERMI, kernels.mix(1), warps=1, latency=3)

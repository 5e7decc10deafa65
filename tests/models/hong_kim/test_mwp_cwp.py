"""The model of Hong and Kim against Table 2 and the cases of the paper, and against V 7.1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.model_inputs import ADD, LOAD, kernel
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Loop
from warpsim.models import NotCoveredError
from warpsim.models.hong_kim import mwp_cwp

GT200 = load_gpu("gt200")
TABLE_2 = mwp_cwp.Parameters(
    n=20, mem_ld=420, departure_del_uncoal=10, departure_del_coal=4, mem_bandwidth=80, freq=1, active_sms=16,
    comp_insts=27, uncoal_mem_insts=6, coal_mem_insts=0, uncoal_per_mw=32, load_bytes_per_warp=128, synch_insts=6,
    active_warps_per_block=4, rep=1,
)  # fmt: skip


def test_table_2():
    s = mwp_cwp.equations(TABLE_2)
    assert (s.departure_delay, s.mem_l, s.comp_cycles, s.mem_cycles) == (320, 730, 132, 4380)
    assert (round(float(s.mwp), 2), round(float(s.cwp_full), 2), s.cwp, s.equation) == (2.28, 34.18, 20, 23)
    # Printed 28.57, from BW_per_warp rounded to 0.175 GB/s.
    assert s.mwp_peak_bw == pytest.approx(80 / (128 / 730 * 16))
    assert 80 / (round(128 / 730, 3) * 16) == pytest.approx(28.57, abs=0.005)
    assert s.exec_cycles_app == pytest.approx(38428, abs=0.5)
    assert s.synch_cost == pytest.approx(12300)
    assert s.exec_cycles == pytest.approx(38428 + 12300, abs=0.5)


def test_table_2_from_the_rounded_mwp():
    # The paper goes on from 2.28, and from 20 / 2.28 = 8.772.
    s = mwp_cwp.equations(TABLE_2, mwp=2.28)
    assert s.exec_cycles_app == pytest.approx(38450, abs=1)
    assert round(4380 * 8.772 + 22 * 1.28) == 38450
    assert s.synch_cost == pytest.approx(12288)
    assert s.exec_cycles == pytest.approx(50738, abs=1)


def test_the_example_as_a_kernel():
    # HK Figure 13, three times round; an access of stride 32 does not coalesce on G80, and makes 32 transactions.
    far = Instruction("load", dst="r2", src=("r1",), access=Access(pattern="stride", stride=32))
    store, load = (Instruction("smem", dst=r, src=("r2",)) for r in ("r3", "r4"))
    bar = Instruction("barrier")
    body = (far, store, far, store, bar, load, load, ADD, bar, ADD, Instruction("branch"))
    program = kernel(Loop(body=body, trips=3))
    p = mwp_cwp.parameters(load_gpu("g80"), program, warps=20, block_warps=4)
    assert (p.comp_insts, p.uncoal_mem_insts, p.coal_mem_insts, p.uncoal_per_mw, p.synch_insts) == (28, 6, 0, 32, 6)
    assert (p.departure_del_uncoal, p.departure_del_coal, p.issue_cycles) == (10, 4, 4)
    # G80's shared memory takes 16 / 3 cycles (V Table 6.1); the paper takes it to be as fast as adds.
    assert p.m_factor == pytest.approx((22 + 12 * 4 / 3) / 34)
    # With the example's chip, and without the exit, it is Table 2.
    as_there = replace(p, mem_ld=420, mem_bandwidth=80, freq=1, active_sms=16, comp_insts=27, m_factor=1)
    assert mwp_cwp.equations(as_there).exec_cycles == pytest.approx(50728, abs=0.5)


def test_figures_22_and_23():
    # SVM on FX5600 (Tables 3 and 6): 12 memory warps at the peak bandwidth; uncoalesced, departure delays admit 2.
    fx5600 = replace(TABLE_2, mem_bandwidth=76.8, freq=1.35)
    coalesced = mwp_cwp.equations(replace(fx5600, uncoal_mem_insts=0, coal_mem_insts=1))
    assert round(float(coalesced.mwp_peak_bw)) == 12
    assert int(mwp_cwp.equations(fx5600).mwp_without_bw_full) == 2
    # Figure 21 shows 9 for coalesced accesses on GTX280, where Tables 3 and 6 and equation 6 make 12.8.
    gtx280 = replace(coalesced_on_gtx280(), n=32)
    assert float(mwp_cwp.equations(gtx280).mwp) == pytest.approx(12.8, abs=0.05)


def coalesced_on_gtx280():
    return replace(
        TABLE_2, mem_ld=450, mem_bandwidth=141.7, freq=1.3, active_sms=30, uncoal_mem_insts=0, coal_mem_insts=1
    )  # fmt: skip


def test_v_7_1():
    ds = mwp_cwp.throughput(GT200, kernels.mix(32), warps=np.arange(1, 33))
    assert np.round(ds.mwp_peak_bw, 1).values.tolist() == [12.4] * 32
    np.testing.assert_array_equal(ds.mwp, np.minimum(ds.warps, ds.mwp_peak_bw))
    assert float(ds.cwp.max()) == pytest.approx(4.3, abs=0.05)
    n = ds.warps
    time = np.where(n <= 4.3, 434 + 4 * 33, 4 * n * 33)
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), 32 * n * 32 / time)
    assert ds.bottleneck.values.tolist() == ["latency"] * 4 + ["alu"] * 28


def test_v_7_1_overestimates_by_arithmetic_latency():
    # Replacing 4 (alpha + 1) by 24 alpha lowers throughput by the needed factor of 2.1.
    few = mwp_cwp.throughput(GT200, kernels.mix(32), warps=4).throughput.sel(op="alu")
    assert few.item() / (32 * 4 * 32 / (434 + 24 * 32)) == pytest.approx(2.1, abs=0.05)


@pytest.mark.parametrize("n", [1, 2, 8, 32])
def test_adds_alone_take_4_cycles_at_all_occupancies(n):
    assert mwp_cwp.throughput(GT200, kernels.mix(float("inf")), warps=n).ipc.sel(op="alu") == 0.25
    assert mwp_cwp.throughput(GT200, kernels.mix(1000), warps=n).ipc.sum() == pytest.approx(0.25, rel=0.11)


def test_the_printed_condition_drops_computation():
    # HK case 5: where computation takes longer than memory, it alone counts. As printed, adds are for free.
    text = mwp_cwp.throughput(GT200, kernels.mix(512), warps=32)
    printed = mwp_cwp.throughput(GT200, kernels.mix(512), warps=32, as_printed=True)
    assert text.ipc.sum() == pytest.approx(0.25)
    assert printed.ipc.sum() > 10
    assert printed.bottleneck == "memory"


def test_loads_alone_reach_the_bandwidth():
    ds = mwp_cwp.throughput(GT200, kernels.mix(0), warps=[4, 12, 13, 32])
    np.testing.assert_allclose(ds.bandwidth[2:], 141.7)
    np.testing.assert_allclose(ds.bandwidth[:2], np.array([4, 12]) / (434 + 4) * 128 * 30 * 1.296)
    sustained = mwp_cwp.throughput(GT200, kernels.mix(0), warps=32, bandwidth="sustained")
    assert sustained.bandwidth == pytest.approx(138)


def test_cases_of_the_text():
    # Figures 5 to 8: memory takes three computations; lengths 1 and 3.
    figure = replace(
        TABLE_2, mem_ld=300, departure_del_uncoal=0, departure_del_coal=150, synch_insts=0, uncoal_mem_insts=0,
        coal_mem_insts=1, comp_insts=24, n=8, mem_bandwidth=1e6,
    )  # fmt: skip
    case_1 = mwp_cwp.equations(figure)
    assert (case_1.mwp, case_1.cwp) == (2, 4)
    # "2 computations and 4 memory waiting periods" where the text has MWP computations, equation 23 MWP - 1.
    assert case_1.exec_cycles == 4 * 300 + 100
    case_2 = mwp_cwp.equations(replace(figure, n=4, coal_mem_insts=2, comp_insts=48))
    assert case_2.exec_cycles == 4 * 300 + 100
    case_3 = mwp_cwp.equations(replace(figure, departure_del_coal=300 / 8))
    assert (case_3.equation, case_3.exec_cycles) == (24, 8 * 100 + 300)
    case_4 = mwp_cwp.equations(replace(figure, departure_del_coal=300 / 8, n=4, coal_mem_insts=2, comp_insts=48))
    assert (case_4.equation, case_4.exec_cycles) == (22, 8 * 100 + 300)  # equation 24 gives the same
    case_5 = mwp_cwp.equations(replace(figure, departure_del_coal=300 / 8, comp_insts=124))
    assert (case_5.cwp, case_5.exec_cycles) == (1.6, 8 * 500 + 300)
    case_6 = mwp_cwp.equations(replace(figure, n=1))
    assert (case_6.equation, case_6.exec_cycles) == (22, 400)
    case_7 = mwp_cwp.equations(replace(figure, n=2))
    assert case_7.exec_cycles == 300 + 100 + 100


def test_execution_time_is_that_of_an_sm():
    time = mwp_cwp.execution_time(GT200, kernels.mix(32), warps=[4, 8])
    assert time.values.tolist() == [566, 4 * 8 * 33]


def test_mixes_are_weighted():
    s = mwp_cwp.equations(replace(TABLE_2, uncoal_mem_insts=3, coal_mem_insts=9))
    assert s.mem_l == 0.25 * 730 + 0.75 * 420
    assert s.departure_delay == 0.25 * 320 + 0.75 * 4
    assert s.mem_cycles == 3 * 730 + 9 * 420


def test_independent_requests():
    # Equation 29, and footnote 10: none independent is the old model.
    assert mwp_cwp.parallel_warps(4, 6, 4) == 8
    assert mwp_cwp.parallel_warps(4, 6, 0) == 0
    assert mwp_cwp.parallel_warps(4, 6, 6) == np.inf
    old = mwp_cwp.throughput(GT200, kernels.chain("load", ilp=4), warps=[2, 4, 32])
    none = mwp_cwp.throughput(GT200, kernels.chain("load", ilp=4), warps=[2, 4, 32], ind_mem_req=0)
    more = mwp_cwp.throughput(GT200, kernels.chain("load", ilp=4), warps=[2, 4, 32], ind_mem_req=3)
    np.testing.assert_array_equal(old.ipc, none.ipc)
    np.testing.assert_allclose(more.mwp, [6, 12, more.mwp_peak_bw[2]])
    # With few warps independent requests are faster, with many they are not (HK Figure 26).
    np.testing.assert_allclose((more.bandwidth / old.bandwidth), [3, 3, 1])
    # Computation is divided by MWP too, which exceeds the issue rate up to N = CWP = 4.3.
    few = mwp_cwp.throughput(GT200, kernels.mix(32), warps=[4, 5], ind_mem_req=1)
    np.testing.assert_allclose(few.ipc.sum("op"), [33 * few.mwp[0] / (434 + 132), 0.25])
    assert few.ipc.sum("op")[0] > GT200.issue_ipc


def test_long_instructions():
    # Table 7: an SFU of 2 operations per cycle has M_Factor 4.
    p = mwp_cwp.parameters(GT200, kernels.mix(1, "sfu"), warps=1)
    assert p.m_factor == 2.5
    assert mwp_cwp.equations(p).comp_cycles == 4 * 1 + 16 * 1


def test_divergent_paths_add_up():
    sides = (ADD,) * 3, (ADD,) * 5
    program = kernel(Conditional(diverges=True, then=sides[0], orelse=sides[1]), LOAD)
    assert mwp_cwp.parameters(GT200, program, warps=1).comp_insts == 1 + 8 + 1


def test_grid_and_cpi():
    program = kernels.mix(10, iterations=100)
    ds = mwp_cwp.grid(GT200, program, warps=[8, 16], blocks=240, block_warps=4)
    np.testing.assert_allclose(ds.rep, [4, 2])
    per_rep = 100 * (434 + 4 * 11) + 4
    # n = 8: CWP_full = 1 + 43400 / 4404 > 8: equation 22.
    assert ds.cycles[0] == pytest.approx(4 * (per_rep + 4404 / 100 * 7))
    assert ds.cpi[0] == pytest.approx(float(ds.cycles[0]) / (1101 * 4 * 240 / 30))
    # Throughput is the same thing seen from the SM.
    rate = mwp_cwp.throughput(GT200, program, warps=[8, 16])
    np.testing.assert_allclose(rate.ipc.sum("op") * ds.cpi, 1)
    few = mwp_cwp.grid(GT200, program, warps=4, blocks=1, block_warps=4)
    assert few.mwp_peak_bw == pytest.approx(30 * ds.mwp_peak_bw[0])


def test_synchronization_costs_departure_delays():
    program = kernel(LOAD, Instruction("barrier"), ADD)
    without = kernel(LOAD, ADD, ADD)
    arguments = {"warps": 16, "blocks": 60, "block_warps": 8}
    with_barrier = mwp_cwp.grid(GT200, program, **arguments)
    assert with_barrier.synch_cost == 4 * 7 * 1 * 2
    difference = with_barrier.cycles - mwp_cwp.grid(GT200, without, **arguments).cycles
    assert difference == pytest.approx(56)
    assert mwp_cwp.throughput(GT200, program, warps=16, block_warps=8).ipc.sel(op="load") == pytest.approx(
        16 / with_barrier.cycles.item()
    )


def test_bottleneck():
    assert mwp_cwp.bottleneck(GT200, kernels.mix(32), warps=4) == "latency"
    assert mwp_cwp.bottleneck(GT200, kernels.mix(32), warps=8) == "alu"
    assert mwp_cwp.bottleneck(GT200, kernels.mix(1), warps=32) == "memory"


def test_no_warps_do_nothing():
    assert float(mwp_cwp.throughput(GT200, kernels.mix(8), warps=0).ipc.sum()) == 0


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (kernels.chain("smem", ways=2), "does not cover bank conflicts"),
        (kernel(Instruction("load", dst="r1", access=Access(l1_hit=0.5))), "does not cover caches"),
        (kernels.chain("load", pattern="random"), "departure_delays are needed"),
        (kernel(LOAD, Instruction("barrier")), "departure_delays are needed"),
    ],
)
def test_not_covered(program, why):
    with pytest.raises(NotCoveredError, match=why):
        mwp_cwp.throughput(load_gpu("kepler"), program, warps=16)


def test_departure_delays_can_be_given():
    ds = mwp_cwp.throughput(
        load_gpu("kepler"), kernels.chain("load", pattern="random"), warps=32, departure_delays=mwp_cwp.DepartureDelays(10, 4)
    )
    # 32 transactions 10 cycles apart.
    assert ds.ipc.sel(op="load") == pytest.approx(1 / 320)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="bandwidth = 'peak': must be one of sustained, pin"):
        mwp_cwp.throughput(GT200, kernels.mix(1), warps=1, bandwidth="peak")
    with pytest.raises(ValueError, match="ind_mem_req = 2: must be from 0 to the number of memory requests, 1"):
        mwp_cwp.throughput(GT200, kernels.mix(1), warps=1, ind_mem_req=2)
    with pytest.raises(ValueError, match="block_warps = None: must be a number, since test has barriers"):
        mwp_cwp.parameters(GT200, kernel(Instruction("barrier")), warps=1)
    with pytest.raises(ValueError, match="kernel = mix: must end"):
        mwp_cwp.grid(GT200, kernels.mix(1), warps=4, blocks=100, block_warps=4)
    with pytest.raises(ValueError, match="blocks = 30: must be at least the blocks that 30 SMs hold"):
        mwp_cwp.grid(GT200, kernels.vector_add(), warps=8, blocks=30, block_warps=4)
    with pytest.raises(ValueError, match="blocks = 0: must be an integer from 1"):
        mwp_cwp.grid(GT200, kernels.vector_add(), warps=8, blocks=0, block_warps=4)
    with pytest.raises(ValueError, match="warps"):
        mwp_cwp.throughput(GT200, kernels.mix(1), warps=-1)

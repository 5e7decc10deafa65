"""Volkov's framework: the worksheet, the bounds of the vector add, results and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, changed, kernel, single_issue_slots
from warpsim import kernels, units
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop
from warpsim.models import NotCoveredError, volkov

# Throughput bound (V 3.6)


@pytest.fixture
def table_3_3() -> Gpu:
    gpu = single_issue_slots("maxwell").to_dict()
    gpu["memory"] |= {"bandwidth_gbs": 10.4 * 16 * 1.266, "transaction_bytes": 128}  # one reissue at stride 2
    return Gpu.from_dict(gpu)


def test_table_3_4(table_3_3):
    sheet = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2())
    assert sheet.per == "repetition"
    totals = sheet.totals
    assert {resource: totals[resource] for resource in ("alu", "sfu", "smem", "issue")} == pytest.approx(
        {"alu": 25, "sfu": 5, "smem": 30, "issue": 36.25}
    )
    memory = [row for row in sheet.rows if row.resource == "memory"]
    assert [(round(row.cycles_per_instruction, 1), row.instructions) for row in memory] == [
        (12.3, 5),
        (24.6, 5),
    ]
    assert sum(round(row.cycles_per_instruction, 1) * row.instructions for row in memory) == pytest.approx(
        184.5
    )
    assert totals["memory"] == pytest.approx(15 * 128 / 10.4)  # 184.6: V goes on from the rounded 12.3
    assert sheet.tightest == "memory"
    assert round(1 / sheet.cycles, 5) == 0.00542
    issue = {row.used_by: row.instructions for row in sheet.rows if row.resource == "issue"}
    assert issue == pytest.approx({"single issue": 125, "dual issue": 5, "reissue": 15})


def test_worksheet_as_text(table_3_3):
    text = str(volkov.throughput_bound(table_3_3, kernels.worksheet_3_2()))
    assert "Resource: CUDA cores" in text
    assert "Total (the tightest bound):" in text
    assert text.index("CUDA cores") < text.index("Memory system") < text.index("Warp scheduler")


def test_the_finite_worksheet_is_the_same_and_an_exit(table_3_3):
    endless = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2())
    finite = volkov.throughput_bound(table_3_3, kernels.worksheet_3_2(iterations=10))
    assert finite.per == "warp"
    assert finite.totals["memory"] == pytest.approx(10 * endless.totals["memory"])
    assert finite.totals["issue"] == pytest.approx(
        10 * endless.totals["issue"]
    )  # exit pairs with the last add
    assert finite.instructions["exit"] == 1


def test_issue_slots_are_those_of_the_chip():
    gpu = load_gpu("maxwell")  # V 4.7: an SFU instruction 2 slots, a shared memory access 3
    assert volkov.throughput_bound(gpu, kernels.mix(1, other="sfu")).totals["issue"] == pytest.approx(3 / 4)
    assert volkov.throughput_bound(gpu, kernels.mix(1, other="smem")).totals["issue"] == pytest.approx(4 / 4)


def test_random_accesses_move_more():
    gpu = load_gpu("kepler")
    sheet = volkov.throughput_bound(gpu, kernels.chain("load", pattern="random"))
    ops_per_scheduler = 32 / sheet.cycles / gpu.sm.schedulers
    assert ops_per_scheduler == pytest.approx(0.034, rel=0.01)  # V Table 6.1
    assert (sheet.requested_bytes, sheet.traffic_bytes) == (128, pytest.approx(32 * 125.9))


def test_loads_in_flight_of_an_sm_are_a_resource():
    gpu = changed("kepler", memory__loads_per_sm=20)
    sheet = volkov.throughput_bound(gpu, kernels.chain("load"))
    assert sheet.totals["loads in flight"] == pytest.approx(301 / 20)
    assert sheet.tightest == "loads in flight"
    ds = volkov.throughput(gpu, kernels.chain("load"), warps=64, refined=True)
    assert ds.ipc.sel(op="load").item() == pytest.approx(20 / ds.memory_latency.item())
    assert volkov.needed_warps(gpu, kernels.chain("load"), refined=True) == math.inf


def test_l2_is_a_resource_of_chips_that_state_its_latency():
    """Loads that hit it, of which half hit L1, and stores to 8 lines, which are written in part: a port takes 5 sectors each."""
    gpu = load_gpu("a100")
    load = Instruction("load", dst="r1", access=Access(l1_hit=0.5, l2_hit=1.0))
    store = Instruction("store", src=("r1",), access=Access(pattern="stride", stride=8, l2_hit=1.0))
    sheet = volkov.throughput_bound(gpu, Kernel(name="both", body=(Loop(body=(load, store), trips=None),)))
    rate = gpu.memory.queue.crossbar_gbs / gpu.clock_ghz / gpu.sms  # bytes per cycle of an SM
    taken_in = gpu.memory.l2_store_gbs / gpu.clock_ghz / gpu.sms
    assert sheet.totals["L2"] == pytest.approx(0.5 * 128 / rate + 8 * 5 * 32 / taken_in)
    assert sheet.tightest == "L2" and "memory" not in sheet.totals
    assert {"Resource: L2", "Resource: lsu data stage"} < set(str(sheet).splitlines())
    assert "L2" not in volkov.throughput_bound(load_gpu("kepler"), kernels.chain("load")).totals


# The vector add (V 3.8)


def test_vector_add_takes_544_cycles():
    gpu = load_gpu("kepler")
    assert volkov.latency_bound(gpu, kernels.vector_add()) == 544
    sheet = volkov.throughput_bound(gpu, kernels.vector_add())
    assert sheet.totals["issue"] == 8 * 0.25  # 4 of 12 instructions are dual-issued
    assert sheet.traffic_bytes == pytest.approx(3 * 128)


def test_vector_add_throughput():
    ds = volkov.throughput(load_gpu("kepler"), kernels.vector_add(), warps=np.arange(4, 65, 4))
    expected = np.minimum(6.35 * ds.warps, 154)
    np.testing.assert_allclose(ds.bandwidth, expected, rtol=5e-4)
    assert list(ds.bottleneck.values[[0, -1]]) == ["latency", "memory"]
    assert (ds.throughput_bound.values == pytest.approx(0.0446, abs=5e-5)) and (ds.latency_bound == 544).all()


def test_refined_vector_add_solves_its_equation():
    gpu = load_gpu("kepler")
    ds = volkov.throughput(gpu, kernels.vector_add(), warps=[8, 24, 64], refined=True)
    x = ds.bandwidth
    np.testing.assert_allclose(ds.memory_latency, 300 + 32 * x / (170 - x))
    np.testing.assert_allclose(ds.latency_bound, 544 - 301 + ds.memory_latency)
    rate = units.bytes_per_cycle_to_gbs(3 * 128 * gpu.sms / ds.latency_bound * ds.warps, gpu.clock_ghz)
    np.testing.assert_allclose(x, np.minimum(rate, 154))


# The call, and what it refuses


def test_dataset_has_the_simulators_names():
    ds = volkov.throughput(load_gpu("fermi"), kernels.mix(4), warps=16)
    assert ds.warps.item() == 16
    assert ds.ipc.dims == ("op",)
    assert {"ipc", "throughput", "bandwidth", "memory_latency", "latency_bound", "throughput_bound"} <= set(
        ds
    )
    assert all({"units", "long_name"} <= set(ds[name].attrs) for name in ds)
    assert ds.throughput.sel(op="alu").item() == pytest.approx(4 * ds.throughput.sel(op="load").item())


def test_bottleneck():
    gpu = load_gpu("fermi")
    assert volkov.bottleneck(gpu, kernels.mix(1)) == "memory"
    assert volkov.bottleneck(gpu, kernels.mix(512)) == "issue"
    assert volkov.bottleneck(gpu, kernels.mix(1), warps=4) == "latency"
    assert volkov.bottleneck(load_gpu("g80"), kernels.mix(512), warps=24) == "alu"


def test_kernels_that_name_warps_need_block_warps():
    gpu = load_gpu("fermi")
    with pytest.raises(ValueError, match="block_warps = None: must be a number"):
        volkov.latency_bound(gpu, kernels.listing_3_3())
    ds = volkov.throughput(
        gpu, kernels.listing_3_3(), warps=[2, 8, 48]
    )  # 8 blocks at most: of 1, 1 and 6 warps
    share = ds.ipc.sel(op="load") / ds.ipc.sel(op="barrier")
    np.testing.assert_allclose(share, [1, 1, 1 / 6])


def test_different_rates_are_not_covered():
    gpu = load_gpu("fermi")
    uneven = Loop(body=(Conditional(warps=(0,), then=(ADD,)),), trips=None)
    leaving = Loop(body=(Conditional(warps=(0,), then=(Instruction("exit"),)),), trips=None)
    for loop in (uneven, leaving):
        with pytest.raises(NotCoveredError, match="endless loop"):
            volkov.latency_bound(gpu, kernel(loop), block_warps=2)


def test_a_barrier_that_some_warps_miss_is_an_error():
    program = kernel(Conditional(probability=0.5, then=(BARRIER,)))
    with pytest.raises(ValueError, match=r"not all warps reach the barrier at body\[0\]\.then\[0\]"):
        volkov.latency_bound(load_gpu("fermi"), program, block_warps=2)
    assert volkov.latency_bound(load_gpu("fermi"), program, block_warps=1) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda gpu, mix: volkov.throughput(gpu, mix, warps=-1), "warps = -1: must be at least 0"),
        (lambda gpu, mix: volkov.throughput(gpu, mix, warps=[1, math.nan]), "warps = .*nan"),
        (
            lambda gpu, mix: volkov.needed_warps(gpu, mix, fraction=1.5),
            "fraction = 1.5: must be above 0 and at most 1",
        ),
        (lambda gpu, mix: volkov.mix_needed_warps(gpu, 1, fraction=0), "fraction = 0: must be above 0"),
        (lambda gpu, mix: volkov.mix_throughput(gpu, -1, 1), "alpha = -1: must be at least 0"),
        (
            lambda gpu, mix: volkov.mix_throughput(gpu, 1, 1, other="store"),
            "other = 'store': must be one of load, sfu, smem",
        ),
        (
            lambda gpu, mix: volkov.mix_throughput(gpu, 1, 1, other="sfu", refined=True),
            "refined = True: must be False with",
        ),
        (
            lambda gpu, mix: volkov.latency_bound(gpu, kernel(Instruction("fp64", dst="r1"))),
            "op = 'fp64': kepler has",
        ),
        (lambda gpu, mix: volkov.latency_bound(gpu, mix, block_warps=0), "block_warps = 0: must be at least 1"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(load_gpu("kepler"), kernels.mix(1))


def test_warps_must_be_numeric():
    with pytest.raises(TypeError, match="warps = 'all': must be a number"):
        volkov.throughput(load_gpu("kepler"), kernels.mix(1), warps="all")


def test_an_unknown_cache_latency_is_an_error():
    program = kernel(Instruction("load", dst="r1", access=Access(l1_hit=0.5)))
    with pytest.raises(ValueError, match=r"memory\.l1_latency_cycles = None: must be set on kepler"):
        volkov.latency_bound(load_gpu("kepler"), program)

"""Costs that instructions have of their own, in the models that count instructions by class."""

import math

import numpy as np
import pytest

import warpsim as ws
from warpsim import models
from warpsim.kernels import Access, Conditional, Cost, Instruction, Kernel, Loop
from warpsim.models import baghsorkhi, gpuperf, littles_law, mwp_cwp, pipeline, roofline, volkov, zhang_owens


def of(*instructions):
    """A dependent chain, repeated without end."""
    links = tuple(one.model_copy(update={"dst": "a", "src": ("a",)}) for one in instructions)
    return Kernel(name="some", inputs=("a",), body=(Loop(body=links, trips=None),))


def ipc(model, gpu, kernel, warps=16):
    return float(model.throughput(gpu, kernel, warps=warps)["ipc"].sum())


@pytest.mark.parametrize("model", [mwp_cwp, gpuperf, zhang_owens, roofline])
def test_an_interval_of_its_own_bounds_the_throughput(model):
    """One load, and 8 adds that occupy the unit of GT200 for 16 cycles each, where others take 4."""
    found = ipc(model, "gt200", of(Instruction("load"), *[Instruction("alu", cost=Cost(interval_cycles=16))] * 8), warps=32)
    expected = ipc(volkov, "gt200", of(Instruction("load"), *[Instruction("alu", cost=Cost(interval_cycles=16))] * 8), warps=32)
    assert found == pytest.approx(expected, rel=0.15)


def test_matrix_instructions_take_the_time_of_their_operands():
    kernel = of(Instruction("tensor", cost=Cost(multiply_adds=2048, operands="f64")))
    expected = ipc(volkov, "a40", kernel)
    for model in (mwp_cwp, gpuperf, zhang_owens):
        assert ipc(model, "a40", kernel) == pytest.approx(expected, rel=0.05)


def test_passes_through_shared_memory_are_those_of_a_conflict():
    own, conflict = of(Instruction("smem", cost=Cost(passes=16))), of(Instruction("smem", ways=16))
    assert ipc(gpuperf, "kepler", own) == pytest.approx(ipc(gpuperf, "kepler", conflict))
    assert ipc(zhang_owens, "kepler", own) == pytest.approx(1 / 16, rel=0.02)
    assert ipc(mwp_cwp, "kepler", own) == pytest.approx(1 / 16, rel=0.02)


def test_microbenchmarks_are_named_by_costs():
    kernel = of(Instruction("alu", cost=Cost(gap_cycles=40)), Instruction("alu", cost=Cost(interval_cycles=2, gap_cycles=9)))
    assert list(zhang_owens.microbenchmarks("kepler", kernel)) == ["alu", "alu, interval 2"]


def test_half_of_the_hits_in_l2_are_far_ones():
    facts = ws.load_gpu("h100").to_dict()
    facts["memory"]["l2_far_latency_cycles"] = 459
    gpu, kernel = ws.Gpu.from_dict(facts), of(Instruction("load", access=Access(l2_hit=1.0)))
    near = facts["memory"]["l2_latency_cycles"]
    simulated = ws.simulate(gpu, kernel, warps=4, replicates=1, sms=8, warmup=2_000, cycles=40_000)["ipc"].sum().item()
    for model in (volkov, littles_law, pipeline):
        assert ipc(model, gpu, kernel, warps=4) == pytest.approx(4 / ((near + 459) / 2), rel=0.03)
        assert ipc(model, gpu, kernel, warps=4) == pytest.approx(simulated, rel=0.05)


def test_requested_bytes_of_its_own_are_the_bandwidth():
    kernel = of(Instruction("load", cost=Cost(requested_bytes=4)))
    whole = pipeline.throughput("kepler", of(Instruction("load")), warps=8)["bandwidth"]
    assert float(pipeline.throughput("kepler", kernel, warps=8)["bandwidth"]) == pytest.approx(float(whole) * 4 / 128)


def test_a_grid_has_no_more_warps_than_its_blocks():
    """One block of 8 warps takes as long where an SM could hold 48."""
    given = {"blocks": 1, "block_warps": 8}
    few, many = (float(gpuperf.grid("fermi", "vector_add", warps=warps, **given)) for warps in (8, 48))
    assert few == many > ws.load_gpu("fermi").memory.latency_cycles


@pytest.mark.parametrize("model", [volkov, gpuperf, mwp_cwp])
def test_a_kernel_that_was_made_for_a_size_of_blocks_has_it_in_models_as_in_simulations(model):
    """Of 16 warps, the smallest blocks on a GT200 would have 2, of which every other warp would make the adds."""
    add = Instruction("alu", dst="x", src=("x",))
    body = (Instruction("load", dst="x", src=("x",)), Conditional(warps=(0,), then=(add,) * 50), Instruction("barrier"))
    kernel = Kernel(name="four", inputs=("x",), body=body, block_warps=4)
    sizes = ({}, {"block_warps": 4}, {"block_warps": 2})
    left_out, *given = (model.throughput("gt200", kernel, warps=16, **size) for size in sizes)
    adds, first, second = (float(ds["ipc"].sel(op="alu") / ds["ipc"].sel(op="load")) for ds in (left_out, *given))
    assert (adds, first, second) == pytest.approx((50 / 4, 50 / 4, 50 / 2))
    assert float(left_out["ipc"].sel(op="load")) == float(given[0]["ipc"].sel(op="load"))
    run = ws.simulate("gt200", kernel, warps=16, replicates=1, sms=1, warmup=2_000, cycles=20_000)["ipc"].isel(replicate=0)
    assert float(run.sel(op="alu") / run.sel(op="load")) == pytest.approx(50 / 4, rel=0.1)


def test_more_than_a_thousand_warps_may_be_needed():
    needed = baghsorkhi.needed_warps("kepler", "mix", alpha=0, fraction=0.9)
    attained = [ipc(baghsorkhi, "kepler", ws.load_kernel("mix", alpha=0), warps=warps) for warps in (needed, 2 * needed)]
    assert 1024 < needed < math.inf and 0.9 * attained[1] <= attained[0] * (1 + 1e-6)


def test_chips_and_kernels_have_names():
    gpu, kernel = ws.load_gpu("kepler"), ws.load_kernel("vector_add")
    grid = {"blocks": 16, "warps": 8, "block_warps": 4}
    assert pipeline.execution_time("kepler", "vector_add", **grid) == pipeline.execution_time(gpu, kernel, **grid)
    groups = {"groups": 4, "resident_groups": 2, "group_warps": 4}
    assert pipeline.execution_cycles("kepler", "vector_add", **groups) == pipeline.execution_cycles(gpu, kernel, **groups)


def test_no_warps_have_no_throughput_and_endless_ones_are_refused():
    stores = Kernel(name="some", inputs=("a",), body=(Loop(body=(Instruction("store", src=("a",)),), trips=None),))
    found = littles_law.throughput("kepler", stores, warps=[0, 1])
    assert found["bandwidth"].values[0] == 0.0 < found["bandwidth"].values[1]
    for name in models.NAMES:
        kernel = of(Instruction("load" if name == "coarse_grained" else "alu"))
        with pytest.raises(ValueError, match="warps = inf: must be"):
            models.load(name).throughput("kepler", kernel, warps=np.inf)

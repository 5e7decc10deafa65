"""Comparison of all models with simulations: results, errors, and models that do not cover the kernel."""

import numpy as np
import pytest

from tests.support.model_inputs import BARRIER, LOAD, kernel
from warpsim import models
from warpsim.analysis.comparison import VARIANTS, compare
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Instruction, Kernel, Loop, chain, listing_3_3, mix, vector_add
from warpsim.simulation.api import simulate
from warpsim.simulation.point import from_provenance

SHORT = {"sms": 1, "warmup": 500, "cycles": 3000}
EVERY = {*models.NAMES, *VARIANTS}


@pytest.fixture(scope="module")
def kepler():
    return load_gpu("kepler")


@pytest.fixture(scope="module")
def found(kepler):
    return compare(kepler, mix(8), warps=[4, 64], replicates=2, memory="fixed", **SHORT)


def test_every_model_has_results_or_a_reason(found):
    shown = set(found.results["model"].values)
    assert shown | set(found.not_covered) == EVERY
    assert not shown & set(found.not_covered)
    message = "mix: littles_law only covers loops of one class of instructions; volkov covers all kernels"
    assert found.not_covered == {"littles_law": message}


def test_errors_are_against_the_mean_of_the_simulation(kepler, found):
    ds = found.results
    assert ds["throughput"].dims == ("replicate", "warps")
    assert ds.attrs["op"] == "load"
    alone = models.load("volkov").throughput(kepler, mix(8), warps=[4, 64])["throughput"].sel(op="load")
    assert ds["model_throughput"].sel(model="volkov").values.tolist() == alone.values.tolist()
    expected = alone.values / ds["throughput"].mean("replicate").values - 1
    assert ds["error"].sel(model="volkov").values == pytest.approx(expected)
    assert abs(expected[0]) < 0.03  # at fixed latency four warps on four schedulers never collide


@pytest.mark.parametrize(
    ("ops", "op"),
    [("sfu alu", "alu"), ("sfu async_copy alu", "async_copy"), ("sfu smem", "sfu"), ("fp64 tensor", "tensor")],
)
def test_copies_count_as_loads_and_arithmetic_comes_before_other_classes(ops, op):
    body = [Instruction(name, dst=f"r{number}") for number, name in enumerate(ops.split())]
    results = compare("a100", Kernel(name="k", body=body), warps=[4], **SHORT).results
    assert results.attrs["op"] == op


def test_kernels_without_a_class_that_can_be_compared(kepler):
    with pytest.raises(ValueError, match="kernel: idle: must have an instruction other than exit"):
        compare("a100", Kernel(name="idle", body=()), warps=[4], **SHORT)
    with pytest.raises(ValueError, match="kernel: operation class 'tensor' of k"):
        compare(kepler, Kernel(name="k", body=[Instruction("tensor", dst="x")]), warps=[4], **SHORT)


def test_models_have_their_share_of_loads_for_copies():
    """Models take copies and loads for one class. Of three accesses, the two copies have two thirds of its throughput."""
    load, copy = (Instruction(op, dst="r", access=Access()) for op in ("load", "async_copy"))
    body = (Loop(body=(copy, copy, load), trips=None),)
    found = [compare("a100", Kernel(name="k", body=body), warps=[4], op=op, **SHORT) for op in ("load", "async_copy")]
    loads, copies = (one.results.model_throughput.sel(model="volkov").item() for one in found)
    assert 0 < copies == pytest.approx(2 * loads)


def test_a_simulation_can_be_repeated(found):
    again = simulate(**from_provenance(found.results["provenance"].sel(warps=64).item()))
    assert again["throughput"].sel(op="load").values.tolist() == found.results["throughput"].sel(warps=64).values.tolist()


def test_bounds_are_those_that_the_models_name(found):
    words = {name: found.results["bottleneck"].sel(model=name).values.tolist() for name in ("volkov", "pipeline", "roofline")}
    assert words["volkov"] == ["latency", "memory"]
    assert words["pipeline"][0] == "latency"
    assert words["roofline"] == ["memory", "memory"]
    assert set(found.results["bottleneck"].sel(model="baghsorkhi").values) == {""}


def test_the_policy_reaches_the_models_that_take_it(kepler):
    def huang(scheduler):
        ds = compare(kepler, mix(8), warps=[32], scheduler=scheduler, **SHORT).results
        return float(ds["model_throughput"].sel(model="huang", warps=32))

    expected = {p: models.load("huang").throughput(kepler, mix(8), warps=32, scheduler=p) for p in ("lrr", "gto")}
    for policy, ds in expected.items():
        assert huang(policy) == float(ds["throughput"].sel(op="load"))
    assert "must be one of lrr, gto" in compare(kepler, mix(8), warps=[4], scheduler="oldest", **SHORT).not_covered["huang"]


def test_occupancies_that_a_model_does_not_cover_are_nan():
    ds = compare(load_gpu("fermi"), vector_add(), warps=[4, 48], **SHORT)
    rates = ds.results["model_throughput"].sel(model="huang, bandwidth").values
    assert np.isfinite(rates).tolist() == [True, False]
    assert ds.notes["huang, bandwidth"].startswith("not at 48 warps: vector_add: huang with bandwidth covers at most")
    assert np.isfinite(ds.results["error"].drop_sel(model="huang, bandwidth")).all()


def test_barriers_leave_few_models(kepler):
    found = compare(kepler, kernel(Loop(body=(LOAD, BARRIER), trips=None)), warps=[8], block_warps=4, **SHORT)
    assert {"volkov", "pipeline"} <= set(found.results["model"].values)
    assert "barrier" in found.not_covered["huang"]


def test_kernels_that_name_warps_reach_the_models(kepler):
    for block_warps in (None, 2):
        found = compare(kepler, listing_3_3(), warps=[8], block_warps=block_warps, sms=1, replicates=1, warmup=0, cycles=4000)
        assert {"volkov", "gpuperf"} <= set(found.results["model"].values)
        assert not any("block_warps" in why for why in found.not_covered.values())


def test_occupancies_left_out_are_all_multiples_of_the_schedulers_that_some_blocks_make():
    ds = compare(load_gpu("g80"), chain("alu"), **(SHORT | {"cycles": 500})).results
    assert ds["warps"].values.tolist() == [*range(1, 17), 18, 20, 21, 22, 24]
    assert ds.attrs["op"] == "alu"
    assert ds["throughput"].attrs["units"] == "ops/cycle/SM"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"warps": []}, "warps = \\[\\]: must be at least one"),
        ({"warps": [8, 4]}, "warps = \\[8, 4\\]: must be at least one number, ascending"),
        ({"warps": [65]}, "warps = 65"),
        ({"op": "sfu"}, "op = 'sfu': must be one of alu, load$"),
        ({"block_warps": 40}, "block_warps = 40"),
        ({"warps": [4], "memory": "fast"}, "memory = 'fast'"),
        ({"warps": [4], "sms": 1, "warmup": 100, "cycles": 1}, "cycles = 1: must be larger, since no load issued at 4 warps"),
    ],
)
def test_wrong_arguments(kepler, arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(kepler, mix(8), **arguments)


@pytest.mark.parametrize(("name", "given", "simulated"), [("h100", {}, 8), ("h100", {"sms": 2}, 2), ("kepler", {}, None)])
def test_large_chips_are_compared_by_a_slice(name, given, simulated):
    gpu = load_gpu(name)
    short = {"replicates": 1, "warmup": 0, "cycles": 600, "memory": "fixed"}
    found = compare(gpu, mix(8), warps=[gpu.sm.schedulers], **short, **given).results
    assert from_provenance(found["provenance"].item())["sms"] == simulated


def test_occupancies_are_several_numbers(kepler):
    with pytest.raises(TypeError, match=r"warps = 8: must be several numbers, such as \[8, 16\]"):
        compare(kepler, mix(8), warps=8)

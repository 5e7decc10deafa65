"""The points of a sweep share random numbers along the axes that the plan names, and along no others."""

import numpy as np
import pytest

from tests.support.small_plans import SHORT, small_plan
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

WINDOW = {"sms": 1, "warmup": 0, "cycles": 3000}


def load_gaps(**settings):
    """Dependent loads alone, so that the gap after a load changes nothing but the random numbers, unless they are shared."""
    fields = {"gpu.load.gap_cycles": [1, 2]}
    return sweep(Plan(gpu="kepler", kernel="mix", alpha=0, warps=[4, 32], replicates=3, **WINDOW, **fields, **settings))


def same(results, dim):
    first, second = (results["memory_latency"].isel({dim: i}).values for i in (0, 1))
    return bool((first == second).all())


def test_random_numbers_are_shared_along_the_named_axes():
    axis = "gpu.load.gap_cycles"
    assert not same(load_gaps(), axis)
    shared = load_gaps(common=["scheduler", axis])
    assert same(shared, axis)
    assert len(np.unique(shared["memory_latency"].isel({axis: 0}))) == 6  # neither replicates nor warps share them


def test_policies_share_random_numbers_unless_the_plan_says_otherwise():
    one_warp = {"gpu": "kepler", "kernel": "mix", "alpha": 0, "warps": 1, "scheduler": ["lrr", "gto"], **WINDOW}
    assert same(sweep(Plan(**one_warp)), "scheduler")
    assert not same(sweep(Plan(**one_warp, common=[])), "scheduler")


def test_streams_are_by_value():
    plan = small_plan(common=["scheduler", "warps"])
    assert plan.streams((0, 0, 0, 0)) == plan.streams((0, 0, 2, 1))
    others = [plan.streams(place) for place in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0))]
    assert len(set(others)) == 3
    turned = small_plan(common=["warps", "scheduler"], alpha=[8, 1])
    assert turned.streams((0, 1, 0, 0)) == plan.streams((0, 0, 0, 0))
    assert small_plan(common=["scheduler", "warps"], seed=7).streams((0, 0, 0, 0)) != plan.streams((0, 0, 0, 0))
    assert small_plan().streams((0, 0, 0, 0)) is None


def test_an_axis_of_several_settings_is_named_as_a_whole():
    plan = small_plan(zip={"size": ["warps", "alpha"]}, warps=[4, 8], common=["size"], gpu="kepler", scheduler="lrr")
    assert plan.common == ("alpha", "warps")
    assert plan.streams((0,)) == plan.streams((1,))


def test_a_long_axis_is_checked_here_and_there():
    plan = Plan(gpu="kepler", kernel="mix", warps=8, seed=range(100_000), alpha=[1, 2], **SHORT)
    assert plan.grid.points == 200_000
    with pytest.raises(ValueError, match="seed = -1"):
        Plan(gpu="kepler", kernel="mix", warps=8, seed=range(-1, 100_000), **SHORT)


def test_a_memory_model_that_a_chip_lacks_is_an_invalid_point():
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", alpha=1, warps=8, memory=["queue", "measured"], **SHORT)
    measured = [gpu.memory.measured for gpu in plan.values("gpu")]
    assert sorted(measured) == [False, True]
    assert sweep(plan)["valid"].values.tolist() == [[True, there] for there in measured]

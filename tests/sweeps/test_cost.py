"""The estimated cost of a point, and the size of tiles that follows from it."""

import math
import subprocess
import sys

import numpy as np
import pytest

from tests.support.small_plans import small_plan, small_plan_beyond_the_chip
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Conditional, Instruction, Kernel, load_kernel, mix
from warpsim.kernels.iteration import ipc_bound
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point
from warpsim.sweeps.cost import TILE_BYTES, TILE_SECONDS, mean_seconds, point_bytes, point_seconds
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.tile import empty_arrays

KEPLER = load_gpu("kepler")


@pytest.mark.parametrize("alpha", [0, 1, 16, math.inf])
@pytest.mark.parametrize("warps", [4, 16, 64])
def test_instructions_per_cycle_are_bounded(alpha, warps):
    point = make_point(KEPLER, mix(alpha=alpha), warps=warps, warmup=4000, cycles=4000)
    measured = simulate_point(point)["ipc"].sum()
    bound = ipc_bound(KEPLER, mix(alpha=alpha), warps)
    assert measured / 1.05 < bound < 3 * measured  # V 4.1: the bounds are approached; latency grows under load


def test_programs_of_all_kinds_have_a_cost():
    for kernel in (load_kernel("vector_add"), load_kernel("permute")):
        assert 0.01 < ipc_bound(KEPLER, kernel, 16) < 4
    add = Instruction("alu", dst="r1", src=("r1",))
    sides = [Conditional(then=(add,) * 9, probability=p) for p in (0.0, 1.0)]
    chains = [Kernel(name="sides", inputs=("r1",), body=(side, Instruction("load", dst="r2", src=("r1",)))) for side in sides]
    assert ipc_bound(KEPLER, chains[0], 4) < ipc_bound(KEPLER, chains[1], 4)


def test_cost_is_proportional_to_window_sms_and_replicates():
    def seconds(**settings):
        return point_seconds(make_point(KEPLER, mix(alpha=8), **{"warps": 32, "cycles": 10**7, "warmup": 0, "sms": 1} | settings))

    one = seconds()
    for change, factor in (({"cycles": 10**8}, 10), ({"sms": 8}, 8), ({"replicates": 5}, 5), ({"warmup": 10**7}, 2)):
        assert seconds(**change) == pytest.approx(factor * one, rel=0.03)


@pytest.mark.parametrize("cycles", [400, 10**5, 10**7, 10**9])
def test_tiles_take_about_a_minute_whatever_the_points_cost(cycles):
    plan = Plan(gpu="kepler", kernel="mix", alpha=8, warps=[8, 32], seed=range(100_000), sms=1, warmup=0, cycles=cycles)
    point = mean_seconds(plan)
    seconds = point * math.prod(plan.grid.shape)
    assert TILE_SECONDS / 6 < seconds < max(TILE_SECONDS, point) * 1.01
    assert math.prod(plan.grid.shape) * point_bytes(plan) < TILE_BYTES


def test_tiles_can_be_asked_for():
    assert math.prod(small_plan(tile_points=2).grid.shape) == 2
    plan = Plan.from_provenance(small_plan(tile_points=2).attributes()["provenance"])
    assert plan.grid == small_plan(tile_points=2).grid


def test_results_of_a_point_have_this_size():
    plan = small_plan()
    assert point_bytes(plan) == sum(array.nbytes for array in empty_arrays(plan, ()).values())
    assert point_bytes(small_plan(replicates=20)) == pytest.approx(10 * point_bytes(plan), rel=0.01)


def test_points_that_cannot_exist_cost_nothing():
    possible = mean_seconds(small_plan(warps=[4, 8], gpu="g80"))
    assert mean_seconds(small_plan_beyond_the_chip(warps=[4, 8, 48, 64], gpu="g80")) == pytest.approx(possible / 2, rel=0.2)
    assert mean_seconds(small_plan_beyond_the_chip(warps=[48], gpu="g80")) == 0.0
    assert len(small_plan_beyond_the_chip(warps=[48], gpu="g80").grid) >= 1


def test_tiles_are_the_same_in_every_process():
    code = "from tests.support.small_plans import small_plan; print(small_plan(seed=range(5000)).grid)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] == f"{small_plan(seed=range(5000)).grid}\n"


def test_the_mean_is_over_the_whole_plan():
    cheap, dear = ({"sms": 1, "warmup": n} for n in (0, 10**6))
    plan = Plan(gpu="kepler", kernel="mix", alpha=4, warps=8, cycles=400, points=[cheap, dear])
    parts = [mean_seconds(Plan(gpu="kepler", kernel="mix", alpha=4, warps=8, cycles=400, **one)) for one in (cheap, dear)]
    assert mean_seconds(plan) == pytest.approx(np.mean(parts))

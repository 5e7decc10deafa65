"""The estimated cost of a sweep, compared with the sweep itself."""

import time

import pytest

from tests.support.small_plans import small_plan_beyond_the_chip
from warpsim.sweeps.estimate import estimate
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import Replicates

WINDOW = {"sms": 1, "warmup": 0, "cycles": 2000}


def test_the_estimate_is_near_what_the_sweep_takes(tmp_path):
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", alpha=[0, 1, 4, 16], warps=[4, 8, 16, 32], replicates=4, **WINDOW)
    found = estimate(plan, seconds=1.0)
    start = time.process_time()
    results = sweep(plan, tmp_path / "out.zarr", workers=1)
    took = time.process_time() - start
    assert found.possible == pytest.approx(float(results["valid"].mean()), abs=0.01)
    assert found.possible < 1.0
    assert took / 8 < found.seconds < 8 * took  # the machine may be busy with other things
    assert found.replicates == 4
    assert found.raw_bytes == sum(results[name].nbytes for name in results.data_vars)
    stored = sum(file.stat().st_size for file in (tmp_path / "out.zarr").rglob("c/**/*") if file.is_file())
    assert stored / 4 < found.store_bytes < 4 * stored
    assert found.tile_seconds == pytest.approx(found.seconds / len(plan.grid))


def test_a_long_point_is_timed_in_a_short_window():
    plan = Plan(gpu="kepler", kernel="mix", alpha=8, warps=[8, 32], warmup=0, cycles=10**9, replicates=2)
    start = time.process_time()
    found = estimate(plan, seconds=0.5)
    assert time.process_time() - start < 30  # the two points take several minutes
    assert found.seconds > 60
    assert found.replicates is None
    assert found.shortened == found.sampled


@pytest.mark.parametrize("rule", [Replicates(least=2, most=10**5, rtol=1e-4), Replicates(10**5, 10**5)])
def test_not_all_of_many_replicates_are_timed(rule):
    plan = Plan(gpu="kepler", kernel="mix", alpha=8, warps=32, warmup=0, cycles=20_000, sms=1, replicates=rule)
    start = time.process_time()
    found = estimate(plan, seconds=0.5)
    assert time.process_time() - start < 20  # all of them take many minutes
    assert 1 <= found.timed_replicates < 1000 and not found.shortened
    one = estimate(Plan(gpu="kepler", kernel="mix", alpha=8, warps=32, warmup=0, cycles=20_000, sms=1), seconds=0.5)
    assert found.replicates is not None
    assert 1 / 4 < found.seconds / (one.seconds * found.replicates) < 4  # the machine may be busy with other things


def test_the_number_of_replicates_comes_from_the_sample():
    rule = Replicates(least=3, most=48, rtol=0.05, of="bandwidth")
    plan = Plan(gpu="kepler", kernel="mix", alpha=0, warps=[1, 64], replicates=rule, **WINDOW)
    numbers = sweep(plan)["bandwidth"].notnull().sum("replicate").values
    assert numbers.min() <= estimate(plan, seconds=0.5).replicates <= numbers.max()


def test_a_plan_of_impossible_points():
    found = estimate(small_plan_beyond_the_chip(gpu="g80", warps=[48, 64]))
    assert (found.possible, found.sampled, found.store_bytes) == (0.0, 0, 0)

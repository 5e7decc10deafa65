"""What binds at the points of a result, against the model asked point by point."""

import math

import numpy as np
import pytest

from tests.support.small_plans import small_plan
from warpsim.analysis.bounds import bounds
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.models import volkov
from warpsim.simulation.api import simulate
from warpsim.sweeps.local import sweep

NAMES = {"memory": "bandwidth"}


@pytest.fixture(scope="module")
def results():
    return sweep(small_plan(alpha=[0, 8, math.inf], warps=[4, 24, 64], scheduler=["lrr"], cycles=100, replicates=1))


def test_each_point_agrees_with_the_model(results):
    axes = ("gpu", "alpha", "warps", "scheduler")
    found = bounds(results, axes)
    assert found.missing == ""
    for gpu in ("g80", "kepler"):
        chip = load_gpu(gpu)
        for alpha in (0, 8, math.inf):
            for n, warps in enumerate((4, 24, 64)):
                place = (["g80", "kepler"].index(gpu), [0, 8, math.inf].index(alpha), n, 0)
                if not results["valid"].values[place]:
                    assert found.binds[place] == -1
                    assert math.isnan(found.bandwidth[place])
                    continue
                kernel = mix(alpha=alpha)
                resource = volkov.bottleneck(chip, kernel, warps=warps)
                expected = NAMES.get(resource, resource)
                assert found.kinds[found.binds[place]].removeprefix("unit: ") == expected
                model = volkov.throughput(chip, kernel, warps=warps)
                for op in model["op"].values:
                    expected_ipc = float(model["ipc"].sel(op=op))
                    if op not in found.ipc:
                        assert expected_ipc == 0
                        continue
                    np.testing.assert_allclose(found.ipc[op][place], expected_ipc)
                    np.testing.assert_allclose(found.throughput[op][place], 32 * expected_ipc)
                np.testing.assert_allclose(found.bandwidth[place], model["bandwidth"])
                np.testing.assert_allclose(found.full_warps[place], volkov.needed_warps(chip, kernel))
                np.testing.assert_allclose(found.peak_fraction[place], min(1.0, warps / volkov.needed_warps(chip, kernel)))
    assert {"latency", "bandwidth", "unit: alu"} <= set(found.kinds)


def test_a_selection_keeps_its_places(results):
    part = results.isel(gpu=1, warps=[2, 0])
    found = bounds(part, ("alpha", "warps", "scheduler"))
    whole = bounds(results, ("gpu", "alpha", "warps", "scheduler"))
    np.testing.assert_array_equal(found.bandwidth, whole.bandwidth[1][:, [2, 0]])


def test_a_run_has_its_worksheet():
    chip, kernel = load_gpu("kepler"), mix(alpha=32)
    found = bounds(simulate(chip, kernel, warps=8, sms=1, warmup=0, cycles=100), ())
    assert found.kinds == ["latency"]
    assert found.latency == volkov.latency_bound(chip, kernel)
    assert found.worksheet is not None
    assert str(found.worksheet) == str(volkov.throughput_bound(chip, kernel))


def test_without_provenance_it_says_why(results):
    axes = ("gpu", "alpha", "warps", "scheduler")
    other = results.assign_attrs(provenance='{"function": "sweep", "call": {}}')
    assert bounds(other, axes).missing.startswith("the provenance, perhaps of another version of warpsim, lacks '")
    assert bounds(results.assign_attrs(provenance=""), axes).missing == "the result has no provenance"
    assert "but is of 'other'" in bounds(results.assign_attrs(provenance='{"function": "other"}'), axes).missing

"""Volkov's model at the points of a result: the numbers of the model itself, at the chips and programs of the provenance."""

import math

import numpy as np
import pytest

import warpsim as ws
from tests.support.small_plans import small_plan
from warpsim.analysis import at_points
from warpsim.analysis.at_points import bounds, plan_indices, plan_or_point
from warpsim.kernels import mix
from warpsim.models import volkov
from warpsim.results.provenance import provenance
from warpsim.results.schema import build_dataset
from warpsim.simulation.point import make_point
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.tile import empty_arrays

PLANS = {
    "axes": small_plan(alpha=[0, 8, math.inf]),
    "together": small_plan(zip={"size": ["alpha", "warps"]}, alpha=[1, math.inf], warps=[4, 8]),
    "words": small_plan(warps="powers of 2 up to the chip's limit"),
    "one point": small_plan(gpu="kepler", alpha=1, warps=4, scheduler="gto"),
}

BOUND_NAMES = {"memory": "bandwidth"}


@pytest.fixture(scope="module")
def results():
    return sweep(small_plan(gpu=["g80", "kepler"], alpha=[1, 8, math.inf], warps=[4, 48]))


def test_throughput_has_the_axes_of_chips_and_programs_and_every_whole_occupancy(results):
    found = at_points.throughput(results)
    assert list(found) == ["Volkov", "Volkov, latency under load"]
    for label, refined in at_points.MODELS.items():
        curves = found[label]["throughput"]
        assert dict(curves.sizes) == {"gpu": 2, "alpha": 3, "warps": 48, "op": 8}
        for name, most in (("g80", 24), ("kepler", 64)):
            warps = np.arange(1, min(most, 48) + 1)
            alone = volkov.throughput(ws.load_gpu(name), mix(alpha=8), warps=warps, refined=refined)["throughput"]
            drawn = curves.sel(gpu=name, alpha=8)
            np.testing.assert_allclose(drawn.sel(op="alu", warps=warps), alone.sel(op="alu"))
            assert drawn.sel(warps=slice(most + 1, None)).isnull().all()


def test_values_that_were_selected_are_kept(results):
    part = results.sel(gpu="kepler", alpha=8)
    curve = at_points.throughput(part)["Volkov"]["throughput"].sel(op="load")
    assert curve.dims == ("warps",)
    alone = volkov.throughput(ws.load_gpu("kepler"), mix(alpha=8), warps=48)["throughput"].sel(op="load")
    assert float(curve.sel(warps=48)) == pytest.approx(float(alone))


def test_needed_warps_and_their_limit(results):
    basic = at_points.needed_warps(results, 0.5)["Volkov"]["needed_warps"]
    assert basic.dims == ("gpu", "alpha")
    for name in ("g80", "kepler"):
        gpu = ws.load_gpu(name)
        for alpha in (1, 8, math.inf):
            needed = volkov.needed_warps(gpu, mix(alpha=alpha), fraction=0.5)
            shown = float(basic.sel(gpu=name, alpha=alpha))
            assert shown == pytest.approx(needed) if needed <= gpu.sm.max_warps else math.isnan(shown)


def test_contention_is_that_of_each_chip(results):
    (curve,) = at_points.contention(results).values()
    kepler = curve.sel(gpu="kepler")
    measured = ws.load_gpu("kepler").memory.contention
    at = float(kepler["bandwidth"][100])
    expected = measured.a_cycles + measured.b_cycles * at / (measured.c_gbs - at)
    assert float(kepler["memory_latency"][100]) == pytest.approx(expected)
    assert kepler["memory_latency"].attrs["units"] == "cycles"


def test_a_single_run_has_its_chip_and_kernel():
    gpu = ws.load_gpu("fermi")
    run = ws.simulate(gpu, mix(alpha=4), warps=8, sms=1, warmup=0, cycles=200)
    needed = at_points.needed_warps(run, 0.9)["Volkov, latency under load"]["needed_warps"]
    assert float(needed) == pytest.approx(volkov.needed_warps(gpu, mix(alpha=4), fraction=0.9, refined=True))
    with pytest.raises(ValueError, match="must have one of the dimensions warps, warps_per_scheduler"):
        at_points.throughput(run)


def test_occupancies_per_scheduler_and_warps_of_a_block():
    plan = small_plan(gpu="kepler", warps=None, warps_per_scheduler=[1, 2], block_warps=2, alpha=4)
    curve = at_points.throughput(sweep(plan))["Volkov"]["throughput"].sel(op="load")
    assert curve.dims == ("warps_per_scheduler",)
    alone = volkov.throughput(ws.load_gpu("kepler"), mix(alpha=4), warps=[4, 8])["throughput"].sel(op="load")
    np.testing.assert_allclose(curve, alone)


def test_results_without_models_are_errors(results):
    with pytest.raises(ValueError, match="must have one of the dimensions warps, warps_per_scheduler"):
        at_points.throughput(results.isel(warps=0))
    with pytest.raises(ValueError, match="must have the attribute provenance"):
        at_points.contention(results.drop_attrs())
    with pytest.raises(ValueError, match="no point of it fits the chip; the first is gpu=g80, alpha=1, warps=48, scheduler=lrr"):
        at_points.needed_warps(results.sel(gpu=["g80"], warps=[48]))


def test_roofs_are_intensity_and_bounds_of_the_mix(results):
    roofs = at_points.roofs(results.sel(gpu="kepler"), "alu")
    assert roofs["intensity"].dims == ("alpha",)
    assert roofs["intensity"].values == pytest.approx([32 * 1 / 128, 32 * 8 / 128, math.inf])  # a load moves 128 bytes
    gpu = ws.load_gpu("kepler")
    assert float(roofs["arithmetic_roof"]) == pytest.approx(192)  # Kepler's CUDA cores (V Table 2.7)
    assert float(roofs["memory_roof"]) == pytest.approx(gpu.memory.bandwidth_gbs / gpu.clock_ghz / gpu.sms)
    at = roofs.sel(alpha=8)
    model = volkov.throughput(gpu, mix(alpha=8), warps=[1, 64])["throughput"].sel(op="alu")
    assert float(at["warp_roof"]) == pytest.approx(float(model.sel(warps=1)))
    assert float(at["throughput_bound"]) == pytest.approx(float(model.sel(warps=64)))
    with pytest.raises(ValueError, match="op = 'add': g80 has alu"):
        at_points.roofs(results, "add")
    assert at_points.roofs(results)["memory_roof"].dims == ("gpu",)


@pytest.fixture(scope="module")
def short_results():
    return sweep(small_plan(alpha=[0, 8, math.inf], warps=[4, 24, 64], scheduler=["lrr"], cycles=100, replicates=1))


def test_bounds_agree_with_the_model_at_each_point(short_results):
    axes = ("gpu", "alpha", "warps", "scheduler")
    found = bounds(short_results, axes)
    assert found.missing == ""
    for gpu in ("g80", "kepler"):
        chip = ws.load_gpu(gpu)
        for alpha in (0, 8, math.inf):
            for n, warps in enumerate((4, 24, 64)):
                place = (["g80", "kepler"].index(gpu), [0, 8, math.inf].index(alpha), n, 0)
                if not short_results["valid"].values[place]:
                    assert found.binds[place] == -1
                    assert math.isnan(found.bandwidth[place])
                    continue
                kernel = mix(alpha=alpha)
                resource = volkov.bottleneck(chip, kernel, warps=warps)
                expected = BOUND_NAMES.get(resource, resource)
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


def test_bounds_of_a_selection_are_those_of_its_points(short_results):
    part = short_results.isel(gpu=1, warps=[2, 0])
    found = bounds(part, ("alpha", "warps", "scheduler"))
    whole = bounds(short_results, ("gpu", "alpha", "warps", "scheduler"))
    np.testing.assert_array_equal(found.bandwidth, whole.bandwidth[1][:, [2, 0]])


def test_bounds_of_a_run_have_its_worksheet():
    chip, kernel = ws.load_gpu("kepler"), mix(alpha=32)
    found = bounds(ws.simulate(chip, kernel, warps=8, sms=1, warmup=0, cycles=100), ())
    assert found.kinds == ["latency"]
    assert found.latency == volkov.latency_bound(chip, kernel)
    assert found.worksheet is not None
    assert str(found.worksheet) == str(volkov.throughput_bound(chip, kernel))


def test_bounds_without_provenance_say_why(short_results):
    axes = ("gpu", "alpha", "warps", "scheduler")
    other = short_results.assign_attrs(provenance='{"function": "sweep", "call": {}}')
    assert bounds(other, axes).missing.startswith("provenance: lacks 'settings'")
    unknown = short_results.assign_attrs(provenance="")
    assert bounds(unknown, axes).missing.startswith("results: must have the attribute provenance")
    assert "not of 'other'" in bounds(short_results.assign_attrs(provenance='{"function": "other"}'), axes).missing


def empty(plan):
    """Returns the result of a sweep that has not run."""
    arrays = empty_arrays(plan, plan.grid.sizes)
    return build_dataset(arrays, plan.coordinates(), axes=plan.grid.axes, attrs=plan.attributes())


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_sweep_comes_from_its_plan(plan):
    results = empty(plan)
    made = plan_or_point(results.attrs["provenance"])
    assert isinstance(made, Plan)
    assert made.record() == plan.record()
    assert plan_indices(made, results) == {name: list(range(size)) for name, size in zip(plan.axes, plan.sizes, strict=True)}


def test_a_selection_keeps_its_indices_on_the_plan():
    plan = PLANS["axes"]
    part = empty(plan).sel(gpu="kepler", alpha=[math.inf, 0]).isel(warps=slice(1, None))
    assert plan_indices(plan, part) == {"gpu": [1], "alpha": [2, 0], "warps": [1, 2], "scheduler": [0, 1]}
    with pytest.raises(KeyError, match="5"):
        plan_indices(plan, part.assign_coords(warps=[5, 8]))


@pytest.mark.parametrize("trace", [None, ws.Trace(occupancy=True)])
def test_a_run_comes_from_its_point(trace):
    point = make_point(ws.load_gpu("fermi"), ws.kernels.mix(alpha=4), warps=8, block_warps=4, sms=1, memory="fixed")
    results = ws.simulate(**{**vars(point), "warmup": 0, "cycles": 100}, trace=trace)
    made = plan_or_point(results.attrs["provenance"])
    assert made == make_point(**{**vars(point), "warmup": 0, "cycles": 100})


def test_other_provenances_are_refused():
    with pytest.raises(ValueError, match="settings"):
        plan_or_point(provenance("sweep", {}))
    with pytest.raises(ValueError, match="must be that of a call of sweep, not of 'other'"):
        plan_or_point(provenance("other", {}))

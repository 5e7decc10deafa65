"""Statistics against textbook values and against their stated coverage."""

import math

import numpy as np
import pytest
import xarray as xr

from tests.support.small_plans import small_plan
from warpsim.results.statistics import half_width, interval, mean, needed_warps, paired_difference
from warpsim.simulation.api import simulate
from warpsim.sweeps.local import sweep


def replicates(*values, name="bandwidth"):
    return xr.DataArray(
        list(values),
        dims="replicate",
        name=name,
        attrs={"units": "GB/s", "long_name": "memory bandwidth of the chip"},
    )


def test_interval_of_a_small_sample():
    # Student's t with 4 degrees of freedom has its 97.5 % point at 2.776445; the standard error here is
    # sqrt(2.5 / 5).
    found = interval(replicates(1.0, 2.0, 3.0, 4.0, 5.0))
    assert float(found["mean"]) == 3.0
    assert float(found["high"] - found["mean"]) == pytest.approx(2.776445105 * math.sqrt(0.5), rel=1e-9)
    assert float(found["mean"] - found["low"]) == pytest.approx(float(found["high"] - found["mean"]))
    assert found["low"].attrs == {"units": "GB/s", "long_name": "lower bound of memory bandwidth of the chip"}


def test_interval_at_another_level():
    # The 95 % point of Student's t with 1 degree of freedom is tan(0.45 pi).
    found = interval(replicates(1.0, 3.0), level=0.9)
    assert float(found["high"]) == pytest.approx(2.0 + math.tan(0.45 * math.pi))


def test_missing_replicates_are_ignored():
    assert interval(replicates(1.0, 2.0, np.nan, 3.0)).equals(interval(replicates(1.0, 2.0, 3.0)))


def test_one_replicate_has_no_interval():
    found = interval(replicates(4.0))
    assert float(found["mean"]) == 4.0
    assert np.isnan(found["low"]) and np.isnan(found["high"])


def test_a_point_that_does_not_exist_has_no_mean():
    assert np.isnan(interval(replicates(np.nan, np.nan))["mean"])


def test_intervals_are_vectorised_over_all_other_dimensions():
    values = np.random.default_rng(1).normal(size=(3, 4, 6))
    data = xr.DataArray(values, dims=("gpu", "replicate", "warps"))
    found = interval(data)
    assert found["low"].dims == ("gpu", "warps")
    one = interval(data.isel(gpu=1, warps=2))
    assert float(found["low"][1, 2]) == pytest.approx(float(one["low"]))


def test_coverage_of_the_interval():
    """n = 4000 samples of 5: the interval covers 0 in 3800 +- 13.8; 4 sigma fail 6 times in 10^5."""
    n = 4000
    values = np.random.default_rng(2016).normal(size=(n, 5))
    covered = np.sum(np.abs(values.mean(axis=1)) <= half_width(values))
    assert abs(covered - 0.95 * n) < 4 * math.sqrt(n * 0.95 * 0.05)


@pytest.mark.parametrize("level", ["0.9", True, None])
def test_levels_are_numbers(level):
    with pytest.raises(TypeError, match=f"level = {level!r}: must be a number between 0 and 1"):
        interval(replicates(1.0, 3.0), level=level)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_levels_outside_0_to_1(level):
    with pytest.raises(ValueError, match=f"level = {level}: must be between 0 and 1"):
        interval(replicates(1.0, 2.0), level=level)


def test_interval_needs_replicates():
    with pytest.raises(ValueError, match="dim = 'replicate': must be one of the dimensions warps"):
        interval(xr.DataArray([1.0], dims="warps"))


def test_mean_keeps_units_and_leaves_models_alone():
    assert mean(replicates(1.0, 3.0)).attrs["units"] == "GB/s"
    model = xr.DataArray([1.0], dims="warps")
    assert mean(model) is model


def policies():
    """Two policies that share a large common term and differ by exactly 1, 2 and 3."""
    common = np.array([100.0, 200.0, 300.0])
    values = np.stack([common, common + np.array([1.0, 2.0, 3.0]), common - 10.0])
    return xr.DataArray(
        values,
        dims=("scheduler", "replicate"),
        coords={"scheduler": ["lrr", "gto", "oldest"]},
        attrs={"units": "GB/s", "long_name": "memory bandwidth of the chip"},
    )


def test_paired_differences_are_taken_within_a_replicate():
    found = paired_difference(policies(), "scheduler")
    assert found["scheduler"].values.tolist() == ["gto", "oldest"]
    assert found["mean"].values.tolist() == [2.0, -10.0]
    half = 4.302652730 / math.sqrt(3.0)  # the 97.5 % point of Student's t with 2 degrees of freedom
    assert float(found["high"].sel(scheduler="gto")) == pytest.approx(2.0 + half, rel=1e-9)
    assert float(found["high"].sel(scheduler="oldest")) == -10.0
    assert found["mean"].attrs["units"] == "GB/s"
    assert "difference from lrr" in found["mean"].attrs["long_name"]


def test_replicates_are_not_compared_with_each_other():
    with pytest.raises(ValueError, match="dim = 'replicate': must be another dimension"):
        paired_difference(policies(), "replicate")


def test_paired_differences_from_another_reference_and_relative():
    found = paired_difference(policies(), "scheduler", reference="oldest", relative=True)
    assert found["scheduler"].values.tolist() == ["lrr", "gto"]
    expected = np.mean([10 / 90, 10 / 190, 10 / 290])
    assert float(found["mean"].sel(scheduler="lrr")) == pytest.approx(expected)
    assert found["mean"].attrs["units"] == "1"


def test_paired_differences_list_the_allowed_values():
    with pytest.raises(ValueError, match="reference = 'gtoo': must be one of lrr, gto, oldest"):
        paired_difference(policies(), "scheduler", reference="gtoo")
    with pytest.raises(
        ValueError, match="dim = 'memory': must be one of the dimensions scheduler, replicate"
    ):
        paired_difference(policies(), "memory")


def curve(*rows, warps=(4, 8, 16), axis="warps"):
    """Returns peak_fraction of one chip, with a row of replicates for each occupancy."""
    return xr.Dataset({"peak_fraction": ((axis, "replicate"), np.array(rows))}, coords={axis: list(warps)})


def test_needed_warps_is_the_smallest_occupancy_that_reaches_the_fraction():
    found = needed_warps(curve([0.5, 0.5], [0.89, 0.92], [0.99, 1.0]))
    assert float(found["needed_warps"]) == 8
    assert float(found["low"]) == 8  # the upper bound of the mean reaches 0.9 there
    assert float(found["high"]) == 16  # its lower bound only here
    assert found["needed_warps"].attrs["units"] == "warps/SM"
    assert (
        float(needed_warps(curve([0.5, 0.5], [0.89, 0.92], [0.99, 1.0]), fraction=0.5)["needed_warps"]) == 4
    )


def test_needed_warps_of_a_curve_that_never_reaches_the_fraction():
    found = needed_warps(curve([0.1, 0.1], [0.2, 0.2], [0.3, 0.3]))
    assert all(np.isnan(found[name]) for name in ("needed_warps", "low", "high"))


def test_needed_warps_ignores_the_order_of_the_axis_and_points_that_do_not_exist():
    found = needed_warps(curve([0.95, 0.95], [np.nan, np.nan], [0.95, 0.95], warps=(16, 4, 8)))
    assert float(found["needed_warps"]) == 8


def test_needed_warps_of_a_model_without_replicates():
    model = xr.Dataset({"peak_fraction": ("warps", [0.5, 0.9])}, coords={"warps": [4, 8]})
    found = needed_warps(model)
    assert float(found["needed_warps"]) == 8 and np.isnan(found["low"]) and np.isnan(found["high"])


def test_needed_warps_of_a_sweep_by_scheduler_is_in_warps_per_sm():
    results = sweep(small_plan(warps=None, warps_per_scheduler=[1, 2, 6, 12], alpha=[2, 64]))
    found = needed_warps(results, fraction=0.2)
    assert found["needed_warps"].dims == ("gpu", "alpha", "scheduler")
    reached = results["peak_fraction"].mean("replicate") >= 0.2
    for chip, schedulers in (("g80", 1), ("kepler", 4)):
        for alpha in (2, 64):
            point = {"gpu": chip, "alpha": alpha, "scheduler": "gto"}
            first = [n for n in (1, 2, 6, 12) if bool(reached.sel({**point, "warps_per_scheduler": n}))]
            expected = first[0] * schedulers if first else np.nan
            np.testing.assert_equal(float(found["needed_warps"].sel(point)), expected)


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_fractions_outside_0_to_1(fraction):
    with pytest.raises(ValueError, match=f"fraction = {fraction}"):
        needed_warps(curve([0.5], [0.5], [0.5]), fraction)


def test_needed_warps_needs_an_axis_of_occupancies():
    with pytest.raises(
        ValueError, match="must have one of the dimensions warps, warps_per_scheduler; got ilp"
    ):
        needed_warps(curve([0.5], [0.5], [0.5], axis="ilp").isel(replicate=0))


def test_truths_have_no_differences():
    with pytest.raises(ValueError, match="valid: must be numbers, not only true or false"):
        paired_difference(xr.DataArray([True, False], dims="scheduler", name="valid"), "scheduler")


def test_policies_use_common_random_numbers():
    """Paired intervals of the memory latency are narrower than those of independent runs."""
    results = sweep(small_plan(gpu="kepler", warps=[8], alpha=[8], replicates=8, cycles=3000))
    difference = paired_difference(results["memory_latency"], "scheduler")
    paired = float((difference["high"] - difference["low"]).squeeze())
    alone = interval(results["memory_latency"])
    widths = (alone["high"] - alone["low"]).squeeze()
    assert paired < 0.7 * math.hypot(*widths.values)


def test_the_distribution_of_occupancy_is_no_axis_of_occupancies():
    """`simulate` has `occupancy_fraction` along a dimension `warps` of its own."""
    results = simulate("kepler", "mix", alpha=8, warps=64, replicates=2, sms=1, cycles=2_000, warmup=0)
    with pytest.raises(ValueError, match="results: must have one of the dimensions warps, warps_per_scheduler; got"):
        results.warpsim.needed_warps(0.5)


def test_runs_that_a_user_joins_need_warps_of_the_axis_that_he_names():
    """The coordinate `warps` of these is that of `occupancy_fraction`."""
    runs = [simulate("kepler", "mix", alpha=8, warps=4 * n, replicates=2, sms=1, cycles=2_000, warmup=0) for n in (1, 2, 4)]
    axis = xr.DataArray([1, 2, 4], dims="warps_per_scheduler", name="warps_per_scheduler")
    joined = xr.concat([run.drop_vars("occupancy_fraction").drop_dims("warps", errors="ignore") for run in runs], axis)
    found = needed_warps(xr.concat([run.isel(warps=slice(0, 5)) for run in runs], axis), 0.1)
    assert "warps" not in found.dims
    xr.testing.assert_equal(found, needed_warps(joined, 0.1))


def test_intervals_and_needed_warps_of_what_is_read_in_chunks(tmp_path):
    pytest.importorskip("dask")
    there = sweep(small_plan(), tmp_path / "out.zarr").load()
    chunked = xr.open_zarr(tmp_path / "out.zarr", chunks={})
    assert chunked["bandwidth"].chunks is not None
    for made, expected in (
        (interval(chunked["bandwidth"]), interval(there["bandwidth"])),
        (paired_difference(chunked["ipc"], "scheduler"), paired_difference(there["ipc"], "scheduler")),
        (needed_warps(chunked, 0.5), needed_warps(there, 0.5)),
    ):
        xr.testing.assert_allclose(made, expected)

"""The data of the report: thinning, binning, means and intervals."""

import itertools

import numpy as np
import xarray as xr

from tests.support.report_pages import many_points
from tests.support.traced_result import traced_result
from warpsim.views.report_data import add_binned_occupancy, mean_and_half_width, thin


def test_few_points_are_not_thinned():
    assert thin(many_points(100)).thinned_axes == {}


def test_axes_of_names_are_thinned_last():
    results = many_points(8)
    thinned = thin(results, limit=4)
    assert thinned.thinned_axes == {"alpha": (2, 4)}
    assert thin(results, limit=2).results.sizes["scheduler"] == 1


def test_changes_of_occupancy_are_binned():
    results = traced_result()
    thinned = add_binned_occupancy(results)
    binned = thinned["occupancy_over_time"].sel(replicate=0)
    assert binned.dims == ("sm", "occupancy_time")
    edges = np.append(binned["occupancy_time"].values, 182)
    widths = np.diff(edges)
    steps = [2] * 150 + [1] * 31 + [0]  # SM 0 by cycle, from the changes
    expected = [np.mean(steps[int(a) : int(b)]) for a, b in itertools.pairwise(edges)]
    np.testing.assert_allclose(binned.sel(sm=0), expected)
    np.testing.assert_allclose((binned.sel(sm=0) * widths).sum(), sum(steps))
    np.testing.assert_allclose(binned.sel(sm=1), 1.0)
    assert "bandwidth_over_time" in thinned


def test_bins_reach_to_the_end_of_the_run_and_leave_out_what_was_not_counted():
    cycle = [[100.0, np.nan], [150.0, 450.0]]  # windows of 400 cycles that begin after different warm-ups
    changes = {"cycle": cycle, "sm": [[0.0, np.nan], [0.0, 0.0]], "warps": [[8.0, np.nan], [8.0, 4.0]]}
    run = xr.Dataset({f"occupancy_change_{name}": (("replicate", "change"), values) for name, values in changes.items()})
    binned = add_binned_occupancy(run.assign(cycles=("replicate", [400.0, 400.0])))["occupancy_over_time"].sel(sm=0)
    times = binned["occupancy_time"].values
    assert times[0] == 100 and times[-1] > 545
    np.testing.assert_allclose(binned.sel(replicate=0), np.where(times < 500, 8.0, np.nan))
    whole = [time not in (148, 449, 450) for time in times]  # bins in which nothing begins or changes
    expected = np.select([times < 150, times < 450], [np.nan, 8.0], 4.0)
    np.testing.assert_allclose(binned.sel(replicate=1)[whole], expected[whole])
    np.testing.assert_allclose(binned.max(), 8.0)


def test_existing_bins_are_kept():
    results = traced_result()
    results["occupancy_over_time"] = (("replicate", "sm", "time"), np.ones((2, 2, 2)))
    assert add_binned_occupancy(results) is results


def test_missing_replicates_do_not_count():
    mean, half = mean_and_half_width(np.array([[1.0, np.nan, 3.0], [np.nan] * 3]))
    assert mean[0] == 2.0
    assert half is not None
    np.testing.assert_allclose(half[0], 12.706 * 1.0, rtol=1e-4)  # Student's t, 1 degree of freedom, times sqrt(2 / 2)
    assert np.isnan(mean[1])

"""`ds.warpsim`: each method equals the function of the same name."""

import pytest
import xarray as xr

from tests.support.small_plans import small_plan
from warpsim.results import accessor, statistics
from warpsim.sweeps.local import sweep


@pytest.fixture(scope="module")
def results():
    assert accessor.WarpsimAccessor  # importing the module is what registers it
    return sweep(small_plan(gpu="kepler"))


def test_mean_of_everything(results):
    means = results.warpsim.mean()
    assert "replicate" not in means.dims
    xr.testing.assert_identical(means["ipc"], results["ipc"].mean("replicate", keep_attrs=True))
    assert means["bandwidth"].attrs["units"] == "GB/s"
    assert means.attrs == results.attrs
    xr.testing.assert_identical(means["valid"], results["valid"])


def test_interval(results):
    xr.testing.assert_identical(
        results.warpsim.interval("bandwidth", 0.9), statistics.interval(results["bandwidth"], 0.9)
    )


def test_paired_difference(results):
    found = results.warpsim.paired_difference("ipc", reference="gto", relative=True)
    expected = statistics.paired_difference(results["ipc"], "scheduler", reference="gto", relative=True)
    xr.testing.assert_identical(found, expected)
    assert found["scheduler"].values.tolist() == ["lrr"]


def test_needed_warps(results):
    xr.testing.assert_identical(
        results.warpsim.needed_warps(fraction=0.1), statistics.needed_warps(results, 0.1)
    )


def test_unknown_variables_are_named(results):
    with pytest.raises(ValueError, match="name = 'bandwith': must be one of cycles, warmup_cycles"):
        results.warpsim.interval("bandwith")

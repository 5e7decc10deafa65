"""Axes of one setting, of settings that run together, and lists of points."""

import numpy as np
import pytest

from tests.support.small_plans import SHORT, small_plan
from warpsim.sweeps.axes import read_axes
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

KEPLER = {"gpu": "kepler", "kernel": "mix", **SHORT}


def test_settings_that_run_together_are_one_dimension_at_the_place_of_the_first():
    settings = {"warps": [8, 16], "alpha": [1, 2, 4], "scheduler": ["lrr", "gto"], "stride": [4, 2, 1], "pattern": "stride"}
    plan = Plan(**KEPLER, **settings, zip={"size": ["alpha", "stride"]})
    assert plan.grid.axes == ("warps", "size", "scheduler")
    assert plan.grid.sizes == (2, 3, 2)
    coordinates = plan.coordinates()
    assert coordinates["size"] == [0, 1, 2]
    assert coordinates["alpha"] == (("size",), [1, 2, 4])
    assert coordinates["stride"] == (("size",), [4, 2, 1])
    assert {"alpha": 4, "stride": 1, "warps": 16, "scheduler": "lrr"}.items() <= plan.at((1, 2, 0)).items()
    assert plan.describe((0, 1, 1)) == "warps=8, alpha=2, stride=2, scheduler=gto"


def test_a_list_of_points_is_one_dimension_and_may_be_crossed_with_others():
    points = [{"gpu": "g80", "warps": 8}, {"gpu": "kepler", "warps": 48}, {"gpu": "g80", "warps": 48}]
    plan = Plan(kernel="mix", alpha=[0, 1], points=points, **SHORT)
    assert plan.grid.axes == ("alpha", "point")
    results = sweep(plan)
    assert results["valid"].sel(alpha=0).values.tolist() == [True, True, False]
    assert results["gpu"].dims == ("point",)
    alone = sweep(Plan(**KEPLER, alpha=1, warps=48))
    np.testing.assert_array_equal(results["ipc"].sel(alpha=1, point=1), alone["ipc"])


def test_points_are_the_same_in_a_file(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('kernel = "mix"\ncycles = 400\n[[points]]\ngpu = "g80"\nwarps = 8\n[[points]]\ngpu = "kepler"\nwarps = 16\n')
    points = [{"gpu": "g80", "warps": 8}, {"gpu": "kepler", "warps": 16}]
    assert Plan.from_toml(file).record() == Plan(kernel="mix", cycles=400, points=points).record()


def test_warps_per_scheduler_beside_the_chip_gives_the_warps_of_each_point():
    points = [{"gpu": "g80", "warps_per_scheduler": 8}, {"gpu": "kepler", "warps_per_scheduler": 4}]
    dims, warps = Plan(kernel="mix", points=points).coordinates()["warps"]
    assert dims == ("point",)
    assert warps.tolist() == [8, 16]


def test_a_plan_with_such_axes_can_be_made_again_from_its_provenance():
    points = [{"gpu": "g80", "warps": 8, "op": "alu"}, {"gpu": "kepler", "warps": 48, "op": "sfu"}]
    for plan in (
        Plan(kernel="add_chain", points=points, scheduler=["lrr", "gto"], **SHORT),
        small_plan(zip={"both": ["warps", "alpha"]}, warps=[4, 8]),
    ):
        again = Plan.from_provenance(plan.attributes()["provenance"])
        assert again.record() == plan.record()
        assert again.grid == plan.grid


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"zip": {"size": ["alpha", "ways"]}}, ValueError, "zip: ways: must each be a list of values"),
        ({"zip": {"size": ["alpha", "ways"]}, "ways": [1, 2]}, ValueError, "zip: size: .* alpha has 3, ways has 2"),
        ({"zip": {"a": ["alpha"], "b": ["alpha"]}}, ValueError, "zip: alpha: is given twice"),
        ({"zip": {"op": ["alpha"]}}, ValueError, "zip: op is the name of a variable or dimension of a result"),
        ({"zip": {"alpha": ["alpha", "ways"]}, "ways": [1, 2, 4]}, ValueError, "zip: alpha is the name of a setting"),
        ({"zip": {"warps": ["alpha", "ways"]}, "ways": [1, 2, 4]}, ValueError, "zip: warps is the name of a setting"),
        ({"zip": {"size": []}}, ValueError, r"zip: size = \[\]"),
        ({"zip": ["alpha", "ways"]}, TypeError, "zip = .*: must be a table"),
        ({"zip": {"size": ["alpha", "ways"]}, "ways": [1, 2, 1], "alpha": [1, 2, 1]}, ValueError, "size: 1, 1 is given twice"),
        ({"points": []}, TypeError, r"points = \[\]: must be a list of tables"),
        ({"points": [{"warps": 8}, {"sms": 1}]}, ValueError, r"points\[1\]: has sms; must have warps, as the first"),
        ({"points": [{"alpha": 1}]}, ValueError, "points: alpha: must be given in the points only"),
        ({"points": [{"cycles": 1}]}, ValueError, "points: cycles: must be given in the points only"),
    ],
)
def test_wrong_axes(changes, error, message):
    with pytest.raises(error, match=message):
        Plan(**{**KEPLER, "alpha": [1, 2, 4], **changes})


def test_a_window_cannot_be_an_axis_of_points():
    with pytest.raises(TypeError, match=r"cycles = .*: must be one number"):
        read_axes({"points": [{"cycles": 1}, {"cycles": 2}]})

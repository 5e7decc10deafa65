"""Plans: what is an axis, which points there are, what is refused before anything runs."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.support.small_plans import PLAN_TOML, SHORT, small_plan
from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.simulation.point import make_point
from warpsim.store.grid import tile_grid
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.resume import differences


def test_lists_are_axes_in_the_order_written_and_the_rest_are_scalars():
    plan = Plan(
        warps=[4, 8], memory=["queue"], gpu="kepler", kernel="mix", alpha=np.array([1, 2, 4]), scheduler="gto"
    )
    assert plan.grid.axes == ("warps", "memory", "alpha")
    assert plan.grid.sizes == (2, 1, 3)
    coordinates = plan.coordinates()
    assert coordinates["alpha"] == [1, 2, 4]
    assert coordinates["gpu"] == "kepler"
    assert coordinates["scheduler"] == "gto"
    assert coordinates["seed"] == 2016


def test_points_are_those_of_simulate():
    plan = small_plan()
    position = (1, 1, 2, 1)
    expected = make_point(
        load_gpu("kepler"), mix(alpha=8), warps=48, scheduler="gto", replicates=2, seed=2016, **SHORT
    )
    assert plan.point(position) == expected
    assert plan.describe(position) == "gpu=kepler, alpha=8, warps=48, scheduler=gto"


def test_a_point_beyond_the_chip_is_invalid():
    with pytest.raises(InvalidPoint, match="warps = 48: must be an integer from 1 to 24 on g80"):
        small_plan().point((0, 0, 2, 0))


def test_tiles_hold_every_point_once():
    plan = small_plan(warps=list(range(1, 25)))
    positions = [position for tile in plan.tiles() for position in plan.positions(tile)]
    assert len(positions) == len(set(positions)) == plan.grid.points == 2 * 2 * 24 * 2
    assert sum(map(plan.grid.tile_points, plan.tiles())) == plan.grid.points


@pytest.mark.parametrize("most", [1, 10, 64, 100_000])
@pytest.mark.parametrize("sizes", [(), (1,), (7,), (300,), (5, 25, 16, 2), (2, 5, 6, 2, 1), (3, 1000), (11, 13, 17)])
def test_tiles_are_neither_huge_nor_few(sizes, most):
    grid = tile_grid([f"axis{i}" for i in range(len(sizes))], sizes, most)
    assert math.prod(grid.shape) <= most
    assert all(1 <= part <= size for part, size in zip(grid.shape, sizes, strict=True))
    assert len(grid) >= min(grid.points // 16, 16)
    assert math.prod(grid.shape) >= min(most, grid.points, 8) / 4


def test_tiles_of_the_cusp_hold_all_occupancies_and_policies():
    assert tile_grid(("gpu", "alpha", "warps", "scheduler"), (5, 25, 16, 2), 64).shape == (1, 2, 16, 2)


def test_regions_follow_the_last_axis_fastest():
    grid = replace(tile_grid(("a", "b"), (3, 5), 4), shape=(2, 2))
    assert grid.counts == (2, 3)
    assert grid.region(1) == {"a": slice(0, 2), "b": slice(2, 4)}
    assert grid.region(5) == {"a": slice(2, 3), "b": slice(4, 5)}
    assert grid.tile_points(5) == 1
    with pytest.raises(ValueError, match="tile = 6: must be from 0 to 5"):
        grid.region(6)


def test_occupancy_by_scheduler_gives_the_warps_of_each_chip():
    plan = small_plan(warps=None, warps_per_scheduler=[1, 4])
    dims, warps = plan.coordinates()["warps"]
    assert dims == ("gpu", "warps_per_scheduler")
    np.testing.assert_array_equal(warps, [[1, 4], [4, 16]])
    launch = plan.point((1, 0, 0, 1)).launch
    assert launch.block_warps * launch.resident_blocks == 16


def test_occupancy_by_scheduler_without_an_axis_of_chips():
    plan = Plan(gpu="kepler", kernel="mix", warps_per_scheduler=[1, 4], **SHORT)
    dims, warps = plan.coordinates()["warps"]
    assert dims == ("warps_per_scheduler",)
    np.testing.assert_array_equal(warps, [4, 16])


def test_an_argument_that_bears_the_name_of_a_dimension_is_renamed():
    plan = Plan(gpu="kepler", kernel="add_chain", op=["alu", "sfu"], warps=4, **SHORT)
    assert plan.grid.axes == ("kernel_op",)
    assert {step.op for step in plan.point((1,)).kernel.body[0].body} == {"sfu"}


def test_chips_and_kernels_may_be_objects():
    kepler = load_gpu("kepler")
    slow = kepler.model_copy(update={"name": "slow", "clock_ghz": 0.5})
    plan = Plan(gpu=[kepler, slow], kernel=[mix(alpha=1), "vector_add"], warps=4, **SHORT)
    assert plan.coordinates()["gpu"] == ["kepler", "slow"]
    assert plan.coordinates()["kernel"] == ["mix", "vector_add"]
    assert plan.point((1, 0)).gpu is slow


def test_toml_is_the_same_plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN_TOML)
    assert Plan.from_toml(file).record() == small_plan().record()


def test_toml_finds_files_beside_it(tmp_path):
    (tmp_path / "mine.toml").write_text('builder = "mix"\n[arguments]\nalpha = 2\n')
    (tmp_path / "plan.toml").write_text('gpu = "kepler"\nkernel = "mine.toml"\nalpha = [1, inf]\nwarps = 4\n')
    plan = Plan.from_toml(tmp_path / "plan.toml")
    assert plan.coordinates()["kernel"] == "mine"
    assert plan.coordinates()["alpha"] == [1, math.inf]
    assert [digest["alpha"] for digest in plan.record()["kernels"]] == [1, "inf"]


def test_a_plan_can_be_made_again_from_its_provenance():
    kepler = load_gpu("kepler")
    mine = kepler.model_copy(update={"name": "mine", "clock_ghz": 0.5})
    plans = [
        small_plan(alpha=[0, 0.5, math.inf]),
        Plan(gpu=mine, kernel=mix(alpha=4), warps=[4, 8], **SHORT),
        Plan(gpu=[kepler, mine], kernel="add_chain", op=["alu", "sfu"], warps_per_scheduler=2, **SHORT),
    ]
    for plan in plans:
        again = Plan.from_provenance(plan.attributes()["provenance"])
        assert again.record() == plan.record()
        assert again.point((0,) * len(plan.axes)) == plan.point((0,) * len(plan.axes))


def test_a_kernel_of_a_file_is_made_again_without_the_file(tmp_path):
    file = tmp_path / "mine.toml"  # the kernel's own name is that of its builder, mix
    file.write_text('builder = "mix"\narguments = {alpha = 4}\n')
    plans = [Plan(gpu="kepler", kernel=name, warps=[4, 8], **SHORT) for name in (str(file), [str(file), "vabs"])]
    records, points = [plan.record() for plan in plans], [plan.point((0,) * len(plan.axes)) for plan in plans]
    texts = [plan.attributes()["provenance"] for plan in plans]
    file.unlink()
    for text, record, point in zip(texts, records, points, strict=True):
        again = pickle.loads(pickle.dumps(Plan.from_provenance(text)))
        assert again.record() == record
        assert again.point((0,) * len(again.axes)) == point


def test_a_kernel_of_a_file_with_arguments_is_not_made_again_and_that_is_said(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('builder = "mix"\narguments = {alpha = 4}\n')
    text = Plan(gpu="kepler", kernel=str(file), alpha=[1, 2], warps=4, **SHORT).attributes()["provenance"]
    wanted = "the kernel 'mine' came from a file with arguments that is not part of warpsim; a result does not hold its programs"
    with pytest.raises(ValueError, match=wanted):
        Plan.from_provenance(text)


def test_a_plan_can_be_sent_to_another_process():
    plan = small_plan()
    there = pickle.loads(pickle.dumps(plan))
    assert there.record() == plan.record()
    assert there.point((1, 0, 1, 0)) == plan.point((1, 0, 1, 0))


def test_records_differ_where_plans_do():
    assert differences(small_plan().record(), small_plan().record()) == []
    lines = differences(small_plan(seed=7).record(), small_plan().record())
    assert lines == ["settings.seed: 7 here, 2016 in the store"]
    kepler = load_gpu("kepler")
    faster = kepler.model_copy(update={"clock_ghz": 2.0})
    lines = differences(
        Plan(gpu=faster, kernel="mix", warps=4).record(), Plan(gpu=kepler, kernel="mix", warps=4).record()
    )
    assert lines == ["gpus.kepler.clock_ghz: 2.0 here, 1.124 in the store"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gpu": "keppler"}, ValueError, "'keppler' is unknown, did you mean 'kepler'"),
        ({"kernel": "mixx"}, ValueError, "'mixx' is unknown"),
        ({"kernel": 3}, TypeError, "kernel = 3: must be a name, a path or a Kernel"),
        ({"alpha": [1, 3e5]}, ValueError, "alpha = 300000"),
        ({"alhpa": 1}, ValueError, "alhpa = 1: unknown; kernel 'mix' takes alpha"),
        ({"kernel": mix(alpha=1)}, TypeError, "alpha: is not a setting of a plan, and a Kernel object takes no"),
        ({"warps": [4, 0]}, ValueError, "warps = 0: must be an integer from 1"),
        ({"warps": [4, 8.0]}, TypeError, r"warps = 8.0: must be an integer"),
        ({"warps": []}, ValueError, r"warps = \[\]: an axis needs at least one value"),
        ({"warps": [4, 8, 4]}, ValueError, r"warps = \[4, 8, 4\]: 4 is given twice"),
        ({"warps": [4, None]}, TypeError, "None is not allowed on an axis"),
        ({"warps": {"from": 4}}, TypeError, "must be a value or a list of values, not a table"),
        ({"alpha": [1, "2"]}, TypeError, "the values of an axis must be of one kind"),
        ({"alpha": math.nan}, ValueError, "alpha = nan"),
        ({"scheduler": ["lrr", "gtoo"]}, ValueError, "scheduler = 'gtoo'"),
        ({"memory": ["queue", "ideal"]}, ValueError, "memory = 'ideal'"),
        ({"replicates": 0}, ValueError, "replicates = 0: must be an integer from 1"),
        (
            {"replicates": [2, 4]},
            TypeError,
            r"replicates = \[2, 4\]: must be one number; it cannot be an axis",
        ),
        ({"cycles": [100, 200]}, TypeError, "cycles = .*: must be one number"),
        ({"warps_per_scheduler": [1]}, ValueError, "warps, warps_per_scheduler: only one of the two"),
        ({"common": ["cycles"]}, ValueError, r"common = \['cycles'\]: cycles: must be one of warps_per_scheduler, "),
        ({"tile_points": 0}, ValueError, "tile_points = 0: must be an integer from 1"),
        ({"tile_points": 2.5}, TypeError, "tile_points = 2.5: must be an integer"),
        ({"common": 3}, TypeError, "common = 3: must be the names of settings"),
    ],
)
def test_wrong_plans_are_refused_at_once(changes, error, message):
    with pytest.raises(error, match=message):
        small_plan(**changes)


def test_missing_settings_are_named():
    with pytest.raises(TypeError, match="kernel: is missing"):
        Plan(gpu="kepler")


def test_errors_of_a_file_name_the_file(tmp_path):
    file = tmp_path / "plan.toml"
    with pytest.raises(ValueError, match=r"plan\.toml"):
        Plan.from_toml(file)
    file.write_text("gpu = [")
    with pytest.raises(ValueError, match=r"plan\.toml: "):
        Plan.from_toml(file)
    file.write_text('gpu = "kepler"\nkernel = "mix"\nwarps = 0\n')
    with pytest.raises(ValueError, match=r"plan\.toml: warps = 0"):
        Plan.from_toml(file)

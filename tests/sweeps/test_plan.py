"""Plans: their axes and points, their records, and the errors that are reported before anything runs."""

import math
import os
import pickle

import numpy as np
import pytest

from tests.support.small_plans import PLAN_TOML, SHORT, small_plan, small_plan_beyond_the_chip
from warpsim.arguments import InvalidPoint
from warpsim.hardware import files as params
from warpsim.hardware import latency
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Instruction, Kernel, Loop, mix
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warps": 65}, "no point of the plan: fits no chip: warps = 65: must be an integer from 1 to 64 on kepler"),
        ({"gpu": ["g80", "kepler"], "warps": [8, 65]}, "warps = 65: fits no chip: warps = 65: must .* 24 on g80"),
        ({"warps": [8, 12], "block_warps": [4, 5]}, "block_warps = 5: fits no chip: warps = 8: must be a multiple"),
        ({"warps": 8, "block_warps": 33}, "no point .* block_warps = 33: must be an integer from 1 to 32 on kepler"),
        ({"warps_per_scheduler": [4, 17]}, "warps_per_scheduler = 17: fits no chip: warps = 68: must be"),
        ({"gpu": "h100", "warps": range(59, 65), "kernel.registers_per_thread": [16, 100, 184]}, "registers_per_thread = 100"),
        ({"gpu": "h100", "warps": [32, 59]}, "warps = 59: fits no chip: warps = 59: no block size"),
        ({"gpu": "h100", "warps": range(1, 67)}, "warps = 65: fits no chip: warps = 65: must be"),
        ({"gpu": "h100", "warps": 8, "memory": "measured"}, "no point .* memory = 'measured': latency quantiles .* on h100"),
        ({"gpu": "h100", "warps": 8, "memory": ["queue", "measured"]}, "memory = measured: fits no chip"),
        ({"gpu": ["fermi", "kepler"], "kernel": "cuda/histogram"}, "no point of the plan: fits no chip: kernel: operation class"),
        ({"kernel.registers_per_thread": [16, 63], "warps": 64}, "kernel.registers_per_thread = 63"),
        ({"warps": 4, "zip": {"a": ["block_warps", "alpha"]}, "block_warps": [4, 64], "alpha": [1, 2]}, "block_warps = 64, "),
    ],
)  # fmt: skip
def test_what_fits_no_chip_is_refused_before_the_run(settings, message):
    with pytest.raises(ValueError, match=message):
        Plan(**{"gpu": "kepler", "kernel": "mix", **settings})


@pytest.mark.parametrize(
    "settings",
    [
        {"warps": [9, 8, 6], "block_warps": [3, 4]},  # neither with the first value of the other axis alone
        {"warps": "multiples of schedulers up to the chip's limit", "kernel.registers_per_thread": 63},
        {"gpu": ["g80", "kepler"], "warps": [48]},
        {"gpu": "gt200", "warps": range(1, 33)},  # no block size gives 17, 19, 23, 29 or 31
        {"gpu": "h100", "warps": range(1, 60)},  # nor 59
        {"gpu": ["h100", "gt200"], "warps": range(1, 60)},
        {"gpu": ["g80", "kepler"], "warps": [8, 48], "memory": ["queue", "measured"]},
    ],
)
def test_what_fits_somewhere_is_allowed(settings):
    plan = Plan(**{"gpu": "kepler", "kernel": "mix", **settings})
    assert list(plan.some_points())


def test_a_stored_plan_may_hold_what_fits_no_chip():
    plan = small_plan_beyond_the_chip(gpu="kepler", warps=[8, 65])
    assert Plan.from_provenance(plan.attributes()["provenance"]).record() == plan.record()


def test_a_point_beyond_the_chip_is_invalid():
    with pytest.raises(InvalidPoint, match="warps = 48: must be an integer from 1 to 24 on g80"):
        small_plan().point((0, 0, 2, 0))


def hits_l2():
    """A kernel that hits L2, whose latency is known on a100 and not on kepler."""
    load = Instruction("load", dst="r1", src=("r1",), access=Access(l2_hit=0.5))
    return Kernel(name="hits", inputs=("r1",), body=(Loop(body=(load,), trips=None),))


def test_hits_in_a_cache_of_unknown_latency_are_an_invalid_point():
    plan = Plan(gpu=["kepler", "a100"], kernel=hits_l2(), warps=4, replicates=1, **SHORT)
    with pytest.raises(InvalidPoint, match=r"access.l2_hit = 0.5: must be 0 on kepler, whose file does not state memory.l2_lat"):
        plan.point((0,))
    assert sweep(plan)["valid"].values.tolist() == [False, True]
    with pytest.raises(ValueError, match=r"fits no chip: access.l2_hit = 0.5: must be 0 on kepler"):
        Plan(gpu="kepler", kernel=hits_l2(), warps=4, **SHORT)


def test_points_that_no_machine_can_be_made_for_are_not_valid():
    """A warp would take too long to its endless loop, which shows only when the program is encoded."""
    add, first = Instruction("alu", dst="r1", src=("r1",)), Loop(body=(Instruction("alu", dst="r1", src=("r1",)),), trips=2**30)
    late = Kernel(name="late", inputs=("r1",), body=(first, Loop(body=(add,), trips=None)))
    plan = Plan(gpu="kepler", kernel=[late, mix(alpha=2)], warps=4, replicates=1, sms=1, cycles=500)
    assert sweep(plan)["valid"].values.tolist() == [False, True]


def test_tiles_hold_every_point_once():
    plan = small_plan(warps=list(range(1, 25)))
    positions = [position for tile in plan.tiles() for position in plan.positions(tile)]
    assert len(positions) == len(set(positions)) == plan.grid.points == 2 * 2 * 24 * 2
    assert sum(map(plan.grid.tile_points, plan.tiles())) == plan.grid.points


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


def test_kernels_of_the_package_in_a_folder_are_made_again_and_told_from_those_of_the_same_name():
    """cuda/vector_add is another program than vector_add."""
    for kernel in ("cuda/softmax", ["vector_add", "cuda/vector_add"]):
        plan = Plan(gpu="h100", kernel=kernel, warps=[8, 16], **SHORT)
        assert plan.coordinates()["kernel"] == kernel
        assert Plan.from_provenance(plan.attributes()["provenance"]).record() == plan.record()


def test_two_kernels_of_one_name_are_refused(tmp_path):
    files = [tmp_path / folder / "mine.toml" for folder in "ab"]
    for file, alpha in zip(files, (1, 8), strict=True):
        file.parent.mkdir()
        file.write_text(f'builder = "mix"\narguments = {{alpha = {alpha}}}\n')
    for kernels in (files, [mix(alpha=1), mix(alpha=8)]):
        points = [{"kernel": kernel, "warps": warps} for kernel, warps in zip(kernels, (4, 8), strict=True)]
        with pytest.raises(ValueError, match=r"^kernel: two different kernels have the same name; the names are mi"):
            Plan(gpu="kepler", points=points)
        assert Plan(gpu="kepler", points=[{**point, "kernel": kernels[0]} for point in points]).points == 2


def test_another_process_has_the_latencies_of_a_plan_that_was_made_again(tmp_path, monkeypatch):
    (tmp_path / "own.csv").write_text("load_gbs,0,0.25,0.5,1\n1,300,400,500,900\n")
    text = (params.params_dir() / "gpus" / "kepler.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text.replace('distribution = "kepler"', 'distribution = "own.csv"'))
    again = Plan.from_provenance(Plan(gpu=str(tmp_path / "mine.toml"), kernel="vabs", **SHORT).attributes()["provenance"])
    point, sent = again.point(()), pickle.dumps(again)
    monkeypatch.setattr(latency, "_RESTORED", {})  # what another process has
    received = pickle.loads(sent)
    assert simulate_point(received.point(()))["instructions"].tolist() == simulate_point(point)["instructions"].tolist()


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


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gpu": "keppler"}, ValueError, "'keppler' is unknown, did you mean 'kepler'"),
        ({"kernel": "mixx"}, ValueError, "'mixx' is unknown"),
        ({"kernel": 3}, TypeError, "kernel = 3: must be a name, a path or a Kernel"),
        ({"alpha": [1, 3e5]}, ValueError, "alpha = 300000"),
        ({"alhpa": 1}, ValueError, r"alhpa = 1: unknown, did you mean 'alpha'\?; kernel 'mix' takes alpha"),
        ({"kernel": mix(alpha=1)}, TypeError, "alpha: is not a setting of a plan; a Kernel object takes no"),
        ({"warp": 4}, ValueError, r"warp = 4: unknown, did you mean 'warps'\?; kernel 'mix' takes alpha"),
        ({"gpu": [load_gpu("kepler")] * 2}, ValueError, r"gpu = \['kepler', 'kepler'\]: kepler is given twice"),
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
        ({"seed": list(range(10_000)), "alpha": list(range(10_001))}, ValueError, "points: must be at most"),
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


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('gpu = "kepler"\nkernel = "mix"\nwarps = 4\n', encoding="utf-8-sig")
    assert Plan.from_toml(file).points == 1


def test_a_file_without_an_end_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("warpsim.sweeps.plan.LARGEST_FILE", 1000)
    file = tmp_path / "plan.toml"
    file.write_text(f"# {'x' * 1000}")
    for path in (file, "/dev/zero") if os.path.exists("/dev/zero") else (file,):
        with pytest.raises(ValueError, match=rf"^{path}: has more than 1000 characters$"):
            Plan.from_toml(path)


@pytest.mark.parametrize("name", ["launch", "threads", "trace", "engine"])
def test_arguments_of_simulate_alone_are_named_as_such(name):
    with pytest.raises(TypeError, match=f"{name}: is an argument of simulate, and no setting of a plan"):
        Plan(gpu="kepler", kernel="mix", **{name: 2})

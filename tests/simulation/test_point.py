"""Points: defaults, identity, and the seeds of replicates."""

from __future__ import annotations

import inspect

import pytest

import warpsim as ws
from warpsim.simulation.point import DEFAULTS, Point, make_point, replicate_seed
from warpsim.simulation.policies import GROUPED, POLICIES

KEPLER = ws.load_gpu("kepler")
MIX = ws.kernels.mix(8)


def test_defaults_are_those_of_simulate() -> None:
    parameters = inspect.signature(ws.simulate).parameters
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS
    point = make_point(KEPLER, MIX, warps=8)
    assert {name: getattr(point, name) for name in DEFAULTS} == DEFAULTS


def test_the_name_of_a_chip_gives_the_same_point() -> None:
    assert make_point("kepler", MIX, warps=8) == make_point(KEPLER, MIX, warps=8)


def test_the_simulated_sms_are_those_of_the_slice_or_of_the_whole_chip() -> None:
    assert make_point(KEPLER, MIX, warps=8).simulated_sms == KEPLER.sms
    assert make_point(KEPLER, MIX, warps=8, sms=2).simulated_sms == 2


def test_a_finite_grid_has_no_warmup() -> None:
    launch = ws.Launch(blocks=4, block_warps=2, resident_blocks=2)
    point = make_point(KEPLER, ws.kernels.vector_add(), launch=launch, warmup=500)
    assert point.finite
    assert point.warmup == 0
    assert not make_point(KEPLER, MIX, warps=8).finite


def test_stores_stay_in_l2_where_the_launch_ends() -> None:
    def hit(chip: str, blocks: int | None, l2_hit: float = 0.5) -> float:
        access = ws.kernels.Access(l2_hit=l2_hit, l2_kept=0.5)
        kernel = ws.kernels.Kernel(name="init", body=(ws.kernels.Instruction("store", access=access),))
        launch = ws.Launch(blocks=blocks, block_warps=2, resident_blocks=2)
        (store,) = make_point(chip, kernel, launch=launch).kernel.body
        assert isinstance(store, ws.kernels.Instruction) and store.access is not None
        return store.access.l2_hit

    assert hit("a100", 4) == 0.75 and hit("a100", None) == 0.5
    assert hit("kepler", 4, 0.0) == 0.0  # the latency of its L2 is not known


@pytest.mark.parametrize(
    ("field", "value"), [("memory", "fixed"), ("seed", 1), ("sms", 2), ("warmup", 1), ("cycles", 10), ("warps", 9)]
)
def test_parameters_are_part_of_the_identity(field: str, value: object) -> None:
    settings = {"warps": 8, "sms": 1}
    assert make_point(KEPLER, MIX, **settings).streams() != make_point(KEPLER, MIX, **(settings | {field: value})).streams()


def test_policies_replicates_and_labels_are_not_part_of_the_identity() -> None:
    titled = KEPLER.model_copy(update={"title": "another title"})
    point: Point = make_point(KEPLER, MIX, warps=8)
    for policy in (*POLICIES, *GROUPED):
        assert make_point(titled, MIX, warps=8, scheduler=policy, replicates=7).streams() == point.streams()


def test_seeds_of_replicates_never_change() -> None:
    """Results of earlier versions can be repeated only with the same seeds."""
    assert [replicate_seed(b"warpsim", n) for n in range(3)] == [
        2213674251014650767,
        8421698744385635447,
        359681782313493133,
    ]
    assert replicate_seed(b"", 2**40) == 16706341706723472316


def test_words_in_any_case():
    point = make_point("Kepler", "MIX", warps=4, scheduler="GTO", memory="Fixed")
    assert (point.gpu.name, point.kernel.name, point.scheduler, point.memory) == ("kepler", "mix", "gto", "fixed")


def test_operation_classes_that_the_chip_lacks() -> None:
    kernel = ws.Kernel(name="tensor", body=[ws.Instruction("tensor", dst="r1")])
    with pytest.raises(ws.InvalidPoint, match=r"operation class 'tensor' of tensor: kepler has"):
        make_point(KEPLER, kernel, warps=8)
    newer = ws.Kernel(name="newer", body=[ws.Instruction("uniform")])
    lacks = r"'uniform' of newer: v100 has .*; machine code for sm_70 or before needs no others"
    with pytest.raises(ws.InvalidPoint, match=lacks):
        make_point("v100", newer, warps=8)

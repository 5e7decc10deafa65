"""Axes in words."""

import pytest

from tests.support.small_plans import SHORT
from warpsim.hardware.gpu import load_gpu
from warpsim.sweeps.derived import derived_union, derived_values
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan

KEPLER, G80 = load_gpu("kepler"), load_gpu("g80")


@pytest.mark.parametrize(
    ("name", "words", "values"),
    [
        ("warps", "multiples of schedulers up to the chip's limit", list(range(4, 65, 4))),
        ("warps", "multiples of 24 up to the chip's limit", [24, 48]),
        ("warps", "powers of 2 up to 40", [1, 2, 4, 8, 16, 32]),
        ("warps", "all up to 3", [1, 2, 3]),
        ("warps", "multiples of 32 up to 1000", [32, 64]),
        ("warps_per_scheduler", "all up to the chip's limit", list(range(1, 17))),
        ("block_warps", "powers of 2 up to the chip's limit", [1, 2, 4, 8, 16, 32]),
    ],
)
def test_words(name, words, values):
    assert derived_values(name, words, KEPLER) == values


def test_each_chip_has_its_own_values():
    words = "multiples of schedulers up to the chip's limit"
    assert derived_union("warps", words, [KEPLER, G80]) == [*range(1, 25), *range(28, 65, 4)]
    plan = Plan(gpu=["g80", "kepler"], kernel="mix", alpha=1, warps=words, **SHORT)
    valid = sweep(plan)["valid"]
    # G80 holds at most 8 blocks of at most 16 warps, so that 17, 19 and 23 warps cannot be made of equal blocks
    assert valid.sel(gpu="g80").warps[valid.sel(gpu="g80")].values.tolist() == [*range(1, 17), 18, 20, 21, 22, 24]
    assert valid.sel(gpu="kepler").warps[valid.sel(gpu="kepler")].values.tolist() == list(range(4, 65, 4))
    again = Plan.from_provenance(plan.attributes()["provenance"])
    assert again.record() == plan.record()
    assert again.words == {"warps": words}


def test_words_follow_the_fields_that_a_plan_changes():
    plan = Plan(gpu="kepler", kernel="mix", warps="multiples of schedulers up to 8", **{"gpu.sm.schedulers": [2, 4]})
    assert plan.values("warps") == (2, 4, 6, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warps": "multiples of schedulers"}, "warps = 'multiples of schedulers': must be 'all', 'powers of 2', "),
        ({"warps": "multiples of 100 up to the chip's limit"}, "selects no value on these chips"),
        ({"warps": "all up to 4", "warps_per_scheduler": [1]}, "only one of the two may be given"),
    ],
)
def test_wrong_words(changes, message):
    with pytest.raises(ValueError, match=message):
        Plan(gpu="kepler", kernel="mix", **changes)

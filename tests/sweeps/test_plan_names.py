"""Names in plans are the same in upper and lower case."""

import pytest

from warpsim.sweeps.plan import Plan
from warpsim.sweeps.settings import checked_value, checked_values


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [("scheduler", "GTO", "gto"), ("scheduler", "Two_Level:8", "two_level"), ("memory", "QUEUE", "queue")],
)
def test_names_have_one_spelling(name, given, meant):
    assert checked_value(name, given) == meant


def test_one_policy_is_one_point():
    assert checked_values("scheduler", ["lrr", "LRR"]) == ("lrr", "lrr")
    with pytest.raises(ValueError, match="lrr"):
        Plan(gpu="kepler", kernel="mix", alpha=8, warps=4, cycles=1000, scheduler=["lrr", "LRR"])

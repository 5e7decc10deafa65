"""The rule for the number of replicates: its coverage on known distributions, and sweeps with it."""

import numpy as np
import pytest
from scipy.special import stdtrit

from tests.support.small_plans import SHORT, small_plan
from warpsim.results.statistics import half_width
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan
from warpsim.sweeps.replicates import Replicates, read_replicates, recorded, replicated

NORMAL, SKEWED = "normal", "exponential"


def values_of(rule, draws):
    """What the rule keeps of a sequence of draws, and how many were asked for at a time."""
    calls = []

    def simulate(first, number):
        calls.append((first, number))
        return {"ipc": draws[first : first + number, None]}

    return replicated(simulate, rule)["ipc"][:, 0], calls


def coverage(distribution, deviation, rule, trials, seed=1):
    """Share of trials whose mean is within `rtol`, and whose interval covers the true mean, 1; mean number of replicates."""
    generator = np.random.default_rng(seed)
    within = covered = number = 0
    for _ in range(trials):
        noise = generator.standard_normal(rule.most) if distribution == NORMAL else generator.exponential(size=rule.most) - 1.0
        kept, _ = values_of(rule, 1.0 + deviation * noise)
        assert len(kept) == rule.most or half_width(kept) <= rule.rtol * abs(kept.mean()) * (1 + 1e-12)
        within += abs(kept.mean() - 1.0) <= rule.rtol * kept.mean()
        covered += abs(kept.mean() - 1.0) <= half_width(kept)
        number += len(kept)
    return within / trials, covered / trials, number / trials


def check(distribution, deviation, rtol, trials):
    """At least 95 % are within `rtol`, but for 4 standard errors: by chance once in 30 000 tests."""
    rule = Replicates(least=8, most=4000, rtol=rtol)
    within, covered, number = coverage(distribution, deviation, rule, trials)
    error = np.sqrt(0.95 * 0.05 / trials)
    assert within >= 0.95 - 4 * error
    assert covered >= 0.925 - 4 * error  # the interval of what was kept: stopping costs it up to 2 percent (0.929)
    return within, number


@pytest.mark.parametrize("deviation", [0.005, 0.02, 0.05])
def test_the_mean_is_within_the_tolerance_in_95_of_100_cases(deviation):
    within, number = check(NORMAL, deviation, 0.01, trials=1000)
    stein = (stdtrit(7.0, 0.975) * deviation / 0.01) ** 2  # the mean of Stein's number, where it is well above the least
    assert deviation < 0.02 or stein < number < 1.15 * stein
    assert deviation > 0.005 or within > 0.99  # the least number is more than enough


def test_a_rule_that_stops_at_the_first_narrow_interval_would_fail():
    """The same test catches the naive rule: intervals are narrow where the variance is underestimated."""

    class Naive(Replicates):
        def needed(self, values):
            met = half_width(values) <= self.rtol * abs(values.mean())
            return len(values) if met or len(values) == self.most else len(values) + 1

    within, _, _ = coverage(NORMAL, 0.02, Naive(least=2, most=400, rtol=0.01), trials=1000)
    assert within < 0.95 - 4 * np.sqrt(0.95 * 0.05 / 1000)


@pytest.mark.verify
@pytest.mark.parametrize("deviation", [0.002, 0.01, 0.02, 0.05, 0.1])
def test_coverage_with_normal_replicates_at_length(deviation):
    check(NORMAL, deviation, 0.01, trials=20_000)


@pytest.mark.verify
@pytest.mark.parametrize("deviation", [0.01, 0.02, 0.05])
def test_coverage_with_skewed_replicates_at_length(deviation):
    """Exponential replicates, skewness 2, much more than a run's mean has: 94 % are within the tolerance."""
    rule = Replicates(least=8, most=4000, rtol=0.01)
    within, _, _ = coverage(SKEWED, deviation, rule, trials=20_000)
    assert within >= 0.94 - 4 * np.sqrt(0.94 * 0.06 / 20_000)


def test_replicates_are_asked_for_in_few_calls_and_in_order():
    draws = 1.0 + 0.03 * np.random.default_rng(3).standard_normal((500, 1))[:, 0]
    kept, calls = values_of(Replicates(8, 500, 0.01), draws)
    assert calls[0] == (0, 8)
    assert [first for first, _ in calls[1:]] == np.cumsum([number for _, number in calls])[:-1].tolist()
    assert sum(number for _, number in calls) == len(kept)
    assert len(calls) < 12


def test_what_is_known_is_not_simulated_again_and_changes_nothing():
    draws = 1.0 + 0.03 * np.random.default_rng(4).standard_normal(500)
    rough, sharp = Replicates(8, 500, 0.02), Replicates(8, 500, 0.01)
    before, _ = values_of(rough, draws)
    after, _ = values_of(sharp, draws)
    assert len(before) < len(after)
    asked = []

    def simulate(first, number):
        asked.extend(range(first, first + number))
        return {"ipc": draws[first : first + number, None]}

    again = replicated(simulate, sharp, {"ipc": before[:, None]})["ipc"][:, 0]
    np.testing.assert_array_equal(again, after)
    assert asked == list(range(len(before), len(after)))


@pytest.mark.parametrize(("values", "number"), [([2.0] * 8, 8), ([0.0] * 8, 8), ([float("nan")] * 8, 8), ([-1.0, 1.0] * 4, 64)])
def test_means_without_a_width_end_at_once_and_means_of_zero_never(values, number):
    assert Replicates(8, 64, 0.01).needed(np.array(values)) == number


def test_a_sweep_gives_each_point_what_it_needs():
    rule = {"rtol": 0.01, "least": 3, "most": 24, "of": "bandwidth"}
    settings = {"gpu": "kepler", "kernel": "mix", "alpha": 0, "warps": [1, 64], "sms": 1, "warmup": 0, "cycles": 10_000}
    results = sweep(Plan(**settings, replicates=rule))
    numbers = results["bandwidth"].notnull().sum("replicate").values
    assert results.sizes["replicate"] == 24
    assert 3 <= numbers.min() < numbers.max() <= 24
    fixed = sweep(Plan(**settings, replicates=24))
    for warps, number in zip((1, 64), numbers, strict=True):
        kept = results["bandwidth"].sel(warps=warps)[:number]
        np.testing.assert_array_equal(kept, fixed["bandwidth"].sel(warps=warps)[:number])
        assert number == 24 or half_width(kept) <= 0.025 * kept.mean()


def test_the_rule_is_part_of_the_plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('gpu = "kepler"\nkernel = "mix"\nwarps = 8\nreplicates = {rtol = 0.02, most = 20}\n')
    plan = Plan.from_toml(file)
    assert plan.replicates == Replicates(8, 20, 0.02, "ipc")
    assert Plan.from_provenance(plan.attributes()["provenance"]).replicates == plan.replicates
    assert read_replicates(recorded(plan.replicates)) == plan.replicates
    assert recorded(small_plan().replicates) == 2


def test_which_rules_extend_which():
    rule = Replicates(8, 64, 0.01)
    assert Replicates(16, 16).extends(Replicates(8, 8))
    assert rule.extends(Replicates(8, 8)) and rule.extends(Replicates(8, 64, 0.02)) and rule.extends(Replicates(4, 32, 0.01))
    for other in (Replicates(9, 64, 0.01), Replicates(8, 65, 0.01), Replicates(8, 64, 0.005), Replicates(8, 64, 0.01, "cycles")):
        assert not rule.extends(other)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"rtol": 0}, ValueError, r"replicates.rtol = 0: must be a number above 0 and below 1"),
        ({"rtol": "1%"}, ValueError, r"replicates.rtol = '1%'"),
        ({"least": 1}, ValueError, r"replicates.least = 1: must be an integer from 2"),
        ({"least": 8, "most": 4}, ValueError, r"replicates.most = 4: must be an integer from 8"),
        ({"most": 8.5}, TypeError, r"replicates.most = 8.5: must be an integer"),
        ({"of": "valid"}, ValueError, r"replicates.of = 'valid': must be one of cycles, warmup_cycles, "),
        ({"atol": 1}, ValueError, r"replicates.atol: unknown; must be one of least, most, rtol, of"),
        ("many", TypeError, "replicates = 'many': must be an integer"),
    ],
)
def test_wrong_rules(value, error, message):
    with pytest.raises(error, match=message):
        Plan(gpu="kepler", kernel="mix", replicates=value, **SHORT)

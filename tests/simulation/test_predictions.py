"""Intervals in which a measured time is to be expected, from the ratios of kernels that were predicted and measured."""

from __future__ import annotations

import random

import pytest

import warpsim as ws
from warpsim.kernels import load_kernel, mix
from warpsim.simulation.predictions import is_of_machine_code, middle, prediction_interval


@pytest.mark.parametrize("count", [19, 20, 38, 39, 62, 100])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_another_value_lies_between_with_at_least_the_level_and_not_much_more(count, level):
    """It is as likely to be the first of all as the second, and so on to the last."""
    low, high = middle(count, level)
    assert low == count - 1 - high
    places = high - low  # of the count + 1 places that it can take, those between
    assert level - 1e-9 <= places / (count + 1) < level + 2 / (count + 1)


def test_one_of_the_ratios_that_is_left_out_lies_between_as_often_as_stated():
    draws = random.Random(1)
    ratios = [draws.lognormvariate(0.1, 0.4) for _ in range(59)]
    held = 0
    for place in range(len(ratios)):
        others = sorted(ratios[:place] + ratios[place + 1 :])
        low, high = middle(len(others), 0.9)
        held += others[low] <= ratios[place] <= others[high]
    assert held == 55  # all but the two lowest and the two highest


def test_too_few_values_have_no_interval():
    with pytest.raises(ValueError, match=r"level = 0.9: must be smaller, since 18 kernels"):
        middle(18, 0.9)


@pytest.mark.parametrize("origin", ["source", "report"])
def test_the_interval_is_around_the_simulated_time_and_grows_with_it(origin):
    short, long = (prediction_interval(time, origin) for time in (20.0, 200.0))
    assert short.low < 20.0 < short.high
    assert (long.low, long.high) == pytest.approx((10 * short.low, 10 * short.high))
    assert (short.level, short.kernels) == (0.9, long.kernels)
    wide = prediction_interval(20.0, origin, 0.5)
    assert short.low <= wide.low < wide.high <= short.high


def test_no_launch_shorter_than_the_compared_ones_has_an_interval():
    assert prediction_interval(9.99, "source") is None


def test_which_launches_have_an_interval():
    time = ws.launch_time("a100", load_kernel("cuda/softmax"), 3000, replicates=1, budget=10**6)
    assert time.predicted.low < time.microseconds.mean < time.predicted.high
    own = ws.launch_time("a100", mix(alpha=8, iterations=200), 3000, block_warps=8, replicates=1, budget=10**6)
    assert own.microseconds.mean > 10.0
    assert own.predicted is None


def test_kernels_of_machine_code():
    assert is_of_machine_code(load_kernel("cuda/vector_add"))
    assert not any(map(is_of_machine_code, (mix(alpha=2), load_kernel("vector_add"), load_kernel("producer_consumer"))))

"""Nominal 95 % intervals hold the mean of runs a hundred times as long: `make verify` measures it at the points of the list."""

import numpy as np
import pytest

from tests.support.coverage import POINTS, VARIABLES, CoveragePoint, bursts, measure
from warpsim.kernels import mix
from warpsim.results.schema import FEW_ITERATIONS
from warpsim.simulation.api import simulate_point

REPETITIONS = 200
LEAST = 0.93
CHANCE = 3 * np.sqrt(LEAST * (1 - LEAST) / REPETITIONS)
"""Three standard errors of a share that is measured in so many repetitions."""


def test_there_are_points_of_every_kind():
    assert len(POINTS) >= 12
    assert any(place.rule.most > place.rule.least for place in POINTS.values())
    assert {100, 200, 400} == {place.kernel.body[0].body[0].trips for place in POINTS.values() if "bursts" in place.kernel.name}
    assert bursts(100).endless


def test_the_measurement_finds_intervals_that_do_not_hold():
    """Without warm-up all warps begin together, and every replicate counts the same part of their period."""
    together = CoveragePoint("kepler", mix(512), 4, settings={"cycles": 20_000, "warmup": 0})
    assert measure(together, 5).covered["bandwidth"] == 0


@pytest.mark.verify
@pytest.mark.parametrize("name", [name for name, place in POINTS.items() if not place.too_short])
def test_intervals_hold_the_mean_of_long_runs(name):
    found = measure(POINTS[name], REPETITIONS)
    assert min(found.covered[variable] for variable in VARIABLES) >= LEAST - CHANCE


@pytest.mark.verify
@pytest.mark.parametrize("name", [name for name, place in POINTS.items() if place.too_short])
def test_windows_that_are_too_short_are_known_to_be(name):
    """Their intervals do not hold, and users are told so."""
    assert (simulate_point(POINTS[name].point(0))["warp_iterations"] < FEW_ITERATIONS / 4).all()

"""Slices of four SMs agree with whole chips of 16 SMs and more: `make verify` compares them at the points of the list."""

import numpy as np
import pytest

from tests.support.slices import LEVELS, POINTS, by_chance, compare
from warpsim.hardware.gpu import load_gpu
from warpsim.simulation.api import simulate

MEANS, QUANTILES = 0.01, 0.03
"""Relative differences that are tolerated: of bandwidth and mean latency, and of quantiles of the latency."""

CHANCE = 4
"""Standard errors of a difference that are tolerated besides."""


def test_there_are_chips_of_every_kind():
    assert len(POINTS) >= 12
    assert all(load_gpu(place.gpu).sms >= 16 for place in POINTS.values())
    assert {place.kernel.body[0].body[0].trips for name, place in POINTS.items() if "bursts" in name} == {100, 200, 400}


@pytest.mark.verify
@pytest.mark.parametrize("name", POINTS)
def test_a_slice_agrees_with_the_whole_chip(name):
    """6 and 16 replicates: each of 7 numbers fails by chance in fewer than one of 1000 cases, even if it is at its limit."""
    found = compare(POINTS[name])
    assert (np.abs(found.means) <= MEANS + CHANCE * found.errors).all()
    assert (np.abs(found.quantiles) <= QUANTILES + CHANCE * found.quantile_errors).all()
    assert (found.errors <= MEANS).all() and (found.quantile_errors <= QUANTILES).all(), "too few replicates to tell"
    assert len(found.quantiles) == len(LEVELS)


@pytest.mark.parametrize("what", ["hits", "branch", "trips"])
def test_a_slice_gets_no_more_of_the_memory_than_there_is(what):
    """Chance decides which accesses a warp makes: echoes with other histories must wait for loads alone, not for stores."""
    found = simulate("rtx4090", by_chance(what), warps=24, sms=8, replicates=2, cycles=40_000)
    assert float(found.peak_fraction.mean()) == pytest.approx(1.0, abs=0.03)

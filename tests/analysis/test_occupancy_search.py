"""The search for the fewest warps, on launches whose shares of the peak are given."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.model_inputs import ADD, BARRIER, kernel
from warpsim.analysis import occupancy_search
from warpsim.analysis.occupancy_search import OccupancySearch
from warpsim.simulation.point import make_point


@pytest.fixture
def search(monkeypatch):
    """Searches where the share grows with the warps, and falls with the size of a block, which is 8 warps at present."""

    def simulate_point(point, threads, *, streams):
        launch = point.launch
        share = min(1.0, launch.resident_warps / 20) * (1 - 0.02 * (launch.block_warps - 1))
        return {"peak_fraction": np.full(2, share), "ipc": np.ones((2, 1))}

    monkeypatch.setattr(occupancy_search, "simulate_point", simulate_point)
    return lambda gpu, *body: OccupancySearch(make_point(gpu, kernel(*body), warps=48, block_warps=8), b"")


def test_smaller_blocks_are_tried_at_an_occupancy_that_the_present_size_has(search):
    found = search("rtx4090", ADD).needed(0.77)
    assert (found.trial.warps, found.trial.launch.block_warps) == (24, 8)  # 2 blocks of 8 warps attain 0.69
    assert (found.any_size.warps, found.any_size.launch.block_warps) == (16, 1)


def test_smaller_blocks_are_tried_where_the_present_size_never_suffices(search):
    found = search("rtx4090", ADD).needed(0.93)
    assert found.trial is None
    assert (found.any_size.warps, found.any_size.launch.block_warps) == (19, 1)


def test_a_large_block_between_small_ones_does_not_end_the_search(search):
    found = search("kepler", ADD).needed(0.82)  # 16 blocks fit, so that 23 warps are one block, and 22 are 11 blocks
    assert (found.trial.warps, found.trial.launch.block_warps) == (24, 8)
    assert (found.any_size.warps, found.any_size.launch.block_warps) == (18, 2)


def test_blocks_that_meet_at_barriers_keep_their_size(search):
    looked = search("rtx4090", ADD, BARRIER)
    found = looked.needed(0.93)
    assert found.trial is None and found.any_size is None
    assert {size for size, _ in looked.trials} == {8}

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
    """A search on a chip where the share grows with the warps, and falls with the size of a block."""

    def simulate_point(point, threads, *, streams):
        launch = point.launch
        share = min(1.0, launch.resident_warps / 10) * (1 - 0.02 * (launch.block_warps - 1))
        return {"peak_fraction": np.full(2, share), "ipc": np.ones((2, 1))}

    monkeypatch.setattr(occupancy_search, "simulate_point", simulate_point)
    return lambda *body: OccupancySearch(make_point("rtx4090", kernel(*body), warps=48, block_warps=8), b"")


def test_smaller_blocks_are_tried_at_an_occupancy_that_the_present_size_has(search):
    found = search(ADD).needed(0.75)
    assert (found.trial.warps, found.trial.launch.block_warps) == (16, 8)  # 8 warps in one block attain 0.69
    assert (found.any_size.warps, found.any_size.launch.block_warps) == (8, 1)


def test_smaller_blocks_are_tried_where_the_present_size_never_suffices(search):
    found = search(ADD).needed(0.9)
    assert found.trial is None
    assert (found.any_size.warps, found.any_size.launch.block_warps) == (9, 1)


def test_blocks_that_meet_at_barriers_keep_their_size(search):
    looked = search(ADD, BARRIER)
    found = looked.needed(0.9)
    assert found.trial is None and found.any_size is None
    assert {size for size, _ in looked.trials} == {8}

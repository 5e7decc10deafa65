"""Samples of public launches agree with the whole launch: `make verify` compares them where the reports are."""

import os
from pathlib import Path

import pytest

from tests.support.samples import chosen, compare

MOST = 8_000_000
"""Warp instructions of the launches that are compared here, at most."""


@pytest.mark.verify
def test_intervals_of_sampled_replays_hold():
    folder = Path(os.environ.get("WARPSIM_PROFILES", "reports"))
    if not folder.is_dir():
        pytest.skip("WARPSIM_PROFILES names no folder with the reports of experiments/profiles/sources.csv")
    rows = [row for profile in chosen(folder, MOST) if (row := compare(profile)) is not None]
    assert rows
    assert all(row.holds for row in rows), rows

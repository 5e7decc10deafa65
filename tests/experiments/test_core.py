"""experiments/core: the issue cycles of Huerta et al., MICRO 2025, on the file of a chip."""

from __future__ import annotations

import pytest

from tests.support.experiment_modules import modules_of


@pytest.fixture(scope="module")
def timing():
    return modules_of("core", "timing")[0]


@pytest.mark.parametrize("op", ["load", "smem"])
def test_all_cycles_of_memory_instructions(timing, op: str) -> None:
    published = timing.published_memory_issue()
    assert sum(map(len, published.values())) == 80
    found = {}
    for active in range(1, 5):
        found |= timing.memory_issue(op, active)
    assert found == published


def test_listing_1(timing) -> None:
    assert {operands: timing.listing_1(*operands) for operands in timing.LISTING_1} == timing.LISTING_1


def test_figure_4(timing) -> None:
    for cost, fetch, published in timing.FIGURE_4.values():
        assert timing.figure_4(cost, fetch) == published

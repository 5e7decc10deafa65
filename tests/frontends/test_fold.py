"""Loops that are found in what a warp executed."""

import random

import pytest

from warpsim.frontends.traces.fold import Repeated, fold, length


def unfolded(items):
    found = []
    for item in items:
        found += [item] if isinstance(item, int) else unfolded(item.body) * item.trips
    return found


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ([], ()),
        ([1, 2, 3], (1, 2, 3)),
        ([1, 2, 3, 2, 3, 2, 3, 4], (1, Repeated((2, 3), 3), 4)),
        ([1, *([2, *([3, 4] * 5), 6] * 7), 8], (1, Repeated((2, Repeated((3, 4), 5), 6), 7), 8)),
        ([5] * 9, (Repeated((5,), 9),)),
    ],
)
def test_repetitions_become_loops(path, items):
    assert fold(path) == items
    assert unfolded(items) == path


def test_whatever_is_folded_stands_for_the_same_instructions():
    draw = random.Random(8)
    for _ in range(200):
        path = []
        for _ in range(draw.randint(0, 12)):
            part = [draw.randrange(4) for _ in range(draw.randint(1, 5))]
            path += part * draw.randint(1, 4)
        items = fold(path)
        assert unfolded(items) == path
        assert length(items) <= 2 * len(path)


def test_loops_with_the_same_body_can_share_the_mean_of_their_trips():
    path = [0]
    for trips in (3, 5, 3, 5):
        path += [1, *([2, 3] * trips), 4]
    assert length(fold(path)) > 8
    assert fold(path, exact=False) == (0, Repeated((1, Repeated((2, 3), 4), 4), 4))


def test_a_long_path_is_folded_fast():
    path = [*([*range(50), *([50, 51, 52] * 8)] * 400)]
    assert fold(path) == (Repeated((*range(50), Repeated((50, 51, 52), 8)), 400),)

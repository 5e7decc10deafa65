"""experiments/incore: chains of double-precision instructions on one SM of a V100, against te42kyfo/gpu-benches, cuda-incore."""

from __future__ import annotations

import pytest

from tests.support.experiment_modules import modules_of


@pytest.fixture(scope="module")
def chains():
    return modules_of("incore", "chains")[0]


def test_the_loop_has_what_its_source_has(chains) -> None:
    """Of 5 chains: 125 multiply-adds, 6 additions, 5 comparisons; 5 stores; conversion, counter, comparison, branch."""
    body = chains.loop(5).body[0].body
    assert sum(instruction.op == "fp64" for instruction in body) == 125 + 6 + 5
    assert len(body) == 136 + 5 + 4
    assert len(chains.measured()) == 30


@pytest.mark.parametrize(("warps", "count"), [(1, 1), (1, 2), (1, 5), (2, 3), (4, 4), (8, 1), (8, 4), (16, 5), (32, 2)])
def test_chains_of_dfma(chains, warps: int, count: int) -> None:
    """The loop explains most of what the chains alone miss."""
    published = chains.measured()[warps, count]
    whole, alone = chains.simulated(warps, count)
    assert 0.955 * published <= whole <= published
    assert alone < whole

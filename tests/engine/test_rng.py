"""Random streams of the engine: the published generator, and the draws made from its words."""

from __future__ import annotations

import numpy as np
import pytest

from warpsim.engine import rng
from warpsim.reference.memory import Stream

LARGEST = np.uint64(2**64 - 1)


def words(state: int, count: int) -> list[int]:
    """Returns the next words of a stream."""
    drawn = []
    with np.errstate(over="ignore"):  # for runs without compilation
        for _ in range(count):
            state = rng.advance(np.uint64(state))
            drawn.append(int(rng.mix(np.uint64(state))))
    return drawn


def test_splitmix64_gives_the_published_words() -> None:
    """The first outputs for seed 1234567, as published with the implementation of Steele, Lea and Flood."""
    assert words(1234567, 5) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_uniform_is_from_0_up_to_but_not_1() -> None:
    assert rng.uniform(np.uint64(0)) == 0.0
    assert rng.uniform(np.uint64(2**11 - 1)) == 0.0
    assert rng.uniform(np.uint64(2**11)) == 2.0**-53
    assert rng.uniform(np.uint64(2**63)) == 0.5
    assert rng.uniform(LARGEST) == 1.0 - 2.0**-53


@pytest.mark.parametrize("count", [1, 2, 3, 48, 1000])
def test_servers_are_chosen_by_either_half(count: int) -> None:
    high, low = np.uint64(0xFFFFFFFF00000000), np.uint64(0x00000000FFFFFFFF)
    assert (rng.choose(high, count), rng.choose(low, count)) == (count - 1, 0)
    assert (rng.choose_low(high, count), rng.choose_low(low, count)) == (0, count - 1)


def test_servers_are_equally_likely() -> None:
    """30 000 draws for each half: chi-squared with 4 degrees of freedom, above 33 once in 800 000 by chance."""
    drawn = np.array(words(7, 30_000), np.uint64)
    for choose in (rng.choose, rng.choose_low):
        counts = np.bincount([choose(word, 5) for word in drawn], minlength=5)
        assert len(counts) == 5
        assert np.sum((counts - 6000) ** 2 / 6000) < 33


def test_uniform_has_the_moments_of_a_uniform() -> None:
    """n = 30 000, mean and mean square within 5 standard errors; each fails by chance once in two million seeds."""
    u = np.array([rng.uniform(np.uint64(word)) for word in words(8, 30_000)])
    assert abs(u.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / len(u))
    assert abs((u**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / len(u))


@pytest.mark.parametrize("seed", [0, 2016, 2**64 - 1])
@pytest.mark.parametrize("number", [0, 1, 63, 10**9])
def test_streams_of_warps(seed: int, number: int) -> None:
    reference = Stream.of_warp(seed, number)
    with np.errstate(over="ignore"):
        state = rng.stream_of(np.uint64(seed), number)
    assert words(state, 3) == [reference.draw() for _ in range(3)]


def test_streams_of_schedulers_count_backwards() -> None:
    with np.errstate(over="ignore"):
        starts = [int(rng.stream_of(np.uint64(5), number)) for number in range(-40, 40)]
    assert len(set(starts)) == 80


def test_skipped_draws_are_draws() -> None:
    with np.errstate(over="ignore"):
        far = rng.skip(np.uint64(99), 1000)
    assert words(far, 3) == words(99, 1003)[1000:]

"""Replays of long launches from shorter runs."""

from dataclasses import replace

import pytest

from tests.support.profiled_launches import launch
from warpsim.kernels.statements import Loop
from warpsim.profiles.api import profile_of
from warpsim.profiles.replay import Line


def with_trips(trips):
    """The launch with so many trips in place of four."""
    profile = profile_of(launch())
    body = tuple(one.model_copy(update={"trips": trips}) if isinstance(one, Loop) else one for one in profile.kernel.body)
    return replace(profile, kernel=profile.kernel.model_copy(update={"body": body}))


@pytest.fixture(scope="module")
def long():
    return with_trips(200)


def test_a_run_with_fewer_trips_is_extended_to_the_whole():
    whole, part = (with_trips(4_000).replay(replicates=3, budget=budget) for budget in (10**8, 300_000))
    assert whole.sampling == "" and part.sampling.endswith("fewer trips of the outer loops")
    assert part.share < 0.1
    assert part.cycles.mean == pytest.approx(whole.cycles.mean, rel=part.sampled_within)
    assert part.warps.mean == pytest.approx(whole.warps.mean, rel=0.1)
    assert part.stalls["long_scoreboard"].mean == pytest.approx(whole.stalls["long_scoreboard"].mean, rel=0.1)


def test_sms_without_a_block_leave_the_memory_alone(long):
    """Where memory is the limit, a grid of a few SMs is faster than one that fills the chip, in windows as well."""
    slow = long.what_if(bandwidth=0.01)
    times = []
    for blocks in (84, 42, 10):
        few = slow.launch.model_copy(update={"blocks": blocks, "resident_blocks": 1})
        found = replace(slow, launch=few).replay(replicates=1, budget=10)
        assert "windows" in found.sampling
        times.append(found.cycles.mean)
    assert times[1] < 0.7 * times[0] and times[2] < 0.7 * times[1]


def test_the_warp_cycles_of_all_instructions_are_one():
    """Stores drain behind the EXIT, where the samples of the profiler are."""
    profile = profile_of(launch())
    replay = profile.replay(replicates=1, lines=True)
    leave, behind = 7 * 16, 8 * 16
    assert profile.code[7].text == "EXIT" and profile.code[7].executed and not profile.code[8].executed
    assert sum(line.share.mean for line in replay.lines.values()) == pytest.approx(1.0)
    assert replay.lines[behind].share.mean == pytest.approx(replay.shares["drain"])
    assert set(replay.lines[behind].shares) == {"drain"}
    assert 0.0 < replay.lines[leave].share.mean < 0.1


def test_instructions_have_states_and_intervals():
    """The states of all instructions are those of the launch; with the lines, the launch takes the same cycles."""
    profile = profile_of(launch())
    replay, plain = profile.replay(replicates=3, lines=True), profile.replay(replicates=3)
    assert replay.cycles == plain.cycles and replay.stalls == plain.stalls and not plain.lines
    states = {}
    for line in replay.lines.values():
        assert sum(line.states.values()) == pytest.approx(line.share.mean)
        for state, share in line.states.items():
            states[state] = states.get(state, 0.0) + share
    assert states == pytest.approx(replay.shares, abs=0.01)
    assert any(line.share.half_width > 0.0 for line in replay.lines.values())


@pytest.mark.parametrize("budget", [10**7, 30_000, 2000])
def test_no_number_depends_on_the_threads(long, budget):
    one, three = (long.replay(replicates=2, budget=budget, lines=True, threads=threads) for threads in (1, 3))
    assert one == three


def test_a_wrong_number_of_threads(long):
    with pytest.raises(ValueError, match="threads = 0: must be an integer from 1"):
        long.replay(threads=0)


def test_lines_add_up():
    both = Line({"wait": (0.1, 0.2), "selected": (0.3, 0.3)}) + Line({"wait": (0.2, 0.2), "barrier": (0.0, 0.1)})
    assert both.states == pytest.approx({"wait": 0.35, "selected": 0.3, "barrier": 0.05})
    assert both.share.mean == pytest.approx(0.7) and both.share.half_width > 0.0

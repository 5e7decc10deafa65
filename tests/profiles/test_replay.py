"""Replays of long launches from shorter runs."""

from dataclasses import replace

import pytest

from tests.support.executions import expected_ops
from tests.support.profiled_launches import launch
from warpsim.kernels.instruction import Instruction
from warpsim.kernels.statements import Conditional, Loop
from warpsim.profiles.api import profile_of
from warpsim.profiles.endless import shortened
from warpsim.profiles.replay import Line
from warpsim.profiles.sampling import samples_of


@pytest.fixture(scope="module")
def long():
    """The launch with 200 trips in place of four."""
    profile = profile_of(launch())
    body = tuple(one.model_copy(update={"trips": 200}) if isinstance(one, Loop) else one for one in profile.kernel.body)
    return replace(profile, kernel=profile.kernel.model_copy(update={"body": body}))


def test_a_run_with_fewer_trips_is_extended_to_the_whole(long):
    whole, part = (long.replay(replicates=3, budget=budget) for budget in (10**7, 30_000))
    assert whole.sampling == "" and part.sampling.endswith("fewer trips of the outer loops")
    assert part.share < 0.5
    apart = whole.cycles.half_width + part.cycles.half_width
    assert abs(part.cycles.mean - whole.cycles.mean) < max(apart, 0.03 * whole.cycles.mean)
    assert part.warps.mean == pytest.approx(whole.warps.mean, rel=0.05)
    assert part.stalls["long_scoreboard"].mean == pytest.approx(whole.stalls["long_scoreboard"].mean, rel=0.1)


@pytest.mark.parametrize(
    ("blocks", "resident", "parts"),
    [
        (1.25, 6, [1.0, 0.25]),
        (3.5, 6, [3.0, 0.5]),
        (4.0, 6, [4.0]),
        (0.5, 6, [0.5]),
        (6.5, 6, [6.5]),  # the blocks are out of step by then
        (1.25, 1, [1.25]),  # no SM can take several at a time
    ],
)
def test_the_last_one_of_few_rounds_is_shared_evenly(blocks, resident, parts):
    profile = profile_of(launch())
    wave = profile.gpu.sms * resident
    few = profile.launch.model_copy(update={"blocks": round(blocks * wave), "resident_blocks": resident})
    samples = samples_of(profile.gpu, profile.kernel, few, 10**9)
    assert [part.samples[0].blocks / wave for part in samples.parts] == parts and not samples.left_out
    assert all(len(part.samples) == 1 and part.work == part.samples[0].work for part in samples.parts)


@pytest.mark.parametrize("blocks", [80, 81, 83, 160, 161, 8001])
def test_sampled_sms_execute_as_many_rounds_as_the_chip(blocks):
    """81 blocks on 84 SMs, or on 80, are one round or two, however few SMs are simulated."""
    profile = profile_of(launch())
    for sms in (80, 84):
        gpu = profile.gpu.model_copy(update={"sms": sms})
        some = profile.launch.model_copy(update={"blocks": blocks, "resident_blocks": 1})
        plan = samples_of(gpu, profile.kernel, some, 2_000)
        for part in plan.parts if plan else ():
            one = part.samples[-1]
            if "rounds" not in str(plan.left_out):
                assert -(-one.blocks // (one.sms or sms)) == -(-blocks // sms)


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


def test_outer_loops_are_shortened_and_nothing_else():
    inner = Loop(body=[Instruction("alu")], trips=10)
    kernel = profile_of(launch()).kernel
    condition = Conditional(then=(Loop(body=[inner], trips=100),), probability=0.5)
    kernel = kernel.model_copy(update={"body": (Instruction("alu"), condition)})
    (first, condition) = shortened(kernel, 0.1).body
    assert condition.then[0].trips == 10 and condition.then[0].body[0].trips == 10 and first == kernel.body[0]
    assert sum(count for _, count in expected_ops(shortened(kernel, 0.1).body)) == pytest.approx(1 + 1 + 50)
    assert shortened(kernel, 0.02) is None  # two trips tell nothing of those between the first and the last


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

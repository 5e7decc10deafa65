"""Samples that stand for a launch: which ones, and what they say of all of it."""

import json

import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from tests.support.profiled_launches import launch
from warpsim import cli
from warpsim.kernels import Access, Conditional, Instruction, Kernel, Loop
from warpsim.kernels.iteration import stores_run_free
from warpsim.profiles.api import profile_of
from warpsim.simulation.endless import shortened
from warpsim.simulation.point import make_point
from warpsim.simulation.sampling import dram_demand, samples_of

SOFTMAX = ws.load_kernel("cuda/softmax")
"""A kernel that states the warps of its blocks, 8."""


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


def test_outer_loops_are_shortened_and_nothing_else():
    inner = Loop(body=[Instruction("alu")], trips=10)
    kernel = profile_of(launch()).kernel
    condition = Conditional(then=(Loop(body=[inner], trips=100),), probability=0.5)
    kernel = kernel.model_copy(update={"body": (Instruction("alu"), condition)})
    (first, condition) = shortened(kernel, 0.1).body
    assert condition.then[0].trips == 10 and condition.then[0].body[0].trips == 10 and first == kernel.body[0]
    assert sum(count for _, count in expected_ops(shortened(kernel, 0.1).body)) == pytest.approx(1 + 1 + 50)
    assert shortened(kernel, 0.02) is None  # two trips tell nothing of those between the first and the last


def test_some_sms_do_not_stand_for_all_where_stores_run_free():
    """With fewer trips the stores behind the loop are more than its loads hold back, whatever the budget."""
    loop = Loop(body=(Instruction("load", dst="r", access=Access(l2_hit=0.99)), Instruction("alu", src=("r",))), trips=2_000)
    stores = (Instruction("store", access=Access(pattern="stride", stride=8)),) * 20
    stored = Kernel(name="stored", block_warps=8, body=(loop, *stores))
    only = Kernel(name="only", block_warps=8, body=(Instruction("store"),) * 500)
    assert not stores_run_free(stored) and stores_run_free(shortened(stored, 0.05)) and stores_run_free(only)
    gpu = ws.load_gpu("h100")
    for kernel in (stored, only):
        for budget in (10**4, 10**5, 10**6, 10**7):
            plan = samples_of(gpu, kernel, make_point(gpu, kernel, launch=ws.Launch(blocks=5_000, block_warps=8)).launch, budget)
            for one in (one for part in plan.parts for one in part.samples) if plan else ():
                assert one.sms is None or not stores_run_free(one.kernel)
    assert dram_demand(gpu, only) > 1


def test_the_time_of_a_short_launch_is_that_of_its_simulation():
    point = {"launch": ws.Launch(blocks=300, block_warps=8), "scheduler": "gto", "replicates": 8, "seed": 3}
    whole = ws.simulate("a100", SOFTMAX, **point).cycles.mean().item()
    found = ws.launch_time("a100", SOFTMAX, 300, scheduler="gto", replicates=8, seed=3)
    assert found.cycles.mean == pytest.approx(whole, rel=0.02)  # the cost of the launch is no part of what is simulated
    assert found.microseconds.mean == pytest.approx(found.cycles.mean / ws.load_gpu("a100").clock_ghz / 1000)
    assert (found.share, found.sampling, found.sampled_within) == (1.0, "", 0.0)
    assert sum(share.mean for share in found.warp_cycles.values()) == pytest.approx(1)
    assert found.cycles.half_width > 0 and found.point.launch.resident_blocks == 8


def test_a_launch_waits_for_its_constants_once():
    """The last of two rounds is simulated by itself."""
    cold = ws.load_gpu("a100")
    warm = cold.model_copy(update={"core": cold.core.model_copy(update={"cold_constants": None})})
    blocks = 108 * 8 + 50
    found = [ws.launch_time(gpu, "cuda/vector_add", blocks, memory="fixed", replicates=1).cycles.mean for gpu in (cold, warm)]
    assert 1 <= (found[0] - found[1]) / cold.memory.latency_cycles < 1.5  # then all warps issue at once


@pytest.mark.parametrize(("name", "blocks"), [("cuda/softmax", 20_000), ("cuda/matmul_16", 1_000)])
def test_samples_of_a_launch_take_as_long_as_all_of_it(name, blocks):
    kernel = ws.load_kernel(name)
    whole, part = (ws.launch_time("a100", kernel, blocks, replicates=1, budget=budget) for budget in (10**9, 10**6))
    assert whole.sampling == "" and part.sampling and part.share < 0.7
    assert part.cycles.mean == pytest.approx(whole.cycles.mean, rel=max(0.05, part.sampled_within))
    assert part.warps.mean == pytest.approx(whole.warps.mean, rel=0.2)  # the last round is not full


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"blocks": 0}, ValueError, "blocks = 0"),
        ({"blocks": 2.5}, TypeError, "blocks = 2.5"),
        ({"blocks": 8, "budget": 0}, ValueError, "budget = 0"),
        ({"blocks": 8, "kernel": "mix"}, ValueError, r"block_warps \(--block-warps\): must be given, since the kernel"),
        ({"blocks": 8, "block_warps": 99}, ValueError, "99"),
        ({"blocks": 8, "block_warps": 0}, ValueError, "block_warps = 0: must be an integer from 1"),
        ({"blocks": 8, "resident_blocks": 99}, ValueError, "99"),
        ({"blocks": 8, "schedule": "gto"}, TypeError, "schedule: is not an argument, did you mean 'scheduler'"),
        ({"blocks": 8, "kernel": "mix", "block_warps": 8}, ValueError, "which is an endless loop"),
    ],
)
def test_wrong_launches(given, error, says):
    with pytest.raises(error, match=says):
        ws.launch_time("a100", **{"kernel": SOFTMAX} | given)


def test_the_command_says_how_long_a_launch_takes(capsys):
    arguments = ["time", "--gpu", "a100", "--kernel", "cuda/softmax", "--blocks", "3000", "--budget", "100000"]
    assert cli.main(arguments) == 0
    output = capsys.readouterr().out
    assert "3000 blocks, 8 blocks of 8 warps per SM, grr, memory queue" in output
    assert "such samples were within" in output and "warp_cycles long_scoreboard" in output
    assert cli.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    time = ws.launch_time("a100", SOFTMAX, 3000, budget=100_000)
    assert found["microseconds"] == {"mean": time.microseconds.mean, "half_width": time.microseconds.half_width}
    assert found["sampling"] == time.sampling and found["resident_blocks"] == 8
    assert f"{time.microseconds.mean:.5g}" in output


def test_a_request_that_no_chip_can_hold(capsys):
    assert cli.main(["time", "--gpu", "a100", "--kernel", "cuda/softmax", "--blocks", "8", "--resident-blocks", "99"]) == 2
    assert "99" in capsys.readouterr().err

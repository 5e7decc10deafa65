"""The cost of a launch and the rate at which a chip starts blocks: exact numbers, engine and reference."""

from __future__ import annotations

import pytest

from tests.engine.directed_cases import case, kernel
from tests.engine.test_against_reference import assert_same
from tests.support.cases import small_gpu
from warpsim.kernels import Instruction, Loop

ONE = kernel(Instruction("alu"))


def starts(found: dict[str, list[tuple[int, ...]]]) -> list[int]:
    return [start for _, _, start, _ in found["retired"]]


def test_a_grid_begins_after_the_cost_of_its_launch() -> None:
    at_once, later = (assert_same(case(small_gpu(launch_microseconds=us), ONE, blocks=3, size=1)) for us in (0.0, 0.0504))
    assert starts(later) == [50 + start for start in starts(at_once)]
    assert later["end"] == 50 + at_once["end"]


def test_an_endless_supply_has_no_launch() -> None:
    found = assert_same(case(small_gpu(launch_microseconds=1.0), ONE, blocks=None, size=1))
    assert found["warps"][0][3] == 0


@pytest.mark.parametrize(
    ("interval", "expected"), [(2.0, [0, 2, 4, 6, 8, 10]), (2.5, [0, 3, 5, 8, 10, 13]), (0.5, [0, 1, 1, 2, 2, 3])]
)
def test_blocks_of_the_deal_start_one_after_another(interval: float, expected: list[int]) -> None:
    gpu = small_gpu(sms=3, launch_interval_cycles=interval)
    assert starts(assert_same(case(gpu, ONE, blocks=6, size=2)))[::2] == expected


def test_the_rate_is_that_of_the_whole_chip() -> None:
    """64 short blocks on 4 SMs and on a slice of 2 of them, which has half of the chip's rate."""
    gpu = small_gpu(sms=4, launch_interval_cycles=10.0, block_launch_cycles=1)
    assert starts(assert_same(case(gpu, ONE, blocks=64, size=1)))[-1] == 630
    assert starts(assert_same(case(gpu, ONE, blocks=32, size=1, sms=2)))[-1] == 31 * 20


def test_blocks_that_wait_for_their_start_keep_the_grid_alive() -> None:
    """The launcher needs longer for each block than the block runs, so that no warp is resident in between."""
    gpu = small_gpu(launch_interval_cycles=1000.0, launch_microseconds=0.7)
    found = assert_same(case(gpu, ONE, blocks=3, size=1, seats=1))
    assert starts(found) == [700, 1700, 2700]
    assert found["end"] == 2700 + 2


@pytest.mark.parametrize("policy", ["oldest", "gto", "gty"])
@pytest.mark.parametrize("interval", [0.5, 0.7])
def test_of_blocks_that_start_in_one_cycle_the_lower_number_is_older(interval: float, policy: str) -> None:
    """Blocks last differently, so that a block that has to wait for a cycle can start with one that was due in a lower seat."""
    chip = {"sms": 1, "sm": {"schedulers": 2}, "ops": {"alu": {"latency_cycles": 3}}}
    gpu = small_gpu(**chip, launch_interval_cycles=interval, block_launch_cycles=0)
    loop = Loop(body=(Instruction("alu", dst="r0", src=("r0",)),), trips=(1, 4))
    for seed in (1, 2, 3):
        assert_same(case(gpu, kernel(loop), scheduler=policy, blocks=300, size=1, seats=8, seed=seed))

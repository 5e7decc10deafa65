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
    at_once, later = (assert_same(case(small_gpu(grid_launch_cycles=n), ONE, blocks=3, size=1)) for n in (0, 50))
    assert starts(later) == [50 + start for start in starts(at_once)]
    assert later["end"] == 50 + at_once["end"]


def test_an_endless_supply_has_no_launch() -> None:
    found = assert_same(case(small_gpu(grid_launch_cycles=1000), ONE, blocks=None, size=1))
    assert found["warps"][0][3] == 0


@pytest.mark.parametrize(("where", "latency"), [("dram", 60), ("l2", 25)])
def test_the_first_warps_of_a_grid_wait_for_constants(where: str, latency: int) -> None:
    """One instruction and the exit: a warp that has its constants takes two cycles, and a block starts 7 cycles after another."""
    gpu = small_gpu(
        core={"cold_constants": where}, block_launch_cycles=7, grid_launch_cycles=10,
        memory={"latency_cycles": 60, "l2_latency_cycles": 25},
    )  # fmt: skip
    found = assert_same(case(gpu, ONE, blocks=2, size=1, seats=1))
    (_, _, first, left), (_, _, second, end) = found["retired"]
    assert (first, left - first) == (10, latency + 1)
    assert (second, end - second) == (left + 7, 1)


def test_each_sm_waits_once_from_its_first_block_on() -> None:
    """Blocks start 50 cycles apart, in turn on two SMs: when the second one of an SM starts, its constants are there."""
    changes = {"core": {"cold_constants": "dram"}, "memory": {"latency_cycles": 60}}
    found = assert_same(case(small_gpu(sms=2, launch_interval_cycles=50.0, **changes), ONE, blocks=4, size=1, seats=2))
    assert sorted((start, end - start) for _, _, start, end in found["retired"]) == [(0, 61), (50, 61), (100, 1), (150, 1)]


def test_what_warps_wait_for_constants_is_imc_miss() -> None:
    """Warps of a block can issue 9 cycles apart, the last one later than the constants are there, of which it knows nothing."""
    gpu = small_gpu(core={"cold_constants": "dram"}, warp_launch_cycles=9, memory={"latency_cycles": 60})
    found = assert_same(case(gpu, ONE, blocks=1, size=8))["warp_cycles"]
    assert found["imc_miss"] == 7 * 60
    assert found["wait"] == 63


def test_an_endless_supply_has_its_constants() -> None:
    gpu = small_gpu(core={"cold_constants": "dram"}, memory={"latency_cycles": 60})
    assert assert_same(case(gpu, ONE, blocks=None, size=1))["issues"][0][0] == 0


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
    gpu = small_gpu(launch_interval_cycles=1000.0, grid_launch_cycles=700)
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

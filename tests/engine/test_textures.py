"""Textures and sleep: exact numbers, engine and reference."""

import pytest
from pydantic import ValidationError

from tests.engine.directed_cases import case, kernel
from tests.engine.test_against_reference import assert_same
from tests.support.cases import small_gpu
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Access, Cost, Instruction

TEXTURE = {"latency_cycles": 0, "interval_cycles": 8, "scope": "sm", "gap_cycles": 1, "pipe": "tex"}
SLEEP = {"latency_cycles": 0, "interval_cycles": 1, "scope": "scheduler", "gap_cycles": 1, "pipe": "sleep"}


def test_textures_follow_one_another_at_their_unit_and_loads_pass_beside_them():
    """Two warps, each with two textures: the unit takes one in 8 cycles; a load after them does not wait for it."""
    gpu = small_gpu(ops={"texture": TEXTURE})
    program = kernel(*[Instruction("texture", dst=f"t{i}") for i in range(2)], Instruction("load", dst="r"))
    found = assert_same(case(gpu, program, blocks=1, size=2, seats=1))
    issued = sorted((cycle, op) for cycle, _, _, op in found["issues"] if op != "exit")
    assert [cycle for cycle, op in issued if op == "texture"] == [0, 8, 16, 24]
    assert [cycle for cycle, op in issued if op == "load"][-1] == 25
    assert found["warp_cycles"]["tex_throttle"] > 0 and not found["warp_cycles"].get("lg_throttle")


def test_what_reads_a_texture_waits_for_the_memory():
    gpu = small_gpu(ops={"texture": TEXTURE})
    reader = Instruction("alu", src=("t",))
    times = []
    for op in ("texture", "load"):
        found = assert_same(case(gpu, kernel(Instruction(op, dst="t"), reader), blocks=1, size=1, seats=1))
        times.append([cycle for cycle, _, _, _ in found["issues"]])
        assert found["warp_cycles"]["long_scoreboard"] > 0
    assert times[0] == times[1]


@pytest.mark.parametrize("ns", [1, 70, 2_000])
def test_a_warp_sleeps_for_the_time_that_it_asks_for(ns):
    gpu = small_gpu(ops={"sleep": SLEEP})
    cycles = -int(-ns * gpu.clock_ghz // 1)
    program = kernel(Instruction("sleep", cost=Cost(gap_ns=ns)), Instruction("alu"))
    found = assert_same(case(gpu, program, blocks=1, size=1, seats=1))
    assert [cycle for cycle, _, _, _ in found["issues"]][:2] == [0, cycles]
    assert found["warp_cycles"].get("sleeping", 0) == cycles - 1


def test_a_texture_has_the_pipe_of_textures():
    with pytest.raises(ValidationError, match=r"ops\.texture\.pipe = \"lg\": must be 'tex' for texture"):
        small_gpu(ops={"texture": {**TEXTURE, "pipe": "lg"}})


SINCE_VOLTA = ("v100", "t4", "a40", "h100", "b200", "rtx5090")


@pytest.mark.parametrize(("chip", "interval"), [("titan_x", 4), *((chip, 8) for chip in SINCE_VOLTA)])
def test_chips_since_pascal_have_texture_units(chip, interval):
    assert load_gpu(chip).ops["texture"].interval_cycles == interval


def test_a_texture_can_hit_the_caches():
    gpu = small_gpu(ops={"texture": TEXTURE})
    program = kernel(Instruction("texture", dst="t", access=Access(l1_hit=1.0)), Instruction("alu", src=("t",)))
    found = assert_same(case(gpu, program, blocks=1, size=1, seats=1))
    assert [cycle for cycle, _, _, _ in found["issues"]][1] == gpu.memory.l1_latency_cycles

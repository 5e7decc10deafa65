"""Register ports and the reuse cache: the cycles of Huerta et al. 2025, Listing 1, in the engine and the reference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.engine.test_against_reference import assert_same
from tests.support.cases import Case, small_gpu
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Cost, Instruction, Kernel, Loop
from warpsim.simulation.encode import encode

AMPERE = small_gpu(sm={"schedulers": 1}, core={"register_banks": 2})


def outcome(*body: Any, warps: int = 1, gpu: Any = AMPERE, **options: Any) -> dict[str, Any]:
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    defaults = {"scheduler": "lrr", "memory": "fixed", "seed": 7, "warmup": 0, "cycles": None}
    return assert_same(Case(gpu, Kernel(name="directed", body=body), launch, defaults | options))


def ffma(*reads: str) -> Instruction:
    return Instruction("alu", reads=reads)


NOP = CLOCK = Instruction("alu")


def elapsed(x: str, y: str, *, last: tuple[Instruction, ...] = (NOP,)) -> int:
    """Returns the cycles between the two readings of the clock in Listing 1."""
    body = [CLOCK, NOP, ffma("R10", "R12", "R14"), ffma("R16", x, y), *last, CLOCK]
    issues = [t for t, *_ in outcome(*body)["issues"]]
    return issues[len(body) - 1] - issues[0]


@pytest.mark.parametrize(("x", "y", "cycles"), [("R19", "R21", 5), ("R18", "R21", 6), ("R18", "R20", 7)])
def test_listing_1(x: str, y: str, cycles: int) -> None:
    assert elapsed(x, y) == cycles


def test_without_the_last_nop_the_ports_do_not_stall_the_clock() -> None:
    assert elapsed("R18", "R20", last=()) == 4


def test_three_operands_in_one_bank_take_three_cycles() -> None:
    issues = [t for t, *_ in outcome(Loop(body=[ffma("R10", "R12", "R14")], trips=20))["issues"]]
    assert {b - a for a, b in pairwise(issues[4:20])} == {3}


@pytest.mark.parametrize(("second", "distance"), [("R12.reuse", 2), ("R12", 3)])
def test_reuse_saves_a_read(second: str, distance: int) -> None:
    body = [ffma("R10", second, "R14")]
    issues = [t for t, *_ in outcome(Loop(body=body, trips=20))["issues"]]
    assert issues[15] - issues[14] == distance


def test_another_warp_evicts_what_was_to_be_reused() -> None:
    body = [Loop(body=[ffma("R10", "R12.reuse", "R14")], trips=20)]
    issues = [t for t, *_ in outcome(*body, warps=2)["issues"]]
    assert issues[25] - issues[24] == 3  # the two warps alternate


def test_the_stall_is_a_dispatch_stall() -> None:
    counted = outcome(Loop(body=[ffma("R10", "R12", "R14")], trips=20), warps=2)
    assert counted["warp_cycles"]["dispatch_stall"] > counted["warp_cycles"]["selected"]
    assert counted["scheduler_cycles"]["busy"] > 70
    off = outcome(Loop(body=[ffma("R10", "R12", "R14")], trips=20), warps=2, gpu=small_gpu())
    assert "dispatch_stall" not in off["warp_cycles"] and off["end"] == 42


def test_warps_that_wait_long_while_the_ports_hold_others() -> None:
    """One scheduler, and so many warps that each of them waits for more than 63 cycles."""
    gpu = small_gpu(sm={"schedulers": 1}, core={"register_banks": 2}, memory={"latency_cycles": 500}, block_launch_cycles=500)
    counted = outcome(Loop(body=[ffma("R10", "R12", "R14")], trips=4), warps=30, gpu=gpu)
    assert counted["warp_cycles"]["dispatch_stall"] > 20 * counted["warp_cycles"]["selected"]


def test_instructions_of_variable_latency_pass_by() -> None:
    body = [Instruction("smem", dst="r1", reads=("R2", "R4", "R6")), Instruction("smem", dst="r2", reads=("R2", "R4", "R6")), NOP]
    assert [t for t, *_ in outcome(*body)["issues"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("warmup", [0, 7, 40])
@pytest.mark.parametrize("width", [1, 2])
def test_windows_and_pairs(warmup: int, width: int) -> None:
    gpu = small_gpu(sm={"schedulers": 2}, core={"register_banks": 2}, issue={"width": width}, memory={"latency_cycles": 5})
    load = Instruction("load", dst="r1", src=("r1",))
    body = [ffma("R10", "R12", "R14"), ffma("R1", "R12.reuse"), load, ffma("R2", "R4", "R6")]
    program = Kernel(name="directed", inputs=("r1",), body=[Loop(body=body, trips=None)])
    launch = Launch(block_warps=3, resident_blocks=2)
    options = {"scheduler": "gto", "memory": "fixed", "seed": 7, "warmup": warmup, "cycles": 61}
    assert_same(Case(gpu, program, launch, options))


def test_many_registers_keep_others_from_the_ports() -> None:
    """It reads 16 registers of each bank from the second cycle after its issue on, the last three of them in 15 to 17."""
    body = [ffma("R8:32"), ffma("R1", "R2"), NOP, ffma("R1"), NOP, NOP]
    assert [t for t, *_ in outcome(*body)["issues"]][:6] == [0, 1, 15, 16, 17, 18]


def test_many_registers_are_not_reused() -> None:
    """R8 is in the reuse cache when it is read as one of several, and is not afterwards."""
    body = [ffma("R8.reuse", "R2", "R4"), ffma("R8:2", "R2", "R4"), ffma("R8", "R2", "R4"), *[ffma("R8")] * 4]
    issues = [t for t, *_ in outcome(*body)["issues"]]
    assert issues[3:6] == [5, 8, 9]


def test_products_of_warp_groups_keep_others_from_the_ports() -> None:
    """64 cycles of each of two banks for the sums of 256 columns; the product itself waits in the queue of its unit."""
    gpu = load_gpu("h100")
    product = Instruction("wgmma", reads=("", "R24:128"), cost=Cost(multiply_adds=65536, operands="f16_f32"))
    body = [product, ffma("R1", "R2"), NOP, NOP]
    issues = [t for t, *_ in outcome(*body, gpu=gpu)["issues"]]
    assert [t - issues[0] for t in issues[:4]] == [0, 1, 63, 64]


@pytest.mark.parametrize(
    "reads", [("R1", "R2", "R3", "R4", "R5"), ("r1",), ("R1.keep",), ("R1:1",), ("R1:161",), ("R1:4.reuse",), ("R1:99", "R1:62")]
)
def test_errors(reads: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"reads.*: must be"):
        Instruction("alu", reads=reads)


@pytest.mark.parametrize("reads", [(), ("", "")])
def test_a_kernel_without_reads_passes_no_ports(reads: tuple[str, ...]) -> None:
    """Both instructions of a pair would pass the ports one after another, and hold the scheduler for a cycle."""
    half = {"alu": {"interval_cycles": "1/2"}}
    pairs = small_gpu(sm={"schedulers": 1}, issue={"width": 2}, ops=half, core={"register_banks": 2})
    issues = outcome(*[Instruction("alu", reads=reads)] * 8, gpu=pairs)["issues"]
    assert [cycle for cycle, *_, op in issues if op == "alu"] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
def test_ports_hold_nobody_where_no_instruction_reads_a_bank_twice(scheduler: str) -> None:
    """The engine leaves the ports out then; the reference has them."""
    gpu = small_gpu(sm={"schedulers": 2}, core={"register_banks": 2})
    once = [ffma("R1", "R2", ""), ffma("R3", "R6.reuse"), ffma("", "R2"), Instruction("load", dst="r1"), ffma("R5", "R4.reuse")]
    steps = len(once) + 4  # with the loop and the exit
    for third, waits in (("", False), ("R9", True)):
        program = Kernel(name="directed", body=[Loop(body=[*once, ffma("R1", "R2", third)], trips=6)])
        launch = Launch(blocks=5, block_warps=3, resident_blocks=2)
        options = {"scheduler": scheduler, "memory": "fixed", "seed": 7, "warmup": 0, "cycles": None}
        assert_same(Case(gpu, program, launch, options))
        reads = encode(gpu, program, launch, scheduler=scheduler, memory="fixed").reads
        assert len(reads) == steps if waits else reads is None

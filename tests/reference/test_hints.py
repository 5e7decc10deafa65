"""Hints: dependence counters, wait masks and yields, exact by the rules of docs/model.md, section 3."""

from __future__ import annotations

from typing import Any

import pytest

import warpsim as ws
from tests.support.strategies import small_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Cost, Hints, Instruction, Kernel
from warpsim.reference import simulator

LATENCY = 40
"""Of a load of the small chip, with the memory model `fixed`."""


def run(*body: Instruction, warps: int = 1, policy: str = "gto", **chip: Any) -> simulator.Result:
    gpu, kernel = small_gpu(**chip), Kernel(name="hinted", inputs=("r0",), body=body)
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    return simulator.simulate(gpu, kernel, launch, scheduler=policy, memory="fixed", seed=1, cycles=None)


def issues(result: simulator.Result) -> list[tuple[int, str]]:
    return [(cycle, op) for cycle, _, _, op in result.issues]


def test_a_counter_counts_a_load_until_its_return() -> None:
    result = run(Instruction("load", hints=Hints(write=3)), Instruction("alu"), Instruction("alu", hints=Hints(waits=(3,))))
    assert issues(result) == [(0, "load"), (1, "alu"), (LATENCY, "alu"), (LATENCY + 1, "exit")]
    assert result.warp_cycles["long_scoreboard"] == LATENCY - 2
    assert result.caused_cycles["body[0]", "long_scoreboard"] == LATENCY - 2


def test_registers_do_not_matter_where_there_are_hints() -> None:
    load, consumer = Instruction("load", dst="r1"), {"op": "alu", "src": ("r1",)}
    assert issues(run(load, Instruction(**consumer)))[1] == (LATENCY, "alu")
    assert issues(run(load, Instruction(**consumer, hints=Hints())))[1] == (1, "alu")


def test_a_counter_counts_a_store_until_its_operands_have_been_read() -> None:
    store, after = Instruction("store", hints=Hints(read=1)), Instruction("alu", hints=Hints(waits=(1,)))
    assert issues(run(store, after))[1] == (1, "alu")
    assert issues(run(store, after, ops={"store": {"operand_cycles": 14}}))[1] == (14, "alu")


@pytest.mark.parametrize(("at_most", "expected"), [(0, 42), (1, 41), (2, 40), (3, 3)])
def test_a_wait_for_all_but_some(at_most: int, expected: int) -> None:
    """Three copies leave at 0, 1 and 2 and return in order; DEPBAR waits until at most some of them are under way."""
    copies = [Instruction("load", hints=Hints(write=0))] * 3
    assert issues(run(*copies, Instruction("alu", hints=Hints(waits=(0,), at_most=at_most))))[3] == (expected, "alu")


def test_a_wait_mask_names_several_counters() -> None:
    slow = {"ops": {"sfu": {"latency_cycles": 90}}}
    counted = [Instruction(op, hints=Hints(write=counter)) for counter, op in enumerate(("load", "sfu"))]
    assert issues(run(*counted, Instruction("alu", hints=Hints(waits=(1, 0))), **slow))[2] == (91, "alu")


def test_a_yield_lets_another_warp_issue() -> None:
    yielding = run(*[Instruction("alu", hints=Hints(yields=True))] * 4, warps=2)
    greedy = run(*[Instruction("alu", hints=Hints())] * 4, warps=2)
    assert [slot for _, _, slot, op in yielding.issues if op == "alu"] == [0, 1] * 4
    assert [slot for _, _, slot, op in greedy.issues if op == "alu"] == [0] * 4 + [1] * 4
    stalled = run(Instruction("alu", cost=Cost(gap_cycles=5), hints=Hints(yields=True)), Instruction("alu"))
    assert issues(stalled)[1] == (5, "alu")


def test_a_counter_for_each_register_changes_nothing() -> None:
    """A chain of loads, additions and special functions, by registers and by counters, with two warps."""
    ops = ("load", "alu", "sfu", "load", "alu", "alu", "load", "sfu")
    by_registers = [Instruction(op, dst="r0", src=("r0",)) for op in ops] + [Instruction("store", src=("r0",))]
    by_counters = [
        Instruction(op, hints=Hints(waits=() if i == 0 else ((i - 1) % 6,), write=i % 6)) for i, op in enumerate(ops)
    ] + [Instruction("store", hints=Hints(waits=((len(ops) - 1) % 6,)))]
    first, second = run(*by_registers, warps=2), run(*by_counters, warps=2)
    assert first.issues == second.issues
    assert first.warp_cycles == second.warp_cycles


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"hints.write = 2: must be left out, since store has no result"):
        Instruction("store", hints=Hints(write=2))
    with pytest.raises(ValueError, match=r"write = 6: must be an integer from 0 to 5"):
        Hints(write=6)
    kernel = Kernel(name="hinted", body=(Instruction("alu", hints=Hints(yields=True)),))
    with pytest.raises(ws.InvalidPoint, match=r"kernel: hinted has instructions with hints.* use engine = 'reference'"):
        ws.simulate("kepler", kernel, warps=1, sms=1, cycles=100, warmup=0)
    result = ws.simulate("kepler", kernel, warps=1, sms=1, cycles=100, warmup=0, memory="fixed", engine="reference")
    assert float(result.instructions.sum()) > 0

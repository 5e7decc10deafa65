"""Hints: dependence counters, wait masks and yields, exact by the rules of docs/model.md, section 3, in both machines."""

from __future__ import annotations

from typing import Any

import pytest

import warpsim as ws
from tests.engine.test_against_reference import assert_same
from tests.support.cases import POLICIES, Case, small_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Conditional, Cost, Hints, Instruction, Kernel, Loop
from warpsim.reference import simulator
from warpsim.reference.result import Result

LATENCY = 40
"""Of a load of the small chip, with the memory model `fixed`."""


def run(*body: Any, warps: int = 1, policy: str = "gto", memory_model: str = "fixed", **chip: Any) -> Result:
    gpu, kernel = small_gpu(**chip), Kernel(name="hinted", inputs=("r0",), body=body)
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    options = {"scheduler": policy, "memory": memory_model, "seed": 1, "cycles": None}
    assert_same(Case(gpu, kernel, launch, options))
    return simulator.simulate(gpu, kernel, launch, **options)


def issues(result: Result) -> list[tuple[int, str]]:
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


@pytest.mark.parametrize("at_most", [1, 2, 3])
def test_a_wait_for_all_but_some_of_loads_that_queue(at_most: int) -> None:
    """They return in any order, in several windows: both machines let the wait end alike."""
    wait = Instruction("alu", hints=Hints(waits=(0,), at_most=at_most))
    body = [Instruction("load", hints=Hints(write=0)), wait, Instruction("store", hints=Hints(read=0))]
    run(Loop(body=body, trips=8), warps=3, memory_model="queue", sm={"schedulers": 2}, ops={"store": {"operand_cycles": 9}})


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


def test_a_counter_counts_63_at_most() -> None:
    """The loads leave one a cycle, and return after 100 cycles: the 64th waits for the first one."""
    loads = [Instruction("load", hints=Hints(write=0))] * 70
    seen = issues(run(*loads, memory={"latency_cycles": 100}))
    assert [cycle for cycle, _ in seen[:70]] == [*range(63), *range(100, 107)]
    run(*loads, memory_model="queue")
    both = [Instruction("load", hints=Hints(write=2, read=2))] * 70
    run(*both, memory={"latency_cycles": 100}, ops={"load": {"operand_cycles": 90}})
    reads = [Instruction("load", hints=Hints(write=0, read=3))] * 70
    seen = issues(run(*reads, memory={"latency_cycles": 20}, ops={"load": {"operand_cycles": 90}}))
    assert [cycle for cycle, _ in seen[:70]] == [*range(63), *range(90, 97)]


def test_a_branch_waits_for_its_counters() -> None:
    branch = Conditional(then=[Instruction("alu")], warps=(0,), src=("r1",), hints=Hints(waits=(4,), yields=True))
    seen = issues(run(Instruction("load", dst="r1", hints=Hints(write=4)), branch, Instruction("alu")))
    assert seen[1] == (LATENCY, "branch")
    with pytest.raises(ValueError, match=r"hints.write = 1: must be left out, since branch has no result"):
        Conditional(then=[Instruction("alu")], warps=(0,), hints=Hints(write=1))


def one(op: str, register: int | None = None, **hints: Any) -> Instruction:
    return Instruction(op, dst=None if register is None else f"r{register}", hints=Hints(**hints))


USE = Instruction("alu", dst="r5", src=("r1", "r2"))
SOMETIMES = Access(pattern="random", l1_hit=0.3, l2_hit=0.4)
DIRECTED = {
    "a register that several loads under way write": [one("load", 1), one("load", 1), one("alu"), USE],
    "a register that is written while a load to it is under way": [one("load", 1), one("alu", 1), one("alu"), USE],
    "the same load twice, then a use": [Loop(body=[one("load", 1, write=0), one("alu")], trips=3), USE],
    "waits for some of several loads": [
        Loop(body=[one("load", 1, write=0), one("alu", waits=(0,), at_most=2), one("store", read=0)], trips=6),
        one("alu", waits=(0,)),
    ],
    "loads that hit at times": [
        Loop(body=[Instruction("load", dst="r1", access=SOMETIMES, hints=Hints(write=1, read=2)), one("sfu", write=1)], trips=4),
        one("alu", waits=(1, 2)),
        USE,
    ],
    "barriers": [one("load", 1, write=0), one("barrier", waits=(0,), yields=True), one("load", 2, write=0), USE],
    "a plain run": [Loop(body=[*[one("alu", 1)] * 9, one("sfu", 2, write=3), one("alu", waits=(3,))], trips=4)],
}


@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("policy", ["gty", "two_level:2", "random"])
def test_both_machines(name: str, policy: str) -> None:
    assert policy in (*POLICIES, "two_level:2")
    gpu = small_gpu(sms=2, sm={"schedulers": 2}, issue={"width": 2}, ops={"store": {"operand_cycles": 9}})
    kernel = Kernel(name="hinted", inputs=("r1", "r2"), body=DIRECTED[name])
    for memory in ("queue", "fixed"):
        options = {"scheduler": policy, "memory": memory, "seed": 9, "cycles": None}
        assert_same(Case(gpu, kernel, Launch(blocks=9, block_warps=3, resident_blocks=2), options))


def test_a_group_that_waits_for_a_counter_of_results_is_not_stalled() -> None:
    """Only one that waits for a load is passed over. The first group goes on once its results are there."""
    chip = {"ops": {"sfu": {"latency_cycles": 12}}, "sm": {"schedulers": 1}}
    body = [one("sfu", write=3), *[one("alu")] * 3, one("alu", waits=(3,)), *[one("alu")] * 8]
    result = run(*body, warps=4, policy="two_level:2", **chip)
    assert [slot for cycle, _, slot, _ in result.issues if 8 <= cycle < 16] == [2] * 4 + [0] * 4
    pause = Instruction("alu", cost=Cost(gap_cycles=9), hints=Hints())
    body = [one("load", write=3), pause, one("alu", waits=(3,), at_most=1), *[one("alu")] * 8]
    run(*body, warps=4, policy="two_level:2", **chip)  # it need not wait for the load


def test_phases_of_warps_wait_for_counters() -> None:
    body = [one("load", write=0), one("alu", waits=(0,)), one("load", write=1), one("sfu", write=1), one("alu", waits=(1,))]
    kernel = Kernel(name="hinted", body=[Loop(body=body, trips=None)])
    options = {"scheduler": "gto", "memory": "queue", "seed": 9, "warmup": 50, "cycles": 300}
    assert_same(Case(small_gpu(), kernel, Launch(block_warps=2, resident_blocks=3), options))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"hints.write = 2: must be left out, since store has no result"):
        Instruction("store", hints=Hints(write=2))
    with pytest.raises(ValueError, match=r"write = 6: must be an integer from 0 to 5"):
        Hints(write=6)


def test_the_engine_simulates_hints() -> None:
    kernel = Kernel(name="hinted", body=(Instruction("alu", hints=Hints(yields=True)),))
    call = {"warps": 1, "sms": 1, "cycles": 100, "warmup": 0, "memory": "fixed"}
    engine, reference = (ws.simulate("kepler", kernel, **call, engine=name) for name in ("compiled", "reference"))
    assert float(engine.instructions.sum()) == float(reference.instructions.sum()) > 0

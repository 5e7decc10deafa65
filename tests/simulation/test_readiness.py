"""Which registers the engine has to look at before a step. On the small chip a result is ready 6 cycles after its issue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import small_gpu
from warpsim.engine.constants import Kind
from warpsim.engine.machine import Machine
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Cost, Instruction, Kernel, Loop
from warpsim.simulation.encode import encode
from warpsim.simulation.readiness import Analysis

INPUTS = ("r1", "r2", "r9")
LOAD, ALU, READ = Instruction("load", dst="r1"), Instruction("alu", dst="r1"), Instruction("alu", src=("r1",))
OTHER = Instruction("alu", src=("r9",))
ENDLESS: dict[str, Any] = {"trips": None}


def encoded(body: tuple[Any, ...], gpu: Gpu) -> Machine:
    kernel, launch = Kernel(name="some", inputs=INPUTS, body=body), Launch(blocks=7, block_warps=2, resident_blocks=3)
    return encode(gpu, kernel, launch, scheduler="lrr", memory="fixed")


def looked_at(*body: Any, gpu: Gpu | None = None) -> list[int]:
    """Returns for each instruction at how many registers the engine looks before it."""
    program = encoded(body, gpu or small_gpu()).program
    issues = (program.kind < Kind.LOOP_BEGIN) & (program.kind != Kind.EXIT)
    return (program.operands_end - program.operands)[issues].tolist()


def known_delays(*body: Any) -> list[int]:
    """Returns for each arithmetic instruction how long the next one waits for it, and 0 where that is not known."""
    program = encoded(body, small_gpu()).program
    return program.delay[program.kind == Kind.COMPUTE].tolist()


@pytest.mark.parametrize(("between", "looks"), [(4, 1), (5, 0)])
def test_a_result_is_looked_at_until_it_is_ready(between: int, looks: int) -> None:
    assert looked_at(ALU, *[OTHER] * between, READ) == [0] * (between + 1) + [looks]


def test_a_load_is_looked_at_until_a_step_has_waited_for_it() -> None:
    assert looked_at(LOAD, *[OTHER] * 1000, READ, READ) == [0] * 1001 + [1, 0]


def test_a_step_waits_for_the_register_that_it_overwrites() -> None:
    assert looked_at(LOAD, LOAD, READ, LOAD) == [0, 1, 1, 0]


def test_what_is_written_at_the_end_of_a_loop_is_looked_at_at_its_begin() -> None:
    assert looked_at(Loop(body=(READ, LOAD), **ENDLESS)) == [1, 0]
    assert looked_at(Loop(body=(READ, LOAD), trips=3), READ) == [1, 0, 1]
    assert looked_at(Loop(body=(Loop(body=(READ,), trips=2), LOAD), trips=3)) == [1, 0]
    assert looked_at(Loop(body=(READ, *[OTHER] * 5, ALU, *[OTHER] * 5), **ENDLESS)) == [0] * 12


def test_all_paths_to_a_step_matter() -> None:
    """The branch costs 2 cycles, and 3 where it is taken."""
    assert looked_at(Conditional(then=(LOAD,), probability=0.5), READ) == [0, 0, 1]
    assert looked_at(LOAD, Conditional(then=(READ,), probability=0.5), READ) == [0, 0, 1, 1]
    assert looked_at(LOAD, Conditional(then=(READ,), orelse=(READ,), probability=0.5), READ) == [0, 0, 1, 1, 0]
    for between, inside, behind in ((1, 1, 1), (2, 1, 0), (3, 0, 0)):
        steps = looked_at(ALU, *[OTHER] * between, Conditional(then=(READ,), probability=0.5), READ)
        assert steps[between + 2 :] == [inside, behind], between


def test_code_without_loops_is_passed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path to the end has another length, and the longest is found first or last, whichever way they are tried."""
    begins: list[int] = []
    whole = Analysis.pass_straight
    monkeypatch.setattr(Analysis, "pass_straight", lambda *a: begins.append(a[1]) or whole(*a))
    slow = [Instruction("alu", src=("r9",), cost=Cost(gap_cycles=10 + 2**k)) for k in range(12)]
    for ways in (slow, slow[::-1]):
        long = Instruction("alu", dst="r1", cost=Cost(latency_cycles=10_000))
        choices = [Conditional(then=(OTHER,), orelse=(way,), probability=0.5) for way in ways]
        assert looked_at(long, *choices, READ)[-1] == 1
    assert len(begins) == len(set(begins)) * 2


def test_instructions_that_may_issue_together_look_at_each_other() -> None:
    """The gap of 4 cycles comes after both."""
    long_gap = Instruction("alu", dst="r1", cost=Cost(latency_cycles=3, gap_cycles=4))
    assert looked_at(long_gap, LOAD, READ) == [0, 0, 1]
    assert looked_at(long_gap, LOAD, READ, gpu=small_gpu(issue={"width": 2})) == [0, 1, 1]
    assert looked_at(ALU, *[OTHER] * 1000, READ, gpu=small_gpu(issue={"width": 2})) == [0] * 1001 + [1]


def test_readers_may_see_a_result_later_than_others() -> None:
    gpu = small_gpu(ops={"alu": {"latency_to": {"store": 9}}})
    store = Instruction("store", src=("r1",))
    assert looked_at(ALU, *[OTHER] * 5, READ, gpu=gpu)[-1] == 0
    assert looked_at(ALU, *[OTHER] * 5, store, gpu=gpu)[-1] == 1
    assert looked_at(ALU, *[OTHER] * 8, store, gpu=gpu)[-1] == 0
    assert looked_at(ALU, *[OTHER] * 7, READ, store, gpu=gpu)[-2:] == [0, 0]
    assert looked_at(ALU, READ, store, store, gpu=gpu) == [0, 1, 1, 0]


def test_a_queue_has_no_bound() -> None:
    queue = {"scope": "sm", "queue": 2, "lead_cycles": 1, "address_cycles": 2}
    gpu = small_gpu(ops={"smem": {"unit": "mio", "latency_to": {"store": 4}}}, units={"mio": queue})
    shared = Instruction("smem", dst="r1")
    store = Instruction("store", src=("r1",))
    assert looked_at(shared, *[OTHER] * 1000, READ, READ, gpu=gpu)[-2:] == [1, 0]
    assert looked_at(shared, store, *[OTHER] * 4, READ, gpu=gpu)[-1] == 1  # it sees the result 6 cycles later than the store
    assert looked_at(shared, store, *[OTHER] * 5, READ, gpu=gpu)[-1] == 0
    assert looked_at(shared, *[OTHER] * 1000, READ, READ)[-2:] == [0, 0]


def test_waits_are_known_where_all_else_is_ready() -> None:
    chain = Instruction("alu", dst="r1", src=("r1", "r2"))
    load = Instruction("load", dst="r2")
    assert known_delays(load, chain, chain, chain) == [6, 6, 1]
    assert known_delays(load, ALU, chain) == [0, 1]
    assert known_delays(load, chain, Loop(body=(chain, chain), **ENDLESS)) == [0, 6, 6]
    assert known_delays(load, Loop(body=(chain, chain), **ENDLESS)) == [6, 6]
    assert known_delays(Loop(body=(chain, load, chain), **ENDLESS)) == [1, 6]

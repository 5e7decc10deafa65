"""Queues in front of units, stores that drain, and the policy greedy-then-youngest: exact numbers, engine and reference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.test_against_reference import assert_same
from tests.support.cases import Case, small_gpu
from warpsim.hardware.gpu import Gpu, GpuFileError
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access, Cost, Instruction, Kernel, Loop

AMPERE_MEMORY = {"scope": "sm", "queue": 5, "lead_cycles": 11, "address_cycles": 4}

# Huerta et al. 2025, Tables 1 and 2: issue cycles of eight independent memory instructions, by active sub-cores and sub-core. The
# first five issue at 2 to 6 everywhere; these are the sixth, the seventh and the eighth.
LATER_ISSUES = {
    (1, 0): (13, 17, 21),
    (2, 0): (13, 17, 21),
    (2, 1): (15, 19, 23),
    (3, 0): (13, 19, 25),
    (3, 1): (15, 21, 27),
    (3, 2): (17, 23, 29),
    (4, 0): (13, 21, 29),
    (4, 1): (15, 23, 31),
    (4, 2): (17, 25, 33),
    (4, 3): (19, 27, 35),
}


def chip(**changes: Any) -> Gpu:
    """Returns a chip of four schedulers whose loads, stores and shared memory have one queued unit."""
    shared = {"unit": "lsu", "interval_cycles": 2}
    base: dict[str, Any] = {
        "sm": {"schedulers": 4},
        "units": {"lsu": AMPERE_MEMORY},
        "ops": {"load": shared, "store": shared, "smem": shared},
    }
    return small_gpu(**base | changes)


def case(gpu: Gpu, *body: Any, warps: int = 4, **options: Any) -> Case:
    inputs = tuple(f"r{k}" for k in range(9))
    launch = Launch(blocks=1, block_warps=warps, resident_blocks=1)
    defaults = {"scheduler": "lrr", "memory": "fixed", "seed": 7, "warmup": 0, "cycles": None}
    return Case(gpu, Kernel(name="directed", inputs=inputs, body=body), launch, defaults | options)


def memory_instructions(op: str) -> list[Instruction]:
    access = Access(l1_hit=1.0) if op == "load" else None
    return [Instruction(op, dst=f"r{k}", src=(f"r{k}",), access=access) for k in range(1, 9)]


@pytest.mark.parametrize("op", ["load", "smem"])
@pytest.mark.parametrize("active", [1, 2, 3, 4])
def test_issue_cycles_of_memory_instructions_on_ampere(op: str, active: int) -> None:
    issues = assert_same(case(chip(), *memory_instructions(op), warps=active))["issues"]
    for sub_core in range(active):
        cycles = [2 + t for t, _, slot, issued in issues if slot == sub_core and issued == op]
        assert tuple(cycles) == (2, 3, 4, 5, 6, *LATER_ISSUES[active, sub_core])


def test_a_full_queue_throttles_and_what_waits_in_it_is_a_scoreboard() -> None:
    chain = [Instruction("smem", dst="r1", src=("r1",)), Instruction("alu", dst="r2", src=("r1",))]
    counted = assert_same(case(chip(), *memory_instructions("smem"), *chain, warps=4))["warp_cycles"]
    # Of each warp, the sixth, seventh and eighth access wait for room: 6 + 3 + 3, 8 + 3 + 3, ... cycles of the table above.
    waits = sum(last - 6 - 3 for (active, _), (_, _, last) in LATER_ISSUES.items() if active == 4)
    assert counted["mio_throttle"] >= waits
    assert counted["short_scoreboard"] > 0


def test_a_queue_of_one_entry_refuses_its_own_scheduler_alone() -> None:
    """One scheduler has two warps, the others one; what the first refuses does not concern them."""
    gpu = chip(units={"lsu": AMPERE_MEMORY | {"queue": 1}})
    counted = assert_same(case(gpu, *memory_instructions("smem"), warps=5))["warp_cycles"]
    assert counted["mio_throttle"] > 0


def test_a_data_stage_serves_accesses_behind_the_input_of_the_unit() -> None:
    """Intervals of 2, and passes of 4, 1, 4, 1, 4 cycles: the input holds an access until the passes of those before are made.

    They begin in the data stage at 0, 4, 5, 9 and 10, and the input is free at 2, 4, 6, 9 and 11.
    """
    shared = {"unit": "lsu", "interval_cycles": 2}
    lsu = {"units": {"lsu": {"scope": "sm"}}, "ops": {"load": shared, "store": shared, "smem": shared}}
    gpu = chip(**lsu, core={"replays": "unit"})
    accesses = [Instruction("smem", dst=f"r{k}", cost=Cost(passes=n)) for k, n in enumerate((4, 1, 4, 1, 4))]
    latency = gpu.ops["smem"].latency_cycles
    for k, (issue, begins) in enumerate(zip((0, 2, 4, 6, 9), (0, 4, 5, 9, 10), strict=True)):
        reader = Instruction("alu", dst="r8", src=(f"r{k}",), cost=Cost(gap_cycles=1))
        issues = assert_same(case(gpu, *accesses[: k + 1], reader, warps=1))["issues"]
        assert [t for t, *_, op in issues if op == "smem"][k] == issue
        assert next(t for t, *_, op in issues if op == "alu") == begins + latency


def test_an_access_that_waits_for_the_data_stage_has_left_the_queue() -> None:
    """A queue of two: the second access is in the input while the passes of the first are made, and two wait behind it."""
    gpu = chip(units={"lsu": {"scope": "sm", "queue": 2, "lead_cycles": 0, "address_cycles": 1}}, core={"replays": "unit"})
    accesses = [Instruction("smem", dst=f"r{k}", ways=8) for k in range(5)]
    issues = assert_same(case(gpu, *accesses, warps=1))["issues"]
    # They reach the input at 0, 2, 8, 16 and 24, when the data stage has begun with the one before; two wait before it at a time.
    assert [t for t, *_, op in issues if op == "smem"] == [0, 1, 2, 3, 8]


@pytest.mark.parametrize("limit", [None, 3])
def test_costs_of_single_accesses_hold_the_unit(limit: int | None) -> None:
    gpu = chip(memory={"loads_per_sm": limit, "stores_per_sm": limit})
    wide = Cost(interval_cycles="33/2", requests=4, bytes_per_request=32.0)
    add = Instruction("alu", dst="r2", src=("r1",))
    body = [Instruction("load", dst="r1", cost=wide), Instruction("store", src=("r2",)), add]
    assert_same(case(gpu, Loop(body=body, trips=6), memory="queue"))


def test_the_warp_stays_until_its_stores_have_drained() -> None:
    gpu = small_gpu(memory={"store_drain_cycles": 30, "bandwidth_gbs": 128.0})
    counted = assert_same(case(gpu, Instruction("store", src=("r1",)), warps=1))
    assert counted["issues"] == [(0, 0, 0, "store"), (1, 0, 0, "exit")]
    assert counted["retired"] == [(0, 0, 0, 30)]
    assert counted["warp_cycles"] == {"selected": 2, "drain": 29}
    load_is_last = case(gpu, Instruction("store", src=("r1",)), Instruction("load", dst="r2"), warps=1)
    assert "drain" not in assert_same(load_is_last)["warp_cycles"]


def test_greedy_then_youngest() -> None:
    body = [Instruction("alu", dst=f"r{k}") for k in range(1, 4)]
    issues = assert_same(case(small_gpu(), *body, warps=3, scheduler="gty"))["issues"]
    assert [slot for _, _, slot, _ in issues] == [2] * 4 + [1] * 4 + [0] * 4


@pytest.mark.parametrize("blocks", [5, None])
def test_greedy_then_youngest_over_many_blocks(blocks: int | None) -> None:
    gpu = small_gpu(sm={"schedulers": 2}, memory={"bandwidth_gbs": 30.0})
    body = [Instruction("load", dst="r1", src=("r1",)), Loop(body=[Instruction("alu", dst="r2", src=("r2",))], trips=(1, 4))]
    program = Kernel(name="directed", inputs=("r1", "r2"), body=[Loop(body=body, trips=3)])
    end = {"cycles": None} if blocks else {"cycles": 900}
    options = {"scheduler": "gty", "memory": "queue", "seed": 3, "warmup": 0, **end}
    assert_same(Case(gpu, program, Launch(blocks=blocks, block_warps=2, resident_blocks=3), options))


def test_a_queue_has_its_keys_together() -> None:
    with pytest.raises(GpuFileError, match=r"lead_cycles, address_cycles = 11, 0: must be left out without queue"):
        Gpu.from_dict(chip().to_dict() | {"units": {"lsu": {"scope": "sm", "lead_cycles": 11}}})

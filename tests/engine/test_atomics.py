"""Atomics, asynchronous copies and an L2 of two halves: exact numbers, engine and reference."""

from __future__ import annotations

import pytest

from tests.engine.directed_cases import case, kernel
from tests.engine.test_against_reference import assert_same
from tests.support.cases import SMALL_GPU, small_gpu
from warpsim.hardware.gpu import Gpu, GpuFileError
from warpsim.kernels import Access, Cost, Instruction, Kernel
from warpsim.kernels.costs import access_transactions, slices_of

QUEUE = {"crossbar_servers": 4, "crossbar_gbs": 4096.0, "dram_servers": 8, "dram_gbs": 4096.0}
FACTS = {"latency_cycles": 0, "interval_cycles": 1, "scope": "sm", "gap_cycles": 1, "pipe": "lg"}


def chip(**memory: object) -> Gpu:
    """Returns a chip with atomics, whose L2 takes an eighth of a cycle for 128 bytes."""
    classes = {name: FACTS for name in ("atomic", "reduction", "async_copy")}
    return small_gpu(ops=classes, memory={"queue": QUEUE, "atomic_interval_cycles": 3.0, **memory})


def updates(count: int, op: str = "atomic", cost: Cost | None = None, **access: object) -> Kernel:
    fields = {"dst": "r1"} if op == "atomic" else {}
    return kernel(*[Instruction(op, **fields, access=Access(l2_hit=1.0, **access), cost=cost)] * count)


def end_of(program: Kernel, **options: object) -> int:
    return int(assert_same(case(chip(), program, size=4, memory="queue", **options))["end"])


def test_updates_of_one_address_follow_one_another() -> None:
    """8 warps of 2 atomics each update one address with 32 threads at a time: 16 requests of 96 cycles on one server."""
    gpu = chip()
    found = assert_same(case(gpu, updates(2, pattern="broadcast", contended_addresses=1), blocks=2, size=4, memory="queue"))
    assert found["end"] == 15 * 96 + gpu.memory.l2_latency_cycles + 1
    assert found["warp_cycles"]["long_scoreboard"] > 0


def test_contention_ends_with_more_addresses_than_servers() -> None:
    ends = [end_of(updates(20, pattern="broadcast", contended_addresses=n), blocks=8) for n in (1, 2, 4, 1000)]
    spread = end_of(updates(20, pattern="broadcast"), blocks=8)
    assert ends[0] > 1.6 * ends[1] > 1.6 * 1.4 * ends[2]
    assert ends[2] == ends[3] == spread


def test_an_update_keeps_its_address_for_several_intervals() -> None:
    gpu = chip()
    program = updates(2, pattern="broadcast", contended_addresses=1, cost=Cost(updates=10, update_intervals=3.5))
    found = assert_same(case(gpu, program, blocks=2, size=4, memory="queue"))
    assert found["end"] == 15 * 10 * 3.5 * 3 + gpu.memory.l2_latency_cycles + 1


def test_contended_reductions_wait_for_the_port_of_a_slice_rather_than_of_a_server() -> None:
    """The port takes 32 bytes in 8 cycles of a server, and an update 3: one sector and one more, as it is written in part."""
    gpu = chip(l2_store_gbs=16.0)
    few, many = (
        updates(8, "reduction", Cost(updates=1), pattern="addresses", addresses=(0,) * 32, contended_addresses=n)
        for n in (1, None)
    )
    for each in (few, many):
        assert_same(case(gpu, each, blocks=8, size=4, memory="queue"))
    assert slices_of(gpu, "reduction", access_transactions(gpu, few.body[0])) == (1, 2 * 3.0)
    assert slices_of(gpu, "reduction", access_transactions(gpu, many.body[0])) == (4, 2 * 8.0)


def test_different_addresses_of_a_warp_are_updated_together() -> None:
    programs = (updates(4, pattern=pattern, contended_addresses=1) for pattern in ("broadcast", "coalesced"))
    alike, apart = (end_of(program, blocks=1) for program in programs)
    stated = end_of(updates(4, cost=Cost(updates=32), contended_addresses=1), blocks=1)
    assert stated == alike > 8 * apart / 4


def test_a_copy_is_in_flight_without_a_warp_that_waits() -> None:
    """Three copies leave one after another; the instruction that reads their registers waits for all."""
    copies = [Instruction("async_copy", dst=f"c{i}") for i in range(3)]
    wait = Instruction("alu", src=("c0", "c1", "c2"))
    program = Kernel(name="copies", body=(*copies, Instruction("alu"), wait))
    found = assert_same(case(chip(), program, blocks=1, size=1, seats=1))
    assert [(cycle, op) for cycle, _, _, op in found["issues"]] == [
        (0, "async_copy"), (1, "async_copy"), (2, "async_copy"), (3, "alu"), (42, "alu"), (43, "exit"),
    ]  # fmt: skip


def test_the_far_half_of_l2() -> None:
    gpu = chip(l2_latency_cycles=100, l2_far_latency_cycles=180)
    chain = kernel(*[Instruction("load", dst="r1", src=("r1",), access=Access(l2_hit=1.0))] * 400)
    found = assert_same(case(gpu, chain, blocks=1, size=1, seats=1))
    assert set(found["load_latencies"]) == {100, 180}
    assert found["load_latencies"].count(180) == pytest.approx(200, abs=4 * 10)  # 4 standard errors


@pytest.mark.parametrize(
    ("op", "fields", "message"),
    [
        ("load", {"access": Access(contended_addresses=2)}, "access.contended_addresses = 2: must be left out for load"),
        ("atomic", {"access": Access(l1_hit=0.5)}, "access.l1_hit = 0.5: must be 0 for atomic, which L2 performs"),
        ("store", {"cost": Cost(updates=2)}, "cost.updates = 2: must be left out for store; only atomic, reduction have it"),
        ("reduction", {"dst": "r"}, "dst = 'r': must be left out, since reduction writes no register"),
    ],
)
def test_errors_of_instructions(op: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Instruction(op, **fields)


def test_errors_of_chips() -> None:
    described = SMALL_GPU | {"ops": SMALL_GPU["ops"] | {"atomic": FACTS}}
    with pytest.raises(GpuFileError, match=r"memory.atomic_interval_cycles is missing: it is needed for ops.atomic"):
        Gpu.from_dict(described)
    far = SMALL_GPU | {"memory": SMALL_GPU["memory"] | {"l2_far_latency_cycles": 5}}
    with pytest.raises(GpuFileError, match=r"l2_far_latency_cycles = 5: must be at least memory.l2_latency_cycles = 19"):
        Gpu.from_dict(far)

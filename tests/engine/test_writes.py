"""What stores among loads cost, and warps that start one after another: exact numbers, engine and reference."""

from __future__ import annotations

import pytest

from tests.engine.directed_cases import case, kernel
from tests.engine.test_against_reference import assert_same
from tests.support.cases import small_gpu
from warpsim.hardware.gpu import Gpu, GpuFileError
from warpsim.kernels import Instruction, Loop

WRITES = {"mixed_rate": 0.8, "write_rate": 1.25, "write_burst_ns": 40.0, "read_delay_ns": 50.0, "idle_ns": 1e6}


def test_the_warps_of_a_block_start_one_after_another() -> None:
    found = assert_same(case(small_gpu(warp_launch_cycles=7), kernel(Instruction("alu")), blocks=1, size=3, seats=1))
    assert [cycle for cycle, _, _, op in found["issues"] if op == "alu"] == [0, 7, 14]
    assert found["warp_cycles"]["wait"] == 7 + 14


def test_stores_alone_pass_at_their_own_rate() -> None:
    store = kernel(*[Instruction("store")] * 20)
    ends = []
    for rate in (1.0, 2.0):
        gpu = small_gpu(memory={"bandwidth_gbs": 8.0, "store_drain_cycles": 1, "writes": WRITES | {"write_rate": rate}})
        ends.append(assert_same(case(gpu, store, blocks=10, size=8))["end"])
    assert ends[1] < 0.75 * ends[0]


def test_stores_delay_the_loads_among_them() -> None:
    """A load waits longer by 4 s (1 - s) times the delay; s is the share of stores among the latest 64 requests of each channel.

    All requests have one channel, which is never idle.
    """
    mixed = kernel(*[Instruction("store"), Instruction("load", dst="r0"), Instruction("alu", src=("r0",))] * 20)
    ends = []
    for delay in (0.0, 10_000.0):
        writes = WRITES | {"read_delay_ns": delay}
        gpu = small_gpu(memory={"bandwidth_gbs": 500.0, "queue": {"crossbar_servers": 1}, "writes": writes})
        ends.append(assert_same(case(gpu, mixed, blocks=1, size=1, seats=1, memory="queue"))["end"])
    share, delays = 0.0, 0.0
    for _ in range(20):
        share += (1 - share) / 64
        delays += 4 * share * (1 - share) * 10_000 * gpu.clock_ghz
        share -= share / 64
    assert ends[1] - ends[0] == pytest.approx(delays, abs=20)


def test_an_idle_channel_delays_no_load() -> None:
    """The next load reaches the channel after some 300 cycles, which are longer than one of the two times."""
    body = [Instruction("load", dst="r0"), Instruction("store", src=("r0",)), Instruction("alu", src=("r0",))] * 20
    ends = []
    for idle in (0.0, 1.0, 10_000.0):
        writes = WRITES | {"read_delay_ns": 10_000.0, "idle_ns": idle}
        gpu = small_gpu(memory={"bandwidth_gbs": 500.0, "queue": {"crossbar_servers": 1}, "writes": writes})
        ends.append(assert_same(case(gpu, kernel(*body), blocks=1, size=1, seats=1, memory="queue"))["end"])
    assert ends[0] <= ends[1] < ends[2] - 1000


@pytest.mark.parametrize("burst", [0, 3, 4])
def test_a_server_writes_bursts(burst: int) -> None:
    """A load waits behind three single stores, and behind a burst of three, but not behind three of a burst of four."""
    queue = {"dram_servers": 1, "dram_gbs": 1.0}
    service = 128 / queue["dram_gbs"]  # ns
    writes = WRITES | {"read_delay_ns": 0.0, "write_burst_ns": max(0.0, (burst - 0.5) * service)}
    gpu = small_gpu(memory={"bandwidth_gbs": 500.0, "queue": queue, "writes": writes})
    load = [Instruction("load", dst="r0"), Instruction("alu", src=("r0",))]
    alone, behind = (
        assert_same(case(gpu, kernel(*stores, *load), blocks=1, size=1, seats=1, memory="queue"))["end"]
        for stores in ([], [Instruction("store")] * 3)
    )
    assert behind - alone == pytest.approx(0 if burst == 4 else 3 * service * gpu.clock_ghz, abs=40)


def test_turning_the_bus_takes_time() -> None:
    body = [Instruction("store"), Instruction("load", dst="r0"), Instruction("alu", src=("r0",))]
    mixed = kernel(Loop(body=body, trips=20))
    ends = []
    for rate in (0.7, 0.9):
        memory = {"bandwidth_gbs": 8.0, "writes": WRITES | {"mixed_rate": rate, "write_rate": 1.0, "read_delay_ns": 0.0}}
        ends.append(assert_same(case(small_gpu(memory=memory), mixed, blocks=12, size=4, memory="queue"))["end"])
    assert ends[0] > 1.05 * ends[1]


def test_the_rate_of_mixed_requests_is_limited() -> None:
    described = small_gpu().to_dict()
    described["memory"]["writes"] = WRITES | {"mixed_rate": 1.2}
    with pytest.raises(GpuFileError, match=r"mixed_rate = 1\.2: must be at most 1\.11"):
        Gpu.from_dict(described)

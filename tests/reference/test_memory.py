"""Memory system and random streams of the reference machine, by hand: sections 5 and 6 of docs/model.md."""

from __future__ import annotations

import pytest

from tests.support.strategies import small_gpu
from warpsim.kernels import Access
from warpsim.kernels.access import transactions
from warpsim.reference.memory import Memory, Stream


def test_queue_stages_in_series() -> None:
    """One server per stage, 128 and 256 cycles: each load waits 256 cycles longer than the previous one."""
    queue = {"crossbar_servers": 1, "dram_servers": 1, "crossbar_gbs": 1.0, "dram_gbs": 0.5}
    gpu = small_gpu(memory={"queue": queue})
    memory = Memory(gpu, "queue", 1)
    memory.unloaded = [40.0] * len(memory.unloaded)
    facts = transactions(Access(), gpu)
    latencies = [memory.access(0, Access(), facts, Stream(7)) for _ in range(3)]
    assert latencies == [40, 40 + 128 + 128, 40 + 256 + 256]
    hit = Access(l2_hit=1.0)
    assert memory.access(0, hit, facts, Stream(7)) == 19 + 3 * 128
    assert memory.access(0, Access(l1_hit=1.0), facts, Stream(7)) == 7
    assert memory.access(0, Access(), facts, Stream(7)) == 40 + 4 * 128 + (3 * 256 - 4 * 128)


def test_unloaded_latency_is_the_distribution() -> None:
    """n = 4000 draws: their mean is within 5 standard errors of the mean of the table."""
    gpu = small_gpu(memory={"queue": {"crossbar_gbs": 1e6, "dram_gbs": 1e6}})
    memory, stream, facts = Memory(gpu, "queue", 1), Stream.of_warp(3, 0), transactions(Access(), gpu)
    draws = [memory.access(1000 * i, Access(), facts, stream) for i in range(4000)]
    mean = sum(draws) / len(draws)
    error = (sum((x - mean) ** 2 for x in draws) / len(draws) / len(draws)) ** 0.5
    assert abs(mean - 40) < 5 * error < 1


def test_measured_load_is_of_a_sliding_window() -> None:
    gpu = small_gpu(memory={"measured": True})
    memory, facts = Memory(gpu, "measured", 1), transactions(Access(), gpu)
    memory.loads_gbs, memory.rows = [1.0, 3.0], [[100.0] * 4097, [200.0] * 4097]
    assert memory.measured_latency(0, 0.5) == 100.0
    for _ in range(200):
        memory.access(600, Access(), facts, Stream(7))
    in_window = 200 * 128
    assert memory.measured_latency(600, 0.5) == 200.0
    length = 7 * 512 + 4600 % 512 + 1
    assert memory.measured_latency(4600, 0.5) == 200.0 > 100 + (in_window / length - 1) / 2
    assert memory.measured_latency(512 * 9 - 1, 0.5) == 200.0
    assert memory.measured_latency(512 * 9, 0.5) == 100.0  # the bucket of cycle 600 is out


def test_measured_needs_a_measured_chip() -> None:
    with pytest.raises(ValueError, match="measured"):
        Memory(small_gpu(), "measured", 1)


def test_slice_has_its_share() -> None:
    gpu = small_gpu(sms=4, memory={"queue": {"crossbar_servers": 6, "dram_servers": 1, "crossbar_gbs": 60.0}})
    memory = Memory(gpu, "queue", 1)
    assert (len(memory.crossbar.free), len(memory.dram.free)) == (2, 1)
    assert memory.crossbar.server_bytes_per_cycle == 60 / 4 / 2


def test_splitmix64() -> None:
    """The first outputs for seed 1234567, as published with the generator."""
    stream = Stream(1234567)
    assert [stream.draw() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]

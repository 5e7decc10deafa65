"""Memory system and random streams of the reference machine, by hand: sections 5 and 6 of docs/model.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.cases import small_gpu
from warpsim.kernels import Access
from warpsim.kernels.access import transactions
from warpsim.reference.echoes import Waits
from warpsim.reference.memory import Memory, Stream


def test_queue_stages_in_series() -> None:
    """One server per stage, 128 and 256 cycles: each load waits 256 cycles longer than the previous one."""
    queue = {"crossbar_servers": 1, "dram_servers": 1, "crossbar_gbs": 1.0, "dram_gbs": 0.5}
    gpu = small_gpu(memory={"queue": queue})
    memory = Memory(gpu, "queue", 1)
    memory.unloaded = [40.0] * len(memory.unloaded)
    facts = transactions(Access(), gpu)
    loads = [memory.access(0, Access(), facts, Stream(7)) for _ in range(3)]
    hit = memory.access(0, Access(l2_hit=1.0), facts, Stream(7))
    last = memory.access(0, Access(), facts, Stream(7))
    assert (hit.served, hit.latency) == (0, 19 + 3 * 128)
    assert memory.access(0, Access(l1_hit=1.0), facts, Stream(7)).latency == 7
    assert memory.access(0, Access(l1_hit=1.0, l1_late_cycles=30, l2_late_cycles=9), facts, Stream(7)).latency == 7 + 30
    assert [load.served for load in loads] == [0, 128, 256]
    assert memory.serve(128) == loads[:1]
    assert memory.serve(10_000) == [*loads[1:], last]
    assert [load.latency for load in loads] == [40, 40 + 128 + 128, 40 + 256 + 256]
    assert last.latency == 40 + 4 * 128 + (3 * 256 - 4 * 128)


def test_l2_takes_in_a_sector_of_a_store_in_a_cycle_and_a_line_that_is_written_in_part_in_one_more() -> None:
    """One slice gives 128 bytes in a cycle. A store of four whole sectors, and one of eight, of two lines, in part."""
    queue = {"crossbar_servers": 1, "dram_servers": 1, "crossbar_gbs": 128.0}
    gpu = small_gpu(memory={"queue": queue, "l2_store_gbs": 32.0})

    def service(access: Access, op: str) -> float:
        memory = Memory(gpu, "queue", 1)
        memory.access(0, access, transactions(access, gpu), Stream(7), op)
        return memory.crossbar.free[0]

    assert service(Access(), "load") == 1 and service(Access(), "store") == 4
    in_part = Access(pattern="stride", stride=2)
    assert service(in_part, "load") == 2 and service(in_part, "store") == 10


def server_of_stage_1(seed: int) -> int:
    """Returns which of two servers the first request goes to that a stream makes; its first draw is for B."""
    stream = Stream(seed)
    stream.draw()
    return stream.draw() >> 63


def test_stage_2_serves_in_order_of_arrival() -> None:
    """Stage 1 has two servers of 100 cycles, stage 2 one of 30. Two requests queue at server 0 of stage 1. One that issues
    later, to server 1, arrives at stage 2 before the second of them, and is served first.
    """
    queue = {"crossbar_servers": 2, "dram_servers": 1, "crossbar_gbs": 2 * 1.28, "dram_gbs": 128 / 30}
    gpu = small_gpu(memory={"queue": queue})
    memory, facts = Memory(gpu, "queue", 1), transactions(Access(), gpu)
    memory.unloaded = [40.0] * len(memory.unloaded)
    first, second = (next(seed for seed in range(100) if server_of_stage_1(seed) == server) for server in (0, 1))
    one, two = (memory.access(0, Access(), facts, Stream(first)) for _ in range(2))
    three = memory.access(90, Access(), facts, Stream(second))
    assert memory.serve(91) == [one, three]
    assert memory.serve(101) == [two]
    assert (one.latency, three.latency, two.latency) == (40, 40, 40 + 120)  # the server of stage 2 is busy from 90 to 120


def test_the_data_bus_serves_in_order_of_arrival_at_dram() -> None:
    """It takes 50 cycles a request; the second request arrives at DRAM, and on the bus, when its service in stage 1 begins."""
    queue = {"crossbar_servers": 1, "dram_servers": 1, "crossbar_gbs": 1.28, "dram_gbs": 1e6}
    gpu = small_gpu(memory={"queue": queue, "bandwidth_gbs": 128 / 50})
    memory, facts = Memory(gpu, "queue", 1), transactions(Access(), gpu)
    memory.unloaded = [40.0] * len(memory.unloaded)
    loads = [memory.access(0, Access(), facts, Stream(7)) for _ in range(3)]
    assert memory.serve(1000) == loads
    assert [load.latency for load in loads] == [40, 140, 240]


def test_unloaded_latency_is_the_distribution() -> None:
    """n = 4000 draws: their mean is within 5 standard errors of the mean of the table."""
    gpu = small_gpu(memory={"queue": {"crossbar_gbs": 1e6, "dram_gbs": 1e6}})
    memory, stream, facts = Memory(gpu, "queue", 1), Stream.of_warp(3, 0), transactions(Access(), gpu)
    loads = [memory.access(1000 * i, Access(), facts, stream) for i in range(4000)]
    assert memory.serve(4_000_000) == loads
    draws = [load.latency for load in loads]
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


def test_a_slice_has_the_whole_memory_and_echoes() -> None:
    """2 of 7 SMs with 3 warps each: 15 echoes, which belong to the 6 slots in turn."""
    queue = {"crossbar_servers": 6, "dram_servers": 1, "crossbar_gbs": 60.0}
    memory = Memory(small_gpu(sms=7, memory={"queue": queue}), "queue", 2, seed=3, warps=3, iteration=100)
    assert (len(memory.crossbar.free), len(memory.dram.free)) == (6, 1)
    assert memory.crossbar.server_bytes_per_cycle == 60 / 6
    echoes = memory.echoes
    assert len(echoes.echoes) == 15
    assert [len(echoes.of((sm, slot))) for sm in range(2) for slot in range(3)] == [3, 3, 3, 2, 2, 2]
    assert all(0 <= echo.lag < 100 for echo in echoes.echoes) and len({echo.lag for echo in echoes.echoes}) > 10
    assert not Memory(small_gpu(sms=7), "queue", warps=3).echoes.echoes


def test_an_echo_makes_the_accesses_of_its_slot_and_waits_for_its_own() -> None:
    """1 of 2 SMs, with the bus busy for 50 cycles a request and loads of 40 cycles in an idle memory.

    The slot loads at 0, at 60, 20 cycles after the first return, and at 640. The first transition is known from cycle 512 on,
    the second epoch after 60, and the other one later. The echo begins 512 cycles after the slot's second load. Its second load,
    at 572 + 40 + 20, delays the slot's third one, by what remains of its time on the bus, 632.5 to 682.5.
    """
    gpu = small_gpu(sms=2, memory={"bandwidth_gbs": 128 / 50})
    memory, facts = Memory(gpu, "fixed", 1, iteration=1), transactions(Access(), gpu)
    memory.access(0, Access(l1_hit=1.0), facts, Stream(7), slot=(0, 0))  # it does not leave the SM
    (echo,) = memory.echoes.echoes
    latencies = []
    for t in range(1_000):
        if t in (0, 60, 640):
            latencies.append(memory.access(t, Access(), facts, Stream(7), place="a", slot=(0, 0)).latency)
        known = len(echo.flights)
        memory.repeat(t)
        if len(echo.flights) > known and known < 2:
            latencies.append((t, echo.flights[-1].latency))
    assert latencies == [40, 40, (60 + 512, 40), (572 + 40 + 20, 40), 40 + 43]
    first, second = memory.echoes.pools.transitions["a"]
    assert (first.cycle, first.begins, first.gap) == (60, False, 20)
    assert (second.cycle, second.begins, second.gap) == (640, False, 640 - 100)


def test_an_echo_of_warps_without_phases_begins_with_its_slot() -> None:
    """It learns in cycle 512, two epochs after the slot's second load at 60, how its own one at 0 is followed."""
    gpu = small_gpu(sms=2)
    memory, facts = Memory(gpu, "fixed", 1), transactions(Access(), gpu)
    (echo,) = memory.echoes.echoes
    issued = []
    for t in range(600):
        if t in (0, 60):
            memory.access(t, Access(), facts, Stream(7), place="a", slot=(0, 0))
        memory.repeat(t)
        if echo.flights and echo.flights[-1].issue not in issued:
            issued.append(echo.flights[-1].issue)
    assert issued == [0, 512, 512 + 40 + 20]


def test_what_may_be_under_way_is_not_waited_for() -> None:
    """Two loads of 40 cycles; the second one follows the first by 30 cycles once, and by 60 cycles later."""
    gpu = small_gpu(sms=2)
    memory, facts = Memory(gpu, "fixed", 1, waits=Waits({"b": {"a": 1}})), transactions(Access(), gpu)
    for t, place in ((0, "a"), (30, "b"), (200, "a"), (260, "b")):
        memory.access(t, Access(), facts, Stream(7), place=place, slot=(0, 0))
    found = {place: [x.gap for x in pool] for place, pool in memory.echoes.pools.transitions.items()}
    assert found == {"a": [30, 60], "b": [200 - 70]}


def test_the_first_access_of_a_warp_waits_for_what_the_warp_before_it_waited_for() -> None:
    """For its loads, read or not, and for its stores if they drain. The warp starts in cycle 100."""
    for drains, waited in ((True, 290), (False, 40)):
        gpu = small_gpu(sms=2, memory={"transaction_latency_cycles": 2.5})
        waits = Waits(unread=frozenset({"a"}), drains=drains)
        memory, facts = Memory(gpu, "fixed", 1, waits=waits), transactions(Access(), gpu)
        memory.access(0, Access(), facts, Stream(7), place="a", slot=(0, 0))
        memory.access(0, Access(), replace(facts, requests=2, extra=100), Stream(7), op="store", place="s", slot=(0, 0))
        memory.access(300, Access(), facts, Stream(7), place="a", slot=(0, 0), start=100)
        (first,) = memory.echoes.pools.transitions["s"]
        assert (first.begins, first.gap) == (True, 300 - waited)


def test_an_access_that_takes_long_does_not_hide_later_ones() -> None:
    """A store of 290 cycles at 0, a load of 40 at 10, and another one at 60 that waited for the first load, not for the store."""
    gpu = small_gpu(sms=2, memory={"transaction_latency_cycles": 2.5})
    memory, facts = Memory(gpu, "fixed", 1), transactions(Access(), gpu)
    slow = replace(facts, requests=2, extra=100)
    assert memory.access(0, Access(), slow, Stream(7), op="store", place="s", slot=(0, 0)).latency == 290
    for t, place in ((10, "a"), (60, "b")):
        assert memory.access(t, Access(), facts, Stream(7), place=place, slot=(0, 0)).latency == 40
    (last,) = memory.echoes.pools.transitions["a"]
    assert last.gap == 60 - 50


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

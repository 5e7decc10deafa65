"""The CUDA kernels, executed as PTX: they stay in their memory, and compute what their comments say."""

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="needs the extra warpsim[cuda]")
pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra warpsim[cuda]")

from tests.measure import ptx_machine as machine
from tests.measure.ptx_machine import PtxDevice, PtxError


@pytest.mark.parametrize("nodes", [64, 96])
def test_a_ring_is_one_cycle_through_all_nodes(nodes):
    from warpsim.measure.memory import _INCREMENT, _MULTIPLIER

    device = PtxDevice()
    buffer = device.allocate(128 * nodes)
    device.launch(device.kernel("chase.cu", "ring", {"EMPTY": 1}), 3, 64, buffer, nodes, 128, _MULTIPLIER, _INCREMENT)
    pointers = device.read(buffer, np.uint64, 16 * nodes)[::16]
    at, seen = buffer.address, []
    for _ in range(nodes):
        seen.append(at)
        at = int(pointers[(at - buffer.address) // 128])
    assert at == buffer.address and len(set(seen)) == nodes


@pytest.mark.parametrize("macro, latency", [("THROUGH_L1", machine.L1_LATENCY), ("PAST_L1", machine.L2_LATENCY), ("EMPTY", 0)])
def test_a_chase_takes_its_loads_one_after_the_other(macro, latency):
    device = PtxDevice()
    buffer, times, samples = device.allocate(32 * 128), device.allocate(48), device.allocate(4 * 16)
    device.launch(device.kernel("chase.cu", "ring", {"EMPTY": 1}), 3, 64, buffer, 32, 128, 13, 1)
    device.launch(device.kernel("chase.cu", "chase", {macro: 1}), 3, 32, buffer, buffer, 2, 2048, 64, 48, 16, 1, times, samples)
    claimed, cycles, pointer, sm, _, seen = (int(value) for value in device.read(times, np.uint64, 6))
    taken = device.read(samples, np.uint32, 16)
    assert (claimed, sm) == (1, 1)
    assert 48 * latency <= cycles <= 48 * latency + 80
    assert len(set(taken)) == 1
    if latency:
        assert latency <= taken[0] <= latency + 6
        at = buffer.address
        for _ in range(64 + 48 + 16):
            at = int(device.read(buffer, np.uint64, 512)[(at - buffer.address) // 8])
        assert pointer == at and seen > 0


def test_streaming_pointers_visit_no_word_twice():
    device = PtxDevice(sms=2)
    words, grid, block, steps = 4096, 2, 64, 16
    buffer, times, samples = device.allocate(4 * words), device.allocate(48 * 4), device.allocate(4 * 1024)
    device.launch(device.kernel("stream_chase.cu", "steps_of", {}), 2, 64, buffer, words, grid * block)
    pointers = device.read(buffer, np.uint32, words)
    assert np.array_equal(pointers, (np.arange(words) + grid * block) % words)
    device.launch(device.kernel("stream_chase.cu", "stream_chase", {}), grid, block, buffer, steps, 2, times, samples)
    rows = device.read(times, np.uint64, 24).reshape(4, 6).astype(int)
    latency = machine.L2_LATENCY  # where writing the pointers has left them
    assert np.all(abs(rows[:, 1] - rows[:, 0] - steps * (latency + 12)) <= steps * 12) and np.all(rows[:, 4] > rows[:, 3])
    taken = device.read(samples, np.uint32, 1024)
    assert (
        np.all(taken[: steps // 8] >= latency) and np.all(taken[: steps // 8] <= latency + 20) and not taken[steps // 8 :].any()
    )


def test_loaded_traffic_stays_in_its_memory_and_is_counted():
    device = PtxDevice(sms=3)
    size = 2**14
    traffic, ring = device.allocate(2 * size), device.allocate(64 * 512)
    counts, samples, probe = device.allocate(40 * 6), device.allocate(4 * 8192), device.allocate(24)
    device.launch(device.kernel("chase.cu", "ring", {"EMPTY": 1}), 3, 64, ring, 64, 512, 13, 1)
    kernel = device.kernel("loaded.cu", "loaded", {"READS": 2, "WRITES": 1})
    touch = machine.Buffer(ring.address + 256, 8)
    device.launch(kernel, 3, 64, traffic, size, 900, 6000, ring, touch, 2, 4096, 2000, counts, samples, probe)
    rows = device.read(counts, np.uint64, 30).reshape(6, 5).astype(int)
    assert not rows[:2].any()  # the probe's block
    assert np.all(rows[2:, 1] >= 6000) and np.all(abs(rows[2:, 0] - 6000 / 900) <= 2)
    number = int(device.read(probe, np.uint64, 1)[0])
    taken = device.read(samples, np.uint32, 8192)
    assert 3 <= number < 20 and not taken[number:].any()
    assert np.all(taken[:number] >= machine.L2_LATENCY) and np.all(taken[:number] <= machine.DRAM_LATENCY + 10)
    written = device.read(traffic, np.uint8, 2 * size)
    assert not written[:size].any()  # the part that is only read


@pytest.mark.parametrize("kind, expected", [(0, 3), (1, None), (2, "b"), (3, "b + 3 c")])
@pytest.mark.parametrize("each", [1, 2])
def test_streams_compute_what_they_move(kind, expected, each):
    device = PtxDevice(sms=2)
    n = 2 * 64 * each
    a, b, c = (device.allocate(8 * n) for _ in range(3))
    values = np.arange(1.0, n + 1)
    device.write(b, values)
    device.write(c, 10 * values)
    device.launch(device.kernel("stream.cu", "stream", {"KIND": kind, "ELEMENTS": each}), 2, 64, a, b, c, 3)
    found = device.read(a, np.float64, n)
    wanted = {0: np.full(n, 3.0), 1: np.zeros(n), 2: values, 3: 31 * values}[kind]
    assert np.array_equal(found, wanted), expected


@pytest.mark.parametrize("spread, words", [(0, 1), (1, 4), (2, 128), (3, 64)])
@pytest.mark.parametrize("returns", [0, 1])
def test_atomics_go_to_the_words_that_they_should(spread, words, returns):
    device = PtxDevice(sms=2)
    out, counters = device.allocate(32 * 4), device.allocate(128 * 4)
    device.launch(device.kernel("atomic.cu", "atomic", {"SPREAD": spread, "RETURNS": returns}), 2, 64, out, counters, 1)
    touched = np.flatnonzero(device.read(counters, np.uint32, 128))
    assert len(touched) in (words, words - 1, words - 2)  # thread 0 of a block adds 0
    rows = device.read(out, np.uint64, 16).reshape(4, 4).astype(int)
    assert np.all(rows[:, 1] > rows[:, 0]) and rows[:, 2].tolist() == [0, 0, 1, 1]


def test_a_held_block_stays_as_long_as_asked():
    device = PtxDevice(sms=2)
    out = device.allocate(32 * 12)
    device.launch(device.kernel("blocks.cu", "hold", {}), 6, 64, out, 500)
    rows = device.read(out, np.uint64, 48).reshape(12, 4).astype(int)
    assert np.all(rows[:, 1] - rows[:, 0] >= 500) and np.all(rows[:, 1] - rows[:, 0] < 540)
    assert rows[:, 2].tolist() == [0, 0, 1, 1] * 3


def test_the_clock_kernel_counts_cycles_and_time():
    device = PtxDevice(sms=2)
    out = device.allocate(80)
    device.launch(device.kernel("clock.cu", "sm_clock", {}), 2, 32, out, 1500)
    rows = device.read(out, np.uint64, 10).reshape(2, 5).astype(int)
    ghz = (rows[:, 2] - rows[:, 0]) / (rows[:, 3] - rows[:, 1])
    assert np.all(abs(ghz / machine.CLOCK - 1) < 0.03) and rows[:, 4].tolist() == [0, 1]


def test_the_machine_notices_an_access_outside_of_the_memory():
    device = PtxDevice(sms=2)
    a, b, c = (device.allocate(size) for size in (1024, 1024, 512))
    with pytest.raises(PtxError, match="bytes"):
        device.launch(device.kernel("stream.cu", "stream", {"KIND": 3, "ELEMENTS": 1}), 2, 64, a, b, c, 3)

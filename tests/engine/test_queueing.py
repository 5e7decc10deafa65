"""The memory models against queueing theory: exact results, or results with a standard error.

One warp on each SM chases pointers. Each warp is a customer of the queue and waits only for memory. The memory system adds
only the waiting time to B (docs/model.md, section 5): a warp whose service starts at x continues at x + B. Its think time is
therefore B minus the service time, and B = service + think time gives the closed network of queueing theory.

Seeds are fixed. They are hashes of, among others, the table of quantiles. A comparison at 5 standard errors of 32
replicates fails by chance for one seed in 45 000 (Student's t). The standard error itself must be below a stated fraction of
the result.
"""

from __future__ import annotations

import heapq
import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.cases import small_gpu
from tests.support.whole_run import whole_run
from warpsim import kernels
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.latency import BINS, load_distribution
from warpsim.hardware.residency import Launch
from warpsim.simulation.api import simulate_point, simulate_replicate
from warpsim.simulation.point import make_point

SIGMA = 5.0
ENDLESS = Launch(block_warps=1, resident_blocks=1)
AMPLE = 1e9  # bytes per cycle
CHIPS = ("g80", "gt200", "fermi", "kepler", "maxwell")


def closed_network(
    file: str, customers: int, mean: float, first: tuple[int, float], second: tuple[int, float] = (1, 0.0)
) -> Gpu:
    """Returns a chip with `customers` SMs at 1 GHz; a stage is (servers, cycles per 128-byte request), `file` the table of B."""

    def gbs(servers: int, cycles: float) -> float:
        return 128 * servers / cycles if cycles else AMPLE

    queue = {
        "latency_offset_cycles": mean - small_gpu().memory.latency_cycles,
        "crossbar_servers": first[0],
        "crossbar_gbs": gbs(*first),
        "dram_servers": second[0],
        "dram_gbs": gbs(*second),
    }
    return small_gpu(sms=customers, memory={"distribution": file, "queue": queue})


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exponential(offset: float, mean: float) -> str:
    """Writes the quantiles of offset + an exponential time, at the levels of the engine; the last bin keeps the mean."""
    quantiles = -np.log1p(-np.arange(BINS) / BINS)
    quantiles = offset + mean * np.append(quantiles, quantiles[-1] + 2.0)
    levels = np.arange(BINS + 1) / BINS
    return table(f"exponential_{offset:g}_{mean:g}.csv", levels.tolist(), quantiles.tolist())


def constant(cycles: float) -> str:
    return table(f"constant_{cycles:g}.csv", [0, 0.25, 0.75, 1], [cycles] * 4)


def table(name: str, levels: list[float], quantiles: list[float]) -> str:
    Path(name).write_text(f"load_gbs,{','.join(map(repr, levels))}\n1.0,{','.join(map(repr, quantiles))}\n")
    return name


def machine_repairman(customers: int, think: float, service: float) -> float:
    """Returns the exact throughput of M/D/1//N: exponential think times, one server with constant service time.

    The chain of those left behind at a departure: of the N - i who think, each comes in one service time with
    probability 1 - exp(-service / think). Departures are a service apart, and an idle time after an empty queue.
    """
    come = -math.expm1(-service / think)
    move = np.zeros((customers, customers))
    for left in range(customers):
        here = max(left, 1)  # with nobody left, service begins with the next arrival
        others = customers - here
        for n in range(others + 1):
            move[left, here - 1 + n] += math.comb(others, n) * come**n * (1 - come) ** (others - n)
    balance = np.vstack([move.T - np.eye(customers), np.ones(customers)])
    left_behind = np.linalg.lstsq(balance, np.append(np.zeros(customers), 1.0), rcond=None)[0]
    return float(1 / (service + left_behind[0] * think / customers))


def two_stages(
    customers: int, offset: float, think: float, stages: tuple[tuple[int, float], tuple[int, float]], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Simulates the tandem queue of section 5 in continuous time, event by event; returns rate and mean latency of 38 batches.

    An event is an arrival at stage 1 or at stage 2, and the next one in time is handled.
    """
    batches, size = 40, 20_000
    rng = np.random.default_rng(seed)
    (k1, s1), (k2, s2) = stages
    base = (offset + rng.exponential(think, batches * size + customers)).tolist()
    at1, at2 = (rng.integers(0, k, batches * size + customers).tolist() for k in (k1, k2))
    free1, free2 = [0.0] * k1, [0.0] * k2
    events = [(base.pop(), -1.0) for _ in range(customers)]  # time; of an arrival at stage 2 also the time of that at stage 1
    heapq.heapify(events)
    now, latency = np.empty(batches * size), np.empty(batches * size)
    i = 0
    while i < batches * size:
        time, since = events[0]
        if since < 0:
            server = at1.pop()
            start = max(time, free1[server])
            free1[server] = start + s1
            heapq.heapreplace(events, (start, time))
            continue
        start = max(time, free2[at2[i]])
        free2[at2[i]] = start + s2
        back = start + base[i]
        heapq.heapreplace(events, (back, -1.0))
        now[i], latency[i] = time, back - since
        i += 1
    return size / np.diff(now[::size])[1:], latency.reshape(batches, size).mean(axis=1)[2:]


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


@pytest.mark.parametrize("customers", [1, 2, 5, 10, 16, 24])
def test_machine_repairman(customers: int) -> None:
    """Mean think time 1000, service time 64: 32 replicates of 6 million cycles, with 6 000 (N = 1) to 94 000 loads."""
    think, service = 1000.0, 64.0
    file = exponential(service, think)
    gpu = closed_network(file, customers, service + think, (1, service))
    point = make_point(gpu, kernels.chain("load"), warps=1, replicates=32, cycles=6_000_000)
    rates = simulate_point(point)["ipc"].sum(axis=1) * customers
    expected, error = machine_repairman(customers, think, service), standard_error(rates)
    assert error < 0.003 * expected
    assert abs(rates.mean() - expected) < SIGMA * error
    if 8 < customers < 20:  # the test must be able to reject two wrong models
        assert abs(rates.mean() - machine_repairman(customers, think + service, service)) > 2 * SIGMA * error
        assert abs(rates.mean() - min(customers / (think + service), 1 / service)) > 2 * SIGMA * error


@pytest.mark.parametrize(
    ("stages", "customers"),
    [(((3, 60.0), (5, 90.0)), 40), (((4, 100.0), (2, 30.0)), 24), (((1, 10.0), (6, 120.0)), 50)],
)
def test_stages_of_several_servers(
    stages: tuple[tuple[int, float], tuple[int, float]], customers: int
) -> None:
    """Comparison with 800 000 loads of a simulation in continuous time. Both have a standard error."""
    offset, think = 400.0, 600.0
    file = exponential(offset, think)
    gpu = closed_network(file, customers, offset + think, *stages)
    point = make_point(gpu, kernels.chain("load"), warps=1, replicates=32, cycles=500_000)
    found = simulate_point(point)
    expected = two_stages(customers, offset, think, stages, seed=1)
    for ours, plain in zip((found["ipc"].sum(axis=1) * customers, found["memory_latency"]), expected, strict=True):
        error = math.hypot(standard_error(ours), standard_error(plain))
        assert error < 0.003 * plain.mean()
        assert abs(ours.mean() - plain.mean()) < SIGMA * error


def waits(stages: tuple[tuple[int, float], tuple[int, float]], *, rate: float, expected: float) -> np.ndarray:
    """Returns the mean wait in each of 16 replicates, at a rate in requests per cycle if the wait is as expected.

    There are so many customers that arrivals are almost Poisson. The wait is the difference to the latency without any, with the
    same random numbers, so that the long think times hardly add to the error.
    """
    customers, offset = 600, 300.0
    think = customers / rate - offset - expected
    file = exponential(offset, think)
    latencies = []
    for of_stages in (stages, (FAST, FAST)):
        gpu = closed_network(file, customers, offset + think, *of_stages)
        point = make_point(gpu, kernels.chain("load"), warps=1, warmup=60_000, cycles=200_000)
        latencies.append(np.array([float(simulate_replicate(point, seed)["memory_latency"]) for seed in range(16)]))
    return latencies[0] - latencies[1]


def pollaczek_khinchine(servers: int, service: float, rate: float) -> float:
    """Returns the mean wait in M/D/1, for each of several servers that a request chooses at random."""
    load = rate * service / servers
    return load * service / (2 * (1 - load))


FAST = (1, 1e-6)


@pytest.mark.parametrize(
    ("stages", "rate", "expected"),
    [
        (((8, 100.0), FAST), 0.064, pollaczek_khinchine(8, 100.0, 0.064)),  # 200 cycles
        (((1000, 1e-3), (8, 100.0)), 0.064, pollaczek_khinchine(8, 100.0, 0.064)),
        (((8, 100.0), (8, 10.0)), 0.064, pollaczek_khinchine(8, 100.0, 0.064) + pollaczek_khinchine(8, 10.0, 0.064)),
        (((8, 100.0), (64, 400.0)), 0.064, pollaczek_khinchine(8, 100.0, 0.064) + pollaczek_khinchine(64, 400.0, 0.064)),
    ],
)
def test_what_ifs_on_servers_follow_the_tandem_formula(
    stages: tuple[tuple[int, float], tuple[int, float]], rate: float, expected: float
) -> None:
    """A second stage that is almost infinitely fast adds nothing to M/D/1. Behind random servers, arrivals at the second stage
    are almost Poisson, so that the waits of M/D/1 add up. A closed network of 600 waits a little less than an open one.
    """
    found = waits(stages, rate=rate, expected=expected)
    assert standard_error(found) < 0.04 * expected
    assert abs(found.mean() - expected) < 0.04 * expected + SIGMA * standard_error(found)


@pytest.mark.parametrize("services", [(20, 8), (8, 20), (10, 10), (20, 19)])
@pytest.mark.parametrize("customers", [1, 3, 8, 14, 15, 16, 17, 40])
def test_deterministic_network_of_two_stages(services: tuple[int, int], customers: int) -> None:
    """N customers with B = 300 and one server per stage: exactly min(N / 300, 1 / slower service)."""
    file = constant(300.0)
    gpu = closed_network(file, customers, 300.0, (1, services[0]), (1, services[1]))
    run = whole_run(gpu, kernels.chain("load"), ENDLESS, seed=1, warmup=30_000, cycles=60_000)
    assert run.instructions["load"] == min(customers * 60_000 // 300, 60_000 // max(services))
    assert set(run.load_latencies) == {max(300, customers * max(services))}


@pytest.mark.parametrize("customers", [1, 3, 8, 14, 15, 16, 17, 40])
def test_deterministic_network_of_one_server(customers: int) -> None:
    """The same with memory = fixed and service time 20."""
    gpu = small_gpu(sms=customers, memory={"latency_cycles": 300, "bandwidth_gbs": 128 / 20})
    run = whole_run(gpu, kernels.chain("load"), ENDLESS, memory="fixed", seed=1, warmup=30_000, cycles=60_000)
    assert run.instructions["load"] == min(customers * 60_000 // 300, 60_000 // 20)
    assert set(run.load_latencies) == {max(300, customers * 20)}


@pytest.mark.parametrize("name", CHIPS)
def test_fixed_saturates_at_the_sustained_rate(name: str) -> None:
    """With loads in every slot of the chip, the loads of 100 000 cycles equal the sustained rate to within one load."""
    gpu = load_gpu(name)
    point = make_point(
        gpu, kernels.chain("load"), warps=gpu.sm.max_warps, memory="fixed", warmup=30_000, cycles=100_000
    )
    found = simulate_point(point)
    loads = found["instructions"].sum()
    assert abs(loads - 100_000 * gpu.bandwidth_bytes_per_cycle / 128) < 1
    assert found["bandwidth"][0] == pytest.approx(gpu.memory.bandwidth_gbs, rel=2 / loads)
    assert found["peak_fraction"][0] == pytest.approx(1.0, rel=2 / loads)


@pytest.mark.parametrize("name", CHIPS)
def test_queue_does_not_exceed_its_slower_stage(name: str) -> None:
    """The limit holds for any choice of servers; only requests queued at the start of the window can exceed it."""
    gpu = load_gpu(name)
    queue = gpu.memory.queue.model_copy(update={"dram_gbs": 0.3 * gpu.memory.queue.dram_gbs})
    slow = gpu.model_copy(update={"memory": gpu.memory.model_copy(update={"queue": queue})})
    point = make_point(slow, kernels.chain("load"), warps=gpu.sm.max_warps, replicates=2, cycles=100_000)
    found = simulate_point(point)
    loads = found["instructions"].sum(axis=1)
    waiting = gpu.sm.max_warps * gpu.sms
    rate = queue.dram_gbs / gpu.clock_ghz / 128
    assert (loads <= 100_000 * rate + waiting).all()
    assert (loads >= 100_000 * rate * waiting / (waiting + queue.dram_servers - 1) - waiting).all()


@pytest.mark.parametrize("memory", ["fixed", "queue", "measured"])
@pytest.mark.parametrize("warps", [1, 8, 64])
def test_littles_law_in_every_run(memory: str, warps: int) -> None:
    """A warp always has one load in flight. The latencies of the loads served in a window add up to n x cycles, except for
    one latency of each warp at the edges of the window and the cycles in which it waits to issue.
    """
    gpu, cycles = load_gpu("kepler"), 40_000
    launch = Launch(block_warps=warps, resident_blocks=1)
    run = whole_run(gpu, kernels.chain("load"), launch, memory=memory, seed=9, warmup=3_000, cycles=cycles)
    ready = run.warp_cycles["not_selected"] + run.warp_cycles["lg_throttle"]
    under_way = warps * gpu.sms * cycles - ready
    assert abs(sum(run.load_latencies) - under_way) <= warps * gpu.sms * max(run.load_latencies)
    assert abs(sum(run.load_latencies) - under_way) < 0.05 * under_way


@pytest.mark.parametrize("memory", ["fixed", "queue", "measured"])
def test_littles_law_on_a_finite_grid_is_exact(memory: str) -> None:
    """One warp at a time on each SM, so that none waits to issue. Of the L cycles of a load, all except the issue cycle of the
    next load are long-scoreboard cycles, and all L cycles of the last load, because the exit issues with it.
    """
    launch = Launch(blocks=100, block_warps=1, resident_blocks=1)
    run = whole_run(load_gpu("kepler"), kernels.chain("load", iterations=7), launch, memory=memory, seed=4)
    assert run.instructions == {"load": 700, "exit": 100}
    states = {name: n for name, n in run.warp_cycles.items() if n}
    assert states == {"selected": 700, "long_scoreboard": sum(run.load_latencies) - 600}


@pytest.mark.parametrize(("memory", "mean"), [("queue", None), ("measured", 302.9)])
def test_an_idle_system_has_the_unloaded_latency(memory: str, mean: float | None) -> None:
    """One warp on the whole chip: 5 000 draws of the first row of V Table 6.6. Each comparison is at 5 standard errors and
    fails by chance for one seed in 1.7 million.
    """
    gpu = load_gpu("kepler")
    row = load_distribution("kepler")
    if mean is None:
        mean = gpu.memory.queue_latency_cycles
        row = row.scaled(mean)
    launch = Launch(blocks=1, block_warps=1, resident_blocks=1)
    run = whole_run(gpu, kernels.chain("load", iterations=5_000), launch, memory=memory, seed=12)
    draws = np.array(run.load_latencies)
    n = len(draws)
    assert n == 5_000
    assert abs(draws.mean() - mean) < SIGMA * standard_error(draws) + 0.05  # the mean is given to a tenth
    assert row.cycles[0, 0] - 0.5 <= draws.min() and draws.max() <= row.cycles[0, -1] + 0.5
    for level, cycles in zip(row.levels[1:-1], row.cycles[0, 1:-1], strict=True):
        spread = SIGMA * math.sqrt(level * (1 - level) / n)
        assert np.mean(draws <= cycles + 0.5) >= level - spread
        assert np.mean(draws < cycles - 0.5) <= level + spread


@pytest.mark.parametrize("name", CHIPS)
def test_an_idle_system_is_constant_with_fixed(name: str) -> None:
    gpu, launch = load_gpu(name), Launch(blocks=1, block_warps=1, resident_blocks=1)
    run = whole_run(gpu, kernels.chain("load", iterations=50), launch, memory="fixed", seed=1)
    assert set(run.load_latencies) == {gpu.memory.latency_cycles}


@pytest.mark.parametrize("memory", ["fixed", "queue"])
@pytest.mark.parametrize("name", CHIPS)
def test_stores_alone_are_held_to_the_bandwidth(name: str, memory: str) -> None:
    """No warp waits for a store, but stores wait for the limit in flight; requests at the window's edges add to the rate."""
    gpu = load_gpu(name)
    stores = kernels.Loop(body=[kernels.Instruction("store", src=["r0"])], trips=None)
    store = kernels.Kernel(name="stores", body=[stores], inputs=["r0"], registers_per_thread=8)
    point = make_point(gpu, store, warps=gpu.sm.max_warps, memory=memory, warmup=30_000, cycles=100_000)
    stored = simulate_point(point)["instructions"].sum()
    most = 100_000 * gpu.memory.bandwidth_gbs / gpu.clock_ghz / 128
    assert 0.85 * most < stored < most + gpu.sms * gpu.memory.stores_per_sm

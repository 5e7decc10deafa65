"""The memory models against queueing theory. Seeds are fixed; tolerances are in standard errors, at least 4.

A test of k comparisons at 4.5 standard errors fails by chance in less than k in 100 000 choices of the seed.
"""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np
import pytest

from warpsim import kernels
from warpsim.gpu import Gpu, Queue, load_gpu
from warpsim.simulation import make_point, simulate_point

SIGMA = 4.5


def chip(*, distribution: Path | None = None, base: float = 300.0, gbs: float = 100.0) -> Gpu:
    """One SM at 1 GHz, so that GB/s are bytes per cycle; the second stage never makes anybody wait."""
    data = load_gpu("kepler").to_dict()
    data |= {"sms": 1, "clock_ghz": 1.0}
    data["memory"] |= {"pin_bandwidth_gbs": 1e9, "bandwidth_gbs": gbs, "latency_cycles": int(base)}
    if distribution is not None:
        data["memory"]["distribution"] = str(distribution)
    data["memory"]["queue"] = Queue(
        base_latency_cycles=base, crossbar_servers=1, crossbar_gbs=gbs, dram_servers=1, dram_gbs=1e9
    ).model_dump(exclude_none=True)
    return Gpu.from_dict(data)


def exponential(path: Path, mean: float) -> Path:
    """A table of quantiles of an exponential distribution, fine enough that its draws are one."""
    levels = np.concatenate([[0.0], 1 - np.exp(-np.linspace(0.05, 9.0, 180)), [1.0]])
    cycles = np.concatenate([[1e-6], mean * np.linspace(0.05, 9.0, 180), [mean * 16.0]])
    lines = ["load_gbs," + ",".join(f"{x:.12g}" for x in levels), "1," + ",".join(f"{x:.9g}" for x in cycles)]
    path.write_text("\n".join(lines) + "\n")
    return path


def machine_repairman(customers: int, think: float, service: float) -> float:
    """Throughput of n customers who think for an exponential time, and of one server with deterministic service.

    A customer thinks on while it is served, since the model adds waiting only (docs/model.md, section 5). By a plain event
    simulation of 10^6 services, accurate to about 0.05 %.
    """
    rng = np.random.default_rng(5)
    draws = iter(rng.exponential(think, 1_200_000))
    arrivals = [next(draws) for _ in range(customers)]
    heapq.heapify(arrivals)
    free, first, count = 0.0, 0.0, 1_000_000
    for served in range(count):
        now = heapq.heappop(arrivals)
        start = max(now, free)
        free = start + service
        heapq.heappush(arrivals, start + next(draws))
        if served == count // 10:
            first = now
    return (count - count // 10 - 1) / (now - first)


@pytest.mark.parametrize("customers", [2, 8, 16, 32])
def test_machine_repairman(tmp_path: Path, customers: int) -> None:
    """n warps chase pointers: think time exponential, mean 400; one server of 128 bytes at 6.4 bytes a cycle: 20 cycles.

    A load's latency is rounded to whole cycles, half up, which adds nothing on the mean; the warp issues again at once.
    The load-store unit takes one load a cycle, which two warps rarely want at a time. 48 replicates of 400 000 cycles.
    """
    think, service = 400.0, 20.0
    gpu = chip(distribution=exponential(tmp_path / "exponential.csv", think), base=think, gbs=128 / service)
    run = simulate_point(make_point(gpu, kernels.mix(0), warps=customers, block_warps=customers, replicates=48, cycles=400_000))
    rates = run["ipc"].sum(axis=1)
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    expected = machine_repairman(customers, think, service)
    assert error < 0.005 * expected
    assert abs(rates.mean() - expected) < SIGMA * error + 0.002 * expected  # the oracle is a simulation, too


@pytest.mark.parametrize("memory", ["queue", "fixed"])
def test_closed_network_with_deterministic_service(memory: str) -> None:
    """n warps, base 300, service 20: throughput is min(n / 300, 1 / 20), exactly, after the start."""
    for warps in (1, 4, 8, 14, 15, 16, 32):
        gpu = chip(distribution=Path(__file__).parent / "data" / "flat.csv", gbs=128 / 20)
        point = make_point(gpu, kernels.mix(0), warps=warps, block_warps=warps, memory=memory, warmup=30_000, cycles=60_000)
        rate = float(simulate_point(point)["ipc"].sum())
        assert rate == pytest.approx(min(warps / 300, 1 / 20), abs=1.01 * warps / 60_000), warps


def test_saturation_at_the_rate_of_the_channels() -> None:
    """The slower stage is at most at its rate; and, with deterministic service, above what exponential service would attain:
    N / (N + k - 1) of it, for N loads that choose among k servers at random (the closed product-form network).
    """
    gpu = load_gpu("kepler")
    slow = gpu.model_copy(
        update={"memory": gpu.memory.model_copy(update={"queue": gpu.memory.queue.model_copy(update={"dram_gbs": 40.0})})}
    )
    run = simulate_point(make_point(slow, kernels.mix(0), warps=64, replicates=4, cycles=60_000))
    assert (run["bandwidth"] <= 40.0 * 1.001).all()
    loads, servers = 64 * gpu.sms, gpu.memory.queue.dram_servers
    assert (run["bandwidth"] > 40.0 * loads / (loads + servers - 1)).all()


def test_an_idle_system_gives_the_unloaded_latency() -> None:
    """One warp on the chip: the mean of n draws of the distribution, within standard errors (about 3 300 loads each of 8)."""
    gpu = load_gpu("kepler")
    run = simulate_point(make_point(gpu, kernels.mix(0), warps=1, block_warps=1, sms=1, replicates=8, cycles=1_000_000))
    means = run["memory_latency"]
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - gpu.memory.queue.base_latency_cycles) < SIGMA * error + 0.1


@pytest.mark.parametrize("memory", ["queue", "fixed", "measured"])
def test_littles_law_of_loads(memory: str) -> None:
    """Every warp of pure loads has one load under way at all times: rate x latency = warps, but for the window's edges."""
    gpu = load_gpu("kepler")
    run = simulate_point(make_point(gpu, kernels.mix(0), warps=32, memory=memory, replicates=3, cycles=100_000))
    under_way = run["ipc"].sum(axis=1) * run["memory_latency"]
    assert under_way == pytest.approx(32.0, rel=0.005)

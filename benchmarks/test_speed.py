"""How fast: warp instructions per second on one core, what a second thread adds, and the command line from start to end.

`make bench` prints times; the column of each engine benchmark that matters is `minstr_per_s` in its extra info, which is
shown at the end.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from warpsim.gpu import load_gpu
from warpsim.kernels import load_kernel, mix
from warpsim.simulation import make_point, simulate_point

pytestmark = pytest.mark.bench

CYCLES = 100_000


def instructions(results):
    return float(results["instructions"].sum())


def simulated(benchmark, point, threads=1):
    """Benchmark a point; return million warp instructions per second, warm-up included, by the median time."""
    simulate_point(point, threads)  # compiled code is loaded, and not timed
    results = benchmark.pedantic(simulate_point, args=(point, threads), rounds=5)
    counted = instructions(results) * (1 + point.warmup / point.cycles)
    rate = counted / benchmark.stats.stats.median / 1e6
    benchmark.extra_info["minstr_per_s"] = round(rate, 1)
    return rate


@pytest.fixture(scope="module", autouse=True)
def rates():
    """Collects what the benchmarks found, and prints it last."""
    found = {}
    yield found
    print("\n\nmillion warp instructions per second")
    for name, rate in found.items():
        print(f"  {name:36} {rate:8.1f}")


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
@pytest.mark.parametrize("warps", [4, 16, 64])
@pytest.mark.parametrize("alpha", [0, 8, 32, 128])
def test_mix_on_kepler(benchmark, rates, alpha, warps, scheduler):
    point = make_point(load_gpu("kepler"), mix(alpha=alpha), warps=warps, scheduler=scheduler, cycles=CYCLES)
    rates[f"mix, alpha {alpha}, {warps} warps, {scheduler}"] = simulated(benchmark, point)


def test_vector_add_on_kepler(benchmark, rates):
    point = make_point(load_gpu("kepler"), load_kernel("vector_add"), cycles=CYCLES)
    rates["vector add"] = simulated(benchmark, point)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(benchmark, rates, threads):
    point = make_point(load_gpu("kepler"), mix(alpha=32), warps=64, cycles=CYCLES, replicates=8)
    rates[f"8 replicates, {threads} threads"] = simulated(benchmark, point, threads)


def test_two_threads_against_one(rates):
    """Side by side, so that other load on the machine hits both: the best of five of each."""
    points = [
        make_point(load_gpu("kepler"), mix(alpha=32), warps=64, cycles=4 * CYCLES, seed=seed) for seed in (1, 2)
    ]

    def seconds(run):
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    with ThreadPoolExecutor(2) as pool:
        both = min(seconds(lambda: list(pool.map(simulate_point, points))) for _ in range(5))
    one = min(seconds(lambda: [simulate_point(point) for point in points]) for _ in range(5))
    print(f"\ntwo threads against one: {one / both:.2f} times")


def command(cache):
    arguments = "simulate --gpu kepler --kernel mix --set alpha=32 --warps 64 --cycles 20000".split()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-m", "warpsim.cli", *arguments], check=True, capture_output=True, env=environment)


def test_the_command_warm(benchmark, tmp_path):
    command(tmp_path)
    benchmark.pedantic(command, args=(tmp_path,), rounds=5)


def test_the_command_with_an_empty_cache(benchmark, tmp_path):
    def empty():
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        return (tmp_path / "cache",), {}

    benchmark.pedantic(command, setup=empty, rounds=1)

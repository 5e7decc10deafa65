"""How fast: warp instructions per second on one core, what a second thread adds, and the command line.

conftest.py prints the extra info of each benchmark at the end.
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import warpsim as ws
from tests.support.listings import unrolled
from warpsim.frontends.api import from_sass
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import load_kernel, mix
from warpsim.simulation.api import simulate_point, trace_point
from warpsim.simulation.point import make_point
from warpsim.simulation.trace import Trace

pytestmark = pytest.mark.bench


def simulated(benchmark, point, threads=1):
    """Benchmark a point: million warp instructions per second, warm-up included, by the median time."""
    loaded = simulate_point(point, threads)  # loads the compiled code, and derives the warm-up once
    point = replace(point, warmup=int(loaded["warmup_cycles"][0]))
    results = benchmark.pedantic(simulate_point, args=(point, threads), rounds=5)
    counted = results["instructions"].sum() * (1 + point.warmup / point.cycles)
    benchmark.extra_info["million instructions/s"] = counted / benchmark.stats.stats.median / 1e6


@pytest.mark.parametrize("scheduler", ["lrr", "gto"])
@pytest.mark.parametrize("warps", [4, 16, 64])
@pytest.mark.parametrize("alpha", [0, 8, 32, 128])
def test_mix_on_kepler(benchmark, alpha, warps, scheduler):
    simulated(benchmark, make_point(load_gpu("kepler"), mix(alpha=alpha), warps=warps, scheduler=scheduler))


def test_mix_on_132_sms(benchmark):
    """At least 70 % of the rate of Kepler's 8 SMs, with memory for 132."""
    facts, times = load_gpu("kepler").to_dict(), 132 / 8
    facts["sms"], memory = 132, facts["memory"]
    memory["bandwidth_gbs"] *= times
    memory["pin_bandwidth_gbs"] *= times
    for stage in ("crossbar", "dram"):
        memory["queue"][f"{stage}_servers"] = int(memory["queue"][f"{stage}_servers"] * times)
        memory["queue"][f"{stage}_gbs"] *= times
    simulated(benchmark, make_point(Gpu.model_validate(facts), mix(alpha=32), warps=64, cycles=20_000, warmup=2_000))


def test_vector_add_on_kepler(benchmark):
    simulated(benchmark, make_point(load_gpu("kepler"), load_kernel("vector_add")))


def with_reads(kernel):
    """Returns a kernel whose arithmetic reads three registers, two of them of one bank, so that the register ports apply."""
    program = kernel.model_dump(mode="json")
    for one in program["body"][0]["body"]:
        one["reads"] = ["R2", "R4", "R5"] if one["op"] == "alu" else []
    return type(kernel).model_validate(program)


def with_hints(kernel, gap):
    """Returns the mix with hints: a counter for its load, stall counts for its arithmetic."""
    program = kernel.model_dump(mode="json")
    load, first, *others = program["body"][0]["body"]
    load["hints"], first["hints"] = {"write": 0}, {"waits": [0]}
    for one in (first, *others):
        one["cost"], one["hints"] = {"gap_cycles": gap}, one["hints"] or {}
    return type(kernel).model_validate(program)


FETCH = {"lines": 32, "line_instructions": 8, "miss_cycles": 39, "prefetch_lines": 8, "prefetch_cycles": 4}
OPTIONS = [(), ("ports",), ("hints",), ("fetch",), ("ports", "hints", "fetch")]


@pytest.mark.parametrize("part", ["eight", "slice", "whole"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("chip", ["v100", "a100", "h100"])
def test_options_of_the_core(benchmark, chip, options, part):
    """All options on: at least half the rate of the plain chip, and 30 million instructions/s.

    `part`: a chip of 8 SMs with their share of the memory; a slice of 8 SMs, whose echoes cost time as well; the whole chip.
    """
    facts, kernel, slice_of = load_gpu(chip).to_dict(), mix(alpha=32), {"sms": 8} if part == "slice" else {}
    if part == "eight":
        facts["memory"]["bandwidth_gbs"] *= 8 / facts["sms"]
        facts["sms"] = 8
    cycles = 400_000 if part != "whole" else 400_000 * 8 // facts["sms"]
    if "fetch" in options:
        facts["core"]["fetch"] = FETCH
    gpu = Gpu.model_validate(facts)
    kernel = with_hints(kernel, gpu.ops["alu"].latency_cycles) if "hints" in options else kernel
    kernel = with_reads(kernel) if "ports" in options else kernel
    simulated(benchmark, make_point(gpu, kernel, warps=32, replicates=1, warmup=1_000, cycles=cycles, **slice_of))


IMPORTED = ["copy", "vector_add", "stencil", "matmul_16", "matmul_outputs", "matmul_tensor", "softmax", "layer_norm", "histogram"]
IMPORTED += ["reduction", "permute", "transpose_naive", "transpose_shared"]


def with_options_of_imports(gpu, kernel):
    """Returns a mix with what every imported kernel has: machine registers that it reads, and hints."""
    return with_reads(with_hints(kernel, gpu.ops["alu"].latency_cycles))


def mix_alike(gpu, kernel):
    """Returns the mix with as many accesses in an instruction as a kernel, and of the kind that the kernel makes most of."""
    counted = ws.simulate(gpu, kernel, cycles=50_000, warmup=1_000).instructions.sum("replicate").to_series()
    accesses = counted[["load", "store", "smem"]]
    other = "smem" if accesses["smem"] > accesses.sum() / 2 else "load"
    return mix(alpha=max(1, round(counted.sum() / accesses.sum() - 1)), other=other)


@pytest.mark.parametrize("name", IMPORTED)
def test_imported_kernels(benchmark, name):
    """At least half the rate of the mix with as many accesses on the same chip, with register ports and hints, in turn.

    An access takes several times as long as an add. The rate over that of the mix with 32 adds for a load tells by how much.
    """
    gpu = load_gpu("a100")
    kernel = load_kernel(f"cuda/{name}")
    kernels = [kernel, *(with_options_of_imports(gpu, one) for one in (mix_alike(gpu, kernel), mix(alpha=32)))]
    points = [make_point(gpu, one, replicates=1, warmup=1_000, cycles=50_000) for one in kernels]
    rates = [0.0] * len(points)

    def all_of_them():
        for number, point in enumerate(points):
            begin = time.process_time()
            results = simulate_point(point, 1)
            seconds = time.process_time() - begin
            counted = results["instructions"].sum() * (1 + point.warmup / point.cycles)
            rates[number] = max(rates[number], counted / seconds / 1e6)

    benchmark.pedantic(all_of_them, warmup_rounds=1, rounds=3)
    benchmark.extra_info["million instructions/s"] = rates[0]
    benchmark.extra_info["rate over that of the mix with as many accesses"] = rates[0] / rates[1]
    benchmark.extra_info["rate over that of 32 adds for a load"] = rates[0] / rates[2]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(benchmark, threads):
    """Two threads are to be 1.9 times as fast as one."""
    simulated(benchmark, make_point(load_gpu("kepler"), mix(alpha=32), warps=64, replicates=8), threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [mix(alpha=32), load_kernel("cuda/softmax")], ids=lambda kernel: kernel.name)
def test_threads_on_the_sms_of_one_run(benchmark, kernel, threads):
    """A run of the 132 SMs of an H100 gains from a second thread."""
    simulated(benchmark, make_point(load_gpu("h100"), kernel, replicates=1, warmup=1_000, cycles=100_000), threads)


@pytest.mark.parametrize("kept", [{"occupancy": True}, {"occupancy": 100}, {"states": True}])
@pytest.mark.parametrize("kernel", [mix(alpha=32), load_kernel("vector_add")], ids=lambda kernel: kernel.name)
def test_traces(benchmark, kernel, kept):
    """Time with a trace over that without one, in turn: below 1.1 for occupancy."""
    point, trace, times = make_point(load_gpu("kepler"), kernel, warps=64), Trace(**kept), ([], [])

    def both():
        for runs, call in zip(times, (lambda: simulate_point(point), lambda: trace_point(point, trace)), strict=True):
            begin = time.process_time()
            call()
            runs.append(time.process_time() - begin)

    benchmark.pedantic(both, warmup_rounds=1, rounds=10)
    benchmark.extra_info["times as long with a trace"] = min(times[1]) / min(times[0])


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


def test_import_of_ten_thousand_instructions(benchmark):
    """Below two seconds."""

    def run():
        return from_sass(unrolled(), launch=(128, 128), args={"n": 16384})

    run()  # compiles the walk through the caches
    begin = time.process_time()
    assert len(benchmark.pedantic(run, rounds=3).body) >= 10_000
    benchmark.extra_info["seconds on the processor"] = (time.process_time() - begin) / 3

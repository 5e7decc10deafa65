"""Little's law against V Table 3.1, V 3.2, 4.2, Table 6.4 and the tables of VT."""

from __future__ import annotations

import numpy as np
import pytest

from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.models import NotCoveredError, littles_law


def test_table_3_1():
    table = littles_law.parallelism(load_gpu("maxwell"))
    alu, load = table.sel(op="alu"), table.sel(op="load")
    assert (alu.latency, alu.ipc, alu.concurrency) == (6, 4, 24)
    assert load.latency == 368
    assert round(load.ipc.item(), 3) == 0.081
    assert round(load.concurrency.item()) == 30


def test_pin_bandwidth_needs_more():
    # V 3.2 prints 0.086 IPC and 33 instructions; 0.086 x 368 is 31.6, and without rounding 31.8.
    load = littles_law.parallelism(load_gpu("maxwell"), bandwidth="pin").sel(op="load")
    assert round(load.ipc.item(), 3) == 0.086
    assert load.concurrency.item() == pytest.approx(224 / 1.266 / 16 / 128 * 368)


@pytest.mark.parametrize(
    ("name", "warps_per_scheduler"),
    [("g80", 12), ("gt200", 12), ("fermi", 15.5), ("kepler", 10), ("maxwell", 7.5)],
)
def test_table_6_4_linear(name, warps_per_scheduler):
    gpu = load_gpu(name)
    needed = littles_law.needed_warps(gpu, kernels.chain("load")) / gpu.sm.schedulers
    assert round(2 * needed) / 2 == warps_per_scheduler


@pytest.mark.parametrize(("name", "operations"), [("gt200", 192), ("fermi", 576)])
def test_arithmetic_parallelism_of_the_talk(name, operations):
    assert littles_law.parallelism(load_gpu(name)).operations.sel(op="alu") == operations


def test_memory_parallelism_of_the_talk():
    # VT: at most 800 cycles x 177 GB/s, at most 100 KB on GTX 480.
    load = littles_law.parallelism(load_gpu("fermi"), bandwidth="pin", memory_latency=800).sel(op="load")
    assert load.kilobytes.item() == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(("ilp", "threads"), [(1, 576), (2, 288), (3, 192), (4, 144)])
def test_ilp_takes_the_place_of_threads(ilp, threads):
    # VT finds 576, 320, 256 and 192 threads on GTX 480.
    assert 32 * littles_law.needed_warps(load_gpu("fermi"), kernels.chain("alu", ilp=ilp)) == pytest.approx(
        threads
    )


def test_throughput_is_linear_and_then_flat():
    # V 3.2: 1, 2, 3 instructions at a time give 1/6, 1/3, 1/2 IPC, half an instruction 1/12.
    gpu = load_gpu("maxwell")
    ds = littles_law.throughput(gpu, kernels.chain("alu"), warps=np.array([0, 0.5, 1, 2, 3, 24, 48]))
    np.testing.assert_allclose(ds.ipc.sel(op="alu"), [0, 1 / 12, 1 / 6, 1 / 3, 1 / 2, 4, 4])
    np.testing.assert_allclose(ds.throughput.sel(op="alu"), 32 * ds.ipc.sel(op="alu"))
    np.testing.assert_allclose(ds.concurrency, [0, 0.5, 1, 2, 3, 24, 24])
    assert ds.ipc.attrs["units"] == "instructions/cycle/SM"


def test_memory_throughput_in_gbs():
    gpu = load_gpu("kepler")
    ds = littles_law.throughput(gpu, kernels.chain("load", iterations=10), warps=64)
    assert ds.bandwidth.item() == pytest.approx(154)
    one = littles_law.throughput(gpu, kernels.chain("load", ilp=2), warps=1)
    assert one.bandwidth.item() == pytest.approx(2 / 301 * 128 * 8 * 1.124)


def test_a_mix_is_not_covered():
    with pytest.raises(NotCoveredError, match="one class of instructions"):
        littles_law.throughput(load_gpu("kepler"), kernels.mix(4), warps=8)
    with pytest.raises(NotCoveredError, match="vector_add"):
        littles_law.needed_warps(load_gpu("kepler"), kernels.vector_add())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidth": "peak"}, "bandwidth = 'peak': must be one of sustained, pin"),
        ({"memory_latency": 0}, "memory_latency = 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        littles_law.parallelism(load_gpu("kepler"), **arguments)


def test_wrong_fraction():
    with pytest.raises(ValueError, match=r"fraction = 0: must be above 0"):
        littles_law.needed_warps(load_gpu("kepler"), kernels.chain("alu"), fraction=0)

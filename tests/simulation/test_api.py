"""`simulate`: its Dataset, seeds and window, and the errors for invalid arguments."""

from __future__ import annotations

import json

import numpy as np
import pytest

import warpsim as ws
from tests.support.whole_run import whole_run
from warpsim.hardware.core import Fetch
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import Conditional, Instruction, Kernel, Loop, mix
from warpsim.simulation.point import make_point, point_provenance, replicate_seed
from warpsim.simulation.policies import POLICIES

KEPLER = ws.load_gpu("kepler")
SHORT = {"warmup": 1_000, "cycles": 4_000}
BARRIER = Instruction("barrier")


def test_dataset_carries_names_units_and_provenance() -> None:
    ds = ws.simulate(KEPLER, ws.kernels.mix(32), warps=16, replicates=2, **SHORT)
    assert set(ds.data_vars) == {
        "cycles", "warmup_cycles", "warp_iterations",
        "instructions", "ipc", "throughput", "bandwidth", "memory_latency", "memory_latency_quantile", "warp_latency",
        "occupancy", "occupancy_max", "occupancy_fraction", "warp_cycles", "scheduler_cycles", "peak_fraction",
    }  # fmt: skip
    for name in ds.variables:
        assert ds[name].attrs["units"], name
        assert ds[name].attrs["long_name"], name
    assert ds["ipc"].dims == ("replicate", "op")
    assert ds["memory_latency_quantile"].dims == ("replicate", "quantile")
    assert ds["occupancy_fraction"].dims == ("replicate", "warps")
    assert {"source", "history", "provenance"} <= ds.attrs.keys()
    np.testing.assert_array_equal(ds["throughput"], 32 * ds["ipc"])
    np.testing.assert_allclose(ds["occupancy"], 16)


def test_provenance_repeats_the_run() -> None:
    first = ws.simulate(KEPLER, ws.kernels.mix(8), warps=24, scheduler="gto", memory="measured", replicates=2, **SHORT)
    again = ws.simulate(**ws.from_provenance(first.attrs["provenance"]))
    assert first.equals(again)


@pytest.mark.parametrize("name", ["gpu", "kernel"])
def test_a_provenance_without_chip_or_kernel_is_none(name: str) -> None:
    provenance = json.loads(point_provenance(make_point("kepler", "mix", warps=8)))
    del provenance["call"][name]
    with pytest.raises(ValueError, match=f"provenance: lacks '{name}'"):
        ws.from_provenance(json.dumps(provenance))


@pytest.mark.parametrize("memory", ["queue", "fixed", "measured"])
def test_same_numbers_whatever_the_threads_and_the_replicates(memory: str) -> None:
    one = ws.simulate(KEPLER, ws.kernels.mix(8), warps=32, memory=memory, replicates=3, threads=1, **SHORT)
    two = ws.simulate(KEPLER, ws.kernels.mix(8), warps=32, memory=memory, replicates=3, threads=2, **SHORT)
    fewer = ws.simulate(KEPLER, ws.kernels.mix(8), warps=32, memory=memory, replicates=2, **SHORT)
    assert one.equals(two)
    assert one.isel(replicate=slice(2)).equals(fewer)


def test_replicates_differ_and_seeds_matter() -> None:
    ds = ws.simulate(KEPLER, ws.kernels.mix(8), warps=32, replicates=4, **SHORT)
    other = ws.simulate(KEPLER, ws.kernels.mix(8), warps=32, replicates=4, seed=1, **SHORT)
    assert len(set(ds["memory_latency"].values.tolist())) == 4
    assert not np.array_equal(ds["memory_latency"], other["memory_latency"])


def test_policies_have_common_random_numbers() -> None:
    """Each warp has its own stream: with one seed, the first latency of every warp is the same under both policies."""
    launch = ws.Launch(block_warps=4, resident_blocks=4)
    runs = [
        whole_run(KEPLER, ws.kernels.mix(0, iterations=1), launch.model_copy(update={"blocks": 32}), scheduler=policy, seed=5)
        for policy in ("lrr", "gto")
    ]
    assert runs[0].load_latencies == runs[1].load_latencies
    seeds = {replicate_seed(b"point", n) for n in range(100)}
    assert len(seeds) == 100


def test_a_finite_grid_runs_to_its_end() -> None:
    ds = ws.simulate(KEPLER, ws.kernels.vector_add(), launch=ws.Launch(blocks=64, block_warps=4, resident_blocks=4), warmup=77)
    issued = ds["instructions"].sum("op").item()
    assert issued == 64 * 4 * 12
    assert ds["cycles"].item() > 544
    states, resident = ds["warp_cycles"].sum().item(), (ds["occupancy"] * ds["cycles"] * KEPLER.sms).item()
    assert states == pytest.approx(resident, rel=1e-12)
    assert ds["warp_latency"].item() * 256 == pytest.approx(resident, rel=1e-12)  # Little's law, exactly


def test_persistent_blocks_are_one_wave() -> None:
    launch = ws.Launch(block_warps=4, resident_blocks=4, persistent=True)
    ds = ws.simulate(KEPLER, ws.kernels.vector_add(), launch=launch)
    assert ds["instructions"].sum("op").item() == KEPLER.sms * 16 * 12


def test_windows_join() -> None:
    """The counts of two adjacent windows add up exactly to those of the combined window."""
    launch = ws.Launch(block_warps=2, resident_blocks=6)
    kernel = ws.kernels.vector_add()
    first, second, both = (
        whole_run(KEPLER, kernel, launch, seed=3, warmup=warmup, cycles=cycles)
        for warmup, cycles in ((500, 777), (1277, 1000), (500, 1777))
    )
    for name in ("warp_cycles", "scheduler_cycles", "instructions", "occupancy_cycles"):
        parts = [getattr(run, name) for run in (first, second)]
        total = {key: sum(part.get(key, 0) for part in parts) for key in {*parts[0], *parts[1]}}
        assert total == getattr(both, name), name


def uneven(**conditional: object) -> Kernel:
    return Kernel(name="uneven", body=[Conditional(then=[BARRIER], **conditional)])


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"warps": 65}, ValueError, "warps = 65"),
        ({"warps": 0}, ValueError, "warps = 0"),
        ({"warps": 2.5}, TypeError, "warps = 2.5"),
        ({"warps": 16, "block_warps": 3}, ValueError, "warps = 16"),
        ({"replicates": 0}, ValueError, "replicates = 0"),
        ({"replicates": "3"}, TypeError, "replicates = '3'"),
        ({"scheduler": "fifo"}, ValueError, "scheduler = 'fifo'"),
        ({"memory": "infinite"}, ValueError, "memory = 'infinite'"),
        ({"seed": -1}, ValueError, "seed = -1"),
        ({"sms": 9}, ValueError, "sms = 9"),
        ({"warmup": -1}, ValueError, "warmup = -1"),
        ({"cycles": 0}, ValueError, "cycles = 0"),
        ({"threads": 0}, ValueError, "threads = 0"),
        ({"launch": ws.Launch(blocks=8, block_warps=4)}, ValueError, "endless supply.*or give the loop a number of trips"),
        ({"gpu": 5}, TypeError, "gpu = 5"),
        ({"kernel": 5}, TypeError, "kernel = 5"),
        ({"gpu": ws.load_gpu("fermi"), "memory": "measured"}, ValueError, "memory = 'measured'"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, error: type[Exception], named: str) -> None:
    call = {"gpu": KEPLER, "kernel": ws.kernels.mix(8), "warps": 16} | arguments
    if "launch" in arguments:
        del call["warps"]
    with pytest.raises(error, match=named):
        ws.simulate(**call)


@pytest.mark.parametrize("conditional", [{"probability": 0.5}, {"warps": (0,)}])
def test_a_barrier_that_not_all_warps_reach_is_rejected(conditional: dict) -> None:
    with pytest.raises(ws.DeadlockError, match=r"deadlock: the barrier at body\[0\].then\[0\]"):
        ws.simulate(KEPLER, uneven(**conditional), launch=ws.Launch(blocks=1, block_warps=2))
    alone = ws.simulate(KEPLER, uneven(**conditional), launch=ws.Launch(blocks=1, block_warps=1))
    assert alone["cycles"].item() > 0  # a block of one warp cannot diverge


def test_a_barrier_in_a_loop_of_random_trips_is_rejected() -> None:
    kernel = Kernel(name="ragged", body=[Loop(body=[BARRIER], trips=(1, 3))])
    with pytest.raises(ws.DeadlockError, match="deadlock"):
        ws.simulate(KEPLER, kernel, launch=ws.Launch(blocks=1, block_warps=2))


def test_the_engine_names_a_deadlock() -> None:
    """A kernel that `make_point` rejects: the engine itself must not hang."""
    kernel = Kernel(name="parted", body=[Conditional(then=[BARRIER], orelse=[BARRIER], warps=(0,))])
    with pytest.raises(ws.DeadlockError, match=r"deadlock at cycle .* block 0 .* warp 0 .* warp 1"):
        whole_run(KEPLER, kernel, ws.Launch(blocks=1, block_warps=2, resident_blocks=1), seed=1)


def test_cache_hits_need_the_chips_latency() -> None:
    kernel = Kernel(name="hit", body=[Instruction("load", dst="r1", access=ws.Access(l1_hit=0.5))])
    with pytest.raises(ValueError, match=r"l1_hit = 0\.5"):
        ws.simulate(KEPLER, kernel, launch=ws.Launch(blocks=1, block_warps=1))


def test_points_are_checked_before_they_run() -> None:
    point = make_point(KEPLER, ws.kernels.mix(8), warps=17)
    assert (point.launch.block_warps, point.launch.resident_blocks) == (17, 1)


@pytest.mark.parametrize("memory", ["queue", "fixed", "measured"])
@pytest.mark.parametrize("scheduler", POLICIES)
def test_the_reference_machine_gives_the_same_dataset(memory: str, scheduler: str) -> None:
    settings = {"scheduler": scheduler, "memory": memory, "sms": 1, "warmup": 300, "cycles": 900, "replicates": 2}
    for kernel in (ws.kernels.mix(8), ws.kernels.chain("load", pattern="stride", stride=3)):
        compiled = ws.simulate(KEPLER, kernel, warps=8, **settings)
        reference = ws.simulate(KEPLER, kernel, warps=8, engine="reference", **settings)
        assert compiled.equals(reference)


def test_the_reference_machine_finds_the_same_use_of_l2() -> None:
    """Loads and stores that stay in L2, which is busy all the time."""
    load = ws.kernels.Instruction("load", dst="r1", access=ws.kernels.Access(l1_hit=0.25, l2_hit=1.0))
    store = ws.kernels.Instruction("store", src=("r1",), access=ws.kernels.Access(pattern="stride", stride=8, l2_hit=1.0))
    kernel = ws.kernels.Kernel(name="in_l2", body=(ws.kernels.Loop(body=(load, store), trips=None),))
    settings = {"warps": 32, "sms": 4, "warmup": 3_000, "cycles": 2_000}
    runs = [ws.simulate("a100", kernel, engine=engine, **settings) for engine in ("compiled", "reference")]
    assert runs[0].equals(runs[1])
    assert float(runs[0].peak_fraction[0]) == pytest.approx(1, abs=0.05)


def test_the_reference_machine_derives_the_same_warm_up_on_a_chip_that_fetches() -> None:
    core = load_gpu("a100").core.model_copy(update={"fetch": Fetch(lines=2, line_instructions=8, miss_cycles=40)})
    gpu = load_gpu("a100").model_copy(update={"core": core})
    settings = {"warps": 2, "sms": 1, "cycles": 500}
    runs = [ws.simulate(gpu, ws.kernels.mix(60), engine=engine, **settings) for engine in ("compiled", "reference")]
    assert runs[0].equals(runs[1])


def test_the_reference_machine_runs_a_grid_to_its_end() -> None:
    launch = ws.Launch(blocks=5, block_warps=2, resident_blocks=2)
    kernel, engines = ws.kernels.vector_add(), ("compiled", "reference")
    runs = [ws.simulate(KEPLER, kernel, launch=launch, sms=1, engine=engine) for engine in engines]
    assert runs[0].equals(runs[1])
    assert runs[1]["warp_latency"].item() > 0


def test_the_reference_machine_records_no_trace() -> None:
    with pytest.raises(ValueError, match="engine = 'fast': must be one of compiled, reference"):
        ws.simulate(KEPLER, ws.kernels.mix(8), engine="fast")
    with pytest.raises(ValueError, match="trace: must be left out with engine = 'reference'"):
        ws.simulate(KEPLER, ws.kernels.mix(8), engine="reference", trace=ws.Trace(warps=True))


@pytest.mark.parametrize(
    ("kernel", "argument", "error", "says"),
    [
        ("mix", "warp", ValueError, "warp = 4: unknown, did you mean 'warps'.*; kernel 'mix' takes alpha"),
        ("mix", "schedulr", ValueError, "schedulr = 4: unknown, did you mean 'scheduler'.*; kernel 'mix' takes alpha"),
        (mix(alpha=8), "warp", TypeError, "warp: is not an argument, did you mean 'warps'"),
        (mix(alpha=8), "blocks", TypeError, "blocks: is not an argument, but a launch states it: launch=Launch"),
        (mix(alpha=8), "alpha", TypeError, "alpha: is not an argument, and a Kernel object takes none; name the kernel"),
    ],
)
def test_a_misspelled_argument_may_be_one_of_the_simulation(kernel, argument, error, says):
    with pytest.raises(error, match=says):
        ws.simulate("kepler", kernel, **{argument: 4})

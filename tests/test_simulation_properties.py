"""What holds for every run of `simulate`: sums, seeds, windows; and every wrong argument, by its name."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, given, settings

import warpsim as ws
from tests.strategies import POLICIES, Case, cases, small_gpu
from warpsim import kernels
from warpsim.kernels import Conditional, Instruction, Kernel, Loop
from warpsim.residency import InvalidPoint, Launch
from warpsim.simulation import make_point, replicate_seed, run, simulate_point, trace_run
from warpsim.store import schema

KEPLER = ws.load_gpu("kepler")
SHORT = {"warmup": 500, "cycles": 2_000}
ALU = Instruction("alu", dst="r1", src=("r1",))
LOAD = Instruction("load", dst="r1", src=("r1",))
BARRIER = Instruction("barrier")
EXIT = Instruction("exit")


def kernel(*body: Any) -> Kernel:
    return Kernel(name="test", inputs=("r0", "r1"), body=body)


def chance() -> Kernel:
    """Branches, loops and loads that are drawn."""
    maybe = Conditional(then=(ALU, LOAD), orelse=(ALU,), probability=0.4)
    return kernel(Loop(body=(maybe, LOAD), trips=(1, 6)))


# The Dataset

COORDINATES = {
    "op": ["alu", "sfu", "smem", "load", "store", "barrier", "branch", "exit"],
    "quantile": [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1],
    "state": [
        "selected", "not_selected", "wait", "short_scoreboard", "long_scoreboard", "barrier",
        "math_pipe_throttle", "mio_throttle", "lg_throttle",
    ],
    "slot": ["issued", "busy", "idle"],
    "replicate": [0, 1, 2],
    "warps": list(range(13)),
}  # fmt: skip
UNITS = {
    "cycles": "cycles",
    "instructions": "instructions",
    "ipc": "instructions/cycle/SM",
    "throughput": "ops/cycle/SM",
    "bandwidth": "GB/s",
    "memory_latency": "cycles",
    "memory_latency_quantile": "cycles",
    "warp_latency": "cycles",
    "occupancy": "warps/SM",
    "occupancy_max": "warps/SM",
    "occupancy_fraction": "1",
    "warp_cycles": "warp cycles",
    "scheduler_cycles": "scheduler cycles",
    "peak_fraction": "1",
}
DIMS = {
    "instructions": "op",
    "ipc": "op",
    "throughput": "op",
    "memory_latency_quantile": "quantile",
    "occupancy_fraction": "warps",
    "warp_cycles": "state",
    "scheduler_cycles": "slot",
}


def test_dataset_is_as_published() -> None:
    ds = ws.simulate(KEPLER, chance(), warps=12, replicates=3, **SHORT)
    assert {name: ds[name].attrs["units"] for name in ds.data_vars} == UNITS
    for name in ds.data_vars:
        own = (DIMS[name],) if name in DIMS else ()
        assert ds[name].dims == ("replicate", *own)
        assert ds[name].dtype == np.float64
        assert len(ds[name].attrs["long_name"]) > 3
    assert {name: ds[name].values.tolist() for name in ds.coords} == COORDINATES
    assert ds.attrs.keys() == {"source", "history", "provenance"}
    call = json.loads(ds.attrs["provenance"])["call"]
    assert {name: call[name] for name in SHORT} == SHORT
    assert (call["scheduler"], call["memory"], call["replicates"], call["seed"]) == ("lrr", "queue", 3, 2016)


def test_a_class_of_the_chips_own_is_an_op() -> None:
    data = KEPLER.to_dict()
    data["ops"]["fp64"] = data["ops"]["alu"] | {"interval_cycles": 8}
    gpu = ws.Gpu.from_dict(data)
    ds = ws.simulate(gpu, kernels.chain("fp64"), warps=8, warmup=90, cycles=900, sms=1)
    assert ds.op.values.tolist() == [*COORDINATES["op"], "fp64"]
    assert ds.instructions.sel(op="fp64").item() == 8 * 900 / 9 == ds.instructions.sum().item()


def test_units_of_a_run_that_is_known() -> None:
    """Kepler, one warp on each SM, one load of 128 bytes every 301 cycles; the chip runs at 1.124 GHz."""
    ds = ws.simulate(
        KEPLER, kernels.chain("load"), warps=1, memory="fixed", warmup=3_010, cycles=301 * 50
    ).isel(replicate=0)
    loads = 8 * 50
    assert ds.instructions.sel(op="load").item() == loads
    assert ds.ipc.sel(op="load").item() == pytest.approx(1 / 301, rel=1e-14)
    assert ds.throughput.sel(op="load").item() == pytest.approx(32 / 301, rel=1e-14)
    assert ds.bandwidth.item() == pytest.approx(8 * 128 / 301 * 1.124, rel=1e-14)
    assert ds.memory_latency.item() == 301
    assert ds.memory_latency_quantile.values.tolist() == [301] * 7
    assert ds.occupancy_fraction.values.tolist() == [0, 1]
    assert ds.warp_cycles.sel(state=["selected", "long_scoreboard"]).values.tolist() == [loads, loads * 300]
    assert ds.warp_cycles.sum().item() == loads * 301
    assert ds.scheduler_cycles.values.tolist() == [loads, 0, 8 * 4 * 301 * 50 - loads]
    assert np.isnan(ds.warp_latency.item())
    assert ds.peak_fraction.item() == pytest.approx(8 * 128 / 301 * 1.124 / 154, rel=1e-14)


def test_a_slice_has_its_share_of_the_bandwidth() -> None:
    """A saturated slice reports the bandwidth that the whole chip would have."""
    for sms in (1, 4, None):
        ds = ws.simulate(KEPLER, kernels.chain("load"), warps=64, memory="fixed", sms=sms, cycles=50_000)
        assert ds.bandwidth.item() == pytest.approx(154, rel=1e-3)


def test_quantiles_of_latency_are_those_of_the_loads() -> None:
    """Compared with the trace of the same seed: the smallest latency with so many of the loads at or below it."""
    point = make_point(KEPLER, kernels.mix(4), warps=32, memory="measured", **SHORT)
    found = simulate_point(point)
    seed = _seed(point)
    latencies = trace_run(KEPLER, point.kernel, point.launch, memory="measured", seed=seed, **SHORT).load_latencies
    assert max(latencies) < 4096  # bins of one cycle
    expected = np.quantile(latencies, schema.QUANTILES, method="inverted_cdf")
    np.testing.assert_array_equal(found["memory_latency_quantile"][0], expected)
    assert found["memory_latency"][0] == pytest.approx(np.mean(latencies), rel=1e-14)


def _seed(point: Any) -> int:
    """The seed of a point's first replicate, as its machine holds it."""
    from warpsim import simulation

    return replicate_seed(simulation._point_hash(point), 0)


# Sums (docs/model.md, section 7)


@settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases(barriers="even"))
def test_identities(case: Case) -> None:
    options = dict(case.options)
    finite = options["cycles"] is None
    if finite:
        del options["cycles"]
    ds = ws.simulate(case.gpu, case.kernel, launch=case.launch, replicates=2, **options)
    sms = options["sms"] or case.gpu.sms
    sm_cycles = ds.cycles * sms
    resident = ds.occupancy * sm_cycles
    close = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(ds.warp_cycles.sum("state"), resident, **close)
    np.testing.assert_array_equal(ds.scheduler_cycles.sum("slot"), case.gpu.sm.schedulers * sm_cycles)
    np.testing.assert_allclose(ds.occupancy_fraction.sum("warps"), 1, **close)
    np.testing.assert_allclose(ds.occupancy, ds.occupancy_fraction.weighted(ds.warps).sum("warps"), **close)
    np.testing.assert_array_equal(ds.throughput, 32 * ds.ipc)
    np.testing.assert_allclose(ds.ipc * sm_cycles, ds.instructions, **close)
    assert (ds.warp_cycles.sel(state="selected") == ds.scheduler_cycles.sel(slot="issued")).all()
    issued, slots = ds.instructions.sum("op"), ds.scheduler_cycles.sel(slot="issued")
    assert ((slots <= issued) & (issued <= case.gpu.issue.width * slots)).all()
    assert ((ds.warp_cycles >= 0) & (ds.scheduler_cycles.sum("slot") > 0)).all()
    assert (ds.occupancy_max <= case.launch.block_warps * case.launch.resident_blocks).all()
    if finite:
        blocks = sms * case.launch.resident_blocks if case.launch.persistent else case.launch.blocks
        warps = blocks * case.launch.block_warps
        assert (ds.instructions.sel(op="exit") == warps).all()
        np.testing.assert_allclose(resident, warps * ds.warp_latency, **close)  # Little's law


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(cases(barriers="even"))
def test_windows_add_up(case: Case) -> None:
    """Whatever is counted in three windows side by side is counted in the one over them, with one seed."""
    options = {**case.options, "warmup": 0, "cycles": 300}
    launch = case.launch.model_copy(update={"blocks": None, "persistent": False})
    if case.kernel.endless or launch.blocks is None:
        whole = trace_run(case.gpu, case.kernel, launch, **options)
        parts = [
            trace_run(case.gpu, case.kernel, launch, **{**options, "warmup": start, "cycles": length})
            for start, length in ((0, 1), (1, 120), (121, 179))
        ]
        assert parts[-1].issues == whole.issues
        for name in ("warp_cycles", "scheduler_cycles", "occupancy_cycles", "instructions"):
            total: dict[Any, int] = {}
            for part in parts:
                for key, count in getattr(part, name).items():
                    total[key] = total.get(key, 0) + count
            counted = getattr(whole, name)
            assert {k: n for k, n in total.items() if n} == {k: n for k, n in counted.items() if n}, name
        assert sorted(x for part in parts for x in part.load_latencies) == whole.load_latencies
        assert sorted(x for part in parts for x in part.retired) == whole.retired


# Seeds


def test_numbers_do_not_depend_on_what_ran_before_or_beside() -> None:
    """Any order of points, any number of threads, any number of replicates."""
    calls = [
        {"scheduler": scheduler, "memory": memory, "warps": warps, **SHORT}
        for scheduler in POLICIES
        for memory in ("queue", "measured")
        for warps in (5, 16)
    ]
    first = [ws.simulate(KEPLER, chance(), replicates=3, **call) for call in calls]
    for call, expected in reversed(list(zip(calls, first, strict=True))):
        xr.testing.assert_equal(ws.simulate(KEPLER, chance(), replicates=3, threads=3, **call), expected)
        more = ws.simulate(KEPLER, chance(), replicates=5, threads=2, **call).isel(replicate=slice(3))
        xr.testing.assert_equal(more, expected)


def test_all_sms_by_number_are_the_whole_chip() -> None:
    both = [
        ws.simulate(KEPLER, kernels.mix(2), warps=8, memory="fixed", sms=sms, **SHORT) for sms in (None, 8)
    ]
    xr.testing.assert_equal(*both)


@pytest.mark.parametrize("changed", [{"seed": 7}, {"warps": 9}, {"cycles": 2_001}, {"warmup": 501}])
def test_what_is_simulated_is_in_the_seed(changed: dict[str, int]) -> None:
    call = {"warps": 8, "replicates": 4, **SHORT}
    one = ws.simulate(KEPLER, chance(), **call)
    other = ws.simulate(KEPLER, chance(), **(call | changed))
    assert not np.intersect1d(one.memory_latency, other.memory_latency).size


def test_threads_and_defaults_are_not_in_the_seed() -> None:
    launch = Launch(block_warps=1, resident_blocks=8)
    xr.testing.assert_equal(
        ws.simulate(KEPLER, chance(), warps=8, **SHORT), ws.simulate(KEPLER, chance(), launch=launch, **SHORT)
    )


def test_policies_share_their_draws() -> None:
    """What a warp executes does not depend on who is picked: each replicate's grid has one program trace under all."""
    launch = Launch(blocks=64, block_warps=4, resident_blocks=4)
    runs = [
        ws.simulate(KEPLER, chance(), launch=launch, scheduler=policy, replicates=6) for policy in POLICIES
    ]
    for other in runs[1:]:
        xr.testing.assert_equal(other.instructions, runs[0].instructions)
    assert len(np.unique(runs[0].instructions.sel(op="load"))) > 3
    assert len(np.unique([ds.cycles.values for ds in runs])) > 6


def test_paired_differences_are_sharper() -> None:
    """Policies meet the same latencies: over 60 replicates the times of finite grids correlate. Without common draws the
    correlation has a standard deviation of 0.13, and exceeds 0.6 by chance (4.6 of them) once in a million seeds.
    """
    launch = Launch(blocks=8, block_warps=2, resident_blocks=1)
    times = [
        ws.simulate(KEPLER, chance(), launch=launch, scheduler=policy, replicates=60).cycles.values
        for policy in ("lrr", "gto")
    ]
    assert np.corrcoef(times)[0, 1] > 0.6
    apart = ws.simulate(KEPLER, chance(), launch=launch, scheduler="gto", replicates=60, seed=1).cycles.values
    assert abs(np.corrcoef(times[0], apart)[0, 1]) < 0.6


def test_a_run_is_a_replicate() -> None:
    """`run` with a replicate's seed is what `simulate_point` reports of it."""
    point = make_point(KEPLER, chance(), warps=8, **SHORT)
    _, state = run(point, _seed(point))
    assert state.tally[0].latency_sum / state.tally[0].histogram.sum() == simulate_point(point)["memory_latency"]


# Finite grids


@pytest.mark.parametrize("sms", [1, 3, None])
def test_a_persistent_grid_is_one_wave(sms: int | None) -> None:
    launch = Launch(block_warps=2, resident_blocks=3, persistent=True)
    ds = ws.simulate(KEPLER, kernels.vector_add(), launch=launch, sms=sms, warmup=999, cycles=5)
    assert ds.instructions.sel(op="exit").item() == 6 * (sms or 8)
    assert ds.cycles.item() > 344
    assert ds.occupancy_max.item() == 6


def test_total_time_of_a_grid_in_waves() -> None:
    """Fixed latencies, nothing contended: three waves of one vector-add warp take 2 * 544 + 343 + 1 cycles."""
    memory = KEPLER.memory.model_copy(update={"bandwidth_gbs": 1e9, "pin_bandwidth_gbs": 1e9})
    gpu = KEPLER.model_copy(update={"memory": memory})
    launch = Launch(blocks=24, block_warps=1, resident_blocks=1)
    ds = ws.simulate(gpu, kernels.vector_add(), launch=launch, memory="fixed")
    assert ds.cycles.item() == 2 * 544 + 343 + 1
    assert ds.warp_latency.item() == 344
    busy = Fraction(3 * 344, 2 * 544 + 344)
    np.testing.assert_allclose(ds.occupancy_fraction.values[0], [float(1 - busy), float(busy)], rtol=1e-14)


# Wrong arguments


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"warps": 100}, InvalidPoint, r"^warps = 100: an integer from 1 to 64 on kepler"),
        ({"warps": True}, TypeError, r"^warps = True"),
        ({"warps": "16"}, TypeError, r"^warps = '16'"),
        ({"warps": 37}, InvalidPoint, r"^warps = 37: no block size makes it"),
        ({"block_warps": 33}, InvalidPoint, r"^block_warps = 33: an integer from 1 to 32"),
        ({"block_warps": 0}, ValueError, r"^block_warps = 0"),
        ({"block_warps": 5}, InvalidPoint, r"^warps = 16: a multiple of block_warps = 5"),
        ({"launch": Launch(block_warps=2, resident_blocks=3)}, ValueError, r"^warps = 16: 6, as in launch"),
        ({"launch": {"block_warps": 2}}, TypeError, r"^launch = "),
        ({"launch": Launch(block_warps=33), "warps": None}, InvalidPoint, r"^launch.block_warps = 33"),
        ({"launch": Launch(block_warps=4, resident_blocks=17), "warps": None}, InvalidPoint, r"^launch.resident_blocks = 17"),
        ({"launch": Launch(block_warps=4, blocks=8, persistent=True), "warps": None}, ValueError, r"^launch.blocks = 8"),
        ({"launch": Launch(block_warps=4, blocks=8), "warps": None}, ValueError, r"^launch: .*endless loop"),
        ({"launch": Launch(block_warps=4, persistent=True), "warps": None}, ValueError, r"^launch: .*endless loop"),
        ({"scheduler": "LRR"}, ValueError, r"^scheduler = 'LRR': one of lrr, gto, oldest, random"),
        ({"scheduler": None}, TypeError, r"^scheduler = None"),
        ({"scheduler": ["lrr"]}, TypeError, r"^scheduler = \['lrr'\]"),
        ({"memory": "cache"}, ValueError, r"^memory = 'cache': one of queue, fixed, measured"),
        ({"memory": 3}, TypeError, r"^memory = 3"),
        ({"gpu": ws.load_gpu("g80"), "memory": "measured"}, ValueError, r"^memory = 'measured': .*g80; 'queue' or 'fixed'"),
        ({"replicates": 0}, ValueError, r"^replicates = 0: an integer from 1"),
        ({"replicates": -1}, ValueError, r"^replicates = -1"),
        ({"replicates": 1.0}, TypeError, r"^replicates = 1.0"),
        ({"replicates": True}, TypeError, r"^replicates = True"),
        ({"seed": -1}, ValueError, r"^seed = -1: an integer from 0"),
        ({"seed": None}, TypeError, r"^seed = None"),
        ({"sms": 0}, ValueError, r"^sms = 0: an integer from 1 to 8"),
        ({"sms": 9}, ValueError, r"^sms = 9: an integer from 1 to 8"),
        ({"sms": "all"}, TypeError, r"^sms = 'all'"),
        ({"warmup": -5}, ValueError, r"^warmup = -5: an integer from 0"),
        ({"warmup": 1e4}, TypeError, r"^warmup = 10000.0"),
        ({"cycles": 0}, ValueError, r"^cycles = 0: an integer from 1"),
        ({"cycles": None}, TypeError, r"^cycles = None"),
        ({"threads": 0}, ValueError, r"^threads = 0: an integer from 1"),
        ({"threads": 1.5}, TypeError, r"^threads = 1.5"),
        ({"gpu": None}, TypeError, r"^gpu = None: a Gpu"),
        ({"kernel": kernels.mix}, TypeError, r"^kernel = <function mix"),
        ({"kernel": kernels.chain("tensor")}, ValueError, r"^kernel: operation class 'tensor' of tensor_chain: kepler has"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(arguments: dict[str, Any], error: type[Exception], named: str) -> None:
    call = {"gpu": KEPLER, "kernel": kernels.mix(8), "warps": 16, "cycles": 100, "warmup": 0} | arguments
    with pytest.raises(error, match=named):
        ws.simulate(**call)


def test_integers_of_numpy_are_integers() -> None:
    ds = ws.simulate(KEPLER, kernels.mix(8), warps=np.int64(16), replicates=np.uint8(2), seed=np.int32(3), **SHORT)
    xr.testing.assert_equal(ds, ws.simulate(KEPLER, kernels.mix(8), warps=16, replicates=2, seed=3, **SHORT))
    assert json.loads(ds.attrs["provenance"])["call"]["seed"] == 3


def test_a_large_seed_is_a_seed() -> None:
    large = ws.simulate(KEPLER, chance(), warps=8, seed=2**200, **SHORT)
    assert not large.equals(ws.simulate(KEPLER, chance(), warps=8, seed=0, **SHORT))


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (Conditional(then=(BARRIER,), probability=0.5), r"body\[0\].then\[0\]"),
        (Conditional(then=(ALU,), orelse=(ALU, BARRIER), warps=(0,)), r"body\[0\].orelse\[1\]"),
        (Loop(body=(ALU, BARRIER), trips=(1, 2)), r"body\[0\].body\[1\]"),
        (Conditional(then=(Loop(body=(BARRIER,), trips=2),), probability=0.0), r"body\[0\].then\[0\].body\[0\]"),
    ],
)
def test_a_deadlock_is_seen_before_the_run(body: Any, where: str) -> None:
    """Refused with more than one warp to a block; one warp by itself waits for nobody."""
    for launch in (Launch(block_warps=2), Launch(blocks=3, block_warps=4), Launch(block_warps=2, persistent=True)):
        with pytest.raises(ws.DeadlockError, match=rf"^kernel test: deadlock: the barrier at {where} "):
            ws.simulate(KEPLER, kernel(body, ALU), launch=launch, **SHORT)
    alone = ws.simulate(KEPLER, kernel(body, ALU), launch=Launch(blocks=3, block_warps=1))
    assert alone.instructions.sel(op="exit").item() == 3


@pytest.mark.parametrize(
    "body",
    [
        Loop(body=(ALU, BARRIER), trips=3),
        Loop(body=(ALU, BARRIER), trips=(2, 2)),
        Conditional(then=(BARRIER,), orelse=(BARRIER,), diverges=True),
        Conditional(then=(LOAD, EXIT), probability=0.5),
    ],
)
def test_barriers_that_all_live_warps_reach_are_fine(body: Any) -> None:
    ds = ws.simulate(KEPLER, kernel(body, BARRIER, ALU), launch=Launch(blocks=20, block_warps=4), replicates=2)
    assert (ds.instructions.sel(op="exit") == 80).all()


def test_a_deadlock_in_the_run_is_named() -> None:
    """What `simulate` refuses beforehand the engine finds, too: on the second SM, after other blocks have passed."""
    parted = kernel(
        LOAD, Conditional(then=(BARRIER,), orelse=(Conditional(then=(ALU, BARRIER), probability=1.0),), warps=(2,))
    )
    launch = Launch(blocks=5, block_warps=3, resident_blocks=1)
    named = r"^kernel test: deadlock at cycle \d+: the warps of block 0 wait at different barriers: warp 0 .*warp 2 "
    for policy in POLICIES:
        with pytest.raises(ws.DeadlockError, match=named):
            trace_run(small_gpu(sms=2), parted, launch, memory="fixed", scheduler=policy, seed=1)

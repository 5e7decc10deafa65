"""Traces record the events of the run, do not change its results, and stay within `max_bytes`."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given

import warpsim as ws
from tests.support.cases import Case, small_gpu
from tests.support.strategies import cases, examples
from tests.support.whole_run import spreads
from warpsim.engine.accounts import caused_accounts, line_accounts, steps_issued
from warpsim.reference import simulator as reference_simulator
from warpsim.results import schema
from warpsim.simulation.encode import encode, with_seed
from warpsim.simulation.point import as_launched
from warpsim.simulation.run import Capacity, run_machine
from warpsim.simulation.trace import RunSize
from warpsim.simulation.trace_variables import occupancy_changes

KEPLER = ws.load_gpu("kepler")
GRID = ws.Launch(blocks=40, block_warps=4, resident_blocks=3)
ALL = ws.Trace(occupancy=True, warps=True, issues=(0, 10_000), states=5)


def run_case(case: Case, capacity: Capacity | None) -> Any:
    options = case.options
    named = {name: options[name] for name in ("scheduler", "memory", "sms")}
    phases = spreads(case.launch, options["warmup"])
    kernel = as_launched(case.gpu, case.kernel, case.launch)
    machine = with_seed(encode(case.gpu, kernel, case.launch, **named, phases=phases), options["seed"])
    try:
        return machine, *run_machine(machine, kernel, options["warmup"], options["cycles"], capacity)
    except ValueError as error:  # a deadlock, or a grid that ends within the warm-up
        return str(error)


class TestRandomPrograms:
    """Identities of section 7 of docs/model.md, for random programs."""

    @examples(30)
    @given(cases())
    def test_sums_over_lines_schedulers_bins_and_sms(self, case: Case) -> None:
        run = run_case(case, Capacity(lives=1000, changes=1000, bins=3))
        plain = run_case(case, None)
        if isinstance(run, str):
            assert run == plain
            return
        machine, state, bins = run
        counts = line_accounts(*plain[:2]).sum(axis=(0, 1)).tolist()
        accounts = line_accounts(machine, state)
        assert accounts.sum(axis=(0, 1)).tolist() == counts
        assert caused_accounts(machine, state).sum(axis=0).tolist() == counts
        assert bins.totals[-1][: len(counts)].tolist() == counts
        assert np.all(np.diff(bins.totals, axis=0) >= 0)
        assert len(bins.edges) <= 4 and bins.edges[-1] == state.clock[0].cycle == plain[1].clock[0].cycle
        resident = plain[1].tally[0].occupancy @ np.arange(len(plain[1].tally[0].occupancy))
        assert sum(counts) == resident == bins.totals[-1][len(counts) + 2 :].sum()
        assert integral(occupancy_changes(state, bins.edges[-1]), bins.edges[-1]) == resident
        assert (steps_issued(machine, state) == steps_issued(*plain[:2])).all()

    @examples(30)
    @given(cases())
    def test_states_over_time_are_those_of_the_reference_machine(self, case: Case) -> None:
        run = run_case(case, Capacity(bins=4))
        if isinstance(run, str):
            return
        bins = run[2]
        reference = reference_simulator.simulate(case.gpu, case.kernel, case.launch, **case.options)
        before = np.zeros(len(bins.totals[0]))
        for begin, end, totals in zip(bins.edges, bins.edges[1:], bins.totals, strict=False):
            expected: Counter[str] = Counter()
            for (cycle, name), warps in reference.state_moments.items():
                expected[name] += warps if begin <= cycle < end else 0
            issued = sum(begin <= cycle < end for cycle, *_ in reference.issues)
            assert [*(totals - before)[: len(schema.STATES) + 1]] == [*(expected[name] for name in schema.STATES), issued]
            before = totals


def integral(changes: np.ndarray, end: int) -> int:
    """Warp-cycles of all SMs up to cycle `end`."""
    total = 0
    for sm in np.unique(changes[:, 1]):
        mine = changes[changes[:, 1] == sm]
        total += int(mine[:, 2] @ np.diff(np.append(mine[:, 0], end)))
    return total


@pytest.fixture(scope="module")
def traced() -> xr.Dataset:
    return ws.simulate(KEPLER, ws.kernels.vector_add(), launch=GRID, sms=2, replicates=2, trace=ALL)


def test_the_variables_and_their_dimensions(traced: xr.Dataset) -> None:
    plain = ws.simulate(KEPLER, ws.kernels.vector_add(), launch=GRID, sms=2, replicates=2)
    assert plain.equals(traced[list(plain.data_vars)].drop_vars(["line", "line_text", "time", "warp"], errors="ignore"))
    for declared in schema.TRACE_VARIABLES:
        if declared.name != "occupancy_over_time":
            assert traced[declared.name].dims == declared.dims
            assert traced[declared.name].attrs == declared.attrs
    assert set(traced.data_vars) - set(plain.data_vars) == {v.name for v in schema.TRACE_VARIABLES} - {"occupancy_over_time"}
    assert traced["line_text"].values[[0, -1]].tolist() == ["alu r1 # MOV R1, c[0x0][0x44]", "exit"]
    assert traced["time"].attrs["units"] == "cycles"


def test_sums_of_a_dataset(traced: xr.Dataset) -> None:
    for name, dim in (("line", "line"), ("line_caused", "line"), ("scheduler", "sm_scheduler")):
        xr.testing.assert_equal(traced[f"{name}_warp_cycles"].sum(dim), traced["warp_cycles"].rename(None))
    xr.testing.assert_equal(traced["warp_cycles_over_time"].sum("time"), traced["warp_cycles"])
    issued = traced["instructions"].sum("op")
    for name, dim in (("line_instructions", "line"), ("instructions_over_time", "time")):
        np.testing.assert_array_equal(traced[name].sum(dim), issued)
    np.testing.assert_array_equal(traced["issue_cycle"].count("issue"), issued)


def test_lifelines_agree_with_occupancy(traced: xr.Dataset) -> None:
    for replicate in range(2):
        one = traced.isel(replicate=replicate)
        start, end = one["warp_start"].values, one["warp_end"].values
        assert one["warp"].values.tolist() == list(range(160))
        np.testing.assert_array_equal(one["warp_block"], np.arange(160) // 4)
        np.testing.assert_array_equal(one["warp_scheduler"], one["warp_slot"] % 4)
        assert (end - start + 1).mean() == one["warp_latency"]
        seen = one["occupancy_change_cycle"].dropna("change").size
        for i in range(seen):
            cycle, sm, warps = (one[f"occupancy_change_{name}"].values[i] for name in ("cycle", "sm", "warps"))
            assert warps == ((start <= cycle) & (cycle <= end) & (one["warp_sm"].values == sm)).sum()
        assert one["issue_cycle"].max() + 1 <= one["cycles"]


def test_bins_of_a_grid_without_known_end() -> None:
    ds = ws.simulate(
        KEPLER, ws.kernels.vector_add(), launch=GRID, sms=2, replicates=3, trace=ws.Trace(occupancy=9, states=9)
    )
    width = int(np.diff(ds["time"].values)[0])
    assert 5 <= ds.sizes["time"] <= 9
    for replicate in range(3):
        one = ds.isel(replicate=replicate)
        cycles = np.minimum(one["cycles"].item() - one["time"].values, width)
        inside = cycles > 0
        assert np.isnan(one["occupancy_over_time"].values[:, ~inside]).all()
        resident = (one["occupancy_over_time"].values[:, inside] * cycles[inside]).sum()
        np.testing.assert_allclose(resident, 2 * one["occupancy"] * one["cycles"])
        bandwidth = (one["bandwidth_over_time"].values[inside] * cycles[inside]).sum() / one["cycles"]
        np.testing.assert_allclose(bandwidth, one["bandwidth"])


def test_a_window_of_a_steady_state() -> None:
    """The trace covers the counted cycles; it includes warps that start before them, and warps without an end."""
    trace = ws.Trace(occupancy=True, warps=True, issues=(450, 480), states=10)
    ds = ws.simulate(KEPLER, ws.kernels.vector_add(), warps=8, sms=1, warmup=400, cycles=1000, trace=trace).isel(replicate=0)
    assert ds["time"].values.tolist() == list(range(400, 1400, 100))
    assert ds["occupancy_change_cycle"].values[0] == 400
    assert 450 <= ds["issue_cycle"].min() and ds["issue_cycle"].max() < 480
    assert ds["warp_start"].min() < 400
    seen = ds.isel(warp=np.isfinite(ds["warp_start"].values))  # a warp with a number in between may have retired earlier
    assert np.isnan(seen["warp_end"].values).sum() == ds["occupancy_change_warps"].values[-1]
    assert ds["warp_end"].min() >= 400


def test_imbalance_across_schedulers() -> None:
    """V 5.8: one of four schedulers has 5 of 17 warps. Its warps take 20 cycles for an sfu instruction, the others 16."""
    steps = 400
    ds = ws.simulate(
        KEPLER, ws.kernels.chain("sfu", iterations=steps), sms=1, launch=ws.Launch(blocks=1, block_warps=17),
        trace=ws.Trace(occupancy=True, warps=True),
    ).isel(replicate=0)  # fmt: skip
    late = ds["warp_end"].values > 18 * steps
    assert ds["warp_scheduler"].values[late].tolist() == [0] * 5
    np.testing.assert_allclose(ds["warp_end"].values[late], 20 * steps, atol=40)
    np.testing.assert_allclose(ds["warp_end"].values[~late], 16 * steps, atol=40)
    held = np.diff(np.append(ds["occupancy_change_cycle"], ds["cycles"]))
    assert held[ds["occupancy_change_warps"].values == 5].sum() == pytest.approx(4 * steps, abs=80)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_numbers_are_the_same_with_a_trace(threads: int) -> None:
    call: dict[str, Any] = {"warps": 16, "warmup": 300, "cycles": 2000, "replicates": 2, "scheduler": "random"}
    plain = ws.simulate(KEPLER, ws.kernels.mix(4), **call)
    ds = ws.simulate(KEPLER, ws.kernels.mix(4), **call, threads=threads, trace=ws.Trace(occupancy=7, warps=True, states=7))
    for name in plain.data_vars:
        np.testing.assert_array_equal(plain[name], ds[name])


def test_provenance_repeats_the_trace(traced: xr.Dataset) -> None:
    call = ws.from_provenance(traced.attrs["provenance"])
    assert call["trace"] == ALL
    assert ws.simulate(**call).equals(traced)


def test_many_runs_in_one_zarr_store(tmp_path: Any) -> None:
    """Each run is a group, written and read by xarray alone."""
    launch = ws.Launch(blocks=6, block_warps=2, resident_blocks=2)
    runs = {
        policy: ws.simulate(small_gpu(), ws.kernels.vector_add(), launch=launch, scheduler=policy, trace=ALL)
        for policy in ("lrr", "gto")
    }
    for policy, ds in runs.items():
        ds.to_zarr(tmp_path / "traces.zarr", group=policy, consolidated=False)
    for policy, ds in runs.items():
        with xr.open_zarr(tmp_path / "traces.zarr", group=policy, consolidated=False) as again:
            assert again.load().equals(ds)
            assert again["line_warp_cycles"].attrs == ds["line_warp_cycles"].attrs
    with xr.open_datatree(tmp_path / "traces.zarr", engine="zarr", consolidated=False) as tree:
        assert set(tree.children) == {"lrr", "gto"}


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"occupancy": 0}, ValueError, r"trace.occupancy = 0: must be True, False or an integer from 1"),
        ({"occupancy": 1.5}, TypeError, r"trace.occupancy = 1.5"),
        ({"states": "10"}, TypeError, r"trace.states = '10'"),
        ({"warps": 1}, TypeError, r"trace.warps = 1: must be True or False"),
        ({"issues": 5}, TypeError, r"trace.issues = 5"),
        ({"issues": (5, 5)}, ValueError, r"trace.issues = \(5, 5\): start must be below stop"),
        ({"issues": (-1, 5)}, ValueError, r"trace.issues = -1"),
        ({"max_bytes": 0}, ValueError, r"trace.max_bytes = 0"),
        ({"occupancy": 5, "states": 6}, ValueError, r"the same number of bins"),
    ],
)
def test_bad_traces_are_named(arguments: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        ws.Trace(**arguments)


def test_issues_after_the_window_are_refused_before_the_run() -> None:
    long = {"warmup": 10**9, "cycles": 10**9}  # hours
    with pytest.raises(ValueError, match=r"trace.issues = .*: must begin within the run, whose last cycle is 1999999999"):
        ws.simulate(KEPLER, ws.kernels.mix(4), warps=4, **long, trace=ws.Trace(issues=(2 * 10**9, 2 * 10**9 + 1)))


def test_a_trace_is_a_trace() -> None:
    with pytest.raises(TypeError, match="trace = True: must be a Trace, or None"):
        ws.simulate(KEPLER, ws.kernels.mix(4), trace=True)


@pytest.mark.parametrize(
    ("trace", "hint"),
    [
        (ws.Trace(occupancy=100_000, max_bytes=1_000_000), "fewer bins"),
        (ws.Trace(occupancy=True, max_bytes=1_000_000), "a number of bins instead of True"),
        (ws.Trace(warps=True, max_bytes=1_000_000), "fewer cycles or blocks"),
        (ws.Trace(states=True, max_bytes=1_000), "states=False"),
    ],
)
def test_a_trace_that_cannot_fit_is_rejected_before_the_run(trace: ws.Trace, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsim.simulation.api.run_machine", lambda *_: pytest.fail("ran"))
    with pytest.raises(ws.TraceLimitError, match=rf"trace.max_bytes = {trace.max_bytes}: must be at least .* request {hint}"):
        ws.simulate(KEPLER, ws.kernels.vector_add(), launch=ws.Launch(blocks=10**6, block_warps=4), trace=trace)


@pytest.mark.parametrize(
    ("trace", "hint"),
    [
        (ws.Trace(occupancy=True, max_bytes=10_000), "trace.occupancy: more than .* changes by cycle .* a number of bins"),
        (ws.Trace(warps=True, max_bytes=10_000), "trace.warps: more than .* warps retired by cycle .* fewer cycles"),
        (ws.Trace(issues=(0, 100_000), max_bytes=10_000), "trace.issues: more than .* by cycle .* shorten the window"),
    ],
)
def test_a_trace_that_grows_too_long_stops_the_run(trace: ws.Trace, hint: str) -> None:
    with pytest.raises(ws.TraceLimitError, match=hint):
        ws.simulate(KEPLER, ws.kernels.vector_add(), warps=16, sms=1, trace=trace)


def test_the_records_stay_within_the_bound() -> None:
    """The capacity in bytes, for an endless supply of blocks and every kind of event."""
    sizes = {"line": 12, "state": len(schema.STATES), "sm_scheduler": 4, "time": 50}
    shapes = [[sizes[dim] for dim in v.dims[1:]] for v in schema.TRACE_VARIABLES if set(v.dims[1:]) <= set(sizes)]
    tables = 8 * sum(int(np.prod(shape)) for shape in shapes)
    for limit in (50_000, 1_000_000):
        trace = ws.Trace(occupancy=True, warps=True, issues=(0, 10**6), states=50, max_bytes=limit)
        capacity = trace.capacity(
            RunSize(replicates=2, sms=2, schedulers=4, issue_width=2, lines=12, residents=32, block_warps=4, blocks=None)
        )
        rows = 40 * capacity.issues + 48 * (capacity.lives + 32) + 24 * capacity.changes
        assert 0.9 * limit < 2 * (rows + tables) <= limit


def test_occupancy_changes() -> None:
    """Sorted by cycle and SM; without repeated values and without changes at or after the end."""
    rows = [(5, 1, 4), (5, 0, 8), (9, 0, 6), (9, 0, 7), (12, 1, 4), (15, 1, 3), (20, 0, 0)]
    state: Any = SimpleNamespace(changes=np.array(rows), tally=[SimpleNamespace(n_changes=len(rows))], sms=[0, 1])
    assert occupancy_changes(state, 20).tolist() == [[5, 0, 8], [5, 1, 4], [9, 0, 7], [15, 1, 3]]


def test_there_are_no_more_bins_than_cycles():
    """However many are asked for, 20 cycles have room for 20."""
    bins = ws.Trace(states=10**12)  # room for bins is taken at once
    found = ws.simulate("kepler", "mix", alpha=4, warps=4, sms=1, warmup=0, cycles=20, replicates=1, trace=bins)
    assert found.sizes["time"] == 20


def test_lifelines_of_a_window_without_warps() -> None:
    kernel = ws.Kernel(name="short", body=[ws.kernels.Instruction("alu", dst="r")])
    launch = ws.Launch(block_warps=1, resident_blocks=1)
    for warmup, warps in ((0, 1), (100, 0)):  # the second block starts later
        settings = {"sms": 1, "warmup": warmup, "cycles": 20, "trace": ws.Trace(warps=True)}
        assert ws.simulate(KEPLER, kernel, launch=launch, **settings).sizes["warp"] == warps

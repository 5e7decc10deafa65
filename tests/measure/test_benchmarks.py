"""The whole session, from benchmarks to a chip file that simulates, on a device of formulas with known parameters."""

import inspect
import re
from itertools import pairwise

import numpy as np
import pytest

import warpsim as ws
from tests.measure import analytic_device as known
from tests.measure.analytic_device import AnalyticDevice
from warpsim.measure.benchmarks import GROUPS, run_benchmarks
from warpsim.measure.chipfile import AFTER_THE_CLOCK, IncompleteError, write_chip
from warpsim.measure.compiler import FOLDER
from warpsim.measure.derive import derive
from warpsim.measure.operations import CONFLICT_WAYS, OPERATIONS
from warpsim.measure.record import Record, read_record
from warpsim.measure.session import FULL, QUICK
from warpsim.measure.values import TABLE_LEVELS, Value


@pytest.fixture(scope="module")
def record():
    device = AnalyticDevice()
    found = run_benchmarks(device, FULL)
    assert not device.allocated, "all memory is returned"
    return found


@pytest.fixture(scope="module")
def values(record):
    return derive(record)


def test_latencies_intervals_and_scopes_come_back(values):
    for name, op in OPERATIONS.items():
        assert values[f"ops.{name}.latency_cycles"].value == known.LATENCY[name]
        if op.saturate:
            scope = "sm" if name in known.PER_SM else "scheduler"
            assert values[f"ops.{name}.scope"].value == scope
            interval = known.PER_SM[name] if scope == "sm" else known.PER_SCHEDULER[name] / 4
            assert values[f"ops.{name}.interval_sm_cycles"].value == pytest.approx(interval, rel=0.04)
    assert values["shared.conflict_latency_cycles"].value == known.CONFLICT
    assert values["branch.loop_cycles"].value == known.LOOP
    assert len(CONFLICT_WAYS) == 5


def test_barriers_blocks_and_launches_come_back(values):
    assert values["barrier.latency_cycles"].value == pytest.approx(known.BARRIER, abs=0.05)
    assert values["barrier.warp_cycles"].value == pytest.approx(known.BARRIER_WARP, abs=0.01)
    assert values["launch.turnover_cycles"].value == known.TURNOVER
    assert values["launch.warp_delay_cycles"].value == known.WARP_DELAY
    assert values["launch.interval_us"].value == pytest.approx(known.LAUNCH_US, rel=0.01)
    assert values["launch.block_cycles.32"].value == pytest.approx(known.BLOCK_CYCLES, rel=0.01)
    assert values["clock_ghz"].value == pytest.approx(known.CLOCK)


def test_memory_instructions_and_the_policy_come_back(values):
    assert values["issue.global_load.at_once"].value == 5
    assert [values[f"issue.global_load.interval_cycles.{n}"].value for n in (1, 2, 3, 4)] == [4, 4, 6, 8]  # Huerta et al. 2025
    assert {tuple(order) for _, warps, _, order in values["issue.order"].value if warps == 4} == {(3, 2, 1, 0)}


def test_the_memory_comes_back(values):
    assert values["memory.l1_latency_cycles"].value == known.L1
    assert values["memory.l2_latency_cycles"].value == known.L2
    assert values["memory.timing_cycles"].value == known.TIMING
    assert values["memory.dram_latency_cycles"].value == known.A
    assert values["memory.latency_cycles"].value == pytest.approx(known.A, rel=0.01)
    a, b, c = values["memory.contention"].value
    assert (a, b, c) == pytest.approx((known.A, known.B, known.C), rel=0.02)
    assert values["memory.bandwidth_gbs.copy"].value == pytest.approx(known.PEAK, rel=0.01)
    for gbs, cycles in values["memory.loaded.4_0"].value:
        assert cycles == pytest.approx(known.A + known.B * gbs / (known.C - gbs), rel=0.01)


def test_quantiles_are_those_of_the_samples(values):
    rows = values["memory.quantiles"].value
    assert len(rows) >= 8, "histograms of single loads at eight or more loads"
    for gbs, _, *inner, _ in rows:
        mean = known.A + known.B * gbs / (known.C - gbs)
        for level, cycles in zip(TABLE_LEVELS[1:-1], inner, strict=True):
            wanted = 0.9 * mean - 0.1 * mean * np.log(1 - level)
            # at least 12 SMs / 4 x 250 samples; standard errors of the 95th and 99th percentile: below 0.02 and 0.04 x mean
            assert cycles == pytest.approx(wanted, abs=(0.1 if level < 0.99 else 0.16) * mean)


def test_a_record_comes_back_from_its_files(record, values, tmp_path):
    record.write(tmp_path / "x.record")
    again = read_record(tmp_path / "x.record")
    assert again.metadata == record.metadata
    assert list(again.tables) == sorted(record.tables)
    for name, table in again.tables.items():
        assert list(table.rows) == record.tables[name].rows
    assert derive(again) == values
    size = sum(path.stat().st_size for path in (tmp_path / "x.record").iterdir())
    assert size < 2_000_000
    assert again.metadata["device"]["name"] == "Analytic device"
    assert all(len(digest) == 64 for digest in again.metadata["kernels"].values())
    assert set(again.metadata["kernels"]) == {path.name for path in FOLDER.glob("*.cu")}


def test_the_chip_file_loads_and_simulates_without_edits(record, values, tmp_path, monkeypatch):
    chip, table = write_chip(tmp_path / "mygpu.toml", record, values)
    monkeypatch.chdir("/")
    gpu = ws.load_gpu(chip)
    assert (gpu.name, gpu.sms, gpu.clock_ghz) == ("mygpu", 12, known.CLOCK)
    assert gpu.memory.latency_cycles == pytest.approx(known.A, abs=2) and gpu.memory.measured
    assert gpu.ops["alu"].latency_cycles == 4 and gpu.ops["alu"].interval_cycles == 1
    assert gpu.ops["sfu"].interval_cycles == 8 and gpu.ops["smem"].scope == "sm"
    assert gpu.memory.store_drain_cycles is not None
    assert gpu.block_launch_cycles == known.TURNOVER - AFTER_THE_CLOCK - gpu.memory.store_drain_cycles
    assert table.name == "mygpu_latency.csv"
    for memory in ("fixed", "measured", "queue"):
        found = ws.simulate(gpu, ws.kernels.mix(alpha=4), warps=8, memory=memory, sms=1, warmup=4000, cycles=20000)
        assert 0.85 * known.A < float(found["memory_latency"].mean()) < 1.3 * known.A


def test_a_measured_chip_has_what_its_generation_has(record, values, tmp_path):
    chip, _ = write_chip(tmp_path / "mygpu.toml", record, values)
    gpu, h100 = ws.load_gpu(chip), ws.load_gpu("h100")
    assert (gpu.architecture, gpu.generation) == ("sm_90", "Hopper")
    assert gpu.units == h100.units and gpu.core == h100.core and set(gpu.ops) == set(h100.ops)
    assert gpu.memory.writes is not None and gpu.memory.store_drain_cycles is not None
    assert gpu.grid_launch_cycles == pytest.approx(known.LAUNCH_US * known.CLOCK * 1000, rel=0.01)
    found = ws.simulate(gpu, ws.load_kernel("cuda/softmax"), sms=1, warmup=4000, cycles=20000)
    assert float(found["ipc"].sum("op").mean()) > 0.1


def test_a_chip_of_a_generation_that_the_package_lacks_takes_the_nearest_one(record, values, tmp_path):
    device = {**record.metadata["device"], "compute_capability": "10.3"}
    other = Record({**record.metadata, "device": device}, record.tables)
    chip, _ = write_chip(tmp_path / "mygpu.toml", other, values)
    assert (ws.load_gpu(chip).architecture, ws.load_gpu(chip).generation) == ("sm_100", "Blackwell")
    assert "assumed: the nearest that the package has below compute capability 10.3" in chip.read_text()


def test_stores_faster_than_the_pins_make_a_chip(record, values, tmp_path):
    """Where the driver's clock of the memory is too low, or the memory compresses what is written."""
    pins = 2 * record.metadata["device"]["memory_clock_ghz"] * record.metadata["device"]["memory_bus_bits"] / 8
    fast = {**values, "memory.bandwidth_gbs.init": Value(1.2 * pins, "GB/s", "made up")}
    chip, _ = write_chip(tmp_path / "mygpu.toml", record, fast)
    assert ws.load_gpu(chip).memory.pin_bandwidth_gbs == pytest.approx(1.08 * 1.2 * pins, rel=1e-3)
    assert f"1.08 x what was measured, since the driver's {pins:g} GB/s are less" in chip.read_text()


def test_every_value_of_the_chip_file_has_its_source(record, values, tmp_path):
    chip, _ = write_chip(tmp_path / "mygpu.toml", record, values)
    for line in chip.read_text().splitlines():
        if " = " in line and not line.startswith("#"):
            assert "  # " in line, line


def test_a_part_of_the_session_gives_a_part_of_the_values(tmp_path):
    lines = []
    found = run_benchmarks(AnalyticDevice(), QUICK, groups=("launch",), say=lines.append)
    values = derive(found)
    assert "launch.turnover_cycles" in values and "memory.latency_cycles" not in values
    assert any("launch" in line for line in lines)
    with pytest.raises(IncompleteError, match=r"the record lacks barrier\.latency_cycles, .*memory\.latency_cycles"):
        write_chip(tmp_path / "x.toml", found, values)


def test_every_part_is_kept_as_soon_as_it_is_done():
    kept = []
    run_benchmarks(AnalyticDevice(), QUICK, keep=lambda record: kept.append(sorted(record.tables)))
    assert len(kept) == len(GROUPS)
    assert all(set(early) < set(late) for early, late in pairwise(kept))


@pytest.mark.parametrize("groups", [(), ("core", "cache")])
def test_an_unknown_part_is_refused(groups):
    with pytest.raises(ValueError, match=r"groups = .*at least one of core, launch, levels, loaded, streams, atomics"):
        run_benchmarks(AnalyticDevice(), QUICK, groups=groups)


@pytest.mark.parametrize("name", ["x.csv", "a b.toml", "ä.toml"])
def test_a_name_that_is_none_is_refused(record, values, tmp_path, name):
    with pytest.raises(ValueError, match=r"path = .*suffix \.toml"):
        write_chip(tmp_path / name, record, values)


def test_the_device_of_formulas_takes_the_parameters_of_the_kernels_by_their_names():
    """So that the order in which the benchmarks pass them is checked, by what the formulas do with each."""
    found = 0
    for path in FOLDER.glob("*.cu"):
        for name, parameters in re.findall(r'extern "C" __global__ void (\w+)\(([^)]*)\)', path.read_text()):
            _, _, _, _, *names = inspect.signature(getattr(AnalyticDevice, name)).parameters
            assert names == [word.split()[-1] for word in parameters.split(",") if word], f"{path.name}: {name}"
            found += 1
    assert found == 14

"""experiments/hardware: the measured launches, what the chips hold of them, and samples in place of whole launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsim as ws
from tests.support.experiment_modules import modules_of
from warpsim.cli.experiment import experiments_dir
from warpsim.hardware.residency import occupancy
from warpsim.measure.chipfile import AFTER_THE_CLOCK
from warpsim.measure.compiler import digest
from warpsim.measure.derive import derive
from warpsim.measure.plausibility import doubts
from warpsim.measure.record import read_record

HERE = Path(experiments_dir()) / "hardware"


LAUNCHES = modules_of("hardware", "launches")[0]


@pytest.mark.parametrize("chip", LAUNCHES.CHIPS)
def test_the_records_are_of_these_chips_and_of_the_kernels_in_the_package(chip):
    record, gpu = read_record(HERE / f"{chip}.record"), ws.load_gpu(chip)
    device = record.metadata["device"]
    assert (device["sms"], device["compute_capability"]) == (gpu.sms, "9.0") and chip.upper() in device["name"]
    assert record.metadata["kernels"] == {source: digest(source) for source in record.metadata["kernels"]}
    assert len(record.metadata["kernels"]) == 11


@pytest.mark.parametrize("chip", LAUNCHES.CHIPS)
def test_the_hardware_holds_as_many_blocks_as_the_chip_file_says(chip):
    """The runtime of CUDA told measure.py how many blocks fit; rows without dynamic shared memory have as many."""
    rows = [row for row in LAUNCHES.read_rows(HERE / f"{chip}.csv") if row["shared"] == "0"]
    fit = {row["name"]: int(row["resident"]) for row in rows}
    entries = {entry["name"]: entry for entry in LAUNCHES.launches()}
    assert set(fit) == set(entries)
    for name in ("vector_add 1M", "copy_14 of 1024 blocks", "reduce_2 of 4096 blocks", "matmul_8 1024", "matmul_32 1024"):
        kernel, _ = LAUNCHES.kernel_of(entries[name], "none", 0)
        assert occupancy(ws.load_gpu(chip), kernel, kernel.block_warps).blocks == fit[name], name


def test_samples_stand_for_a_whole_launch(monkeypatch):
    entry = next(entry for entry in LAUNCHES.launches() if entry["name"] == "copy_8 16M")
    kernel, blocks = LAUNCHES.kernel_of(entry, "none", 0)
    sampled = LAUNCHES.microseconds("h100", kernel, blocks, 4)
    monkeypatch.setattr(LAUNCHES, "WORK", 10**9)
    assert sampled == pytest.approx(LAUNCHES.microseconds("h100", kernel, blocks, 4), rel=0.04)


@pytest.mark.parametrize("chip", LAUNCHES.CHIPS)
def test_the_chip_files_have_what_the_records_say(chip):
    """Inputs of params/architectures/sm_90.toml and of the chips' files, each beside the value that it was rounded from."""
    record, gpu = read_record(HERE / f"{chip}.record"), ws.load_gpu(chip)
    values = derive(record)
    assert not list(doubts(record, values))

    def value(name):
        return float(values[name].value)

    intervals = {"alu": "ffma", "int": "iadd3", "imad": "imad", "fp64": "dadd", "half": "hfma2", "sfu": "ex2"}
    for op, name in intervals.items():
        assert float(gpu.ops[op].interval_cycles) == pytest.approx(value(f"ops.{name}.interval_scheduler_cycles"), rel=0.03), op
    for op, name in {"smem": "lds", "load": "ldg"}.items():
        assert float(gpu.ops[op].interval_cycles) == pytest.approx(value(f"ops.{name}.interval_sm_cycles"), rel=0.03), op
    assert float(gpu.ops["tensor"].interval_cycles) == pytest.approx(value("ops.hmma.interval_scheduler_cycles"), rel=0.03)
    latencies = {"alu": "ffma", "fp64": "dadd", "sfu": "ex2", "smem": "lds", "tensor": "hmma"}
    for op, name in latencies.items():
        assert gpu.ops[op].latency_cycles == pytest.approx(value(f"ops.{name}.latency_cycles"), abs=0.5), op
    barrier = gpu.ops["barrier"]
    assert barrier.latency_cycles - 2 == pytest.approx(value("barrier.latency_cycles"), abs=0.5)  # the line at no warps
    assert float(barrier.interval_cycles) == pytest.approx(value("barrier.warp_cycles"), rel=0.01)
    assert gpu.memory.store_drain_cycles is not None
    own = AFTER_THE_CLOCK + gpu.memory.store_drain_cycles
    assert gpu.block_launch_cycles == pytest.approx(value("launch.turnover_cycles") - own, abs=1)
    assert gpu.launch_interval_cycles == pytest.approx(value("launch.block_cycles.32"), rel=0.01)
    assert gpu.warp_launch_cycles == pytest.approx(value("launch.warp_delay_cycles"), abs=0.5)
    assert gpu.memory.bandwidth_gbs == pytest.approx(value("memory.bandwidth_gbs.read"), rel=0.01)
    assert gpu.memory.l2_latency_cycles == pytest.approx(value("memory.l2_latency_cycles"), abs=1)


@pytest.mark.parametrize("chip", LAUNCHES.CHIPS)
def test_the_cost_of_a_launch_is_elapsed_less_active_time(chip):
    rows = [row for row in LAUNCHES.read_rows(HERE / "launch_cost.csv") if row["chip"] == chip]
    costs = [int(row["elapsed_cycles"]) - int(row["active_cycles"]) for row in rows]
    assert len(costs) > 15 and ws.load_gpu(chip).grid_launch_cycles == np.median(costs)

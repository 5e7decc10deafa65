"""Heavier statistics, for `make verify`: the oracles of test_queueing with many more samples, the twin on many more programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.strategies import Case, cases
from tests.test_engine_twin import assert_same
from tests.test_queueing import SIGMA, chip, exponential, machine_repairman
from warpsim import kernels
from warpsim.simulation import make_point, simulate_point

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("customers", [1, 2, 4, 8, 12, 16, 20, 24, 32])
def test_machine_repairman_sharply(tmp_path: Path, customers: int) -> None:
    """As in test_queueing, 400 replicates: the standard error is below 0.2 %."""
    gpu = chip(distribution=exponential(tmp_path / "exponential.csv", 400.0), base=400.0, gbs=128 / 20.0)
    point = make_point(gpu, kernels.mix(0), warps=customers, block_warps=customers, replicates=400, cycles=400_000)
    rates = simulate_point(point, threads=2)["ipc"].sum(axis=1)
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    expected = machine_repairman(customers, 400.0, 20.0)
    assert error < 0.004 * expected
    assert abs(rates.mean() - expected) < SIGMA * error + 0.002 * expected


@settings(
    max_examples=3000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases())
def test_engine_and_twin_on_many_programs(case: Case) -> None:
    assert_same(case)

"""Tests for `make verify`: test_queueing with many more samples, and the reference machine on many more programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.engine.test_against_reference import RANDOM, assert_all_same
from tests.engine.test_queueing import SIGMA, closed_network, exponential, machine_repairman, standard_error
from tests.support.strategies import examples
from warpsim import kernels
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point

pytestmark = pytest.mark.verify


@pytest.mark.parametrize("customers", [1, 2, 4, 8, 12, 16, 20, 24, 32])
def test_machine_repairman_sharply(customers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in test_queueing, with 256 replicates: the standard error is below 0.1 %."""
    monkeypatch.chdir(tmp_path)
    think, service = 1000.0, 64.0
    gpu = closed_network(exponential(service, think), customers, service + think, (1, service))
    point = make_point(gpu, kernels.chain("load"), warps=1, replicates=256, cycles=6_000_000)
    rates = simulate_point(point, threads=2)["ipc"].sum(axis=1) * customers
    error = standard_error(rates)
    assert error < 0.001 * rates.mean()
    assert abs(rates.mean() - machine_repairman(customers, think, service)) < SIGMA * error


@pytest.mark.parametrize("kind", RANDOM)
def test_engine_and_reference_on_many_programs(kind: str) -> None:
    assert_all_same(kind, settings(examples(500), derandomize=False))

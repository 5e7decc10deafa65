"""experiments/stages: pipelines of copies with a ring of buffers, against Little's law."""

from __future__ import annotations

import pytest

import warpsim as ws
from tests.support.experiment_modules import modules_of


@pytest.fixture(scope="module")
def pipelines():
    return modules_of("stages", "pipelines")[0]


def test_the_formula_is_the_slowest_of_work_transfer_and_round_trip(pipelines) -> None:
    gpu = ws.load_gpu("h100")
    one = pipelines.Pipeline(gpu, 0.5)
    assert one.work() == pytest.approx(one.transfer / 0.5, rel=0.01)
    assert one.formula(1) == gpu.memory.latency_cycles + one.work()
    assert one.formula(8) == one.work()
    bytes_per_cycle = gpu.memory.bandwidth_gbs / gpu.clock_ghz / gpu.sms
    assert pipelines.Pipeline(gpu, 2.0).formula(8) == pytest.approx(pipelines.TILE_BYTES / bytes_per_cycle)


def test_scatter_and_queues_need_more_stages_than_littles_law(pipelines) -> None:
    """At 90 % of the memory's rate, two stages would do by the formula; a quarter of the rate is lost with them."""
    one = pipelines.Pipeline(ws.load_gpu("h100"), 0.9)
    two, many = (one.simulated(stages, 2).mean() for stages in (2, 6))
    assert one.formula(2) == one.formula(6)
    assert many == pytest.approx(one.formula(6), rel=0.08)
    assert two > 1.2 * many

"""Shared classes pass in turn among the schedulers that ask (docs/model.md, section 3)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.directed_cases import kernel, one
from tests.engine.test_against_reference import assert_same
from tests.support.cases import POLICIES, Case, small_gpu
from tests.support.whole_run import whole_run
from warpsim import kernels as k
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Access


def shares(gpu: Gpu, program: Any, op: str, warps: int, cycles: int = 2000, **options: Any) -> list[int]:
    """Instructions of a class that each scheduler of SM 0 issues."""
    launch = Launch(block_warps=1, resident_blocks=warps)
    run = whole_run(gpu, program, launch, memory="fixed", seed=1, warmup=0, cycles=cycles, sms=1, **options)
    issued = Counter(slot % gpu.sm.schedulers for _, _, slot, of in run.issues if of == op)
    return [issued[s] for s in range(gpu.sm.schedulers)]


@pytest.mark.parametrize("scheduler", POLICIES)
@pytest.mark.parametrize("interval", ["1", "2", "4", "8", "16/3"])
@pytest.mark.parametrize("schedulers", [2, 3, 4])
def test_every_scheduler_has_its_share_of_a_unit(schedulers: int, interval: str, scheduler: str) -> None:
    """All ask all the time, so that the grants pass in turn, to the instruction."""
    gpu = small_gpu(
        sm={"schedulers": schedulers, "max_blocks": 16}, ops={"smem": {"interval_cycles": interval, "latency_cycles": 1}}
    )
    found = shares(gpu, k.chain("smem"), "smem", 4 * schedulers, scheduler=scheduler)
    assert max(found) - min(found) <= 1
    assert sum(found) >= 2000 * 0.99 / eval(interval)


@pytest.mark.parametrize("name", ["fermi", "maxwell"])
def test_bank_conflicts_are_shared_fairly(name: str) -> None:
    """Two-way conflicts occupy the unit of the SM for two intervals; each scheduler has its share within one percent."""
    gpu = load_gpu(name)
    program = kernel(k.Loop(body=[one("smem", access=Access(pattern="stride", stride=2))], trips=None))
    found = shares(gpu, program, "smem", 8 * gpu.sm.schedulers, cycles=5000)
    assert max(found) - min(found) <= 0.01 * max(found) + 1


def test_a_busy_unit_does_not_take_the_turn_at_another() -> None:
    """A scheduler that issues loads all the time keeps its turn at the unit of shared memory."""
    gpu = small_gpu(sm={"schedulers": 2, "max_blocks": 16}, ops={"smem": {"interval_cycles": 4}, "load": {"interval_cycles": 1}})
    mixed = k.Conditional(
        then=[k.Loop(body=[one("smem", 2)], trips=900)],
        orelse=[k.Loop(body=[one("load", 3)], trips=900)],
        warps=(0, 1, 2, 3),
    )
    launch = Launch(block_warps=8, resident_blocks=1)
    run = whole_run(gpu, kernel(mixed), launch, memory="fixed", seed=1, warmup=0, cycles=2000)
    issued = Counter((slot % 2, op) for _, _, slot, op in run.issues)
    assert abs(issued[0, "smem"] - issued[1, "smem"]) <= 1
    assert issued[0, "load"] > 0


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("scheduler", POLICIES)
def test_a_limit_of_the_sm_is_shared_fairly(limit: int, scheduler: str) -> None:
    gpu = small_gpu(sm={"schedulers": 4}, memory={"loads_per_sm": limit}, ops={"load": {"scope": "scheduler"}})
    found = shares(gpu, k.chain("load"), "load", 8, scheduler=scheduler)
    assert max(found) - min(found) <= 1


@pytest.mark.parametrize("scheduler", POLICIES)
@pytest.mark.parametrize("interval", [1, 2, 4, 8])
def test_engine_and_twin_agree_where_every_unit_is_contended(interval: int, scheduler: str) -> None:
    ops = {name: {"scope": "sm", "interval_cycles": interval} for name in ("alu", "sfu", "smem", "load", "store", "branch")}
    gpu = small_gpu(sm={"schedulers": 4}, issue={"width": 2}, ops=ops, memory={"loads_per_sm": 3, "stores_per_sm": 2})
    links = (one("alu"), one("smem", 2), one("load", 3), one("sfu", 4), one("store", 1), one("smem", 3, ways=3), one("alu", 5))
    options = {"scheduler": scheduler, "memory": "queue", "seed": 7, "warmup": 50, "cycles": 400}
    assert_same(Case(gpu, kernel(*links), Launch(block_warps=2, resident_blocks=4), options))

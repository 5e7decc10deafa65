"""Events further ahead than a lane of the engine can hold, compared with the reference machine."""

from __future__ import annotations

import pytest

from tests.engine.test_against_reference import assert_same
from tests.support.cases import EACH_POLICY, Case, small_gpu
from warpsim import kernels
from warpsim.engine.constants import FARTHEST, LONGEST_KNOWN_WAIT
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Kernel

SPANS = (LONGEST_KNOWN_WAIT, LONGEST_KNOWN_WAIT + 1, FARTHEST - 1, FARTHEST, FARTHEST + 1, 2 * FARTHEST, 3 * FARTHEST + 7)
REGISTERS = ("r1", "r2", "r3")
ALU = Instruction("alu", dst="r1", src=("r1",))
SFU = Instruction("sfu", dst="r2", src=("r2",))
LOAD = Instruction("load", dst="r3", src=("r3",))


def far(gpu: Gpu, *body: Instruction, policy: str = "gto", seats: int = 3, blocks: int = 4) -> dict:
    kernel = Kernel(name="far", inputs=REGISTERS, body=body)
    options = {"scheduler": policy, "memory": "fixed", "seed": 1, "warmup": 0, "cycles": None}
    return assert_same(Case(gpu, kernel, Launch(blocks=blocks, block_warps=2, resident_blocks=seats), options))


@pytest.mark.parametrize("span", SPANS)
def test_a_load_far_ahead(span: int) -> None:
    seen = far(small_gpu(memory={"latency_cycles": span}), LOAD, ALU, LOAD, LOAD)
    assert set(seen["load_latencies"]) == {span}


@pytest.mark.parametrize("span", SPANS)
def test_a_result_and_a_gap_far_ahead(span: int) -> None:
    far(small_gpu(ops={"alu": {"latency_cycles": span}, "sfu": {"gap_cycles": span - 3}}), ALU, SFU, ALU, LOAD)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("scope", ["scheduler", "sm"])
def test_a_unit_that_is_busy_far_ahead(span: int, scope: str) -> None:
    gpu = small_gpu(sm={"schedulers": 2}, ops={"sfu": {"interval_cycles": span, "scope": scope}})
    far(gpu, SFU, ALU, blocks=3)


@pytest.mark.parametrize("span", SPANS)
def test_a_scheduler_that_is_busy_far_ahead(span: int) -> None:
    far(small_gpu(ops={"sfu": {"issue_slots": span}}), SFU, ALU, blocks=2)


@pytest.mark.parametrize("span", SPANS)
def test_schedulers_of_two_sms_that_are_busy_for_different_times_far_ahead(span: int) -> None:
    ops = {"sfu": {"issue_slots": span}, "alu": {"latency_cycles": 2 * span}, "branch": {"issue_slots": 2 * span - 7}}
    branch = Conditional(then=(SFU, ALU), orelse=(ALU, ALU, SFU), warps=(0, 3))
    far(small_gpu(sms=2, sm={"schedulers": 2}, ops=ops), branch, ALU, seats=2, blocks=3)


@pytest.mark.parametrize("span", SPANS)
def test_a_block_that_starts_far_ahead(span: int) -> None:
    seen = far(small_gpu(sms=2, block_launch_cycles=span), ALU, seats=1, blocks=5)
    assert max(start for _, _, start, _ in seen["retired"]) > 2 * span


@pytest.mark.parametrize("span", SPANS)
def test_a_barrier_that_opens_far_ahead(span: int) -> None:
    gpu = small_gpu(ops={"barrier": {"latency_cycles": span}}, memory={"latency_cycles": 2 * span})
    far(gpu, LOAD, Instruction("barrier"), ALU, Instruction("barrier"))


@pytest.mark.parametrize("span", SPANS)
def test_limits_of_loads_in_flight_far_ahead(span: int) -> None:
    gpu = small_gpu(memory={"latency_cycles": span, "loads_per_sm": 3, "loads_per_warp": 1})
    far(gpu, LOAD, Instruction("load", dst="r2", src=("r1",)), ALU)


@pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
@pytest.mark.parametrize("policy", EACH_POLICY)
def test_an_sm_with_every_slot_taken(name: str, policy: str) -> None:
    """The last slot is the sign bit of a set of warps."""
    gpu = load_gpu(name)
    blocks = min(8, gpu.sm.max_blocks)
    launch = Launch(block_warps=gpu.sm.max_warps // blocks, resident_blocks=blocks)
    options = {"scheduler": policy, "memory": "queue", "seed": 3, "warmup": 100, "cycles": 500, "sms": 1}
    full = assert_same(Case(gpu, kernels.mix(2), launch, options))
    assert full["occupancy_cycles"] == {gpu.sm.max_warps: 500}
    assert_same(Case(gpu, kernels.vector_add(), launch, options))

"""A scheduler issues long runs of plain steps at once, as many as it would one by one. docs/model.md, section 3."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.engine.test_against_reference import RANDOM, assert_same
from tests.engine.test_check import started
from tests.support.cases import Case, op_facts, small_gpu
from tests.support.strategies import examples
from warpsim.engine import ahead, stretches
from warpsim.engine.check import verify
from warpsim.hardware.residency import Launch
from warpsim.kernels import Instruction, Kernel, Loop
from warpsim.simulation.policies import POLICIES
from warpsim.simulation.run import run_to

ALU = Instruction("alu", dst="r0", src=("r0",))
LOAD = Instruction("load", dst="r0", src=("r0",))


def case(scheduler: str, warps: int, run: int, *, latency: int = 4, **facts: Any) -> Case:
    """Warps that load and then compute for so many steps, again and again, at one scheduler."""
    gpu = small_gpu(
        sm={"schedulers": 1},
        block_launch_cycles=200,  # as the latencies of memory: a stretch lies in one window
        ops={"alu": op_facts("math", latency_cycles=latency, **facts)},
        memory={"latency_cycles": 200, "l2_latency_cycles": 200, "l1_latency_cycles": 200},
    )
    kernel = Kernel(name="runs", inputs=("r0",), body=(Loop(body=(LOAD, *[ALU] * run), trips=None),))
    launch = Launch(blocks=None, block_warps=1, resident_blocks=warps)
    options = {"scheduler": scheduler, "memory": "fixed", "seed": 1, "warmup": 0, "cycles": 1_500, "sms": 1}
    return Case(gpu, kernel, launch, options)


def issues_at_once(case: Case) -> int:
    """Returns the warp instructions of the first 1,000 cycles that have been counted as runs."""
    machine, state = started(case)
    with np.errstate(over="ignore"):
        state, _ = run_to(machine, state, 1_000)
    verify(machine, state)
    return int(state.counts.issued_on.cumsum().sum())


@pytest.mark.parametrize("warps", [1, 3, 8])
@pytest.mark.parametrize("scheduler", ["lrr", "grr", "gto", "gty", "oldest"])
def test_most_of_a_long_run_issues_at_once(scheduler: str, warps: int) -> None:
    """With fewer warps than cycles of latency each issues when it is eligible; with more, they take turns, or some wait."""
    long = case(scheduler, warps, 300)
    seen = assert_same(long)
    issued = sum(1 for cycle, *_ in seen["issues"] if cycle < 1_000)
    assert 0.6 * issued < issues_at_once(long) < issued


def beginning(scheduler: str, seed: int, *, warps: int = 6, latency: int = 9) -> Case:
    """Blocks of two warps that compute for different times: both warps of a new one begin at once, while others compute."""
    one = case(scheduler, warps, 1, latency=latency)
    kernel = Kernel(name="beginning", inputs=("r0",), body=(Loop(body=(ALU,) * 60, trips=(1, 6)),))
    options = one.options | {"seed": seed, "cycles": None}
    gpu = one.gpu.model_copy(update={"block_launch_cycles": 50})
    return Case(gpu, kernel, Launch(blocks=30, block_warps=2, resident_blocks=warps // 2), options)


@pytest.mark.parametrize("scheduler", ["lrr", "gto", "oldest"])
def test_warps_that_begin_at_once_are_not_of_one_stretch(scheduler: str) -> None:
    assert_same(beginning(scheduler, 1))


@pytest.mark.parametrize("scheduler", POLICIES)
def test_policies_prefer_the_same_warps_in_stretches(scheduler: str) -> None:
    """More warps than cycles of latency, so that some wait, in slots that others have left: neither by age nor by slot."""
    for warps, latency, seed in ((6, 4, 4), (8, 6, 2)):
        assert_same(beginning(scheduler, seed, warps=warps, latency=latency))


@pytest.mark.parametrize(
    "short",
    [
        case("lrr", 3, 30),  # runs that are not worth it
        case("random", 3, 300),
        case("two_level", 3, 300),
        case("lrr", 3, 300, interval_cycles=2),  # its unit can refuse
        case("lrr", 3, 300, latency=90),  # longer than a period may be
    ],
    ids=["short runs", "random", "two_level", "a slow unit", "a long latency"],
)
def test_other_steps_issue_one_by_one(short: Case) -> None:
    assert_same(short)
    assert issues_at_once(short) == 0


def same_at_any_length(patch: pytest.MonkeyPatch, case: Case, expected: dict[str, Any] | None = None) -> None:
    """Compares with the reference machine where all steps that can do so issue in stretches; only if nothing is compiled."""
    patch.setattr(ahead, "LONG_RUN", 1)
    patch.setattr(ahead, "TURNS_BETWEEN", 0)
    patch.setattr(stretches, "SHORTEST_STRETCH", 1)
    assert_same(case, expected)


def many_at_any_length() -> None:
    for scheduler in ("lrr", "gto", "oldest"):
        with pytest.MonkeyPatch.context() as patch:
            same_at_any_length(patch, beginning(scheduler, 2))
    for kind, number in (("long runs", 20), ("arithmetic", 30)):

        @examples(number)
        @given(RANDOM[kind])
        def all_same(case: Case) -> None:
            with pytest.MonkeyPatch.context() as patch:
                same_at_any_length(patch, case)

        all_same()


def test_stretches_of_any_length() -> None:
    """In a process in which the engine is plain Python, so that its thresholds can be changed."""
    command = "from tests.engine.test_stretches import many_at_any_length; many_at_any_length()"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]

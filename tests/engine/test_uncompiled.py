"""The engine without compilation gives the compiled results: NUMBA_DISABLE_JIT=1, in a separate process.

Warnings are errors there, except those for 64-bit arithmetic that wraps around on purpose.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.directed_cases import DIRECTED
from tests.engine.test_against_reference import outcome
from tests.support.cases import Case, small_gpu
from tests.support.whole_run import whole_run
from warpsim import kernels
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.residency import Launch
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point

SLOW = (
    "measured",
    "measured, a slice",
    "more stores than there is room for between the stages",
    "a slice of scattered accesses",
    "echoes of loads that counters count",
)
"""Cases of many cycles or accesses, which take seconds without compilation."""

POINTS: dict[str, dict[str, Any]] = {
    "steady": {"kernel": kernels.mix(2), "warps": 8, "scheduler": "gto", "warmup": 100, "cycles": 600},
    "scattered": {"kernel": kernels.permute(random=True), "warps": 6, "scheduler": "random", "warmup": 200, "cycles": 800},
}
GRIDS = {
    ("lrr", "queue"): kernels.mix(4, iterations=3),
    ("gto", "measured"): kernels.vector_add(),
    ("random", "queue"): kernels.permute(random=True),
    ("oldest", "fixed"): kernels.listing_3_3(),
}


def traces() -> dict[str, Any]:
    """Returns all counts of the engine, for the directed cases with the policy `random` and for grids on a real chip."""
    outcomes = {}
    for name in DIRECTED.keys() - set(SLOW):
        case = DIRECTED[name]
        outcomes[name] = outcome(whole_run, replace(case, options=case.options | {"scheduler": "random"}))
    launch = Launch(blocks=5, block_warps=2, resident_blocks=2)
    for (scheduler, memory), kernel in GRIDS.items():
        options = {"scheduler": scheduler, "memory": memory, "seed": 11, "sms": 2}
        outcomes[f"{scheduler}, {memory}"] = outcome(whole_run, Case(load_gpu("kepler"), kernel, launch, options))
    return outcomes


def points() -> dict[str, Any]:
    gpu = small_gpu(sms=2, sm={"schedulers": 2})
    arrays = {name: simulate_point(make_point(gpu, replicates=2, **call)) for name, call in POINTS.items()}
    return {
        name: {variable: values.tolist() for variable, values in variables.items()}
        for name, variables in arrays.items()
    }


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    script = "import tests.engine.test_uncompiled as t; t.report()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def report() -> None:
    from warpsim.engine import chip

    assert not hasattr(chip.run, "py_func"), "this process compiles"
    print(dumped())


def dumped() -> str:
    return json.dumps({"traces": traces(), "points": points()})


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(dumped())
    return result


@pytest.mark.parametrize("name", sorted({*DIRECTED.keys(), *(", ".join(names) for names in GRIDS)} - set(SLOW)))
def test_traces(name: str, plain: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert plain["traces"][name] == compiled["traces"][name]


@pytest.mark.parametrize("name", POINTS)
def test_points(name: str, plain: dict[str, Any], compiled: dict[str, Any]) -> None:
    for variable, values in compiled["points"][name].items():
        np.testing.assert_array_equal(plain["points"][name][variable], values, variable)

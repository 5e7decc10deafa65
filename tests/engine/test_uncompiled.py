"""Every feature of the machine, and `simulate`, as plain Python: NUMBA_DISABLE_JIT=1 in a process of its own.

Nothing may warn there: 64-bit arithmetic that wraps around on purpose is the one thing that is let pass.
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

from tests.engine.test_against_reference import DIRECTED, outcome
from tests.support.strategies import small_gpu
from tests.support.whole_run import whole_run
from warpsim import kernels
from warpsim.simulation.api import simulate_point
from warpsim.simulation.point import make_point

SLOW = ("measured", "measured, a slice")  # thousands of cycles
POINTS: dict[str, dict[str, Any]] = {
    "steady": {"kernel": kernels.mix(2), "warps": 8, "scheduler": "gto", "warmup": 100, "cycles": 600},
    "scattered": {"kernel": kernels.permute(random=True), "warps": 6, "scheduler": "random", "cycles": 800},
}


def traces() -> dict[str, Any]:
    """All that is counted in every directed case, under the policy that draws."""
    found = {}
    for name in DIRECTED.keys() - set(SLOW):
        case = DIRECTED[name]
        found[name] = outcome(whole_run, replace(case, options=case.options | {"scheduler": "random"}))
    return found


def points() -> dict[str, Any]:
    gpu = small_gpu(sms=2, sm={"schedulers": 2})
    arrays = {name: simulate_point(make_point(gpu, replicates=2, **call)) for name, call in POINTS.items()}
    return {
        name: {variable: values.tolist() for variable, values in found.items()}
        for name, found in arrays.items()
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


@pytest.mark.parametrize("name", sorted(DIRECTED.keys() - set(SLOW)))
def test_traces(name: str, plain: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert plain["traces"][name] == compiled["traces"][name]


@pytest.mark.parametrize("name", POINTS)
def test_points(name: str, plain: dict[str, Any], compiled: dict[str, Any]) -> None:
    for variable, values in compiled["points"][name].items():
        np.testing.assert_array_equal(plain["points"][name][variable], values, variable)

"""Mutated chips, kernels, calls, plans, provenance, stores and command lines cause documented errors only.

Each kind runs in a process of its own, with 2 GB of memory besides what the libraries need (`tests.support.fuzz`). Runs of the
engine have bounds checks, or are not compiled, so that an index out of bounds is an error.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mutations import NESTED, nested, places

ROOT = Path(__file__).resolve().parents[1]
READ = {"chip": 15_000, "kernel": 15_000, "call": 15_000, "builder": 15_000, "plan": 15_000, "provenance": 15_000, "store": 5_000,
        "command": 5_000}  # fmt: skip
"""Kind -> cases of `make verify`: 10**5 together, without those that run the engine."""


def undocumented(number, *kinds, **environment):
    """Returns the errors that are not documented, one a line."""
    command = [sys.executable, "-m", "tests.support.fuzz", str(number), *kinds]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False)
    assert ran.returncode in (0, 1) and "Traceback" not in ran.stderr, ran.stderr
    return ran.stdout


def test_a_few_inputs_of_each_kind():
    assert undocumented(25, *READ) == ""


def test_a_few_runs():
    assert undocumented(60, "run", NUMBA_DISABLE_JIT="1") == ""


@pytest.mark.verify
@pytest.mark.parametrize("kind", READ)
def test_many_inputs(kind):
    assert sum(READ.values()) == 10**5
    assert undocumented(READ[kind], kind) == ""


@pytest.mark.verify
def test_many_runs():
    assert undocumented(10_000, "run", NUMBA_BOUNDSCHECK="1") == ""


def test_the_fuzzer_notices_errors_that_are_not_raised_on_purpose():
    from tests.support.fuzz import documented

    def caught(what):
        try:
            what()
        except Exception as error:
            return error

    from warpsim.arguments import integer

    assert documented(caught(lambda: integer("warps", 0)))
    assert not documented(caught(lambda: integer("warps", 1, "x")))  # Python raises it, inside warpsim
    assert not documented(caught(lambda: [][1]))


def test_nested_values():
    assert places(nested(2, "list")) == [(), (0,), (0, 0)]
    assert all(len(places(nested(depth, kind))) >= 5 for depth, kind in NESTED)

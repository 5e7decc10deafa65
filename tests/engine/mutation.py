"""Mutation testing of the engine: do the tests notice a changed comparison, operation or constant?

    python -m tests.engine.mutation [--mutants 200] [--seed 1]

Each mutant changes one place in one file of `warpsim/engine/`, and runs the kill suite (`--kill`) on a copy of the engine as
plain Python, so that nothing is compiled. The suite compares small programs with the reference machine, verifies the state at
random cycles, and stops at the first difference. A mutant that runs into the time limit counts as killed, too. Survivors are
listed with their place; those that are equivalent are explained in tests/engine/mutation_survivors.md.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"__init__.py", "jit.py", "check.py", "state.py"}  # nothing is computed there but by declarations
LIMIT_SECONDS = 60  # of processor time; the suite takes 40
OTHER_COMPARISON = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
OTHER_OPERATION = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the number of the node in it, and what is done to it in words."""

    file: str
    node: int
    line: int
    change: str
    source: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file. Decorators and the LLVM rules of lanes.py, which plain Python does not run, are left out."""
    source = path.read_text()
    tree = ast.parse(source)
    skipped: set[int] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            skipped |= {id(node) for decorator in function.decorator_list for node in ast.walk(decorator)}
            runs = any(name in ast.unparse(by) for by in function.decorator_list for name in ("_compiled_as", "inline"))
            if path.name == "lanes.py" and not runs:
                skipped |= {id(node) for node in ast.walk(function)}
        elif isinstance(function, ast.ClassDef):
            skipped |= {id(node) for node in ast.walk(function)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        change = None
        if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER_COMPARISON:
            change = f"{type(node.ops[0]).__name__} -> {OTHER_COMPARISON[type(node.ops[0])].__name__}"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OTHER_OPERATION:
            change = f"{type(node.op).__name__} -> {OTHER_OPERATION[type(node.op)].__name__}"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            change = f"{node.value} -> {node.value + 1}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max"):
            change = "min <-> max"
        if change:
            line = source.splitlines()[node.lineno - 1].strip()
            yield Mutant(path.name, number, node.lineno, change, line)


def mutated(source: str, mutant: Mutant) -> str:
    """The source of a file with one change."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[mutant.node]
    if isinstance(node, ast.Compare):
        node.ops[0] = OTHER_COMPARISON[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = OTHER_OPERATION[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value += 1
    elif isinstance(node, ast.Call):
        node.func.id = {"min": "max", "max": "min"}[node.func.id]
    return ast.unparse(tree)


def survives(mutant: Mutant, work: Path) -> bool:
    """Runs the kill suite on a mutant."""
    file = work / "warpsim" / "engine" / mutant.file
    original = file.read_text()
    file.write_text(mutated(original, mutant))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.engine.mutation", "--kill"],
            cwd=work,
            env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(work), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
    finally:
        file.write_text(original)
    return done.returncode == 0


def kill() -> None:
    """The kill suite: raises at the first difference. The cases that find most stand first."""
    import resource
    import warnings
    from dataclasses import replace

    import numpy as np

    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))  # an endless loop is killed, too
    warnings.simplefilter("ignore")
    from tests.engine import test_check, test_parts, test_rng
    from tests.engine.test_against_reference import DIRECTED, assert_same
    from tests.engine.test_arbitration import test_engine_and_twin_agree_where_every_unit_is_contended as contended
    from tests.simulation import test_trace
    from tests.support.strategies import POLICIES

    slow = ("measured", "measured, a slice")
    for number, (name, case) in enumerate(DIRECTED.items()):
        if name not in slow:
            policy = POLICIES[number % len(POLICIES)]
            assert_same(replace(case, options=case.options | {"scheduler": policy}))
    test_trace.TestRandomPrograms().test_sums_over_lines_schedulers_bins_and_sms()
    test_trace.TestRandomPrograms().test_states_over_time_are_those_of_the_twin()
    test_parts.test_bins_of_latencies()
    test_parts.test_extra_transactions_delay_an_access()
    test_parts.test_measured_latency_lies_between_the_two_rows_around_the_load()
    for pause in range(1, 18):
        test_parts.test_the_present_load_after_a_pause(pause)
    for count in (0, 1, 31, 63, 64):
        test_parts.test_below(count)
    test_parts.test_sets()
    test_parts.test_waits_as_words()
    test_parts.test_heaps_of_return_times()
    test_parts.test_times_of_lanes()
    test_rng.test_splitmix64_gives_the_published_words()
    with np.errstate(over="ignore"):
        test_parts.test_lanes(16)
    for number, policy in enumerate(POLICIES):
        contended(2**number, policy)
    from hypothesis import given

    from tests.engine.test_reach import (
        test_a_block_that_starts_far_ahead,
        test_a_load_far_ahead,
        test_limits_of_loads_in_flight_far_ahead,
    )
    from tests.support.strategies import Case, cases, examples

    for far in (test_a_load_far_ahead, test_limits_of_loads_in_flight_far_ahead, test_a_block_that_starts_far_ahead):
        far(1023)

    @examples(40)
    @given(cases())
    def programs(case: Case) -> None:
        assert_same(case)

    programs()
    test_check.test_every_program_is_consistent_at_every_cycle()
    assert_same(DIRECTED["measured"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", action="store_true", help="run the kill suite on the engine that is imported")
    options = parser.parse_args()
    if options.kill:
        kill()
        return
    files = sorted(path for path in (ROOT / "warpsim" / "engine").glob("*.py") if path.name not in LEFT_OUT)
    candidates = [mutant for path in files for mutant in mutants_of(path)]
    chosen = random.Random(options.seed).sample(candidates, min(options.mutants, len(candidates)))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("warpsim", "tests", "params", "experiments", "pyproject.toml"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, work / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, work / name)
        begin, survivors = time.time(), []
        for number, mutant in enumerate(chosen, 1):
            if survives(mutant, work):
                survivors.append(mutant)
                print(f"SURVIVES {mutant.file}:{mutant.line}: {mutant.change}: {mutant.source}", flush=True)
            if number % 10 == 0:
                print(f"{number} mutants, {len(survivors)} survive, {time.time() - begin:.0f} s", flush=True)
    print(f"{len(chosen)} of {len(candidates)} mutants: {len(chosen) - len(survivors)} killed, {len(survivors)} survive")


if __name__ == "__main__":
    main()

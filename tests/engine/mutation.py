"""Mutation testing of the engine: do the tests notice a changed comparison, operation or constant?

    python -m tests.engine.mutation [--mutants 200] [--seed 1] [--file NAME.py[:LINE]] [--seconds 15]
    python -m tests.engine.mutation --again OUTPUT --seconds 100

Each mutant changes one place of `warpsim/engine/`, and runs the checks of the kill suite as plain Python, so that nothing is
compiled, in a process that is forked from this one. Before, all checks run once on the engine as it is, which finds the
statements that each reaches and what it costs. A mutant runs those that reach its statement until one fails or does not end, or
its time is over. A mutant that no check reaches survives as well. Survivors are listed; the second form runs them again. Those
that are equivalent are explained in tests/engine/mutation_survivors.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

from tests.engine import kill_suite
from tests.engine.mutants import REACHED, Mutant, all_mutants, import_mutant, record_statements

LONGEST_CHECK = 4.0  # seconds
GIGABYTES = 3
Costs = dict[str, tuple[float, set[str]]]
"""Check -> its processor time in seconds, and the statements of the engine that it reaches."""


def record(checks: dict[str, Callable[[], None]]) -> Costs:
    """Runs all checks on the engine as it is; leaves those out that take long."""
    found = {}
    for name, check in checks.items():
        REACHED.clear()
        begin = time.process_time()
        try:
            within(LONGEST_CHECK, check)
            found[name] = (time.process_time() - begin, set(REACHED))
        except TimeoutError:
            pass
        except BaseException:  # numpy can swallow a TimeoutError, and hypothesis raises a group of errors
            if time.process_time() - begin < 0.9 * LONGEST_CHECK:
                raise
    return found


def within(seconds: float, check: Callable[[], None]) -> None:
    """Runs a check; raises a TimeoutError after so many seconds of processor time, and again if something catches that."""
    signal.signal(signal.SIGVTALRM, no_end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)
    try:
        check()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def no_end(*_: Any) -> None:
    raise TimeoutError


def killer(mutant: Mutant, prepared: Any, costs: Costs, kills: Counter[str], seconds: float) -> str | None:
    """Returns the check that kills a mutant, in a process of its own; None: it survives.

    Those that are cheap, or have killed many others, come first.
    """
    place = f"{mutant.file}:{mutant.statement}"
    names = [name for name, (_, reached) in costs.items() if mutant.statement is None or place in reached]
    names.sort(key=lambda name: costs[name][0] / (1 + kills[name]) ** 2)
    if mutant.statement is None:  # those that use its file much come first
        names.sort(key=lambda name: -sum(each.startswith(mutant.file) for each in costs[name][1]))
    if not names:
        return None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        failed = first_failure(mutant, names, prepared, costs, seconds)
        os.write(write, (failed or "").encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        failed = answer.read()
    _, status = os.waitpid(child, 0)
    return failed or ("the process died" if status else None)


def first_failure(mutant: Mutant, names: list[str], prepared: Any, costs: Costs, seconds: float) -> str | None:
    """Returns the first of some checks that fails on a mutant, or that does not end in several times its usual time.

    Those that are left after so many seconds do not run.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    name = "the import"
    try:
        import_mutant(mutant)
        checks = kill_suite.checks(prepared)
        for name in names:
            if time.process_time() > seconds:
                break
            within(1 + 3 * costs[name][0], checks[name])
    except BaseException:
        return name
    return None


def chosen_mutants(options: argparse.Namespace) -> tuple[list[Mutant], int]:
    """Returns the mutants that the command line asks for, and the number of those they are drawn from."""
    candidates = all_mutants()
    if options.file:
        file, _, line = options.file.partition(":")
        candidates = [mutant for mutant in candidates if mutant.file == file and line in ("", str(mutant.line))]
    if options.again:
        wanted = [row.split(": ", 1)[1] for row in options.again.read_text().splitlines() if row.startswith("SURVIVES")]
        candidates = [mutant for mutant in candidates if str(mutant).split(": ", 1)[1] in wanted]
    return random.Random(options.seed).sample(candidates, min(options.mutants, len(candidates))), len(candidates)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", help="mutants of this file, or of one of its lines, alone")
    parser.add_argument("--again", type=Path, help="an earlier output: its survivors, and what is alike, alone")
    parser.add_argument("--seconds", type=float, default=15, help="processor time that a mutant has to survive")
    parser.add_argument("--killers", action="store_true", help="say for each mutant which check kills it")
    options = parser.parse_args()
    chosen, among = chosen_mutants(options)
    warnings.simplefilter("ignore")
    begin = time.process_time()
    prepared = kill_suite.prepare()
    record_statements()
    costs = record(kill_suite.checks(prepared))
    spent = sum(seconds for seconds, _ in costs.values())
    print(f"{len(costs)} checks, {spent:.0f} of {time.process_time() - begin:.0f} s", flush=True)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTES * 2**30,) * 2)
    survivors, kills = [], Counter[str]()
    for number, mutant in enumerate(chosen, 1):
        by = killer(mutant, prepared, costs, kills, options.seconds)
        kills[by or ""] += 1
        if by is None:
            survivors.append(mutant)
            print(f"SURVIVES {mutant}", flush=True)
        elif options.killers:
            print(f"{mutant}\n    {by}", flush=True)
        if number % 50 == 0:
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            print(f"{number} mutants, {len(survivors)} survive, {spent:.0f} s", flush=True)
    print(f"{len(chosen)} of {among} mutants: {len(chosen) - len(survivors)} killed, {len(survivors)} survive")
    return 0


if __name__ == "__main__":
    sys.exit(main())

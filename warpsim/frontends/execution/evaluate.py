"""Executes a kernel for blocks of its grid: how many of them, and what the caller's probabilities have to do with it."""

from __future__ import annotations

from dataclasses import replace

from warpsim.frontends.execution.evaluation import Evaluation, Given
from warpsim.frontends.execution.evaluator import Evaluator
from warpsim.frontends.launch.geometry import MORE_SAMPLED_THREADS
from warpsim.frontends.launch.keys import branches_of_lines_with_loops

_MOST_STEPS_IF_THEY_DIFFER, _MOST_STEPS_ANYWAY = 10_000, 1_000
"""The most of these after which more blocks are executed: where the first ones may differ, and where they do not."""

_MOST_SAMPLED_THREADS = 1 << 18
"""Threads of the blocks that are executed where these differ and few instructions are executed, as many as take the same time."""


def as_stated(given: Given) -> Given:
    """Returns what is given, with the branches that go as the caller states although their conditions are known.

    An address names a branch in any case. A line names those of its branches whose conditions are not known; if it has none,
    the others, unless one of them says how often a loop runs.

    Raises:
        FrontEndError: as `Evaluator.run`.
    """
    flow, (stated, _) = given.flow, given.probabilities_by_place
    by_line = given.stated_by_line
    given = replace(given, overruled=frozenset(stated.keys() - by_line))
    by_line -= branches_of_lines_with_loops(flow)
    if not by_line:
        return given
    run = Evaluator(given)
    run.run()
    lines = {flow.last(block).line for block in run.open}
    return replace(given, overruled=given.overruled | {block for block in by_line if flow.last(block).line not in lines})


def evaluate(given: Given) -> Evaluation:
    """Executes a kernel for some blocks of its grid, and for more of them where these differ, or it takes little time.

    Raises:
        FrontEndError: as `Evaluator.run`.
    """
    few = Evaluator(given)
    found = few.run()
    most = _MOST_STEPS_IF_THEY_DIFFER if found.blocks_differ else _MOST_STEPS_ANYWAY
    if found.whole_grid or few.executed > most:
        return found
    threads = MORE_SAMPLED_THREADS
    if found.blocks_differ:
        threads = max(threads, min(_MOST_SAMPLED_THREADS, threads * _MOST_STEPS_ANYWAY // few.executed))
    return Evaluator(given, given.geometry.sample(threads)).run()

"""The engine against the reference machine: the issues of every cycle and all counts must be exactly equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.directed_cases import COPY, DIRECTED
from tests.support.cases import EACH_POLICY, Case, small_gpu
from tests.support.random_chips import memories
from tests.support.strategies import (
    arithmetic,
    cases,
    dependences,
    examples,
    long_runs,
    with_all_options_of_a_core,
    with_echoes,
    with_fetch,
    with_hints,
    with_many_warps,
    with_mbarriers,
    with_paths,
    with_stores_among_loads,
)
from tests.support.whole_run import WholeRun, whole_run
from warpsim import kernels as k
from warpsim.hardware.gpu import load_gpu
from warpsim.hardware.memory import Memory
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Kernel, Loop
from warpsim.reference import simulator as reference_simulator
from warpsim.reference.result import Result
from warpsim.simulation.counters import reference_counts

MAPPINGS = ("warp_cycles", "scheduler_cycles", "occupancy_cycles", "instructions")
LISTS = ("issues", "retired", "occupancy_changes", "warps")


def latency_bin(cycles: int) -> int:
    """Returns the bin of the engine's histogram of load latencies (docs/model.md, section 7)."""
    return cycles if cycles < 4096 else 4096 + (cycles - 4096) // 64


def outcome(simulate: Any, case: Case) -> dict[str, Any]:
    """Returns everything that a run counts, without zeros, or the reason why it did not end."""
    try:
        result = simulate(case.gpu, case.kernel, case.launch, **case.options)
    except ValueError as error:
        why = next((why for why in ("deadlock", "warmup") if why in str(error)), None)
        if why is None:
            raise
        cycle = re.search(r"deadlock at cycle (\d+)", str(error))
        return {why: cycle and int(cycle[1])}
    lists = {name: getattr(result, name) for name in LISTS}
    counts = {name: {key: n for key, n in getattr(result, name).items() if n} for name in MAPPINGS}
    counted = {"end": result.end, **lists, **counters(result, case), "load_latencies": sorted(result.load_latencies), **counts}
    caused = {(0, *key): n for key, n in result.caused_cycles.items()}
    lines = {"line_cycles": result.line_cycles, "caused_cycles": caused}
    return counted | {name: sorted(by_line(case.kernel, cycles)) for name, cycles in lines.items()}


def counters(result: WholeRun | Result, case: Case) -> dict[str, Any]:
    """Returns the counters from which the variables of a result are computed, by the names of `Counts`."""
    if isinstance(result, WholeRun):
        counts = result.counts
    else:
        sms = case.options.get("sms") or case.gpu.sms
        counts = reference_counts(result, case.gpu, case.launch, sms, case.options.get("warmup", 0))
    return {f"counts.{name}": np.asarray(value).tolist() for name, value in vars(counts).items()}


def by_line(kernel: Kernel, cycles: Mapping[tuple[int, Any, str], int]) -> Iterator[tuple[int, int, str, int]]:
    """Yields (scheduler, line, state, cycles); the reference machine identifies a line by its place, the engine by its number."""
    numbers = {place: number for number, place in enumerate([*places(kernel.body, "body"), "end"])}
    for (scheduler, line, state), n in cycles.items():
        if n:
            yield scheduler, numbers.get(line, line), state, n


def places(statements: tuple[Any, ...], place: str) -> Iterator[str | None]:
    """Yields the place of each line of a program; None for control steps."""
    for index, statement in enumerate(statements):
        here = f"{place}[{index}]"
        if isinstance(statement, Loop):
            yield from (None, *places(statement.body, f"{here}.body"), None)
        elif isinstance(statement, Conditional):
            yield from (here, *places(statement.then, f"{here}.then"))
            if statement.orelse and not statement.diverges:
                yield None
            yield from places(statement.orelse, f"{here}.orelse")
        else:
            yield here


def expected_of(case: Case) -> dict[str, Any]:
    """Returns the outcome on the reference machine, as the engine should give it."""
    expected = outcome(reference_simulator.simulate, case)
    if "load_latencies" in expected:
        expected["load_latencies"] = [latency_bin(cycles) for cycles in expected["load_latencies"]]
    return expected


def assert_same(case: Case, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    """Compares the engine with the reference machine, or with the outcome that this has given, and returns that.

    The engine runs twice: it keeps its issues, of which the first different one is most informative; and it runs ahead.
    """
    expected = expected_of(case) if expected is None else expected
    for keep_issues in (True, False):
        actual = outcome(partial(whole_run, keep_issues=keep_issues), case)
        assert actual.keys() == expected.keys()
        for name in expected if keep_issues else expected.keys() - {"issues"}:
            assert actual[name] == expected[name], name
    return expected


RANDOM = {
    "deterministic": cases(random=False),
    "fixed": cases(memory="fixed"),
    "queue": cases(memory="queue"),
    "measured": cases(memory="measured"),
    "arithmetic": arithmetic(),
    "long runs": long_runs(),
    "dependences": dependences(),
    "paths": with_paths(),
    "many warps": with_many_warps(),
    "stores among loads": with_stores_among_loads(),
    "hints": with_hints(),
    "echoes": with_echoes(),
    "fetch": with_fetch(),
    "mbarriers": with_mbarriers(),
    "all options of a core": with_all_options_of_a_core(),
}
"""Random small chips, kernels and launches, by what they are about."""


@pytest.mark.parametrize("kind", RANDOM)
def test_random_cases(kind: str) -> None:
    assert_all_same(kind, examples(40))


def assert_all_same(kind: str, how_many: settings) -> None:
    """Compares the engine with the reference machine in many random cases of a kind."""

    @how_many
    @given(RANDOM[kind])
    def all_same(case: Case) -> None:
        assert_same(case)

    all_same()


def test_random_chips_draw_every_key_of_the_memory() -> None:
    """A rule that no random chip switches on would not be compared. `stores_among_loads` draws the table `writes`."""

    @examples(1)
    @given(memories())
    def all_drawn(memory: dict[str, Any]) -> None:
        fixed = {"pin_bandwidth_gbs", "distribution", "contention"}
        assert memory.keys() | fixed | {"writes"} == Memory.model_fields.keys()

    all_drawn()


class TestDirectedCases:
    """One feature of docs/model.md at a time, under every policy."""

    @pytest.mark.parametrize("name", DIRECTED)
    @pytest.mark.parametrize("scheduler", EACH_POLICY)
    def test_feature(self, name: str, scheduler: str) -> None:
        directed = DIRECTED[name]
        seen = assert_same(replace(directed, options=directed.options | {"scheduler": scheduler}))
        if name.startswith("deadlock"):
            assert seen.keys() == {"deadlock"}
        elif name == "a grid that ends within the warmup":
            assert seen.keys() == {"warmup"}
        else:
            assert seen["issues"]
            assert sum(n for *_, n in seen["line_cycles"]) == sum(seen["warp_cycles"].values())

    def test_persistent_blocks(self) -> None:
        launch = Launch(block_warps=2, resident_blocks=3, persistent=True)
        options = {"scheduler": "gto", "memory": "queue", "seed": 5, "warmup": 0, "cycles": None}
        seen = assert_same(Case(small_gpu(sms=2), COPY, launch, options))
        assert len(seen["retired"]) == 12

    @pytest.mark.parametrize("name", ["g80", "gt200", "fermi", "kepler", "maxwell"])
    @pytest.mark.parametrize("memory", ["fixed", "queue"])
    def test_chips(self, name: str, memory: str) -> None:
        gpu = load_gpu(name)
        launch = Launch(blocks=None, block_warps=4, resident_blocks=2)
        options = {"scheduler": "gto", "memory": memory, "seed": 1, "warmup": 300, "cycles": 900, "sms": 2}
        for program in (k.vector_add(), k.worksheet_3_2(), k.permute(random=True)):
            assert_same(Case(gpu, program, launch, options))

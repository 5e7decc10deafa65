"""Threads that run one chip together: every counter is that of one thread."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from tests.engine.directed_cases import DIRECTED, case, kernel
from tests.support.cases import Case, small_gpu
from tests.support.strategies import cases, examples, with_all_options_of_a_core
from tests.support.whole_run import spreads
from warpsim.engine import allocation, chip, threads
from warpsim.hardware.residency import Launch
from warpsim.kernels import Conditional, Instruction, Loop, mix
from warpsim.simulation import run
from warpsim.simulation.api import simulate_point
from warpsim.simulation.encode import encode, with_seed
from warpsim.simulation.point import make_point
from warpsim.simulation.run import Capacity, Team, run_machine


@pytest.fixture(autouse=True)
def _threads_of_one_sm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may have one SM, and calls are short. All threads run, and one in each third call, whatever their pace."""
    calls = itertools.count()
    monkeypatch.setattr(threads, "_LEAST_SMS", 1)
    monkeypatch.setattr(run, "_FIRST_SLICE", 64)
    monkeypatch.setattr(Team, "_number", lambda self: 1 if next(calls) % 3 == 2 else self.most)


def counted(of: Case, number: int, bins: int = 0) -> dict[str, Any]:
    """Returns everything that a run by so many threads counts, or the reason why it did not end."""
    options = dict(of.options)
    seed, warmup, cycles = options.pop("seed"), options.pop("warmup"), options.pop("cycles")
    machine = with_seed(encode(of.gpu, of.kernel, of.launch, phases=spreads(of.launch, warmup), **options), seed)
    try:
        state, kept = run_machine(machine, of.kernel, warmup, cycles, Capacity(bins=bins), threads=number)
    except ValueError as error:
        return {"error": str(error)}
    tallies = {name: state.tally[name].tolist() for name in state.tally.dtype.names}
    arrays = {name: getattr(state, name).tolist() for name in ("counts", "parts", "stalls", "caused", "registers")}
    times = {"edges": kept.edges, "totals": np.array(kept.totals).tolist()} if kept else {}
    return {"end": int(state.clock[0].cycle), "warp_cycles": state.sms.warp_cycles.tolist(), **tallies, **arrays, **times}


def assert_alike(of: Case, bins: int = 0) -> None:
    assert counted(of, 2, bins) == counted(of, 1, bins)


@pytest.mark.parametrize("name", list(DIRECTED)[::6])
def test_directed_cases(name: str) -> None:
    directed = DIRECTED[name]
    assert_alike(replace(directed, gpu=directed.gpu.model_copy(update={"sms": max(3, directed.gpu.sms)})))


@examples(10)
@given(st.one_of(cases(), cases(memory="queue"), with_all_options_of_a_core()), st.integers(3, 5), st.sampled_from([0, 0, 4]))
def test_random_cases(of: Case, sms: int, bins: int) -> None:
    assert_alike(replace(of, gpu=of.gpu.model_copy(update={"sms": sms})), bins)


def test_room_is_made_for_requests_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "WAITING_OF_SM", 1)
    gpu = small_gpu(sms=4, memory={"bandwidth_gbs": 4.0})
    options = {"scheduler": "lrr", "memory": "queue", "seed": 5, "warmup": 50, "cycles": 3_000, "sms": None}
    assert_alike(Case(gpu, mix(alpha=0), Launch(block_warps=2, resident_blocks=4), options))


def test_of_deadlocks_the_earliest_is_reported_and_then_that_of_the_first_sm() -> None:
    """Of three blocks on three SMs, all stick at the same time; with random times before, each at its own."""
    stick = Conditional(then=[Instruction("barrier"), Instruction("alu")], orelse=[Instruction("barrier")], warps=(1,))
    for before in ([], [Loop(body=[Instruction("alu", dst="r1", src=("r1",))], trips=(1, 200))]):
        stuck = case(small_gpu(sms=3), kernel(*before, stick), blocks=3, seats=1)
        assert "wait at different barriers" in counted(stuck, 1)["error"]
        assert_alike(stuck)


def test_replicates_come_first() -> None:
    """Threads run replicates, and SMs if there are more of them. No number depends on it."""
    point = make_point(small_gpu(sms=6), mix(alpha=3), warps=4, replicates=2, warmup=100, cycles=500)
    one = simulate_point(point)
    for number in (2, 4):
        many = simulate_point(point, number)
        assert all(np.array_equal(one[name], many[name], equal_nan=True) for name in one)


@pytest.mark.parametrize(("pace", "faster", "slower"), [({1: 2.0, 4: 1.0}, 4, 1), ({1: 1.0, 4: 2.0}, 1, 4)])
def test_the_faster_number_of_threads_runs(
    pace: dict[int, float], faster: int, slower: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short calls and the first one are not timed; then one thread is tried, and all; later, the slower number now and then."""
    monkeypatch.undo()
    team, numbers = Team(4), []
    for cycles in (5_000, 10, 5_000, 10, *[5_000] * 40):
        numbers.append(team._number())
        team._note(numbers[-1], cycles, pace[numbers[-1]] * cycles)
    assert numbers[:5] == [4, 1, 1, 4, 4]
    assert numbers[5:].count(slower) == 1 and set(numbers[5:]) == {faster, slower}


@pytest.mark.skipif(config.DISABLE_JIT, reason="without compilation, one thread runs")
def test_an_error_in_a_thread_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    original = chip.run

    def failing(*arguments: Any) -> Any:
        if arguments[-1] > 0:
            raise MemoryError("no room")
        return original(*arguments)

    point = make_point(small_gpu(sms=6), mix(alpha=3), warps=4, replicates=1, warmup=100, cycles=2_000)
    expected = simulate_point(point)
    monkeypatch.setattr(chip, "run", failing)
    with pytest.raises(MemoryError, match="no room"):
        simulate_point(point, 3)
    monkeypatch.setattr(chip, "run", original)
    assert simulate_point(point, 3)["instructions"].tolist() == expected["instructions"].tolist()


def test_a_slice_has_echoes_for_the_other_sms() -> None:
    gpu = small_gpu(sms=6)
    options = {"scheduler": "gto", "memory": "queue", "seed": 7, "warmup": 600, "cycles": 3_000, "sms": 3}
    assert_alike(Case(gpu, mix(alpha=2), Launch(block_warps=2, resident_blocks=4), options))


@pytest.mark.skipif(config.DISABLE_JIT, reason="without compilation, one thread runs")
@pytest.mark.parametrize(("sms", "number", "expected"), [(132, 2, 2), (132, 200, 132), (1, 8, 1), (6, 0, 1)])
def test_no_thread_has_fewer_sms_than_are_worth_it(sms: int, number: int, expected: int) -> None:
    assert threads.threads_for(sms, number) == expected


def test_an_interruption_ends_all_threads() -> None:
    def pause() -> None:
        raise KeyboardInterrupt

    point = make_point(small_gpu(sms=6), mix(alpha=3), warps=4, replicates=1, warmup=100, cycles=2_000)
    with pytest.raises(KeyboardInterrupt):
        simulate_point(point, 3, pause=pause)
    assert simulate_point(point, 3)["cycles"].tolist() == [2_000]

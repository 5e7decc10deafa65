"""The engine's own checks: they hold at any cycle of any program, and notice what is broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.directed_cases import COPY, kernel, one
from tests.engine.directed_cases import case as directed
from tests.support.cases import Case, small_gpu
from tests.support.strategies import cases, examples, with_all_options_of_a_core, with_mbarriers
from warpsim.engine.allocation import allocate
from warpsim.engine.bits import ALL
from warpsim.engine.check import InconsistentError, dump, verify
from warpsim.engine.chip import begin_counting, end_counting
from warpsim.engine.constants import Outcome
from warpsim.simulation.encode import encode, with_seed
from warpsim.simulation.run import run_to


def started(case: Case) -> tuple[Any, Any]:
    """A machine and its state at cycle 0."""
    options = case.options
    machine = encode(
        case.gpu, case.kernel, case.launch, scheduler=options["scheduler"], memory=options["memory"], sms=options.get("sms")
    )
    machine = with_seed(machine, options["seed"])
    return machine, allocate(machine)


@examples(75)
@given(cases() | with_all_options_of_a_core() | with_mbarriers(), st.lists(st.integers(1, 90), min_size=1, max_size=6))
def test_every_program_is_consistent_at_every_cycle(case: Case, steps: list[int]) -> None:
    """Stops at random cycles, counts from the first of them on, and verifies at each."""
    machine, state = started(case)
    verify(machine, state)
    now, begin = 0, steps[0]
    with np.errstate(over="ignore"):
        for step in steps:
            state, outcome = run_to(machine, state, now + step)
            if outcome != Outcome.STOPPED:
                break
            now += step
            if now == begin:
                begin_counting(machine, state, now)
            verify(machine, state)
        if outcome != Outcome.DEADLOCK and state.clock[0].cycle > begin and now >= begin:
            end_counting(machine, state, int(state.clock[0].cycle))
            verify(machine, state, counted_from=begin)


def half_way() -> tuple[Any, Any]:
    machine, state = started(directed(small_gpu(sms=2, memory={"loads_per_sm": 3}), COPY, blocks=9))
    with np.errstate(over="ignore"):
        state, _ = run_to(machine, state, 60)
    verify(machine, state)
    return machine, state


BREAKS: dict[str, Any] = {
    "sooner than": lambda state: state.schedulers.wakes.fill(0),
    "residents": lambda state: state.sms.resident.fill(1),
    "its lane says": lambda state: state.warps.life.fill(2),
    "live warps": lambda state: state.seats.live.fill(9),
    "accesses are left over": lambda state: state.clock.outgoing.fill(1),
    "more than 3": lambda state: state.sms.in_flight.fill(7),
    "of the same rank": lambda state: state.schedulers.ranks.fill(0),
    "second_issues exceed issued": lambda state: state.parts.second_issues.fill(10**6),
    "but its next step": lambda state: state.schedulers.uses.fill(0x7F),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_is_broken_is_noticed(what: str) -> None:
    machine, state = half_way()
    BREAKS[what](state)
    with pytest.raises(InconsistentError, match=what):
        verify(machine, state)


BUFFER_BREAKS: dict[str, Any] = {
    "there is room in it": lambda state: state.fetchers.hungry.fill(ALL),
    "it has 1 instructions": lambda state: state.buffers[:, 2].fill(1),
    "its instructions are there from": lambda state: state.buffers[:, 3:].fill(40),
}


@pytest.mark.parametrize("what", BUFFER_BREAKS)
def test_a_broken_buffer_is_noticed(what: str) -> None:
    gpu = small_gpu(core={"fetch": {"lines": 1, "line_instructions": 128, "miss_cycles": 4}})
    machine, state = started(directed(gpu, kernel(*[one("alu")] * 90)))
    state, _ = run_to(machine, state, 60)
    verify(machine, state)
    assert state.fetchers.full.any()
    BUFFER_BREAKS[what](state)
    with pytest.raises(InconsistentError, match=what):
        verify(machine, state)


def test_a_dump_names_every_resident_warp() -> None:
    machine, state = half_way()
    text = dump(machine, state, 1)
    assert f"SM 1 at cycle 60: {state.sms[1].resident} resident warps" in text
    assert text.count("slot") == state.sms[1].resident


def test_the_command_verifies(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`warpsim simulate --check` verifies several times, and once with the counters; without it, nothing is verified."""
    from warpsim.cli import main
    from warpsim.engine import check

    seen = []
    monkeypatch.setattr(check, "verify", lambda *_, counted_from=None: seen.append(counted_from))
    arguments = "simulate --gpu kepler --kernel mix --warps 8 --sms 1 --warmup 100 --cycles 5000".split()
    assert main(arguments) == 0
    assert not seen
    assert main([*arguments, "--check"]) == 0
    assert seen == [None] * 4 + [100]

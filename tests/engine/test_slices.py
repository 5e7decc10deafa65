"""Slices of a chip, in which echoes stand for the SMs that are not simulated (docs/model.md, section 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.directed_cases import DIRECTED
from tests.engine.test_against_reference import assert_same
from warpsim.engine import allocation, constants
from warpsim.kernels.outstanding import MOST_OUTSTANDING
from warpsim.reference import echoes as reference_echoes
from warpsim.reference import memory as reference_memory
from warpsim.simulation.encode import encode, with_seed


def test_echoes_have_the_streams_of_the_reference() -> None:
    echoes = allocation.echoes_of(2016, 20)
    assert [int(echo.stream) for echo in echoes] == [reference_memory.Stream.of_echo(2016, n).state for n in range(20)]
    assert (echoes.next_step == constants.NOBODY).all()
    case = DIRECTED["echoes of a slice, queue"]
    machine = with_seed(encode(case.gpu, case.kernel, case.launch, scheduler="lrr", memory="queue", sms=1), 1)
    due = allocation.allocate(machine).echo_due
    assert len(due) > 0 and (due == constants.FOREVER).all()


SLICES = [
    "echoes of a slice, queue",
    "echoes of many loads under way",
    "echoes of loads that counters count",
    "a slice of scattered accesses",
]


@pytest.mark.parametrize("name", SLICES)
def test_lists_grow_where_they_are_full(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any room at first, results stay those of the reference."""
    monkeypatch.setattr(allocation, "ECHO_ROOM", 0)
    monkeypatch.setattr(allocation, "WAITING_OF_SM", 1)
    case = DIRECTED[name]
    assert_same(replace(case, options=case.options | {"cycles": 1_200, "warmup": 100}))


def test_many_echoes_begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without phases, 63 echoes of each warp make their first access in the same cycle, for which there is no room at first."""
    monkeypatch.setattr(allocation, "ECHO_ROOM", 0)
    case = DIRECTED["echoes of a slice, queue"]
    options = case.options | {"cycles": 500, "warmup": 0, "sms": 1}
    assert_same(replace(case, gpu=case.gpu.model_copy(update={"sms": 64}), options=options))


@pytest.mark.parametrize("name", SLICES)
def test_pools_forget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for 16 transitions, of which 2 can be recorded in an epoch."""
    for module in (allocation, reference_echoes):
        monkeypatch.setattr(module, "LEAST_TRANSITIONS", 16)
        monkeypatch.setattr(module, "MOST_TRANSITIONS", 16)
    assert_same(DIRECTED[name])


def test_constants_are_those_of_the_reference() -> None:
    names = ("EPOCH", "MOST_TRANSITIONS", "LEAST_TRANSITIONS", "TRANSITIONS")
    assert [getattr(constants, name) for name in names] == [getattr(reference_echoes, name) for name in names]
    assert constants.AWAITED == MOST_OUTSTANDING < 1 << constants.COUNTED_BITS

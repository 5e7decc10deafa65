"""Slices of a chip, in which echoes stand for the SMs that are not simulated (docs/model.md, section 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine.test_against_reference import DIRECTED, assert_same
from tests.support.strategies import small_gpu
from warpsim.engine import state as engine_state
from warpsim.reference import memory as reference_memory


@pytest.mark.parametrize(("sms", "of_sms"), [(1, 1), (4, 16), (5, 16), (1, 3), (7, 8), (15, 16)])
def test_echoes_stand_for_the_other_sms(sms: int, of_sms: int) -> None:
    """The shares add up to the missing SMs, the lags ascend, and the reference has the same echoes."""
    echoes = engine_state.echoes_of(2016, sms, of_sms)
    assert sms * echoes.share.sum() == pytest.approx(of_sms - sms)
    assert (np.diff(echoes.lag) > 0).all() and (echoes.lag >= engine_state.LONGEST_WINDOW).all()
    expected = reference_memory.Memory(small_gpu(sms=of_sms), "queue", sms, seed=2016).echoes
    found = [(int(echo.lag), float(echo.share), int(echo.stream)) for echo in echoes]
    assert found == [(echo.lag, echo.share, echo.stream.state) for echo in expected]


@pytest.mark.parametrize("name", ["echoes of a slice, queue", "a slice of scattered accesses"])
def test_lists_grow_where_they_are_full(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any room at first, results stay those of the reference."""
    monkeypatch.setattr(engine_state, "FEWEST_NOTED", 2)
    monkeypatch.setattr(engine_state, "FEWEST_WAITING", 2)
    case = DIRECTED[name]
    assert_same(replace(case, options=case.options | {"cycles": 1_200, "warmup": 100}))


def test_constants_are_those_of_the_reference() -> None:
    ours = engine_state.ECHO_SOONEST, engine_state.ECHO_SPREAD
    assert ours == (reference_memory.ECHO_SOONEST, reference_memory.ECHO_SPREAD)

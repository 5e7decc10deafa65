"""Longest path of a warp, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.model_inputs import ADD, LOAD
from warpsim.kernels import Instruction
from warpsim.models.parts.longest_path import longest_path


def test_a_period_of_several_repetitions():
    # r1 and r2 take turns only every second time: each repetition moves r1 to r2 with 3 cycles, and r2 to r1 with 8.
    to_2 = Instruction("alu", dst="r2", src=("r1",))
    to_1 = Instruction("alu", dst="r1", src=("r2",))
    path = longest_path([to_2, to_1], [1.0, 1.0], [{"": 3.0}, {"": 8.0}], endless=True)
    assert path.cycles == pytest.approx(11)
    assert len(path.times) == 2 * path.repetitions + 1


def test_consumers_of_a_class_may_see_another_latency():
    root, add = Instruction("sfu", dst="r1", src=("r1",)), ADD
    path = longest_path([root, add], [1.0, 1.0], [{"": 13.0, "alu": 9.0}, {"": 6.0}], endless=True)
    assert path.cycles == pytest.approx(9 + 6)


def test_a_warp_ends_with_its_last_result():
    path = longest_path([LOAD], [1.0], [{"": 400.0}], endless=False)
    np.testing.assert_allclose(path.times, [0, 400])

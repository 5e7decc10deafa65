"""Checks of arguments: limits, types, and messages."""

from __future__ import annotations

import numpy as np
import pytest

from warpsim.arguments import DeadlockError, InvalidPoint, choice, integer, spans


@pytest.mark.parametrize("value", [1, 64, np.int64(3), np.uint8(64)])
def test_integers_within_their_limits(value: int) -> None:
    checked = integer("warps", value, 1, 64)
    assert checked == value
    assert type(checked) is int


@pytest.mark.parametrize("value", [0, 65, -1, np.int64(65)])
def test_integers_beyond_their_limits(value: int) -> None:
    with pytest.raises(ValueError, match=rf"^warps = {value}: must be an integer from 1 to 64$"):
        integer("warps", value, 1, 64)


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "3", None, np.float64(3)])
def test_other_types_are_not_integers(value: object) -> None:
    with pytest.raises(TypeError, match=r"^warps = .*: must be an integer from 1$"):
        integer("warps", value)


def test_a_limit_of_a_chip_makes_an_invalid_point() -> None:
    with pytest.raises(InvalidPoint, match=r"^warps = 65: must be an integer from 1 to 64 on kepler$"):
        integer("warps", 65, 1, 64, of="kepler")
    with pytest.raises(ValueError, match=r"warps = 0") as error:
        integer("warps", 0, 1, 64, of="kepler")
    assert error.type is ValueError


def test_alternatives_are_part_of_the_message() -> None:
    with pytest.raises(ValueError, match=r"n = 0: must be True, False or an integer from 1$"):
        integer("n", 0, alternatives="True, False or ")


def test_choices() -> None:
    assert choice("scheduler", "gto", ("lrr", "gto")) == "gto"
    with pytest.raises(ValueError, match=r"^scheduler = 'fifo': must be one of lrr, gto$"):
        choice("scheduler", "fifo", ("lrr", "gto"))
    with pytest.raises(TypeError, match=r"^scheduler = 3: must be one of lrr, gto$"):
        choice("scheduler", 3, ("lrr", "gto"))


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([5], "5"), ([1, 2], "1-2"), ([1, 2, 3, 5, 7, 8], "1-3, 5, 7-8"), (range(16), "0-15")]
)
def test_spans(numbers: list[int], text: str) -> None:
    assert spans(numbers) == text
    assert spans(numbers, ",") == text.replace(" ", "")


def test_errors_are_value_errors() -> None:
    assert issubclass(InvalidPoint, ValueError)
    assert issubclass(DeadlockError, ValueError)


def test_a_choice_in_any_case():
    assert choice("scheduler", "GTO", ("lrr", "gto")) == "gto"
    with pytest.raises(ValueError, match="scheduler = 'gt'"):
        choice("scheduler", "gt", ("lrr", "gto"))

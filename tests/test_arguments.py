"""Checks of arguments: limits, types, and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsim as ws
from warpsim.arguments import (
    DeadlockError,
    InvalidPoint,
    check_fraction,
    choice,
    did_you_mean,
    integer,
    refusing_malformed,
    spans,
)


@pytest.mark.parametrize("value", [1, 64, np.int64(3), np.uint8(64)])
def test_integers_within_their_limits(value: int) -> None:
    checked = integer("warps", value, 1, 64)
    assert checked == value
    assert type(checked) is int


@pytest.mark.parametrize("value", [0, 65, -1, np.int64(65)])
def test_integers_beyond_their_limits(value: int) -> None:
    with pytest.raises(ValueError, match=rf"^warps = {value}: must be an integer from 1 to 64$"):
        integer("warps", value, 1, 64)


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "3", None, np.float64(3), np.array([8, 16])])
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
    with pytest.raises(ValueError, match=r"scheduler = 'gt': must be one of lrr, gto, did you mean 'gto'\?"):
        choice("scheduler", "gt", ("lrr", "gto"))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: {}["warps"], "plan: lacks 'warps'; is it of another version?"),
        (lambda: (1).warps, "plan: has a wrong entry (AttributeError: 'int' object has no attribute 'warps')"),
        (lambda: nested(nested), "plan: is nested too deeply"),
        (lambda: int(float("inf")), "plan: has a wrong entry (OverflowError: cannot convert float infinity to integer)"),
    ],
)
def test_what_malformed_data_cause_is_a_value_error(read, message) -> None:
    with pytest.raises(ValueError) as error, refusing_malformed("plan"):
        read()
    assert str(error.value) == message


def nested(again):
    return again(again)


def test_a_wrong_type_is_kept_unless_only_data_can_cause_it() -> None:
    with pytest.raises(TypeError), refusing_malformed("plan"):
        len(1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="text: has an entry of a wrong type"), refusing_malformed("text", any_type=True):
        len(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0.5", None, True, [0.5]])
def test_a_fraction_is_a_number(value: object) -> None:
    with pytest.raises(TypeError, match=r"^fraction = .*: must be a number above 0 and at most 1$"):
        check_fraction(value)


def test_words_that_begin_with_an_unknown_one_are_what_is_meant() -> None:
    words = ["latency_to", "interval_cycles", "latency_cycles"]
    assert did_you_mean("latency", words) == ", did you mean 'latency_to' or 'latency_cycles'?"
    assert did_you_mean("latency_cycle", words) == ", did you mean 'latency_cycles'?"
    assert did_you_mean("", words) == did_you_mean("ports", words) == ""


@pytest.mark.parametrize("name", ["gpu", "kernel", "warps", "launch", "scheduler", "memory", "seed", "cycles", "trace"])
@pytest.mark.parametrize("wrap", [lambda one: [one], lambda one: {"it": (one,)}])
def test_messages_show_chips_and_kernels_by_name(name: str, wrap: Any) -> None:
    """All of a chip has 6,700 characters."""
    gpu, kernel = ws.load_gpu("a100"), ws.load_kernel("copy")
    for one in (gpu, kernel):
        arguments: dict[str, Any] = {"gpu": gpu, "kernel": kernel, name: wrap(one)}
        with pytest.raises(TypeError) as caught:
            ws.simulate(**arguments)
        assert repr(wrap(one)) in str(caught.value) and len(str(caught.value)) < 200
    assert (repr(gpu), repr(kernel)) == ("Gpu('a100')", "Kernel('copy')")
    assert len(str(gpu)) > 5000

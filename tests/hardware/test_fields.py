"""Field types: what they accept, and their messages."""

from __future__ import annotations

import math
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from warpsim.hardware.fields import FROM_LIST, Between, Bytes, Count, Cycles, Finite, Name, NotNegative, Positive, StrictModel


def message(kind: Any, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value, strict=True)
    (error,) = caught.value.errors()
    return error["msg"]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "says"),
    [
        (Annotated[int, Between(1, 8)], [1, 8], [0, 9, 1.0, "1", True, None], "must be an integer from 1 to 8"),
        (Annotated[int, Between(-2)], [-2, 10**30], [-3, 0.5], "must be an integer from -2"),
        (Count, [1], [0, False], "must be an integer from 1"),
        (Cycles, [0], [-1], "must be an integer from 0"),
        (Bytes, [0], [-1], "must be an integer from 0"),
        (Positive, [1e-9, 2], [0, -1.0, math.inf, math.nan, "1"], "must be a finite number above 0"),
        (NotNegative, [0, 1.5], [-1e-9, math.inf], "must be a finite number from 0"),
        (Finite, [-1.5, 0], [math.nan, -math.inf, None], "must be a finite number"),
        (Name, ["a"], ["", 3], "must be text that is not empty"),
    ],
)
def test_a_message_names_everything_that_a_type_allows(kind: Any, good: list[Any], bad: list[Any], says: str) -> None:
    for value in good:
        assert TypeAdapter(kind).validate_python(value, strict=True) == value
    assert {message(kind, value) for value in bad} == {says}


def test_a_tuple_can_be_given_as_a_list() -> None:
    assert TypeAdapter(Annotated[tuple[Count, ...], FROM_LIST]).validate_python([1, 2], strict=True) == (1, 2)


def test_strict_models_reject_unknown_keys_and_are_frozen() -> None:
    class Sample(StrictModel):
        count: Count

    with pytest.raises(ValidationError, match="Extra inputs"):
        Sample.model_validate({"count": 1, "counts": 2})
    with pytest.raises(ValidationError, match="frozen"):
        Sample(count=1).count = 2  # type: ignore[misc]

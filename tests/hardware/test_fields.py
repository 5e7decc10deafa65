"""Field types: what they accept, and their messages."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from warpsim.hardware.fields import (
    FROM_LIST,
    MAX_ITEMS,
    Between,
    Bytes,
    Count,
    Cycles,
    Finite,
    Name,
    NotNegative,
    Positive,
    StrictModel,
    from_list,
)
from warpsim.hardware.residency import Launch
from warpsim.kernels.instruction import Access


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
        (Count, [1], [0, False, 10**6 + 1], "must be an integer from 1 to 1000000"),
        (Cycles, [0], [-1], "must be an integer from 0 to 1000000"),
        (Bytes, [0], [-1], "must be an integer from 0 to 1000000000"),
        (Positive, [1e-3, 2], [0, 1e10, -1.0, math.inf, math.nan, "1"], "must be a number from 0.001 to 1e9"),
        (NotNegative, [0, 1.5], [-1e-9, 1e7, math.inf], "must be a number from 0 to 1e6"),
        (Finite, [-1.5, 0], [math.nan, -math.inf, None], "must be a number from -1e6 to 1e6"),
        (Name, ["a"], ["", 3], "must be text that is not empty"),
    ],
)
def test_a_message_names_everything_that_a_type_allows(kind: Any, good: list[Any], bad: list[Any], says: str) -> None:
    for value in good:
        assert TypeAdapter(kind).validate_python(value, strict=True) == value
    assert {message(kind, value) for value in bad} == {says}


def test_a_tuple_can_be_given_as_a_list() -> None:
    assert TypeAdapter(Annotated[tuple[Count, ...], FROM_LIST]).validate_python([1, 2], strict=True) == (1, 2)


@pytest.mark.parametrize(("convert", "most"), [(from_list(2), 2), (FROM_LIST, MAX_ITEMS)])
def test_a_list_of_too_many_items_is_refused_before_they_are_looked_at(convert: BeforeValidator, most: int) -> None:
    adapter = TypeAdapter(Annotated[tuple[Count, ...], convert])
    for kind in (list, tuple):
        with pytest.raises(ValidationError, match=f"must have at most {most} items, not {most + 1}"):
            adapter.validate_python(kind((0,)) * (most + 1))
        assert adapter.validate_python(kind((1,)) * 2) == (1, 1)


def test_strict_models_reject_unknown_keys_and_are_frozen() -> None:
    class Sample(StrictModel):
        count: Count

    with pytest.raises(ValidationError, match="Extra inputs"):
        Sample.model_validate({"count": 1, "counts": 2})
    with pytest.raises(ValidationError, match="frozen"):
        Sample(count=1).count = 2  # type: ignore[misc]


def test_constructors_state_all_errors_as_files_do() -> None:
    class Inner(StrictModel):
        count: Count

    class Outer(StrictModel):
        inner: Inner
        size: Count

    with pytest.raises(ValueError, match="size") as caught:
        Outer(inner={"count": 0, "counts": 1}, sizes=2)  # type: ignore[arg-type, call-arg]
    assert not isinstance(caught.value, ValidationError)
    assert str(caught.value).splitlines() == [
        "inner.count = 0: must be an integer from 1 to 1000000",
        "inner.counts = 1: unknown key, did you mean 'count'?; allowed here: count",
        "size is missing: must be an integer from 1 to 1000000",
        "sizes = 2: unknown key, did you mean 'size'?; allowed here: inner, size",
    ]
    assert Outer(inner=Inner(count=1), size=2).inner.count == 1


def test_a_constructor_takes_the_numbers_of_numpy():
    launch = Launch(blocks=np.int64(4), block_warps=np.uint8(2))
    assert launch == Launch(blocks=4, block_warps=2) and type(launch.blocks) is int
    assert Access(pattern="stride", stride=np.int32(4), l1_hit=np.float32(0.5)) == Access(pattern="stride", stride=4, l1_hit=0.5)
    for value in (np.float64(2), np.bool_(True), np.array([2])):
        with pytest.raises(ValueError, match=r"block_warps = .*: must be an integer from 1 to 1000000"):
            Launch(block_warps=value)

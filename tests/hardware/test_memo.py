"""Results that are kept for the objects used last."""

from __future__ import annotations

from warpsim.hardware.memo import _KEPT, kept_by_object


class Value:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("values are told apart by identity")

    __hash__ = None  # type: ignore[assignment]


def test_a_result_is_kept_for_the_same_object_only() -> None:
    calls: list[Value] = []
    derive = kept_by_object(lambda value: calls.append(value) or len(calls))
    one, other = Value(), Value()
    assert [derive(one), derive(other), derive(one), derive(other)] == [1, 2, 1, 2]
    assert len(calls) == 2


def test_a_result_of_several_objects_is_kept_for_these_in_this_order_only() -> None:
    derive = kept_by_object(lambda one, other: object())
    one, other = Value(), Value()
    assert derive(one, other) is derive(one, other)
    assert len({id(derive(*pair)) for pair in ((one, other), (other, one), (one, one), (other, other))}) == 4


def test_the_oldest_results_are_forgotten() -> None:
    calls: list[Value] = []
    derive = kept_by_object(lambda value: calls.append(value) or len(calls))
    values = [Value() for _ in range(_KEPT + 1)]
    assert [derive(value) for value in values] == list(range(1, _KEPT + 2))
    assert derive(values[-1]) == _KEPT + 1
    assert derive(values[0]) == _KEPT + 2


def test_an_object_that_is_used_again_and_again_keeps_its_result() -> None:
    calls: list[Value] = []
    derive = kept_by_object(lambda value: calls.append(value) or len(calls))
    often = Value()
    for value in [Value() for _ in range(2 * _KEPT)]:
        derive(value)
        derive(often)
    assert sum(one is often for one in calls) == 1


def test_an_object_that_is_gone_does_not_give_its_result_to_another_one() -> None:
    derive = kept_by_object(lambda value: object())
    assert len({id(derive(Value())) for _ in range(_KEPT)}) == _KEPT

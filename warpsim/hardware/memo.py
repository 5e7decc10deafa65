"""Keeps what is derived from a chip, for the chips that were used last."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")

_KEPT = 64


def kept_by_object(function: Callable[[_Value], _Result]) -> Callable[[_Value], _Result]:
    """Returns the function with its results kept for the last 64 objects that it was called with.

    Objects are told apart by `is`, since comparing two chips takes as long as deriving most values. So they must be frozen;
    callers must not change the results.
    """
    results: OrderedDict[int, tuple[_Value, _Result]] = OrderedDict()

    @wraps(function)
    def kept(value: _Value) -> _Result:
        found = results.get(id(value))
        if found is None:
            found = results[id(value)] = value, function(value)  # it holds the object, so that nobody else gets its id
            while len(results) > _KEPT:
                results.popitem(last=False)
        return found[1]

    return kept

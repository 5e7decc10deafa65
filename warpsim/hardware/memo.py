"""Keeps what is derived from chips, kernels and other frozen objects, for those that were used last."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TypeVar, TypeVarTuple

_Values = TypeVarTuple("_Values")
_Result = TypeVar("_Result")

_KEPT = 64


def kept_by_object(function: Callable[[*_Values], _Result]) -> Callable[[*_Values], _Result]:
    """Returns the function with its results kept for the last 64 objects, or combinations of objects, that it was called with.

    Objects are told apart by `is`, since comparing two chips takes as long as deriving most values. So they must be frozen;
    callers must not change the results.
    """
    results: OrderedDict[tuple[int, ...], tuple[tuple[*_Values], _Result]] = OrderedDict()

    @wraps(function)
    def kept(*values: *_Values) -> _Result:
        key = tuple(map(id, values))
        found = results.get(key)
        if found is None:
            found = results[key] = values, function(*values)  # it holds the objects, so that nobody else gets their ids
            while len(results) > _KEPT:
                results.popitem(last=False)
        else:
            with suppress(KeyError):  # another thread has dropped it meanwhile
                results.move_to_end(key)
        return found[1]

    return kept

"""How parts of the engine become machine code."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import config

from warpsim.jit import decorators as compiling
from warpsim.jit.handles import handed_on_as_pointer

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@handed_on_as_pointer(constant=False)
class Arrays(NamedTuple):
    few: Any
    many: Any
    count: int
    option: Any


@compiling.apart
def _twice(x: Any) -> Any:
    return x + x


@compiling.inline
def _twice_and_one(x: Any) -> Any:
    return _twice(x) + 1


def test_parts_are_inlined_unless_they_are_compiled_apart() -> None:
    """A part that an inlined part calls would inherit that it is inlined, if it did not say otherwise."""
    compiled = numba.njit(lambda x: _twice_and_one(x), no_cpython_wrapper=True, no_cfunc_wrapper=True)
    compiled.compile((numba.int64,))
    (code,) = compiled.inspect_llvm().values()
    defined = [line for line in code.splitlines() if line.startswith("define")]
    assert sum("_twice" in line and "_twice_and_one" not in line for line in defined) == 1
    assert not any("_twice_and_one" in line for line in defined)


def test_parts_belong_to_their_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two entry points can have one name, so that the linker must not find those of another one."""
    monkeypatch.setattr(compiling, "CACHE_FOLDER", None)

    @compiling.apart
    def long_part(record):
        total = 0
        for value in record.values:
            total += value
        return total

    @compiling.jit
    def entry_point(records):
        return long_part(records[0])

    for lanes in (2, 3):
        records = np.zeros(1, [("values", "i8", lanes)]).view(np.recarray)
        records.values = 7
        assert entry_point(records) == 7 * lanes
    for compiled in entry_point.overloads.values():
        defined = [line for line in compiled.library.get_llvm_str().splitlines() if line.startswith("define")]
        parts = [line for line in defined if "long_part" in line]
        assert len(parts) == 1 and re.match(r"define internal ", parts[0])
        assert not any("linkonce" in line for line in defined)


def test_tuples_of_arrays_are_handed_on_as_one_pointer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a tuple reaches a part, by one number; what serves an option that is None is not compiled at all."""
    monkeypatch.setattr(compiling, "CACHE_FOLDER", None)

    @compiling.apart
    def tuple_part(arrays, option):
        arrays.few[0] += arrays.count
        if option is not None:
            option[0] += arrays.many[1, 2]
        return arrays.many[1, 2] + len(arrays.many)

    @compiling.jit
    def entry_point(arrays):
        return tuple_part(arrays, arrays.option)

    for option in (None, np.zeros(1)):
        arrays = Arrays(np.array([3]), np.arange(6.0).reshape(2, 3), 4, option)
        assert entry_point(arrays) == 5 + 2 and arrays.few[0] == 7
        assert option is None or option[0] == 5
    without, with_option = (each.library.get_llvm_str() for each in entry_point.overloads.values())
    for code, more in (without, 0), (with_option, len(("meminfo", "parent", "items", "size", "data", "shape", "stride"))):
        (header,) = [line for line in code.splitlines() if line.startswith("define") and "tuple_part" in line]
        # those of the result, the error, and the tuple, or fewer; the option is an array, which numba hands on number by number
        assert header.count("%") <= 3 + max(1, more)


@handed_on_as_pointer(constant=True)
class Constants(NamedTuple):
    facts: Any


@handed_on_as_pointer(constant=False)
class Variables(NamedTuple):
    facts: Any


def test_a_store_is_no_reason_to_load_a_constant_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be what has been stored to is loaded again."""
    monkeypatch.setattr(compiling, "CACHE_FOLDER", None)

    @compiling.jit
    def entry_point(given, pairs, i):
        facts, pair = given.facts[0], pairs[0]
        for place in range(2):
            pairs[i + place].once = facts.unit + pair.twice
        pairs[i].twice = facts.unit + pair.twice
        return facts.unit * facts.sizes[1]

    for named_tuple in (Constants, Variables):
        facts = np.zeros(1, [("unit", "i8"), ("sizes", "i8", 2)]).view(np.recarray)
        facts.unit, facts.sizes = 3, (4, 5)
        pairs = np.zeros(4, [("once", "i8"), ("twice", "i8")]).view(np.recarray)
        pairs.twice = 1
        assert entry_point(named_tuple(facts), pairs, 2) == 15
        assert pairs.once.tolist() == [0, 0, 4, 4] and pairs.twice.tolist() == [1, 1, 4, 1]
        assert entry_point(named_tuple(facts), pairs, 0) == 15
        assert pairs.once.tolist() == [4, 4, 4, 4] and pairs.twice.tolist() == [4, 1, 4, 1]
        facts.unit = 2  # between two calls it may change
        assert entry_point(named_tuple(facts), pairs, 0) == 10
    of_constants, of_variables = (each.library.get_llvm_str().count("= load i64") for each in entry_point.overloads.values())
    assert of_constants < of_variables


def test_parts_are_compiled_once_for_all_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "CACHE_FOLDER", None)

    @compiling.inline
    def times(number, factor):
        return number * factor

    @compiling.jit
    def entry_point(number):
        return times(number, 2) + times(number, 3) + times(number, number)

    assert entry_point(5) == 10 + 15 + 25
    assert len(times.overloads) == 1

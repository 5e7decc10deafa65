"""Mutated inputs: JSON-like values in which some places are replaced by extremes, deleted, repeated or moved."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

from hypothesis import strategies as st


def nested(depth: int, kind: str) -> Any:
    """Returns lists or tables in each other, or a kernel's loops in each other."""
    value: Any = {"op": "alu", "dst": "r1"} if kind == "loop" else 1
    for _ in range(depth):
        value = {"list": [value], "table": {"x": value}, "loop": {"trips": 1, "body": [value]}}[kind]
    return value


INTEGERS = [0, 1, -1, 2, 3, 31, 32, 33, 63, 64, 65, 255, 256, 1023, 1024, 4096, 65535, 65536, 10**6, 10**6 + 1, 10**9, 2**31 - 1,
            2**31, 2**32, 10**12, 10**15, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**400, -(2**31), -(2**63),
            -(10**400)]  # fmt: skip
FLOATS = [0.0, -0.0, 0.5, 1.0, 1e-320, 1e-9, 1e-3, 0.999, 1.5, 1e3, 1e6, 1e9, 1e12, 1e18, 1e100, 1.7e308, math.inf, -math.inf,
          math.nan, -1.0]  # fmt: skip
TEXTS = ["", " ", "x", "kepler", "mix", "inf", "endless", "1/3", "1/0", "999999999999/7", "1e999", "nan", "all", "powers of 2",
         "multiples of 0 up to 5", "powers of 2 up to 99999999999999999999", "\0", "\n", "ä\ud800", "../../etc/passwd",
         "/etc/passwd", "/dev/zero", "a.b.c", "x" * 5000, "9" * 5000]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [1], [1, 2], [0, 10**18], ["r1"], {"": 1}, {"name": "kepler"}, {"rtol": 0.01},
          [1] * 3000]  # fmt: skip
NESTED = [(5, "loop"), (100, "loop"), (400, "table"), (2000, "list"), (2000, "table"), (2000, "loop")]

_MOST_PLACES = 10**6
"""Places of a list that is repeated, roughly: more do not fit into the memory of the process that draws them."""

_PLAIN = [*INTEGERS, *FLOATS, *TEXTS, *OTHERS]


def _extreme(number: int) -> Any:
    return copy.deepcopy(_PLAIN[number]) if number < len(_PLAIN) else nested(*NESTED[number - len(_PLAIN)])


EXTREMES: st.SearchStrategy[Any] = st.integers(0, len(_PLAIN) + len(NESTED) - 1).map(_extreme)
"""Values at and beyond the limits of what any input may be; a new one at each draw."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the paths of all places in nested lists and tables, outer before inner, to a depth of 20."""
    if len(path) > 20:
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn, valid: str, most: int = 3) -> Any:
    """Draws a value with one to `most` places changed; `valid` is its JSON text."""
    value = {"": json.loads(valid)}
    for _ in range(draw(st.integers(1, most))):
        paths = places(value)[1:]
        *folders, last = paths[draw(st.integers(0, min(len(paths), 500) - 1))]
        table: Any = value
        for folder in folders:
            table = table[folder]
        how = draw(st.sampled_from(["replace"] * 6 + ["delete", "add", "repeat", "move"]))
        if how == "delete" and folders:
            del table[last]
        elif how == "add" and isinstance(table[last], dict):
            table[last][draw(st.sampled_from(["x", "", "warps", "name", "ops", "gpu.x"]))] = draw(EXTREMES)
        elif how == "repeat" and isinstance(table[last], list) and table[last]:
            most_times = _MOST_PLACES // len(places(table[last]))
            table[last] = table[last] * min(draw(st.sampled_from([2, 3, 70, 5000])), max(2, most_times))
        elif how == "move":
            values = _values(value, paths)
            table[last] = values[draw(st.integers(0, len(values) - 1))]
        else:
            table[last] = draw(EXTREMES)
        if not isinstance(value.get(""), dict | list):
            break
    return value.get("")


def _values(value: Any, paths: list[tuple[Any, ...]]) -> list[Any]:
    """Returns the values in these places, without large ones, of which a value that contains itself could be made."""
    found: list[Any] = [0]
    for path in paths[:500]:
        inner = value
        for key in path:
            inner = inner[key]
        if not isinstance(inner, dict | list):
            found.append(inner)
    return found

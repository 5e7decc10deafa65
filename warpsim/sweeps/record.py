"""Plans as JSON: what a store says of its plan, and how two plans differ."""

from __future__ import annotations

import json
import math
from typing import Any


def encoded(value: Any) -> Any:
    """A setting as a JSON value; JSON knows no infinity."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def decoded(value: Any) -> Any:
    """A setting, or a list of its values, from what `encoded` made of it."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return math.inf if value == "inf" else value


def difference(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two plans' records differ: a line "key: A here, B in the store" for each place."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = dict.fromkeys((*ours, *theirs))
        inner = (
            (f"{place}.{key}" if place else key, ours.get(key, "nothing"), theirs.get(key, "nothing"))
            for key in keys
        )
        return [line for name, a, b in inner for line in difference(a, b, name)]
    if ours == theirs:
        return []
    return [f"{place}: {_short(ours)} here, {_short(theirs)} in the store"]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."

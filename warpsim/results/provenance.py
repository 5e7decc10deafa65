"""Where a result comes from: attributes from which the run can be repeated.

Every result carries `source` (program and version), `history` (one line a step, with the UTC time) and
`provenance`: a JSON text with the versions of the software and the whole call, chip and kernel by value.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

def software() -> dict[str, str]:
    """Versions of warpsim and of what its numbers depend on."""
    from warpsim import __version__

    return {
        "warpsim": __version__,
        "python": platform.python_version(),
        "numba": metadata.version("numba"),
        "numpy": metadata.version("numpy"),
    }


def provenance(function: str, call: Mapping[str, Any]) -> str:
    """A provenance JSON: the software's versions, the function's name, and its arguments (JSON values)."""
    return json.dumps({"software": software(), "function": function, "call": dict(call)})


def read_call(text: str, function: str) -> dict[str, Any]:
    """The arguments held by a provenance JSON, as JSON values.

    Raises:
        ValueError: the text is not the provenance of a call of this function.
    """
    try:
        record = json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"provenance: must be a JSON text: {error}") from None
    found = record.get("function") if isinstance(record, dict) else None
    if found != function:
        raise ValueError(f"provenance: must be that of a call of {function}, but is of {found!r}")
    call: dict[str, Any] = record["call"]
    return call


def dump(value: Any) -> Any:
    """A chip, a kernel, a launch or a trace as JSON values."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def load(kind: type, value: Any) -> Any:
    """The object of this type from what `dump` made of it."""
    return _adapter(kind).validate_json(json.dumps(value))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def history(entry: str, earlier: str = "") -> str:
    """A history with one more line: UTC time, then what was done."""
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {entry}"
    return f"{earlier}\n{line}" if earlier else line


def attributes(provenance_json: str, entry: str) -> dict[str, str]:
    """Attributes of a result: `source`, `history` and `provenance`."""
    from warpsim import __version__

    return {"source": f"warpsim {__version__}", "history": history(entry), "provenance": provenance_json}

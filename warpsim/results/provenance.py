"""Provenance: attributes of a result from which the run can be repeated.

Every result has `source` (program and version), `history` (one line per step, with the UTC time) and `provenance`: a
JSON text with the versions of the software and the complete call, with chip and kernel by value.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from warpsim.arguments import shortened

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Provenance(str):
    """A provenance text. Printed, it is one line that says how to use it, so that it does not fill the screen of a notebook.

    Everything else, such as `json.loads`, `from_provenance` and writing it to a file, has the whole text.
    """

    __slots__ = ()

    def __str__(self) -> str:
        how = "ws.from_provenance returns the arguments of a run, ws.Plan.from_provenance the plan of a sweep"
        return f"JSON text of {len(self)} characters; {how}"

    __repr__ = __str__


def software() -> dict[str, str]:
    """Returns the versions of warpsim and of the software on which its numbers depend."""
    from warpsim import __version__

    return {
        "warpsim": __version__,
        "python": platform.python_version(),
        "numba": _installed("numba"),
        "numpy": _installed("numpy"),
    }


@cache
def _installed(package: str) -> str:
    """Returns the version of an installed package; a look-up in the file system, so that each is made once."""
    return metadata.version(package)


def provenance(function: str, call: Mapping[str, Any]) -> str:
    """Returns the provenance as JSON text: versions of the software, name of the function, and its arguments (JSON values)."""
    return json.dumps({"software": software(), "function": function, "call": dict(call)})


def read_call(text: str, function: str) -> dict[str, Any]:
    """Returns the arguments in a provenance text, as JSON values.

    Raises:
        ValueError: the text is not the provenance of a call of `function`.
    """
    try:
        record = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"provenance: must be a JSON text: {error}") from None
    except RecursionError:
        raise ValueError("provenance: must be a JSON text that is not nested as deeply") from None
    called = record.get("function") if isinstance(record, dict) else None
    if called != function:
        raise ValueError(f"provenance: must be that of a call of {function}, not of {called!r}")
    call = record.get("call")
    if not isinstance(call, dict):
        raise ValueError("provenance: must have the arguments of the call")
    return call


def dump(value: Any) -> Any:
    """Converts a chip, a kernel, a launch or a trace to JSON values."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def load(kind: type, value: Any) -> Any:
    """Converts the result of `dump` back to an object of this type.

    Raises:
        ValueError: it is not the result of `dump` for such an object.
    """
    try:
        return _adapter(kind).validate_json(json.dumps(value))
    except ValueError as error:
        raise ValueError(f"provenance: not a {kind.__name__}: {shortened(error, 1000)}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def history(entry: str, earlier: str = "") -> str:
    """Returns a history with one more line: the UTC time and what was done."""
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {entry}"
    return f"{earlier}\n{line}" if earlier else line


def attributes(provenance_json: str, entry: str) -> dict[str, str]:
    """Returns the attributes `source`, `history` and `provenance` of a result."""
    from warpsim import __version__

    return {"source": f"warpsim {__version__}", "history": history(entry), "provenance": Provenance(provenance_json)}

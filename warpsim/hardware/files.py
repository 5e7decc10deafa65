"""Where the parameter files are, and how an error in one of them is said.

The files lie in `params/` of a checkout, and in `warpsim/params/` of an installed package. A *kind* is a
subfolder: `gpus`, `kernels`, `latency`, `pipelines`.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

_SUFFIX = {"gpus": ".toml", "kernels": ".toml", "latency": ".csv", "pipelines": ".toml"}

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
"""A place in a file, and the rest of its line: `= VALUE: what is allowed`."""


class ParamsFileError(ValueError):
    """All the errors of one file, a line each: `FILE: dotted.key = value: what is allowed`.

    `source` is the file, and `errors` are the lines.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        """Format the problems found in `source`."""
        self.source = source
        self.errors = tuple(f"{source}: {_dotted(place)}{text}" for place, text in problems)
        super().__init__("\n".join(self.errors))


def params_dir() -> Path:
    """Return the folder of the parameter files.

    Raises:
        FileNotFoundError: neither the installed package nor a checkout holds it.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "params", package.parent / "params"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"no params folder in {package} nor beside it")


def list_names(kind: str) -> list[str]:
    """Return the names of a kind's files, without their suffix, in alphabetical order."""
    return sorted(path.stem for path in (params_dir() / kind).glob("*" + _SUFFIX[kind]))


def resolve(kind: str, name_or_path: str | os.PathLike[str]) -> Path:
    """Return the file of a name, or the path as given.

    A string with a folder separator or with the kind's suffix is a path; any other string is a name.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: there is no such name or file; the message lists the names.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise TypeError(f"{kind}: {name_or_path!r} is not a name or a path")
    text = os.fspath(name_or_path)
    if isinstance(name_or_path, os.PathLike) or text.endswith(_SUFFIX[kind]) or Path(text).name != text:
        path = Path(text)
        if path.is_file():
            return path
        raise ValueError(f"{kind}: there is no file {text}")
    names = list_names(kind)
    if text in names:
        return params_dir() / kind / (text + _SUFFIX[kind])
    allowed = ", ".join(names)
    raise ValueError(f"{kind}: {text!r} is unknown{_hint(text, names)}; allowed: {allowed}, or a path")


def read_toml(path: Path, error_type: type[ParamsFileError] = ParamsFileError) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ParamsFileError: (as `error_type`) the file is not UTF-8 or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise error_type(str(path), [((), f"not a TOML file: {error}")]) from error


def problems(model: type[BaseModel], error: ValidationError) -> list[Problem]:
    """Say every error that pydantic found in the words of the model's JSON schema.

    Errors of a whole model (its after-validators) are left out: their place is not in the error.
    """
    schema = model.model_json_schema()
    found: list[Problem] = []
    for item in error.errors(include_url=False):
        place = item["loc"]
        if item["type"] == "value_error" and "properties" in _schema_at(schema, place):
            continue
        found.append((place, _say(schema, item["type"], place, item["input"])))
    return found


def show(value: object) -> str:
    """Return a value as a file would write it, cut at 60 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _say(schema: Mapping[str, Any], kind: str, place: Location, value: object) -> str:
    if kind == "missing":
        return f" is missing: {_allowed(schema, _schema_at(schema, place))}"
    if kind == "extra_forbidden":
        keys = list(_schema_at(schema, place[:-1]).get("properties", ()))
        return f" = {show(value)}: unknown key{_hint(str(place[-1]), keys)}; allowed here: {', '.join(keys)}"
    return f" = {show(value)}: {_allowed(schema, _schema_at(schema, place))}"


def _hint(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(words), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _dotted(place: Location) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _schema_at(schema: Mapping[str, Any], place: Location) -> Mapping[str, Any]:
    """Return the part of a JSON schema that describes the value at `place`; empty where it has none."""
    part = _resolved(schema, schema)
    for step in place:
        if isinstance(step, int):
            items = part.get("prefixItems", ())
            part = items[step] if step < len(items) else part.get("items", {})
        else:
            part = part.get("properties", {}).get(step, part.get("additionalProperties", {}))
        part = _resolved(schema, part) if isinstance(part, Mapping) else {}
    return part


def _resolved(root: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference, and take the one alternative of a union that is not null."""
    choices = [choice for choice in part.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        part = {**part, **choices[0]}
    if "$ref" in part:
        part = {**root["$defs"][part["$ref"].rsplit("/", 1)[1]], "default": part.get("default")}
    return part


def _allowed(root: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """Say in words what a JSON schema admits."""
    if "examples" in part:
        return str(part["examples"][0])
    if "const" in part:
        return show(part["const"])
    if "enum" in part:
        return "one of " + ", ".join(show(value) for value in part["enum"])
    kind = part.get("type")
    if kind in ("integer", "number"):
        noun = "an integer" if kind == "integer" else "a finite number"
        low, high, above = part.get("minimum"), part.get("maximum"), part.get("exclusiveMinimum")
        if low is not None and high is not None:
            return f"{noun} from {low:g} to {high:g}"
        if low is not None:
            return f"{noun} of at least {low:g}"
        return f"{noun} above {above:g}" if above is not None else noun
    if kind == "array":
        items = part.get("prefixItems")
        if items:
            return "a list of " + " and ".join(_allowed(root, _resolved(root, item)) for item in items)
        return "a list, each item " + _allowed(root, _resolved(root, part.get("items", {})))
    if kind == "object":
        keys = ", ".join(part.get("properties", ()))
        return f"a table of {keys}" if keys else "a table"
    return {"string": "text that is not empty", "boolean": "true or false"}.get(str(kind), "another value")

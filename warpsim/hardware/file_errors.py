"""What is wrong with a parameter file: the errors that validation found, each with its location and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import islice
from types import NoneType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from warpsim.arguments import did_you_mean

MAX_SHOWN = 60
"""Largest number of characters of a value that an error shows."""

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
"""A location in a file, and the rest of the line: ` = VALUE: what is allowed`."""


class ParamsFileError(ValueError):
    """All errors of one file, with one line for each: `FILE: dotted.key = value: what is allowed`.

    `source` is the file, and `errors` are the lines.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        """Formats the problems of the file `source`."""
        self.source = source
        self.errors = tuple(f"{source}: {line}" for line in lines(problems))
        super().__init__("\n".join(self.errors))


def problems(model: type[BaseModel], error: ValidationError) -> list[Problem]:
    """Returns the errors that pydantic found in a file, each with its location and what is allowed.

    The messages are those of pydantic, with TOML terms for Python types. For a missing key they also name the allowed
    values, and for an unknown key the known keys. A validator of a model must raise a ValueError with a line "key =
    value: what is allowed" for each error, with keys relative to the model.
    """
    result: list[Problem] = []
    for item in error.errors(include_url=False):
        kind, place = _type_at(model, item["loc"])
        value = format_value(item["input"])
        if item["type"] == "missing":
            result.append((place, f" is missing: {_allowed(kind)}"))
        elif item["type"] == "extra_forbidden":
            keys = _keys(_type_at(model, item["loc"][:-1])[0])
            hint = did_you_mean(str(place[-1]), keys)
            result.append((place, f" = {value}: unknown key{hint}; allowed here: {', '.join(keys)}"))
        elif item["type"] == "value_error":
            result += [(place, f".{line}" if place else line) for line in str(item["ctx"]["error"]).splitlines()]
        else:
            result.append((place, f" = {value}: {_message(item, kind)}"))
    return result


def lines(problems: Iterable[Problem]) -> list[str]:
    """Returns one line for each problem: `dotted.key = value: what is allowed`."""
    return [f"{_dotted(place)}{text}" for place, text in problems]


def format_value(value: object) -> str:
    """Returns a value as JSON, cut at `MAX_SHOWN` characters."""
    try:
        text = json.dumps(_beginning(value), default=str, ensure_ascii=False)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _beginning(value: Any) -> Any:
    """Returns a value of which each list, table and text is cut to one entry more than `format_value` can show."""
    most = MAX_SHOWN + 1
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, list | tuple):
        return [_beginning(each) for each in value[:most]]
    if isinstance(value, dict):
        return {key: _beginning(each) for key, each in islice(value.items(), most)}
    return value


def _message(item: ErrorDetails, kind: Any) -> str:
    """Returns the message of pydantic, with TOML terms for Python types."""
    if item["type"] in ("model_type", "dict_type"):
        keys = ", ".join(_keys(kind))
        return f"must be a table of {keys}" if keys else "must be a table"
    if item["type"] == "tuple_type":
        return "must be a list"
    if item["type"] == "bool_type":
        return "must be true or false"
    return re.sub(r"^\w+ should", "must", item["msg"]).replace(" after validation", "")


def _allowed(kind: Any) -> str:
    """Returns what a type allows: the message for an object that no type allows."""
    try:
        TypeAdapter(kind).validate_python(object(), strict=True)
    except ValidationError as error:
        return _message(error.errors(include_url=False)[0], kind)
    return "any value"


def _dotted(place: Location) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _type_at(model: type[BaseModel], loc: Location) -> tuple[Any, Location]:
    """Returns the type at a location given by pydantic, and the location without the tags of unions."""
    kind: Any = model
    place: Location = ()
    for part in loc:
        kind, is_tag = _inner_type(kind, part)
        place = place if is_tag else (*place, part)
    return kind, place


def _inner_type(kind: Any, part: str | int) -> tuple[Any, bool]:
    """Returns the type at a key, an index or a tag inside a type, and whether the part is a tag."""
    kind = _bare(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Union:
        return next((option for option in args if Tag(str(part)) in getattr(option, "__metadata__", ())), Any), True
    if origin is dict:
        return args[1], False
    if origin is tuple and isinstance(part, int):
        return args[0] if args[-1] is Ellipsis else args[part], False
    field = getattr(kind, "model_fields", {}).get(part)
    return (Any if field is None else Annotated[field.annotation, field]), False


def _bare(kind: Any) -> Any:
    """Returns a type without annotations and without `| None`."""
    while get_origin(kind) is Annotated or NoneType in get_args(kind):
        kind = next(option for option in get_args(kind) if option is not NoneType)
    return kind


def _keys(kind: Any) -> list[str]:
    return list(getattr(_bare(kind), "model_fields", ()))

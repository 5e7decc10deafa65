"""Locates parameter files and formats their validation errors.

The files are in `params/` of a checkout, and in `warpsim/params/` of an installed package. A *kind* of file is a
subfolder: `architectures`, `gpus`, `kernels`, `kernels/cuda`, `latency` or `pipelines`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from warpsim.arguments import did_you_mean

_SUFFIX = dict.fromkeys(("architectures", "gpus", "kernels", "pipelines"), ".toml") | {"latency": ".csv", "kernels/cuda": ".sass"}
_CODE = (".cu", ".cubin", ".ptx", ".sass", ".py")
"""Suffixes of files with code, of which kernel files are made."""

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


_names_only: ContextVar[bool] = ContextVar("names_only", default=False)


@contextmanager
def names_only() -> Iterator[None]:
    """Has `resolve` refuse paths: results of other people are not to name files of the reader."""
    token = _names_only.set(True)
    try:
        yield
    finally:
        _names_only.reset(token)


@cache
def params_dir() -> Path:
    """Returns the folder of the parameter files.

    Raises:
        FileNotFoundError: neither the installed package nor a checkout contains it.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "params", package.parent / "params"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"there is no params folder in {package} or next to it")


def list_names(kind: str) -> list[str]:
    """Returns the names of all files of a kind, without suffix, in alphabetical order; those in a folder as FOLDER/NAME."""
    folder = params_dir() / kind
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*" + _SUFFIX[kind]))


def resolve(kind: str, name_or_path: str | os.PathLike[str]) -> Path:
    """Returns the file with a name, or the path as given.

    A string with the kind's suffix, or with a folder separator unless it is a name in a folder such as "cuda/softmax", is a path;
    any other string is a name, in any case.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: the name or file does not exist, and the message lists the names; or a kernel's file is one of code.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise TypeError(f"{kind}: {name_or_path!r} is not a name or a path")
    text = os.fspath(name_or_path)
    if "\0" in text:
        raise ValueError(f"{kind}: {text!r} is not a name or a path")
    nested = "/" in text and text.lower() in list_names(kind)
    if isinstance(name_or_path, os.PathLike) or text.endswith(_SUFFIX[kind]) or (Path(text).name != text and not nested):
        if _names_only.get():
            raise ValueError(f"{kind}: {text!r} is a path in the description of a result, which is never opened")
        path = Path(text)
        if is_file(path):
            if kind == "kernels" and path.suffix.lower() in _CODE:
                raise ValueError(_no_such_format(kind, text))
            return path
        if path.is_dir():
            raise ValueError(f"{kind}: {text} is a folder; must be a name or a {_SUFFIX[kind]} file")
        raise ValueError(f"{kind}: there is no file {text}{did_you_mean(text, list_names(kind))}")
    file = params_dir() / kind / (text.lower() + _SUFFIX[kind])
    if is_file(file):
        return file
    if is_file(Path(text)):
        raise ValueError(_no_such_format(kind, text))
    names = list_names(kind)
    allowed = ", ".join(names)
    raise ValueError(f"{kind}: {text!r} is unknown{did_you_mean(text, names)}; allowed: {allowed}, or a path")


def _no_such_format(kind: str, text: str) -> str:
    """Returns the message for a file of another format than those of its kind; that for kernels says what makes one."""
    made = "; `warpsim import` makes one of CUDA, Triton and machine code" if kind == "kernels" else ""
    return f"{kind}: {text} is no {_SUFFIX[kind]} file{made}"


def is_file(path: Path) -> bool:
    """Whether there is a file. A text that is too long for a name, or has a null byte, names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def toml_value(value: Any) -> str:
    """Returns text, a finite number, a truth value, or a list of them, in TOML: as in JSON, with one more character escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_toml(path: Path, error_type: type[ParamsFileError] = ParamsFileError) -> dict[str, Any]:
    """Reads a TOML file.

    Raises:
        ParamsFileError: (as `error_type`) the file cannot be read, is not UTF-8 or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except RecursionError:
        raise error_type(str(path), [((), "not a TOML file: nested too deeply")]) from None
    except ValueError as error:  # text that is not UTF-8 or not TOML, and numbers that Python does not read
        raise error_type(str(path), [((), f"not a TOML file: {error}")]) from error
    except OSError as error:
        raise error_type(str(path), [((), f"cannot be read: {error.strerror}")]) from None


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

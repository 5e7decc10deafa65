"""Locates and reads parameter files.

The files are in `params/` of a checkout, and in `warpsim/params/` of an installed package. A *kind* of file is a
subfolder: `architectures`, `gpus`, `kernels`, `kernels/cuda`, `latency` or `pipelines`.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from warpsim.arguments import did_you_mean
from warpsim.hardware.file_errors import ParamsFileError

_SUFFIX = dict.fromkeys(("architectures", "gpus", "kernels", "pipelines"), ".toml") | {"latency": ".csv", "kernels/cuda": ".sass"}
_SOURCES = (".cu", ".cuh")
"""Suffixes of files with CUDA C."""

_CODE = (*_SOURCES, ".cubin", ".ptx", ".sass", ".py")
"""Suffixes of files with code, of which kernel files are made."""

_names_only: ContextVar[bool] = ContextVar("names_only", default=False)


def is_cuda_source(name: str) -> bool:
    """Returns whether a file of this name holds CUDA C."""
    return name.lower().endswith(_SOURCES)


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

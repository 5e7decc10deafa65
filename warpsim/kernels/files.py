"""Kernel files: params/kernels/NAME.toml, or a path.

A file names a builder and the arguments that differ from its defaults,

    builder = "mix"
    [arguments]
    alpha = 32

or writes the program out, with the keys of `Kernel` (name, title, source, registers_per_thread,
shared_bytes_per_block, inputs) and

    body = [
        {op = "load", dst = "r1", src = ["r1"], access = {pattern = "stride", stride = 2}},
        {then = [{op = "store", src = ["r1"]}], probability = 0.5},
        {trips = 10, body = [{op = "alu", dst = "r1", src = ["r1"]}]},
    ]

The keys are those of `Instruction`, `Loop` and `Conditional`; a loop without end has trips = "endless".
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from warpsim.hardware import files as params
from warpsim.kernels.builders import BUILDERS
from warpsim.kernels.program import Conditional, Instruction, Kernel, Loop, Statement

__all__ = ["KernelFileError", "kernel_arguments", "list_kernels", "load_kernel"]

_Model = TypeVar("_Model", bound=BaseModel)

_KINDS: dict[str, type[Instruction | Loop | Conditional]] = {
    "op": Instruction,
    "trips": Loop,
    "then": Conditional,
}
_INNER = {Instruction: (), Loop: ("body",), Conditional: ("then", "orelse")}
_PLACEHOLDER = Instruction("alu")


class KernelFileError(params.ParamsFileError):
    """All the errors of a kernel's file, a line each."""


def list_kernels() -> list[str]:
    """Return the names of the kernels that come with the package."""
    return params.list_names("kernels")


def kernel_arguments(name_or_path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments that `load_kernel` takes for a kernel, with their defaults.

    There are none where the file writes the program out.

    Raises:
        ValueError: as `load_kernel`.
    """
    path = params.resolve("kernels", name_or_path)
    data = params.read_toml(path, KernelFileError)
    if "builder" not in data:
        return {}
    builder, given = _builder_of(data, str(path))
    parameters = inspect.signature(BUILDERS[builder]).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty} | given


def load_kernel(name_or_path: str | os.PathLike[str], **arguments: Any) -> Kernel:
    """Load a kernel by its name in params/kernels, or from a file.

    Args:
        name_or_path: such as "mix", or a path to a file of your own.
        arguments: of the builder that the file names; they replace those in the file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: there is no such kernel or file; an argument is unknown or wrong.
        KernelFileError: the file has errors; all of them are listed.
    """
    path = params.resolve("kernels", name_or_path)
    data = params.read_toml(path, KernelFileError)
    if "builder" not in data:
        if arguments:
            raise _unknown_arguments(arguments, (), path)
        return _parse_kernel(data, str(path))
    builder, given = _builder_of(data, str(path))
    parameters = inspect.signature(BUILDERS[builder]).parameters
    if not set(arguments) <= set(parameters):
        raise _unknown_arguments(arguments, tuple(parameters), path)
    together = given | arguments
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in together]
    if missing:
        raise KernelFileError(str(path), [(("arguments", name), " is missing") for name in missing])
    try:
        return BUILDERS[builder](**together)
    except ValueError as error:
        if arguments:
            raise
        lines = str(error).splitlines()
        raise KernelFileError(str(path), [(("arguments",), f".{line}") for line in lines]) from None


def _unknown_arguments(arguments: Mapping[str, Any], allowed: tuple[str, ...], path: Path) -> ValueError:
    takes = f"kernel {path.stem!r} takes {', '.join(allowed) or 'no arguments'}"
    wrong = (
        f"{name} = {value!r}: unknown; {takes}" for name, value in arguments.items() if name not in allowed
    )
    return ValueError("\n".join(wrong))


def _builder_of(data: Mapping[str, Any], source: str) -> tuple[str, dict[str, Any]]:
    """The builder's name and the arguments of a file that names one."""
    name, given = data["builder"], data.get("arguments", {})
    problems: list[params.Problem] = [
        ((key,), f" = {params.show(value)}: unknown key; allowed here: builder, arguments")
        for key, value in data.items()
        if key not in ("builder", "arguments")
    ]
    known = isinstance(name, str) and name in BUILDERS
    if not known:
        problems.append((("builder",), f" = {params.show(name)}: one of {', '.join(BUILDERS)}"))
    if not isinstance(given, dict):
        problems.append((("arguments",), f" = {params.show(given)}: a table"))
    elif known:
        signature = inspect.signature(BUILDERS[name]).parameters
        allowed = ", ".join(signature) or "no arguments"
        problems += [
            (("arguments", key), f" = {params.show(value)}: unknown key; {name} takes {allowed}")
            for key, value in given.items()
            if key not in signature
        ]
    if problems:
        raise KernelFileError(source, problems)
    return name, given


def _parse_kernel(data: Mapping[str, Any], source: str) -> Kernel:
    problems: list[params.Problem] = []
    fields = dict(data)
    if "body" in data:
        body = _statements(data["body"], ("body",), problems)
        fields["body"] = () if problems else body
    kernel = _validate(Kernel, fields, (), problems)
    if problems or kernel is None:
        raise KernelFileError(source, problems)
    return kernel


def _statements(tables: Any, place: params.Location, problems: list[params.Problem]) -> tuple[Statement, ...]:
    if not isinstance(tables, list):
        problems.append((place, f" = {params.show(tables)}: a list of statements"))
        return (_PLACEHOLDER,)
    return tuple(_statement(table, (*place, index), problems) for index, table in enumerate(tables))


def _statement(table: Any, place: params.Location, problems: list[params.Problem]) -> Statement:
    """Parse one statement; where it is wrong, note the problems and return a placeholder."""
    model = next((_KINDS[key] for key in _KINDS if isinstance(table, dict) and key in table), None)
    if model is None:
        allowed = "a table with op (an instruction), trips (a loop) or then (a conditional)"
        problems.append((place, f" = {params.show(table)}: {allowed}"))
        return _PLACEHOLDER
    fields = dict(table)
    for key in _INNER[model]:
        if key in table:
            fields[key] = _statements(table[key], (*place, key), problems)
    if fields.get("trips") == "endless":
        fields["trips"] = None
    return _validate(model, fields, place, problems) or _PLACEHOLDER


def _validate(
    model: type[_Model], fields: Mapping[str, Any], place: params.Location, problems: list[params.Problem]
) -> _Model | None:
    """Validate a table whose inner statements are validated; where it is wrong, note the problems."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = params.problems(model, error)
        problems += [((*place, *inner), text) for inner, text in found]
        named = {inner for inner, _ in found}
        for item in error.errors(include_url=False):
            if item["type"] == "value_error" and item["loc"] not in named:
                where = (*place, *item["loc"])
                lines = str(item["ctx"]["error"]).splitlines()
                problems += [(where, f".{line}" if where else line) for line in lines]
        return None

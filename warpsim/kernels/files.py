"""Loads kernels from files: params/kernels/NAME.toml, or a path.

A file either names a builder and the arguments that differ from its defaults,

    builder = "mix"
    [arguments]
    alpha = 32

or contains the program, with the keys of `Kernel`, such as name, title, source, block_warps, registers_per_thread,
shared_bytes_per_block, inputs and mbarriers, and

    body = [
        {op = "load", dst = "r1", src = ["r1"], access = {pattern = "stride", stride = 2}},
        {then = [{op = "store", src = ["r1"]}], probability = 0.5},
        {trips = 10, body = [{op = "alu", dst = "r1", src = ["r1"]}]},
    ]

The statements have the keys of `Instruction`, `Loop` and `Conditional`; an endless loop has trips = "endless".
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from warpsim.arguments import did_you_mean, refusing_malformed
from warpsim.hardware import file_errors
from warpsim.hardware import files as params
from warpsim.hardware.residency import Launch
from warpsim.kernels.builders import BUILDERS
from warpsim.kernels.program import Kernel


class KernelFileError(file_errors.ParamsFileError):
    """All errors of a kernel file, with one line for each."""


class UnknownArgumentsError(ValueError):
    """A kernel does not take some of the arguments that it is given.

    `kernel` is its name, `arguments` what is given, and `allowed` the names that it takes. `others` are further names that the
    caller accepts, such as the settings of a plan, for hints at misspelled ones.
    """

    def __init__(
        self, kernel: str, arguments: Mapping[str, Any], allowed: tuple[str, ...], others: tuple[str, ...] = ()
    ) -> None:
        """Formats a line for each unknown argument."""
        self.kernel, self.arguments, self.allowed = kernel, arguments, allowed
        takes = f"kernel {kernel!r} takes {', '.join(allowed) or 'no arguments'}"
        names = (*allowed, *others)
        wrong = [name for name in arguments if name not in allowed]
        super().__init__(
            "\n".join(f"{name} = {arguments[name]!r}: unknown{did_you_mean(name, names)}; {takes}" for name in wrong)
        )


def list_kernels() -> list[str]:
    """Returns the names of the kernels in the package."""
    return params.list_names("kernels")


def kernel_arguments(name_or_path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the arguments that `load_kernel` accepts for a kernel, with their default values.

    A kernel whose file contains the program has no arguments.

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


def kernel_title(name_or_path: str | os.PathLike[str]) -> str:
    """Returns the title of a kernel: that which its file gives to its builder, or that of the kernel as it is loaded.

    Raises:
        ValueError: as `load_kernel`.
    """
    stated = kernel_arguments(name_or_path).get("title")
    return str(stated) if stated else load_kernel(name_or_path).title


def as_kernel(kernel: Kernel | str | os.PathLike[str], **arguments: Any) -> Kernel:
    """Returns a kernel that is given as such, or by its name or file with the arguments of its builder.

    Raises:
        TypeError: it is something else, or a Kernel is given arguments.
        ValueError: the kernel or file does not exist, or an argument is unknown or wrong.
    """
    if isinstance(kernel, Kernel):
        if arguments:
            raise TypeError(f"{next(iter(arguments))}: is not an argument, and a Kernel object takes none; name the kernel")
        return kernel
    if not isinstance(kernel, str | os.PathLike):
        raise TypeError(f"kernel = {kernel!r}: must be a Kernel, such as a builder returns, or the name or file of one")
    return load_kernel(kernel, **arguments)


def kernel_for(kernel: Kernel | str | os.PathLike[str], arguments: Mapping[str, Any], others: tuple[str, ...]) -> Kernel:
    """As `as_kernel`, for a function of which an unknown argument may be a misspelled one: `others` are its own."""
    name = next(iter(arguments), "")
    if isinstance(kernel, Kernel) and name in Launch.model_fields and "launch" in others:
        raise TypeError(f"{name}: is not an argument, but a launch states it: launch=Launch(block_warps=..., {name}=...)")
    if isinstance(kernel, Kernel) and (meant := did_you_mean(name, others)):
        raise TypeError(f"{name}: is not an argument{meant}")
    try:
        return as_kernel(kernel, **arguments)
    except UnknownArgumentsError as error:
        raise UnknownArgumentsError(error.kernel, error.arguments, error.allowed, others) from None


def load_kernel(name_or_path: str | os.PathLike[str], **arguments: Any) -> Kernel:
    """Loads a kernel by its name in params/kernels, or from a file.

    Args:
        name_or_path: a name such as "mix", or the path of a file.
        arguments: arguments of the builder that the file names; they override those in the file.

    Raises:
        TypeError: `name_or_path` is neither a string nor a path.
        ValueError: the kernel or file does not exist, or an argument is unknown or wrong.
        KernelFileError: the file has errors; the message lists all of them.
    """
    path = params.resolve("kernels", name_or_path)
    with refusing_malformed(str(path)):
        return _loaded(path, arguments)


def _loaded(path: Path, arguments: Mapping[str, Any]) -> Kernel:
    data = params.read_toml(path, KernelFileError)
    if "builder" not in data:
        if arguments:
            raise UnknownArgumentsError(path.stem, arguments, ())
        return _parse_kernel(data, str(path))
    builder, given = _builder_of(data, str(path))
    parameters = inspect.signature(BUILDERS[builder]).parameters
    if not set(arguments) <= set(parameters):
        raise UnknownArgumentsError(path.stem, arguments, tuple(parameters))
    values = given | dict(arguments)
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in values]
    if missing:
        raise KernelFileError(str(path), [(("arguments", name), " is missing") for name in missing])
    try:
        return BUILDERS[builder](**values)
    except ValueError as error:
        if arguments:
            raise
        lines = str(error).splitlines()
        raise KernelFileError(str(path), [(("arguments",), f".{line}") for line in lines]) from None


def write_kernel(kernel: Kernel) -> str:
    """Returns the text of a kernel file that holds a kernel, with a statement on each line."""
    fields = kernel.model_dump(mode="json", exclude_defaults=True, exclude={"body"})
    head = [f"{key} = {_toml(value)}" for key, value in fields.items()]
    body = kernel.model_dump(mode="json", include={"body"}, exclude_defaults=True)["body"]
    return "\n".join([*head, f"body = {_toml_statements(body, '')}"]) + "\n"


def _toml_statements(statements: list[dict[str, Any]], indent: str) -> str:
    inner = indent + "    "
    rows = []
    for statement in statements:
        parts = []
        for key, value in statement.items():
            nested = key in ("then", "orelse", "body")
            text = _toml_statements(value, inner) if nested else '"endless"' if key == "trips" and value is None else _toml(value)
            parts.append(f"{key} = {text}")
        rows.append(f"{inner}{{{', '.join(parts)}}},")
    return "\n".join(["[", *rows, f"{indent}]"]) if rows else "[]"


def _toml(value: Any) -> str:
    """Returns a value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return params.toml_value(value)


def _builder_of(data: Mapping[str, Any], source: str) -> tuple[str, dict[str, Any]]:
    """Returns the builder and the arguments that a file names."""
    name, given = data["builder"], data.get("arguments", {})
    problems: list[file_errors.Problem] = [
        ((key,), f" = {file_errors.format_value(value)}: unknown key; allowed here: builder, arguments")
        for key, value in data.items()
        if key not in ("builder", "arguments")
    ]
    known = isinstance(name, str) and name in BUILDERS
    if not known:
        problems.append((("builder",), f" = {file_errors.format_value(name)}: must be one of {', '.join(BUILDERS)}"))
    if not isinstance(given, dict):
        problems.append((("arguments",), f" = {file_errors.format_value(given)}: must be a table"))
    elif known:
        parameters = inspect.signature(BUILDERS[name]).parameters
        allowed = ", ".join(parameters) or "no arguments"
        problems += [
            (("arguments", key), f" = {file_errors.format_value(value)}: unknown argument; {name} takes {allowed}")
            for key, value in given.items()
            if key not in parameters
        ]
    if problems:
        raise KernelFileError(source, problems)
    return name, given


def _parse_kernel(data: Mapping[str, Any], source: str) -> Kernel:
    try:
        return Kernel.model_validate(data)
    except ValidationError as error:
        raise KernelFileError(source, file_errors.problems(Kernel, error)) from None

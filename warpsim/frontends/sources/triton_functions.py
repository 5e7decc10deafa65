"""Triton functions: loaded from a file, and compiled by the user's own Triton. No GPU and no torch are needed."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from warpsim.arguments import did_you_mean
from warpsim.frontends.errors import FrontEndError, MissingToolError
from warpsim.frontends.launch.parameters import given_twice, place_of
from warpsim.frontends.machine_code.nvdisasm import disassemble
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.symbols import pick_function

NUM_WARPS, NUM_STAGES = 4, 3
"""Warps of a block, and stages of software pipelines, where the caller does not say."""

_INTEGER = re.compile(r"[iu](8|16|32|64)$")
"""The type of an argument that is an integer."""

_ARCHITECTURES = range(70, 122)
"""Compute capabilities, times ten, for which Triton compiles, and numbers between them."""

_ALIGNMENT = 16
"""Triton's compiler learns which integers, and which addresses in bytes, are multiples of this."""


class Compiled(NamedTuple):
    """A compiled Triton function.

    Attributes:
        function: its machine code.
        shared_bytes: shared memory of a block.
        warps: warps of a block; of a function whose warps have tasks of their own, more than were asked for.
        args: the arguments by name that are left to pass.
    """

    function: MachineFunction
    shared_bytes: int
    warps: int
    args: dict[Any, Any]


def triton_function(
    fn: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    args: Any = (),
    *,
    arch: str,
    num_warps: int,
    num_stages: int,
) -> Compiled:
    """Compiles a Triton function as a launch with these arguments would compile it; the parameters are those of `from_triton`.

    Raises:
        MissingToolError: Triton or nvdisasm is not installed.
        FrontEndError: Triton refuses the function, or an argument is missing or unknown.
    """
    _check_triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fn, number = _plain_function(fn), _number_of(arch)
    constants = _defaults(fn, signature) | dict(constexprs)
    types = _types(fn, signature, constants)
    given = _by_name(fn, [name for name in fn.arg_names if name in types], args)
    special = specialized(fn, types, given)
    constants |= dict.fromkeys(special.ones, 1)
    types = {name: "constexpr" if name in constants else types[name] for name in fn.arg_names}
    try:
        compiled = _compile(
            ASTSource(fn=fn, signature=types, constexprs=constants, attrs=special.attributes),
            target=GPUTarget("cuda", number, 32),
            options={"num_warps": num_warps, "num_stages": num_stages},
        )
        cubin, shared, warps = compiled.asm["cubin"], int(compiled.metadata.shared), int(compiled.metadata.num_warps)
    except Exception as error:
        raise FrontEndError(f"Triton does not compile {_name(fn)!r} for {arch}: {error}") from error
    functions = disassemble(cubin, "Triton's cubin")
    found = functions[pick_function(list(functions), None, "Triton's cubin")]
    names = [name for name, kind in types.items() if kind != "constexpr"]
    named = [replace(one, name=name) for one, name in zip(found.parameters, names, strict=False)]
    passed = {name: value for name, value in given.items() if name in names}
    function = replace(found, parameters=(*named, *found.parameters[len(named) :]))
    return Compiled(function, shared, warps, passed)


def _number_of(arch: str) -> int:
    named = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if named is None or int(named[1]) not in _ARCHITECTURES:
        what = f"must be an architecture from sm_{_ARCHITECTURES[0]} to sm_{_ARCHITECTURES[-1]}, such as sm_90"
        raise FrontEndError(f"arch = {arch!r}: {what}")
    return int(named[1])


class _Special(NamedTuple):
    """What a launch tells Triton's compiler of arguments: which are 1, and which are multiples of 16, as attributes by place."""

    ones: list[str]
    attributes: dict[tuple[int, ...], list[list[Any]]]


def specialized(fn: Any, types: Mapping[str, str], given: Mapping[str, Any]) -> _Special:
    """Returns what a launch tells the compiler: integers that are 1 become constants, and it learns what is a multiple of 16.

    Pointers that are not given are aligned, as libraries allocate arrays. A function can forbid either
    (`do_not_specialize`, `do_not_specialize_on_alignment`).
    """
    special = _Special([], {})
    for place, parameter in enumerate(fn.params):
        kind, value = types.get(parameter.name, "constexpr"), given.get(parameter.name)
        if kind == "constexpr" or parameter.do_not_specialize or not isinstance(value, Real | None):
            continue  # what is no number is refused later
        if _INTEGER.match(kind) and value == 1:
            special.ones.append(parameter.name)
        is_pointer = kind.startswith("*")
        is_multiple = is_pointer if value is None else value % _ALIGNMENT == 0 and (is_pointer or _INTEGER.match(kind))
        if is_multiple and not parameter.do_not_specialize_on_alignment:
            special.attributes[place,] = [["tt.divisibility", _ALIGNMENT]]
    return special


def _plain_function(fn: Any) -> Any:
    """Returns the function within `triton.autotune` and `triton.heuristics`."""
    from triton.runtime.jit import JITFunction

    while not isinstance(fn, JITFunction) and hasattr(fn, "fn"):
        fn = fn.fn
    if not isinstance(fn, JITFunction):
        raise FrontEndError(f"{_name(fn)!r} is no @triton.jit function")
    return fn


def _defaults(fn: Any, signature: Mapping[str, str]) -> dict[str, Any]:
    """Returns the constants that have a default, and no type in the signature."""
    return {one.name: one.default for one in fn.params if one.is_constexpr and one.has_default and one.name not in signature}


def _types(fn: Any, signature: Mapping[str, str], constants: Mapping[str, Any]) -> dict[str, str]:
    """Returns the types of all arguments of a function that are no constants."""
    for name in (*signature, *constants):
        if name not in fn.arg_names:
            there = f"{did_you_mean(name, fn.arg_names)}; arguments: {', '.join(fn.arg_names)}"
            raise FrontEndError(f"{_name(fn)!r} has no argument {name!r}{there}")
    types = {name: kind for name, kind in signature.items() if name not in constants}
    missing = [name for name in fn.arg_names if types.get(name, "constexpr") == "constexpr" and name not in constants]
    if missing:
        raise FrontEndError(f"{_name(fn)!r}: argument {missing[0]!r} needs a type in the signature, or a value as a constant")
    return types


def _by_name(fn: Any, names: list[str], args: Any) -> dict[str, Any]:
    """Returns the arguments that are given, by name; `names` are those that are no constants, in order."""
    pairs = args.items() if isinstance(args, Mapping) else enumerate(args)
    found: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    for key, value in pairs:
        name = names[place_of(key, names, _name(fn))]
        if value is None:
            continue
        if name in keys:
            raise given_twice(key, value, keys[name])
        found[name], keys[name] = value, key
    return found


def load_triton_function(path: Path, name: str) -> Any:
    """Executes a Python file and returns one of its Triton functions.

    Raises:
        MissingToolError: Triton is not installed.
        FrontEndError: the file cannot be executed, or has no such function; the message lists those that it has.
    """
    _check_triton()
    if not path.is_file():
        raise FrontEndError(f"{path}: there is no such file")
    spec = importlib.util.spec_from_file_location(f"_warpsim_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FrontEndError(f"{path}: is no Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FrontEndError(f"{path}: cannot be executed: {type(error).__name__}: {error}") from error
    there = [key for key, value in vars(module).items() if _is_triton(value)]
    if name not in there:
        names = ", ".join(there) or "none"
        raise FrontEndError(f"{path}: {name!r} is no @triton.jit function{did_you_mean(name, there)}; functions there: {names}")
    return getattr(module, name)


def _check_triton() -> None:
    try:
        import triton.compiler  # noqa: F401
    except ImportError as error:
        raise MissingToolError(f"Triton cannot be loaded: {error}; install it with pip install triton") from None


def _compile(source: Any, **arguments: Any) -> Any:
    import triton

    return triton.compile(source, **arguments)


def _is_triton(value: Any) -> bool:
    try:
        return bool(_plain_function(value))
    except FrontEndError:
        return False


def _name(fn: Any) -> Any:
    return getattr(fn, "__name__", fn)

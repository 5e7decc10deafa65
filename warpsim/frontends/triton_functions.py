"""Triton functions: loaded from a file, and compiled by the user's own Triton. No GPU and no torch are needed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpsim.arguments import did_you_mean
from warpsim.frontends.errors import FrontEndError, MissingToolError
from warpsim.frontends.nvdisasm import disassemble
from warpsim.frontends.sass import MachineFunction
from warpsim.frontends.symbols import pick_function


def triton_function(
    fn: Any, signature: Mapping[str, str], constexprs: Mapping[str, Any], *, arch: str, num_warps: int, num_stages: int
) -> tuple[MachineFunction, int]:
    """Compiles a Triton function; returns its machine code, and the bytes of shared memory of a block.

    The arguments are those of `from_triton`.

    Raises:
        MissingToolError: Triton or nvdisasm is not installed.
        FrontEndError: Triton refuses the function.
    """
    _check_triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    try:
        number = int(arch.removeprefix("sm_"))
        full = {**signature, **dict.fromkeys(constexprs, "constexpr")}
        compiled = _compile(
            ASTSource(fn=fn, signature=full, constexprs=dict(constexprs)),
            target=GPUTarget("cuda", number, 32),
            options={"num_warps": num_warps, "num_stages": num_stages},
        )
        cubin, shared = compiled.asm["cubin"], int(compiled.metadata.shared)
    except Exception as error:
        raise FrontEndError(f"Triton does not compile {_name(fn)!r} for {arch}: {error}") from error
    functions = disassemble(cubin, "Triton's cubin")
    found = functions[pick_function(list(functions), None, "Triton's cubin")]
    names = [name for name, kind in signature.items() if kind != "constexpr"]
    named = [replace(one, name=name) for one, name in zip(found.parameters, names, strict=False)]
    return replace(found, parameters=(*named, *found.parameters[len(named) :])), shared


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
    from triton.runtime.jit import JITFunction

    return isinstance(value, JITFunction) or isinstance(getattr(value, "fn", None), JITFunction)


def _name(fn: Any) -> Any:
    return getattr(fn, "__name__", fn)

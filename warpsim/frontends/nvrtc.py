"""CUDA C to machine code with NVRTC; no GPU, toolkit or C++ compiler is needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from warpsim.frontends.errors import CompileError, FrontEndError, MissingToolError
from warpsim.hardware.gpu import list_gpus, load_gpu

EXTRA = "pip install 'warpsim[cuda]' (cuda-bindings and nvidia-cuda-nvrtc)"


def nvrtc_version() -> str:
    """Returns the version of NVRTC, such as "13.5".

    Raises:
        MissingToolError: NVRTC is not installed.
    """
    nvrtc = _nvrtc()
    code, major, minor = nvrtc.nvrtcVersion()
    _check(code, "nvrtcVersion")
    return f"{major}.{minor}"


def compile_cuda(text: str, name: str, arch: str, **how: Any) -> bytes:
    """Compiles CUDA C; returns the machine code, a cubin. Arguments and errors are those of `compile_instances`."""
    return compile_instances(text, name, arch, **how)[0]


def compile_instances(
    text: str,
    name: str,
    arch: str,
    *,
    defines: Mapping[str, int] | None = None,
    headers: Mapping[str, bytes] | None = None,
    options: Iterable[str] = (),
    instances: Iterable[str] = (),
) -> tuple[bytes, dict[str, str]]:
    """Compiles CUDA C; returns the machine code, a cubin, and the symbol of each instance of a template that is asked for.

    Args:
        text: the source.
        name: of the source, for messages and line information.
        arch: such as "sm_90".
        defines: macros, by name.
        headers: files that the source may include, by name.
        options: further options of NVRTC, such as "-lineinfo".
        instances: instances of templates that are compiled, too, such as "k<float>".

    Raises:
        MissingToolError: NVRTC is not installed.
        FrontEndError: NVRTC does not know the architecture.
        CompileError: NVRTC refuses the source; the message holds its log.
    """
    nvrtc = _nvrtc()
    _check_arch(nvrtc, arch)
    defines, headers = defines or {}, headers or {}
    names = [header.encode() for header in headers]
    code, program = nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), len(names), list(headers.values()), names)
    _check(code, "nvrtcCreateProgram")
    try:
        expressions = list(instances)
        for instance in expressions:
            _check(nvrtc.nvrtcAddNameExpression(program, instance.encode())[0], "nvrtcAddNameExpression")
        flags = [f"-arch={arch}", *(f"-D{macro}={value}" for macro, value in defines.items()), *options]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if int(code):
            macros = f", {dict(defines)}" if defines else ""
            log = _log(nvrtc, program) or str(code)
            raise CompileError(f"{name} for {arch}{macros}: {log.rstrip()}")
        code, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(code, "nvrtcGetCUBINSize")
        cubin = bytes(size)
        (code,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _check(code, "nvrtcGetCUBIN")
        symbols = {one: nvrtc.nvrtcGetLoweredName(program, one.encode())[1].decode() for one in expressions}
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return cubin, symbols


def _nvrtc() -> ModuleType:
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise MissingToolError(f"NVRTC, the CUDA compiler library, cannot be loaded: {error}; install it with {EXTRA}") from None
    return nvrtc


def _check_arch(nvrtc: ModuleType, arch: str) -> None:
    code, known = nvrtc.nvrtcGetSupportedArchs()
    _check(code, "nvrtcGetSupportedArchs")
    named = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if named and int(named[1]) in known:
        return
    number = re.search(r"\d+", arch)
    hint = f", did you mean 'sm_{min(known, key=lambda one: abs(one - int(number[0])))}'?" if number else ""
    if arch in list_gpus() and (of_chip := load_gpu(arch).architecture):
        hint = f"; the chip {arch} is {of_chip}"
    there = ", ".join(f"sm_{one}" for one in known)
    raise FrontEndError(f"arch = {arch!r}: NVRTC {nvrtc_version()} does not compile for it{hint}; architectures: {there}")


def _check(code: Any, call: str) -> None:
    if int(code):
        raise CompileError(f"{call}: {code}")


def _log(nvrtc: ModuleType, program: object) -> str:
    code, size = nvrtc.nvrtcGetProgramLogSize(program)
    if int(code) or size < 2:
        return ""
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.rstrip(b"\0").decode(errors="replace")

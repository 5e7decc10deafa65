"""CUDA C to machine code with NVRTC; no GPU, toolkit or C++ compiler is needed."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from warpsim.frontends.errors import CompileError, FrontEndError, MissingToolError
from warpsim.hardware.gpu import list_gpus, load_gpu

EXTRA = "pip install 'warpsim[cuda]' (cuda-bindings and nvidia-cuda-nvrtc)"


_APART = """
import pickle, sys
from warpsim.frontends.sources.nvrtc import compile_cuda
given, how = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(compile_cuda(*given, **how))
"""
"""What a process does that compiles a source by itself."""


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


def compile_apart(text: str, name: str, arch: str, **how: Any) -> bytes:
    """Does what `compile_cuda` does in a process of its own.

    Once NVRTC 13.5 has compiled for debuggers, the same process gets other machine code of all kernels with parameters that are
    `__grid_constant__`, whatever its options are.

    Raises:
        CompileError: the process fails; the message holds what it says.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    given = pickle.dumps(((text, name, arch), how))
    done = subprocess.run([sys.executable, "-c", _APART], input=given, capture_output=True, env=environment, check=False)
    if done.returncode:
        raise CompileError(f"{name} for {arch}: {done.stderr.decode(errors='replace').rstrip()}")
    return done.stdout


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

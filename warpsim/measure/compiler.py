"""CUDA C to machine code with NVRTC; no GPU, toolkit or C++ compiler is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent / "cuda"
"""Where the CUDA sources are."""

EXTRA = "pip install 'warpsim[cuda]' (cuda-bindings and nvidia-cuda-nvrtc)"


class MissingToolError(RuntimeError):
    """A package or a device that the measurements need is not there; the message says which."""


class CompileError(RuntimeError):
    """NVRTC refused a source; the message holds its log."""


@dataclass(frozen=True)
class Binary:
    """Machine code of one source for one architecture.

    Attributes:
        source: name of the file.
        defines: macros, by name.
        arch: such as "sm_90".
        cubin: the machine code.
        digest: SHA-256 of source and headers, in hexadecimal.
    """

    source: str
    defines: Mapping[str, int]
    arch: str
    cubin: bytes
    digest: str


def nvrtc_version() -> str:
    """Return the version of NVRTC, such as "13.5".

    Raises:
        MissingToolError: NVRTC is not installed.
    """
    nvrtc = _nvrtc()
    code, major, minor = nvrtc.nvrtcVersion()
    _check(code, "nvrtcVersion")
    return f"{major}.{minor}"


def digest(source: str) -> str:
    """Return the SHA-256 of a source with its headers, in hexadecimal."""
    text = hashlib.sha256()
    for path in [FOLDER / source, *sorted(FOLDER.glob("*.cuh"))]:
        text.update(path.read_bytes())
    return text.hexdigest()


def compile_source(source: str, defines: Mapping[str, int], arch: str) -> Binary:
    """Compile a file of cuda/ for an architecture.

    Args:
        source: name of the file, such as "chain.cu".
        defines: macros, by name.
        arch: such as "sm_90".

    Raises:
        MissingToolError: NVRTC is not installed.
        CompileError: NVRTC refuses the source or the architecture.
    """
    cubin = compile_text((FOLDER / source).read_text(encoding="utf-8"), source, defines, arch)
    return Binary(source, dict(defines), arch, cubin, digest(source))


def compile_text(text: str, name: str, defines: Mapping[str, int], arch: str) -> bytes:
    """Compile CUDA C that may include the files of cuda/; returns the machine code. `name` is for messages.

    Raises:
        MissingToolError: NVRTC is not installed.
        CompileError: NVRTC refuses the source or the architecture.
    """
    nvrtc = _nvrtc()
    files = sorted(path for path in FOLDER.iterdir() if path.suffix in (".cu", ".cuh"))
    contents, names = [path.read_bytes() for path in files], [path.name.encode() for path in files]
    code, program = nvrtc.nvrtcCreateProgram(text.encode(), name.encode(), len(files), contents, names)
    _check(code, "nvrtcCreateProgram")
    try:
        options = [f"-arch={arch}".encode(), *(f"-D{macro}={value}".encode() for macro, value in defines.items())]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(code):
            raise CompileError(f"{name} for {arch}, {dict(defines)}: {_log(nvrtc, program) or str(code)}")
        code, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(code, "nvrtcGetCUBINSize")
        cubin = bytes(size)
        (code,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _check(code, "nvrtcGetCUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return cubin


def _nvrtc() -> ModuleType:
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise MissingToolError(f"NVRTC, the CUDA compiler library, cannot be loaded: {error}; install it with {EXTRA}") from None
    return nvrtc


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

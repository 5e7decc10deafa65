"""CUDA C to machine code with NVRTC; no GPU, toolkit or C++ compiler is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

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
        digest: SHA-256 of source, headers and macros, in hexadecimal.
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
    _check(nvrtc, code, "nvrtcVersion")
    return f"{major}.{minor}"


def digest(source: str, defines: Mapping[str, int]) -> str:
    """Return the SHA-256 of a source with its headers and macros, in hexadecimal."""
    text = hashlib.sha256()
    for path in [FOLDER / source, *sorted(FOLDER.glob("*.cuh"))]:
        text.update(path.read_bytes())
    text.update(repr(sorted(defines.items())).encode())
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
    nvrtc = _nvrtc()
    text = (FOLDER / source).read_bytes()
    headers = sorted(FOLDER.glob("*.cuh"))
    code, program = nvrtc.nvrtcCreateProgram(
        text, source.encode(), len(headers), [path.read_bytes() for path in headers], [path.name.encode() for path in headers]
    )
    _check(nvrtc, code, "nvrtcCreateProgram")
    try:
        options = [f"-arch={arch}".encode(), *(f"-D{name}={value}".encode() for name, value in defines.items())]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(code):
            raise CompileError(f"{source} for {arch}, {dict(defines)}: {_log(nvrtc, program) or str(code)}")
        code, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(nvrtc, code, "nvrtcGetCUBINSize")
        cubin = bytes(size)
        (code,) = nvrtc.nvrtcGetCUBIN(program, cubin)
        _check(nvrtc, code, "nvrtcGetCUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Binary(source, dict(defines), arch, cubin, digest(source, defines))


def _nvrtc() -> ModuleType:
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise MissingToolError(f"NVRTC, the CUDA compiler library, cannot be loaded: {error}; install it with {EXTRA}") from None
    return nvrtc


def _check(nvrtc: ModuleType, code: object, call: str) -> None:
    if int(code):  # type: ignore[call-overload]
        raise CompileError(f"{call}: {code}")


def _log(nvrtc: ModuleType, program: object) -> str:
    code, size = nvrtc.nvrtcGetProgramLogSize(program)
    if int(code) or size < 2:
        return ""
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.rstrip(b"\0").decode(errors="replace")

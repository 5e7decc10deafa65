"""The machine code of the kernels in cuda/."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsim.frontends.sources.nvrtc import compile_cuda

FOLDER = Path(__file__).parent / "cuda"
"""Where the CUDA sources are."""


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


def digest(source: str) -> str:
    """Returns the SHA-256 of a source with its headers, in hexadecimal."""
    text = hashlib.sha256()
    for path in [FOLDER / source, *sorted(FOLDER.glob("*.cuh"))]:
        text.update(path.read_bytes())
    return text.hexdigest()


def compile_source(source: str, defines: Mapping[str, int], arch: str) -> Binary:
    """Compiles a file of cuda/ for an architecture.

    Args:
        source: name of the file, such as "chain.cu".
        defines: macros, by name.
        arch: such as "sm_90".

    Raises:
        MissingToolError: NVRTC is not installed.
        FrontEndError: NVRTC does not know the architecture.
        CompileError: NVRTC refuses the source.
    """
    cubin = compile_text((FOLDER / source).read_text(encoding="utf-8"), source, defines, arch)
    return Binary(source, dict(defines), arch, cubin, digest(source))


def compile_text(text: str, name: str, defines: Mapping[str, int], arch: str) -> bytes:
    """Compiles CUDA C that may include the files of cuda/; returns the machine code. `name` is for messages.

    Raises:
        MissingToolError: NVRTC is not installed.
        FrontEndError: NVRTC does not know the architecture.
        CompileError: NVRTC refuses the source.
    """
    headers = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in (".cu", ".cuh")}
    return compile_cuda(text, name, arch, defines=defines, headers=headers)

"""The listings of the everyday kernels in params/kernels/cuda, made from their sources: `python -m warpsim.frontends.listings`.

They are kept beside the sources, so that nothing needs a compiler when a kernel is used.
"""

from __future__ import annotations

from pathlib import Path

from warpsim.frontends.machine_code.nvdisasm import disassemble
from warpsim.frontends.machine_code.sass_text import write_listing
from warpsim.frontends.sources.cuda_source import named_parameters
from warpsim.frontends.sources.nvrtc import compile_cuda, nvrtc_version
from warpsim.hardware import files as params

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90")
"""The architectures of the listings."""


def folder() -> Path:
    """Returns the folder of sources and listings."""
    return params.params_dir() / "kernels" / "cuda"


def make_listing(source: Path, arch: str) -> str:
    """Returns the listing of all kernels of a source for an architecture.

    Raises:
        MissingToolError: NVRTC or nvdisasm is not installed.
        CompileError: the source does not compile.
    """
    text = source.read_text(encoding="utf-8")
    functions = disassemble(compile_cuda(text, source.name, arch, options=["-lineinfo"]), source.name)
    listings = [write_listing(named_parameters(functions[name], [text])) for name in sorted(functions)]
    return "\n".join((f"# {source.name} by NVRTC {nvrtc_version()}", *listings))


def main() -> None:
    """Writes all listings."""
    for source in sorted(folder().glob("*.cu")):
        for arch in ARCHITECTURES:
            (source.parent / f"{source.stem}.{arch}.sass").write_text(make_listing(source, arch), encoding="utf-8")


if __name__ == "__main__":
    main()

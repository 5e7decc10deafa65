"""The disassembler of the wheel nvidia-cuda-nvdisasm, or of an installed toolkit."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from warpsim.frontends.errors import FrontEndError, MissingToolError, NoKernelError
from warpsim.frontends.machine_code.cubin import Function, read_cubin
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.sass_text import parse_disassembly
from warpsim.frontends.machine_code.variables_read import variables_read

LIMIT_S, LIMIT_S_PER_MEGABYTE = 120.0, 20.0
"""Seconds that nvdisasm may take, which may never come to an end on a damaged file; else a megabyte takes it less than one."""


def find_nvdisasm() -> Path | None:
    """Returns the path of nvdisasm: of the wheel nvidia-cuda-nvdisasm, or else on PATH; None where there is none."""
    wheels = find_spec("nvidia")  # a namespace that several wheels share
    for folder in wheels.submodule_search_locations or () if wheels else ():
        for path in sorted(Path(folder).glob("*/bin/nvdisasm")):
            return path
    found = shutil.which("nvdisasm")
    return Path(found) if found else None


def described_by(function: MachineFunction, known: Function) -> MachineFunction:
    """Returns a machine function with what its binary says of it."""
    return replace(
        function,
        registers=known.registers or function.registers,
        shared_bytes=known.shared_bytes,
        parameters=known.parameters,
        parameter_base=known.parameter_base,
        constants=known.constants,
        most_threads=known.most_threads,
        cluster=known.cluster,
        variables=variables_read(function, known.variables),
    )


def _listing(tool: Path, cubin: bytes, name: str) -> subprocess.CompletedProcess[str]:
    """Runs nvdisasm; what it says of the file has the file's name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(tool), "-c", "-hex", "-gi", str(path)]
        limit = LIMIT_S + LIMIT_S_PER_MEGABYTE * len(cubin) / 1e6
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            problem = f"nvdisasm did not come to an end within {limit:.0f} seconds; the file may be damaged"
            raise FrontEndError(f"{name}: {problem}") from None
        if done.returncode:
            done.stdout, done.stderr = (text.replace(str(path), name) for text in (done.stdout, done.stderr))
    return done


def disassemble(cubin: bytes, name: str = "cubin") -> dict[str, MachineFunction]:
    """Returns the kernels of a cubin by name: their text from nvdisasm, the rest from the file itself.

    Args:
        cubin: the file.
        name: of the file, for messages.

    Raises:
        MissingToolError: nvdisasm is missing.
        NoKernelError: the file holds no kernel.
        FrontEndError: the file is no cubin or is damaged, nvdisasm does not know its architecture, or it does not come to an end.
    """
    described = read_cubin(cubin, name)
    if not described.functions:
        raise NoKernelError(
            f"{name}: holds no kernel; a template needs an instantiation, such as template __global__ void f<256>(...); "
            "or name one as the function, such as 'f<256>'"
        )
    tool = find_nvdisasm()
    if tool is None:
        raise MissingToolError("nvdisasm is missing: pip install 'warpsim[cuda]' (nvidia-cuda-nvdisasm)")
    done = first = _listing(tool, cubin, name)
    if first.returncode and (on_path := shutil.which("nvdisasm")) and Path(on_path) != tool:
        done = _listing(Path(on_path), cubin, name)  # an older one reads architectures that a newer one has given up
    if done.returncode:
        raise FrontEndError(f"{name}: nvdisasm does not read it: {first.stderr.strip() or first.stdout.strip()}")
    kernels = {}
    for function in parse_disassembly(done.stdout):
        known = described.functions.get(function.name)
        if known is not None:
            function = described_by(function, known)
        kernels[function.name] = function
    return kernels

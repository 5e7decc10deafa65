"""Kernels from CUDA sources, cubins, disassembly and Triton functions: the public functions of the front ends.

`warpsim.kernels` offers them under the same names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from warpsim.frontends.caches.walk import OtherSize
from warpsim.frontends.errors import FrontEndError
from warpsim.frontends.launch.geometry import Geometry, as_geometry
from warpsim.frontends.launch.keys import Key
from warpsim.frontends.machine_code.nvdisasm import disassemble
from warpsim.frontends.machine_code.sass import MachineFunction
from warpsim.frontends.machine_code.sass_text import parse_text
from warpsim.frontends.machine_code.symbols import plain_name
from warpsim.frontends.program.convert import Choices, to_kernel
from warpsim.frontends.sources.cuda_headers import decoded, encoding_of
from warpsim.frontends.sources.cuda_source import compiled_source, pick
from warpsim.frontends.sources.triton_functions import NUM_STAGES, NUM_WARPS, triton_function
from warpsim.frontends.traces.compiled import CompiledTrace, compiled_trace
from warpsim.frontends.traces.kernel import traced_kernel
from warpsim.frontends.traces.trace_file import Head, TraceReader, kernels_of, opened
from warpsim.hardware.fields import plain_number
from warpsim.hardware.files import is_cuda_source
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.residency import Launch
from warpsim.kernels.instruction import Access
from warpsim.kernels.program import Kernel
from warpsim.units import WARP_LANES

_MOST_NAMED = 1000
"""Launches of a list whose names are looked at."""

Arguments = Mapping[Key, float] | Sequence[float | None]


def from_cuda(
    source: str | os.PathLike[str],
    arch: str = "sm_80",
    function: str | None = None,
    launch: Any = (1024, 256),
    *,
    args: Arguments = (),
    trips: Mapping[Key, int] | None = None,
    probabilities: Mapping[Key, float] | None = None,
    patterns: Mapping[Key, str | int | Access] | None = None,
    caches: Gpu | str | None = None,
    defines: Mapping[str, int] | None = None,
    options: Sequence[str] = (),
) -> Kernel:
    """Compiles CUDA C and imports one of its kernels. No GPU is needed; `pip install 'warpsim[cuda]'` brings the compiler.

    Args:
        source: the source itself, or the path of a file: a path object, or a text without line breaks that ends in ".cu" or
            ".cuh". It may hold code for the host, which is left out.
        arch: architecture to compile for, such as "sm_90".
        function: the kernel, or an instance of a template such as "scale<float>"; may be left out where there is only one.
        launch: (grid, block) or (grid, block, bytes of dynamic shared memory); a grid or block is a number, or up to three.
        args: arguments of the kernel, numbers, or truth values for bool, by name, by number, or in order; members of structures
            by name, such as "p.n"; also variables in constant memory, by name. Pointers and what nothing depends on may be left
            out.
        trips: loop -> number of trips, where it depends on data. A loop is named by its label in the listing, or by its line if
            it has no other loop beside it.
        probabilities: branch -> probability that a warp does not jump, where that depends on data, or is to be another one than
            the launch says; by line or address. Or an access under a predicate -> probability that a warp makes it.
        patterns: access, by line or address -> "coalesced", "random", "broadcast", "one" (address for the grid) or an Access,
            where addresses depend on data; for shared memory also the ways of its bank conflict, for constants how many of them
            a warp reads, and for a copy by a tensor map its tile, such as "tile:8192x4096:64x128:2" (docs/machine_code.md), its
            bytes, or an Access with the share that hits L2.
        caches: chip, or its name, whose caches decide how often accesses hit; None: one of the architecture; "none": no hits.
        defines: macros, by name.
        options: further options of NVRTC.

    Warns:
        AssumptionWarning: what had to be assumed.

    Raises:
        MissingToolError: NVRTC or nvdisasm is not installed.
        CompileError: the source does not compile; the message holds the compiler's log.
        FrontEndError: there is no such function, flow is irreducible, or a number of trips is needed.
        TypeError: what must be a mapping or a list is none.
    """
    text, name = _source_text(source)
    _check_types(arch=arch, function=function)
    found = compiled_source(text, name, arch, function, _mapping("defines", defines), _texts("options", options))
    return import_function(found, launch, args, trips, probabilities, patterns, caches, source=Path(name).name)


def from_cubin(
    path: str | os.PathLike[str] | bytes,
    function: str | None = None,
    launch: Any = (1024, 256),
    *,
    args: Arguments = (),
    trips: Mapping[Key, int] | None = None,
    probabilities: Mapping[Key, float] | None = None,
    patterns: Mapping[Key, str | int | Access] | None = None,
    caches: Gpu | str | None = None,
) -> Kernel:
    """Imports a kernel of a cubin: machine code of one architecture, as `nvcc -cubin`, Triton and profilers write it.

    Args:
        path: a file, or its bytes.
        function: as in `from_cuda`; so are the further arguments.
        launch: as in `from_cuda`.
        args: as in `from_cuda`, but parameters, and members of structures, have no names.
        trips: as in `from_cuda`.
        probabilities: as in `from_cuda`.
        patterns: as in `from_cuda`.
        caches: as in `from_cuda`.

    Raises:
        MissingToolError: nvdisasm is not installed.
        FrontEndError: the file is damaged or no cubin, or as in `from_cuda`.
    """
    _check_types(function=function)
    data = path if isinstance(path, bytes) else _read(path)
    name = "cubin" if isinstance(path, bytes) else os.fspath(path)
    found = pick(disassemble(data, name), function, name)
    return import_function(found, launch, args, trips, probabilities, patterns, caches)


def from_sass(
    text: str | os.PathLike[str],
    function: str | None = None,
    launch: Any = (1024, 256),
    *,
    args: Arguments = (),
    trips: Mapping[Key, int] | None = None,
    probabilities: Mapping[Key, float] | None = None,
    patterns: Mapping[Key, str | int | Access] | None = None,
    caches: Gpu | str | None = None,
) -> Kernel:
    """Imports a kernel from disassembly; no tool is needed.

    Args:
        text: the output of `nvdisasm -c -hex` (with `-gi` for source lines), or a listing that `warpsim import` wrote, or the
            path of a file with either: a path object, or a text of one line.
        function: as in `from_cuda`; so are the further arguments.
        launch: as in `from_cuda`.
        args: as in `from_cuda`.
        trips: as in `from_cuda`.
        probabilities: as in `from_cuda`.
        patterns: as in `from_cuda`.
        caches: as in `from_cuda`.

    Raises:
        FrontEndError: the text is no disassembly, or as in `from_cuda`.
    """
    if isinstance(text, str) and "\n" in text:
        functions, name = parse_text(text), "the disassembly"
    else:
        functions, name = _parsed(_read(text), os.fspath(text)), os.fspath(text)
    found = pick({one.name: one for one in functions}, function, name)
    return import_function(found, launch, args, trips, probabilities, patterns, caches)


def from_triton(
    fn: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any],
    launch: Any = 1024,
    *,
    arch: str = "sm_80",
    num_warps: int = NUM_WARPS,
    num_stages: int = NUM_STAGES,
    args: Arguments = (),
    trips: Mapping[Key, int] | None = None,
    probabilities: Mapping[Key, float] | None = None,
    patterns: Mapping[Key, str | int | Access] | None = None,
    caches: Gpu | str | None = None,
) -> Kernel:
    """Compiles a Triton function and imports its kernel. Triton is the user's own installation; no GPU and no torch are needed.

    The compiler learns what a launch tells it: which integers are multiples of 16 or are 1, and that arrays are aligned to 16
    bytes. Accesses of several words and asynchronous copies depend on it, so give `args` as you launch the function.

    Args:
        fn: a function with `@triton.jit`, also within `triton.autotune` or `triton.heuristics`, whose choices are given here.
        signature: argument -> type, such as ``{"x": "*fp32", "n": "i32"}``; Triton's constants are "constexpr".
        constexprs: constant -> value; those that are not given have their defaults.
        launch: the grid; the block follows from `num_warps`, and shared memory from the compiler.
        arch: as in `from_cuda`; so are the further arguments.
        num_warps: warps of a block.
        num_stages: stages of software pipelines.
        args: as in `from_cuda`; arguments that are no constants, by number, in the function's order.
        trips: as in `from_cuda`.
        probabilities: as in `from_cuda`.
        patterns: as in `from_cuda`.
        caches: as in `from_cuda`.

    Raises:
        MissingToolError: Triton or nvdisasm is not installed.
        FrontEndError: Triton refuses the function, or as in `from_cuda`.
    """
    _check_types(arch=arch)
    found = triton_function(
        fn, signature, constexprs, arguments_of(args), arch=arch, num_warps=num_warps, num_stages=num_stages
    )
    grid = launch if isinstance(launch, Integral) else tuple(launch)
    block = WARP_LANES * found.warps
    return import_function(found.function, (grid, block, found.shared_bytes), found.args, trips, probabilities, patterns, caches)


def from_trace(
    path: str | os.PathLike[str],
    kernel: int | str | None = None,
    *,
    binary: str | os.PathLike[str] | None = None,
    function: str | None = None,
    caches: Gpu | str | None = None,
) -> Kernel:
    """Imports a launch from its trace, as NVBit writes it with Accel-Sim's tracer: every warp executes what it executed there.

    Args:
        path: a list of traces (kernelslist.g), or a trace (.traceg), which xz may have packed.
        kernel: of a list with several traces, the number of the launch, from 1, or the name of its kernel, if launched once.
        binary: the cubin, CUDA source or disassembly of the traced code. Its control fields say what waits for what; without it,
            the registers and the chip's latencies do.
        function: the kernel in the binary; None: that which the trace names.
        caches: as in `from_cuda`.

    Warns:
        AssumptionWarning: what had to be assumed.

    Raises:
        MissingToolError: the binary needs NVRTC or nvdisasm, which are not installed.
        FrontEndError: a file cannot be read or is damaged, there is no such launch or function, or trace and binary differ.
    """
    chosen = find_trace(Path(path), kernel)
    return kernel_of_trace(compiled_trace(chosen), binary, function, caches)


def kernel_of_trace(
    trace: CompiledTrace, binary: str | os.PathLike[str] | None, function: str | None, caches: Gpu | str | None
) -> Kernel:
    """Returns the kernel of a trace that has been read; the other arguments are those of `from_trace`."""
    code = None
    if binary is not None:
        code, _ = read_function(binary, f"sm_{trace.head.arch}", function or trace.head.name)
    return traced_kernel(trace, code, caches, name=_kernel_name(trace.head.name))


def find_trace(path: Path, kernel: int | str | None) -> Path:
    """Returns the trace of a launch; the arguments are those of `from_trace`."""
    traces = kernels_of(path)
    if kernel is None and len(traces) == 1:
        return traces[0]
    if isinstance(kernel, int) or (isinstance(kernel, str) and kernel.isdecimal()):
        if 1 <= int(kernel) <= len(traces):
            return traces[int(kernel) - 1]
        raise FrontEndError(f"kernel = {kernel}: must be from 1 to {len(traces)}, the number of launches in {path}")
    names = [trace_head(trace).name for trace in traces[:_MOST_NAMED]]
    found = [number for number, name in enumerate(names) if kernel in (name, plain_name(name))]
    if len(found) == 1:
        return traces[found[0]]
    there = ", ".join(f"{number} {plain_name(name)}" for number, name in enumerate(names, 1))
    why = "several launches match" if found else "there are several launches" if kernel is None else "there is no such launch"
    raise FrontEndError(f"kernel = {kernel!r}: {why}; name one by its number: {there}")


def trace_head(path: Path) -> Head:
    """Returns what a trace says of its launch."""
    with opened(path) as file:
        return TraceReader(path, file).head


def launch_of(launch: Any) -> Launch:
    """Returns a launch in CUDA's terms as the one that `simulate` takes: blocks of the grid, and warps of a block."""
    geometry = as_geometry(launch)
    return Launch(blocks=geometry.blocks, block_warps=geometry.block_warps)


def read_function(
    path: str | os.PathLike[str], arch: str, function: str | None, options: Sequence[str] = ()
) -> tuple[MachineFunction, str]:
    """Returns a function of a CUDA source, a cubin or a disassembly, by what the file holds, and the source's name if it is one.

    `options` are further ones of NVRTC, for a source.

    Raises:
        MissingToolError, CompileError, FrontEndError: as `from_cuda`.
    """
    name, data = os.fspath(path), _read(path)
    if is_cuda_source(name):
        return compiled_source(decoded(data), name, arch, function, None, options), Path(name).name
    if not data.strip():
        raise FrontEndError(f"{name}: is empty")
    if data.startswith(b"//") and b".version" in data and b".target" in data:
        raise FrontEndError(f"{name}: is PTX, which is no machine code; nvcc -cubin and ptxas make it")
    if data.startswith(b"\x7fELF") or (b"\0" in data and encoding_of(data) != "utf-16"):
        return pick(disassemble(data, name), function, name), ""
    return pick({one.name: one for one in _parsed(data, name)}, function, name), ""


def _parsed(data: bytes, name: str) -> list[MachineFunction]:
    """Returns the functions of a file with a disassembly, of which the name is given for messages."""
    text = _decode(data, name)
    try:
        return parse_text(text)
    except FrontEndError as error:
        raise FrontEndError(f"{name}: {error}") from None


def import_function(
    function: MachineFunction,
    launch: Any,
    args: Arguments,
    trips: Mapping[Key, int] | None,
    probabilities: Mapping[Key, float] | None,
    patterns: Mapping[Key, str | int | Access] | None,
    caches: Gpu | str | OtherSize | None = None,
    *,
    source: str = "",
) -> Kernel:
    """Returns the kernel of a machine function; the arguments and errors are those of `from_cuda`."""
    geometry: Geometry = as_geometry(launch)
    stated = (_mapping("trips", trips), _mapping("probabilities", probabilities), _mapping("patterns", patterns))
    if not isinstance(caches, Gpu | str | OtherSize | None):
        raise TypeError(f"caches = {caches!r}: must be a chip, its name, or None")
    choices = Choices(arguments_of(args), *stated, caches)
    return to_kernel(function, geometry, choices, name=_kernel_name(function.name), source=source)


def arguments_of(args: Any) -> Mapping[Any, Any] | tuple[Any, ...]:
    """Returns the arguments of a kernel, by name or in order, with plain numbers.

    Raises:
        TypeError: they are something else.
    """
    if isinstance(args, str | bytes) or not isinstance(args, Iterable):
        raise TypeError(f"args = {args!r}: must be a mapping such as {{'n': 1024}}, or the arguments in order")
    return _mapping("args", args) if isinstance(args, Mapping) else tuple(map(plain_number, args))


def _mapping(name: str, value: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """Returns an argument that is a mapping, with plain numbers; None stands for an empty one.

    Raises:
        TypeError: it is something else.
    """
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} = {value!r}: must be a mapping, such as a dict, or None")
    return {plain_number(key): plain_number(one) for key, one in (value or {}).items()}


def _check_types(*, arch: object = "", function: object = None) -> None:
    """Raises TypeError where an architecture is no text, or a function is neither a text nor None."""
    if not isinstance(arch, str):
        raise TypeError(f"arch = {arch!r}: must be a text such as 'sm_90'")
    if not isinstance(function, str | None):
        raise TypeError(f"function = {function!r}: must be the name of a kernel, or None")


def _texts(name: str, value: Sequence[str]) -> list[str]:
    """Returns an argument that is a list of texts.

    Raises:
        TypeError: it is something else, or a single text.
    """
    if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name} = {value!r}: must be a list of texts, such as ['-use_fast_math']")
    return list(value)


def _kernel_name(symbol: str) -> str:
    plain = "".join(letter if letter.isalnum() else "_" for letter in plain_name(symbol)).lower().strip("_")
    return plain if plain[:1].isalpha() else f"kernel_{plain}"


def _source_text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Returns the text of a source and the path of its file; the path is empty for a text."""
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"source: must be a text or the path of a file, not {type(source).__name__}")
    if isinstance(source, str) and ("\n" in source or not is_cuda_source(source.strip())):
        return source, ""
    return decoded(_read(source)), os.fspath(source)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FrontEndError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode(encoding_of(data))
    except UnicodeDecodeError as error:
        raise FrontEndError(f"{name}: is no text: {error}") from None

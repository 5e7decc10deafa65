"""warpsim import: a kernel from CUDA source, a cubin, disassembly, a trace, a report or a Triton function, as a kernel file."""

from __future__ import annotations

import argparse
import logging
import re
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.common import (
    DONE,
    Commands,
    RequestError,
    WorkError,
    at_least_1,
    check_output,
    counted,
    key_values,
    new_command,
)
from warpsim.cli.output import add_json, print_json
from warpsim.hardware.files import is_cuda_source
from warpsim.units import WARP_LANES

if TYPE_CHECKING:
    from warpsim.frontends.machine_code.sass import MachineFunction
    from warpsim.kernels.program import Kernel

_logger = logging.getLogger("warpsim")

_MAPPINGS = {
    "args": "an argument of the kernel, by name or number (repeatable)",
    "trips": "the number of trips of a loop, named by its line or label, where it depends on data (repeatable)",
    "probabilities": "the probability that a warp does not jump, or makes a predicated access, by line or address (repeatable)",
    "patterns": "of an access: coalesced, random, broadcast, one (address for the grid), a number of ways or bytes, or "
    "tile:SHAPE:BOX:BYTES of a tensor map, by line or address (repeatable)",
}

_OF_TRITON = {
    "signature": "of a Triton function: the type of an argument, such as x=*fp32 or n=i32 (repeatable)",
    "constexpr": "of a Triton function: the value of a constant, such as BLOCK=1024 (repeatable)",
}
_ARCH, _LAUNCH = "sm_80", "1024,256"


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "import", _run, "import a kernel from source, a cubin, disassembly, a trace or a report", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE",
        help="a CUDA source (.cu, .cuh), cubin, disassembly, trace (.g, .traceg), report of Nsight Compute (.ncu-rep), of which "
        "the machine code is taken, or Triton function (FILE.py:NAME)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="KERNEL.toml", help="the kernel file")
    parser.add_argument("--arch", help=f"architecture for which a source is compiled (default: {_ARCH})")
    parser.add_argument("--function", metavar="NAME", help="the kernel (default: the only one)")
    parser.add_argument(
        "-I", "--include", action="append", default=[], metavar="FOLDER", help="of a CUDA source: folder of headers (repeatable)"
    )
    parser.add_argument(
        "-D", "--define", action="append", default=[], metavar="NAME[=TEXT]", help="of a CUDA source: macro (repeatable)"
    )
    parser.add_argument(
        "--launch", metavar="GRID,BLOCK[,SHARED]",
        help=f"blocks, threads of a block and bytes of dynamic shared memory, such as 32x32,16x16 (default: {_LAUNCH}, or that "
        "of the report); of a Triton function: blocks",
    )  # fmt: skip
    parser.add_argument(
        "--kernel", metavar="N",
        help="of several traced launches: its number, or its kernel's name; of launches of a report: its number, from 0",
    )  # fmt: skip
    parser.add_argument("--binary", type=Path, metavar="FILE", help="of a trace: the cubin, source or disassembly of its code")
    for name, text in _OF_TRITON.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="KEY=VALUE", help=text)
    for name, text in {"num-warps": "warps of a block (default: 4)", "num-stages": "stages of pipelines (default: 3)"}.items():
        parser.add_argument(f"--{name}", type=at_least_1, metavar="N", help=f"of a Triton function: {text}")
    for name, text in _MAPPINGS.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="KEY=VALUE", help=text)
    parser.add_argument(
        "--caches",
        metavar="CHIP",
        help="chip whose caches decide hits (default: that of the report, or one of the architecture; none: no access hits)",
    )
    add_json(parser, "the kernel file and what was read")
    parser.add_argument("--listing", type=Path, metavar="FILE.sass", help="write the machine code that was read as well")


def _run(options: argparse.Namespace) -> int:
    from warpsim.atomic_file import write_text
    from warpsim.frontends.errors import CompileError, FrontEndError, MissingToolError
    from warpsim.kernels.files import write_kernel

    check_output(options.output, ["toml"])
    if options.listing is not None:
        check_output(options.listing, ["sass"], option="--listing")
    if options.launch is not None and not options.launch.strip():
        raise RequestError("--launch: must be GRID,BLOCK[,SHARED], such as 32x32,256, or the grid alone of a Triton function")
    try:
        given: dict[str, Any] = {name: key_values(f"--{name}", getattr(options, name)) for name in _MAPPINGS}
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            imported = _reader(options)(options, given)
    except CompileError as error:
        raise WorkError(str(error)) from None
    except (FrontEndError, MissingToolError, ValueError) as error:
        raise RequestError(_with_options(str(error))) from None
    for note in notes:
        _logger.warning(_with_options(str(note.message)))
    kernel = imported.kernel
    write_text(options.output, write_kernel(kernel))
    if options.json:
        print_json({
            "output": options.output, "kernel": kernel.name, "arch": f"sm_{imported.arch}", "instructions": imported.instructions,
            "registers_per_thread": kernel.registers_per_thread, "shared_bytes_per_block": kernel.shared_bytes_per_block,
            "blocks": imported.blocks,
        })  # fmt: skip
        return DONE
    where = f"{kernel.name}, sm_{imported.arch}: {counted(imported.instructions, 'instruction')}"
    print(f"{where}, {kernel.registers_per_thread} registers, {kernel.shared_bytes_per_block} bytes of shared memory")
    print(f"wrote {options.output}; to simulate its grid: --kernel {shlex.quote(str(options.output))} --blocks {imported.blocks}")
    return DONE


def _with_options(message: str) -> str:
    """Returns a message in which the arguments of the front ends are the options of the command."""
    mappings = "|".join(_MAPPINGS)
    value = r"""('(?:[^'\\]|\\.)*'|"[^"]*"|[^:'"]*)"""  # one in quotes may hold a colon
    key = r"\['?((?:[^][']|\[\d+\])*)'?\]"  # a name may have an index, such as p.n[0]
    message = re.sub(rf"\b({mappings}){key} = {value}:", lambda m: f"--{m[1]} {m[2]}={_unquoted(m[3])}:", message)
    message = re.sub(rf"\b({mappings}){key}:", r"--\1 \2:", message)
    message = re.sub(rf"\b({mappings})=\{{(\w+): (\w+)\}}", r"--\1 \2=\3", message)
    options = r"\b(arch|launch|function|kernel) = (?:None|" + value + "):"
    message = re.sub(options, lambda m: f"--{m[1]} {_unquoted(m[2] or '')}".strip() + ":", message)
    return re.sub(rf"\b(give|with|or) ({mappings})\b", r"\1 --\2", message)


def _unquoted(text: str) -> str:
    """Returns a text without Python's quotes, if it has any."""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[:1] in ("'", '"') else text


@dataclass(frozen=True)
class _Imported:
    """A kernel, and what was read: the architecture, the number of instructions, and the blocks of the grid."""

    kernel: Kernel
    arch: int
    instructions: int
    blocks: int


def _reader(options: argparse.Namespace) -> Callable[[argparse.Namespace, dict[str, Any]], _Imported]:
    """Returns what reads a file of its kind; options of other kinds are refused."""
    is_trace = options.file.name.removesuffix(".xz").endswith((".g", ".traceg"))
    is_triton = options.file.name.rpartition(":")[0].endswith(".py")
    is_report = options.file.suffix == ".ncu-rep"
    if options.file.suffix == ".py":
        raise RequestError(f"{options.file}: must be {options.file}:NAME, with the name of a Triton function in that file")
    if options.file.suffix == ".csv":
        raise RequestError(f"{options.file}: the export of a profiler has no machine code: give the report itself (.ncu-rep)")
    kinds = {
        "trace or report": (is_trace or is_report, ("kernel",)),
        "trace": (is_trace, ("binary",)),
        "Triton function": (is_triton, (*_OF_TRITON, "num_warps", "num_stages")),
        "CUDA source": (is_cuda_source(options.file.name), ("include", "define")),
    }
    for kind, (is_it, names) in kinds.items():
        for name in () if is_it else names:
            if getattr(options, name) not in (None, []):
                raise RequestError(f"--{name.replace('_', '-')}: must be left out, since {options.file} is no {kind}")
    return _from_trace if is_trace else _from_triton if is_triton else _from_report if is_report else _from_code


def _from_triton(options: argparse.Namespace, given: dict[str, Any]) -> _Imported:
    from warpsim.frontends import api
    from warpsim.frontends.sources.triton_functions import NUM_STAGES, NUM_WARPS, load_triton_function, triton_function

    path, _, name = str(options.file).rpartition(":")
    signature, constants = (key_values(f"--{key}", getattr(options, key)) for key in _OF_TRITON)
    warps, stages = options.num_warps or NUM_WARPS, options.num_stages or NUM_STAGES
    fn = load_triton_function(Path(path), name)
    types = {key: str(kind) for key, kind in signature.items()}
    found = triton_function(
        fn, types, constants, given["args"], arch=options.arch or _ARCH, num_warps=warps, num_stages=stages
    )
    _list(options, found.function)
    launch = f"{options.launch or 1024},{WARP_LANES * found.warps},{found.shared_bytes}"
    given = given | {"args": found.args}
    kernel = api.import_function(found.function, launch, source=Path(path).name, caches=options.caches, **given)
    return _Imported(kernel, found.function.arch, _instructions(found.function), api.launch_of(launch).blocks or 0)


def _from_code(options: argparse.Namespace, given: dict[str, Any]) -> _Imported:
    from warpsim.frontends import api

    for folder in options.include:
        if not Path(folder).is_dir():
            raise RequestError(f"-I {folder}: must be a folder that exists")
    flags = [*(f"-I{folder}" for folder in options.include), *(f"-D{macro}" for macro in options.define)]
    function, source = api.read_function(options.file, options.arch or _ARCH, options.function, flags)
    if options.arch is not None and options.arch.rstrip("af") != f"sm_{function.arch}":
        raise RequestError(f"--arch {options.arch}: {options.file} holds machine code for sm_{function.arch}; leave it out")
    _list(options, function)
    launch = options.launch or _LAUNCH
    kernel = api.import_function(function, launch, source=source, caches=options.caches, **given)
    blocks = api.launch_of(launch).blocks or 0
    return _Imported(kernel, function.arch, _instructions(function), blocks)


def _from_report(options: argparse.Namespace, given: dict[str, Any]) -> _Imported:
    from warpsim.frontends import api
    from warpsim.profiles.errors import ProfileError
    from warpsim.profiles.machine_code import launched_code

    for name in ("arch", "function"):
        if getattr(options, name):
            raise RequestError(f"--{name}: must be left out, since a launch of the report says so; --kernel N chooses one")
    number = options.kernel or "0"
    if not number.isdecimal():
        listed = f"warpsim profile {options.file} --list"
        raise RequestError(f"--kernel {number}: must be the number of a launch, from 0, as {listed} shows them")
    try:
        code = launched_code(options.file, int(number))
    except ProfileError as error:
        raise RequestError(str(error).replace(f"launch = {number}:", f"--kernel {number}:", 1)) from None
    _list(options, code.function)
    launch = options.launch or code.launch
    caches = code.caches if options.caches is None else options.caches
    kernel = api.import_function(code.function, launch, caches=caches, **given)
    return _Imported(kernel, code.function.arch, _instructions(code.function), api.launch_of(launch).blocks or 0)


def _instructions(function: MachineFunction) -> int:
    """Returns how many instructions a function has, as its listing shows them: without the padding behind its end."""
    from warpsim.frontends.machine_code.sass_text import without_padding

    return len(without_padding(function.code))


def _list(options: argparse.Namespace, function: MachineFunction) -> None:
    """Writes the listing, if it is wanted: before the import, which may ask for what is read there, such as labels."""
    from warpsim.atomic_file import write_text
    from warpsim.frontends.machine_code.sass_text import write_listing

    if options.listing is not None:
        write_text(options.listing, write_listing(function))


def _from_trace(options: argparse.Namespace, given: dict[str, Any]) -> _Imported:
    from warpsim.frontends import api
    from warpsim.frontends.traces.compiled import compiled_trace

    others = ("listing", "launch", "arch", *(() if options.binary else ("function",)))
    stated = [name for name in (*given, *others) if getattr(options, name)]
    if stated:
        raise RequestError(f"--{stated[0]}: must be left out, since a trace says what every warp executed")
    trace = compiled_trace(api.find_trace(options.file, options.kernel))
    kernel = api.kernel_of_trace(trace, options.binary, options.function, options.caches)
    return _Imported(kernel, trace.head.arch, len(trace.instructions), trace.head.geometry.blocks)

"""warpsim import: a kernel from CUDA source, a cubin or disassembly, as a kernel file."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from warpsim.cli.common import DONE, Commands, RequestError, WorkError, check_output, counted, key_values, new_command
from warpsim.cli.output import add_json, print_json

_MAPPINGS = {
    "args": "an argument of the kernel, by name or number (repeatable)",
    "trips": "the number of trips of a loop, named by its line or label, where it depends on data (repeatable)",
    "probabilities": "the probability that a warp does not jump at a branch, by line or address (repeatable)",
    "patterns": "coalesced, random or broadcast for an access, by line or address, where it depends on data (repeatable)",
}


def add(commands: Commands) -> None:
    """Adds the command."""
    new_command(commands, "import", _run, "import a kernel from CUDA source, a cubin or disassembly", _add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a CUDA source (.cu), a cubin, or disassembly (.sass, .txt)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="KERNEL.toml", help="the kernel file")
    parser.add_argument("--arch", default="sm_80", help="architecture for which a source is compiled (default: %(default)s)")
    parser.add_argument("--function", metavar="NAME", help="the kernel (default: the only one)")
    parser.add_argument(
        "--launch", default="1024,256", metavar="GRID,BLOCK[,SHARED]",
        help="blocks, threads of a block and bytes of dynamic shared memory, such as 32x32,16x16 (default: %(default)s)",
    )  # fmt: skip
    for name, text in _MAPPINGS.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="KEY=VALUE", help=text)
    parser.add_argument(
        "--caches", metavar="CHIP", help="chip whose caches decide hits (default: one of the architecture; none: no access hits)"
    )
    add_json(parser, "the kernel file and what was read")
    parser.add_argument("--listing", type=Path, metavar="FILE.sass", help="write the machine code that was read as well")


def _run(options: argparse.Namespace) -> int:
    from warpsim.frontends import api
    from warpsim.frontends.errors import CompileError, FrontEndError, MissingToolError
    from warpsim.frontends.sass import write_listing
    from warpsim.kernels.files import write_kernel
    from warpsim.views.atomic_file import atomic_write

    check_output(options.output, ["toml"])
    if options.listing is not None:
        check_output(options.listing, ["sass"])
    try:
        given: dict[str, Any] = {name: key_values(f"--{name}", getattr(options, name)) for name in _MAPPINGS}
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            function, source = api.read_function(options.file, options.arch, options.function)
            kernel = api.import_function(function, options.launch, source=source, caches=options.caches, **given)
        launch = api.launch_of(options.launch)
    except CompileError as error:
        raise WorkError(str(error)) from None
    except (FrontEndError, MissingToolError, ValueError) as error:
        raise RequestError(str(error)) from None
    for note in notes:
        print(f"warpsim: {note.message}", file=sys.stderr)
    if options.listing is not None:
        with atomic_write(options.listing) as path:
            Path(path).write_text(write_listing(function), encoding="utf-8")
    with atomic_write(options.output) as path:
        Path(path).write_text(write_kernel(kernel), encoding="utf-8")
    if options.json:
        print_json({
            "output": options.output, "kernel": kernel.name, "arch": f"sm_{function.arch}", "instructions": len(function.code),
            "registers_per_thread": kernel.registers_per_thread, "shared_bytes_per_block": kernel.shared_bytes_per_block,
            "blocks": launch.blocks,
        })  # fmt: skip
        return DONE
    where = f"{kernel.name}, sm_{function.arch}: {counted(len(function.code), 'instruction')}"
    print(f"{where}, {kernel.registers_per_thread} registers, {kernel.shared_bytes_per_block} bytes of shared memory")
    print(f"wrote {options.output}; to simulate its grid: --kernel {options.output} --blocks {launch.blocks}")
    return DONE

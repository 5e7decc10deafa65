"""What the commands share: how they are added, how they fail, and how a point is asked for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsim.hardware.gpu import Gpu
    from warpsim.kernels import Kernel
    from warpsim.simulation.point import Point

DONE, FAILED, WRONG = 0, 1, 2

Commands = Any
"""What `argparse` returns for sub-commands; its type is not public."""


class RequestError(Exception):
    """The request was wrong; the message says what is allowed."""


class WorkError(Exception):
    """The request was right, but the work failed."""


def new_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    """Add a command that `run` carries out; returns its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run)
    return parser


INTEGERS = {
    "warps": "occupancy, warps per SM (default: as many as fit)",
    "block_warps": "warps of a thread block",
    "replicates": "independent repetitions (default: 1)",
    "seed": "root of all randomness (default: 2016)",
    "sms": "simulate a slice of N SMs (default: the whole chip)",
    "warmup": "cycles before counting starts (default: 20000)",
    "cycles": "cycles that are counted (default: 100000)",
}
"""Options that are integers -> help, as for one point."""


def add_point_options(parser: argparse.ArgumentParser, *, required: bool = True, replicates: str = "") -> None:
    """Add the options that ask for one point; unless required, no point may be asked for.

    Args:
        parser: of the command.
        required: whether a point must be asked for.
        replicates: help of that option, where the command has another default.
    """
    add_kernel_options(parser, required=required)
    add_run_options(parser, INTEGERS | ({"replicates": replicates} if replicates else {}))
    parser.add_argument(
        "--blocks", type=_from_1, metavar="N", help="thread blocks of a grid that runs to its end (default: an endless supply)"
    )


def add_kernel_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that name a chip and a kernel."""
    parser.add_argument("--gpu", required=required, help="a name (warpsim gpus), or a file")
    parser.add_argument("--kernel", required=required, help="a name (warpsim kernels), or a file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="an argument of the kernel, such as alpha=32"
    )


def add_run_options(parser: argparse.ArgumentParser, integers: Mapping[str, str]) -> None:
    """Add the options that say how a point is simulated: `integers` with their help, the policy and the memory model."""
    for name, text in integers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    parser.add_argument("--scheduler", help="lrr (default), gto, oldest, random")
    parser.add_argument("--memory", help="queue (default), fixed, measured")


def requested_point(options: argparse.Namespace) -> Point:
    """The point that the options ask for.

    Raises:
        RequestError: the options are wrong.
    """
    given = given_options(options, INTEGERS)
    with request():
        from warpsim.hardware.residency import Launch, default_block_warps, occupancy
        from warpsim.simulation.point import make_point

        gpu, kernel = requested_kernel(options)
        if options.blocks is not None:
            if options.block_warps is None:
                given["block_warps"] = default_block_warps(gpu, given.get("warps", gpu.sm.max_warps))
            occupancy(gpu, kernel, given["block_warps"])  # says what is wrong with it
            given["launch"] = Launch(blocks=options.blocks, block_warps=given["block_warps"])
        return make_point(gpu, kernel, **given)


def requested_kernel(options: argparse.Namespace) -> tuple[Gpu, Kernel]:
    """The chip and the kernel that the options name; call it within `request`."""
    from warpsim.hardware.gpu import load_gpu
    from warpsim.kernels import load_kernel

    return load_gpu(options.gpu), load_kernel(options.kernel, **pairs("--set", options.set))


def given_options(options: argparse.Namespace, integers: Iterable[str]) -> dict[str, Any]:
    """The options of `add_run_options` that were given."""
    found = {name: getattr(options, name) for name in (*integers, "scheduler", "memory")}
    return {name: value for name, value in found.items() if value is not None}


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the argument that is a plan."""
    parser.add_argument("plan", type=Path, metavar="PLAN.toml", help="a plan, as docs/sweeps.md shows")


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the option of how many threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=_from_1, default=cores, metavar="N", help="threads (default: one per core, %(default)s)"
    )


def _from_1(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be an integer, at least 1")
    return int(text)


def check_output(path: Path, endings: Iterable[str]) -> None:
    """Check a file that is to be written, before the work.

    Args:
        path: the file.
        endings: the formats that can be written, without dots.

    Raises:
        RequestError: its format cannot be written, its folder is not there, it is a folder itself, or no file can be made there.
    """
    from warpsim.views.drafts import draft_of

    if path.suffix.removeprefix(".") not in endings:
        raise RequestError(f"-o {path}: must end in one of .{', .'.join(sorted(endings))}")
    with _writing(f"-o {path}"):
        if not path.parent.is_dir() or path.is_dir():
            raise RequestError(f"-o {path}: must be a file in a folder that exists")
        _try_file(Path(draft_of(path)))


def make_output_folder(option: str, path: Path) -> None:
    """Make a folder that files are to be written to, before the work; it may be there.

    Raises:
        RequestError: it is a file, it cannot be made, or no file can be made in it.
    """
    with _writing(f"{option} {path}"):
        if path.exists() and not path.is_dir():
            raise RequestError(f"{option} {path}: must be a folder, or not there yet")
        path.mkdir(parents=True, exist_ok=True)
        _try_file(path / f".warpsim-{os.getpid()}")


@contextmanager
def _writing(what: str) -> Iterator[None]:
    """A file or folder that cannot be made in here has a wrong path, unless the disk is full or damaged."""
    from warpsim.store.place import FULL

    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise RequestError(f"{what}: cannot be written: {error.strerror}") from None


def _try_file(path: Path) -> None:
    """Make a file, and remove it; one that is there stays."""
    try:
        path.open("xb").close()
    except FileExistsError:
        return
    path.unlink()


@contextmanager
def request() -> Iterator[None]:
    """What is wrong in here, the user has asked for."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


def pairs(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """The values of a repeated option K=V; a value is an integer, a number, true, false, or else text."""
    values = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise ValueError(f"{option} {text}: must be NAME=VALUE")
        if name in values:
            raise ValueError(f"{option} {text}: {name} is set twice")
        values[name] = parsed(value)
    return values


def chosen(where: Sequence[str]) -> dict[str, Any]:
    """The values of --where: axis -> the value, or a list of values where several are given."""
    values = pairs("--where", where)
    return {k: [parsed(one) for one in v.split(",")] if isinstance(v, str) and "," in v else v for k, v in values.items()}


def parsed(text: str) -> Any:
    """A value as typed: an integer, a number, true, false, or else text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

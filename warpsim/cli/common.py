"""What the commands share: parsers, options, checks of paths, and errors."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.logs import add_verbosity

if TYPE_CHECKING:
    from warpsim.hardware.gpu import Gpu
    from warpsim.hardware.residency import Launch
    from warpsim.kernels import Kernel
    from warpsim.simulation.point import Point

DONE, FAILED, WRONG = 0, 1, 2
"""Exit codes: success; the work failed; the request was wrong."""

TRACE_BINS = 200
"""Time bins of a trace, where the user does not say how many."""

FIGURES = ("pdf", "png", "svg")
"""File name extensions of figures."""

Commands = Any
"""What `argparse` returns for sub-commands; its type is not public."""


class RequestError(Exception):
    """The request was wrong. The message states what is allowed."""


class WorkError(Exception):
    """The request was valid, but the work failed."""


class CommandParser(argparse.ArgumentParser):
    """The parser of one command. It adds its options when the command is used, so that `warpsim --help` needs no imports."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_options: Callable[[argparse.ArgumentParser], None] | None = None

    def add_pending_options(self) -> None:
        """Adds the options if they have not been added."""
        add_options, self.add_options = self.add_options, None
        if add_options is not None:
            add_options(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Adds the options, then parses."""
        self.add_pending_options()
        return super().parse_known_args(args, namespace)


def new_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    add_options: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.ArgumentParser:
    """Adds a command and returns its parser.

    What is said after Ctrl-C is the default `interrupted` of the parser, which commands that go on later replace.

    Args:
        commands: the sub-commands of the program's parser.
        name: name of the command.
        run: carries out the command and returns the exit code.
        text: a sentence for the help page, without capital letter and full stop.
        add_options: adds options when the command is used; for options whose help needs imports.
    """
    parser: CommandParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run, interrupted="interrupted")
    add_verbosity(parser)
    parser.add_options = add_options
    return parser


INTEGER_OPTIONS = ("warps", "block_warps", "replicates", "seed", "sms", "warmup", "cycles")
"""Integer arguments of `simulate` that are options of the command line."""


def add_point_options(
    parser: argparse.ArgumentParser, *, required: bool = True, texts: Mapping[str, str] | None = None
) -> None:
    """Adds the options that describe one point.

    Args:
        parser: the parser of the command.
        required: whether `--gpu` and `--kernel` must be given.
        texts: help of options whose default differs from that of `simulate`.
    """
    add_kernel_options(parser, required=required)
    add_run_options(parser, INTEGER_OPTIONS, texts=texts)
    parser.add_argument(
        "--blocks", type=at_least_1, metavar="N", help="thread blocks of a finite grid (default: an endless supply)"
    )


def add_kernel_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds the options that name a chip and a kernel."""
    parser.add_argument("--gpu", required=required, help="a chip: a name listed by `warpsim gpus`, or a TOML file")
    parser.add_argument("--kernel", required=required, help="a kernel: a name listed by `warpsim kernels`, or a TOML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="set an argument of the kernel, such as alpha=32 (repeatable)"
    )


def add_run_options(
    parser: argparse.ArgumentParser, integers: Iterable[str], *, texts: Mapping[str, str] | None = None
) -> None:
    """Adds the options that say how a point is simulated.

    Args:
        parser: the parser of the command.
        integers: which of INTEGER_OPTIONS to add.
        texts: help of options whose default differs from that of `simulate`.
    """
    from warpsim.simulation.point import DEFAULTS, MEMORY_MODELS
    from warpsim.simulation.policies import described

    helps = {
        "warps": "occupancy in warps per SM (default: as many as fit)",
        "block_warps": "warps per thread block (default: those of the kernel, or the smallest size that reaches the occupancy)",
        "replicates": f"number of replicates (default: {DEFAULTS['replicates']})",
        "seed": f"root seed of all random numbers (default: {DEFAULTS['seed']})",
        "sms": "simulate only N SMs, with echoes for the others (default: the whole chip)",
        "warmup": "cycles before counting starts (default: derived from a pilot run), of an endless supply of blocks",
        "cycles": f"cycles that are counted (default: {DEFAULTS['cycles']}), of an endless supply of blocks",
        **(texts or {}),
    }
    for name in integers:
        parser.add_argument(f"--{name.replace('_', '-')}", type=whole_number, metavar="N", help=helps[name])
    parser.add_argument("--scheduler", help=f"scheduling policy: {described(DEFAULTS['scheduler'])}")
    parser.add_argument("--memory", help=f"memory model: {_words(MEMORY_MODELS, DEFAULTS['memory'])}")


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how a launch is simulated, perhaps in samples, with the policy of replays."""
    from warpsim.simulation.point import DEFAULTS, MEMORY_MODELS
    from warpsim.simulation.policies import REPLAYED, described
    from warpsim.simulation.sampled_run import REPLICATES

    parser.add_argument("--scheduler", default=REPLAYED, help=f"scheduling policy: {described(REPLAYED)}")
    parser.add_argument(
        "--memory", default=DEFAULTS["memory"], help=f"memory model: {', '.join(MEMORY_MODELS)} (default: %(default)s)"
    )
    parser.add_argument(
        "--replicates", type=whole_number, default=REPLICATES, metavar="N", help="number of replicates (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=whole_number, default=DEFAULTS["seed"], metavar="N", help="root seed of all random numbers"
    )


def _words(words: Sequence[str], default: str) -> str:
    return ", ".join(f"{word} (default)" if word == default else word for word in words)


def requested_point(options: argparse.Namespace) -> Point:
    """Returns the point that the options describe.

    Raises:
        RequestError: an option is wrong.
    """
    given = given_options(options, INTEGER_OPTIONS)
    with request():
        from warpsim.hardware.residency import Launch, default_block_warps, occupancy
        from warpsim.simulation.point import make_point

        gpu, kernel = requested_kernel(options)
        if options.blocks is not None:
            if options.block_warps is None:
                given["block_warps"] = kernel.block_warps or default_block_warps(gpu, given.get("warps", gpu.sm.max_warps))
            occupancy(gpu, kernel, given["block_warps"])  # raises with a message about `block_warps` rather than `launch`
            given["launch"] = Launch(blocks=options.blocks, block_warps=given["block_warps"])
        point = make_point(gpu, kernel, **given)
        if point.finite and (ignored := [name for name in ("warmup", "cycles") if name in given]):
            raise RequestError(f"--{ignored[0]}: must be left out with --blocks: a grid is counted from its begin to its end")
        return point


def requested_kernel(options: argparse.Namespace) -> tuple[Gpu, Kernel]:
    """Returns the chip and the kernel that the options name. Call it within `request`."""
    from warpsim.hardware.gpu import load_gpu
    from warpsim.kernels import load_kernel

    return load_gpu(options.gpu), load_kernel(options.kernel, **key_values("--set", options.set))


def given_options(options: argparse.Namespace, integers: Iterable[str]) -> dict[str, Any]:
    """Returns those options of `add_run_options` that were given."""
    values = {name: getattr(options, name) for name in (*integers, "scheduler", "memory")}
    return {name: value for name, value in values.items() if value is not None}


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names the file of a plan."""
    parser.add_argument("plan", type=Path, metavar="PLAN.toml", help="a plan; docs/sweeps.md describes the format")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Adds the option that selects values of axes."""
    parser.add_argument(
        "--where", action="append", default=[], metavar="K=V",
        help="select a value of an axis, or several as K=V,V (repeatable)",
    )  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the number of threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=at_least_1, default=cores, metavar="N", help="number of threads (default: one per core, %(default)s)"
    )


def whole_number(text: str) -> int:
    """Returns the integer that a text is, for `argparse`."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: must be an integer") from None


def at_least_1(text: str) -> int:
    """Returns the positive integer that a text is, for `argparse`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be an integer, at least 1")
    return int(text)


def check_output(path: Path, endings: Iterable[str], *, option: str = "-o") -> None:
    """Checks, before the work starts, that a file can be written.

    Args:
        path: the file.
        endings: the allowed file name extensions, without dots.
        option: the option that names the file, for messages.

    Raises:
        RequestError: the extension is not allowed, the folder does not exist, the path is a folder, or it is not writable.
    """
    from warpsim.atomic_file import temporary_path

    if path.suffix.removeprefix(".") not in endings:
        raise RequestError(f"{option} {path}: must end in one of .{', .'.join(sorted(endings))}")
    with _refusing_paths(f"{option} {path}"):
        if not path.parent.is_dir() or path.is_dir():
            raise RequestError(f"{option} {path}: must be a file in a folder that exists")
        _try_file(Path(temporary_path(path)))


def check_package(name: str, extra: str) -> None:
    """Checks, before the work starts, that an optional package is installed.

    Raises:
        RequestError: it is not; the message says how to install it.
    """
    if (name in sys.modules and sys.modules[name] is None) or importlib.util.find_spec(name) is None:
        raise RequestError(f"{extra}: needs the package {name}: pip install 'warpsim[{extra}]'")


def make_output_folder(option: str, path: Path) -> None:
    """Makes a folder for output before the work starts, unless it exists.

    Raises:
        RequestError: the path is a file, or it is not writable.
    """
    with _refusing_paths(f"{option} {path}"):
        if path.exists() and not path.is_dir():
            raise RequestError(f"{option} {path}: must be a folder, or not exist yet")
        path.mkdir(parents=True, exist_ok=True)
        _try_file(path / f".warpsim-{os.getpid()}")


@contextmanager
def _refusing_paths(argument: str) -> Iterator[None]:
    """Turns an OSError into a RequestError about `argument`, unless the disk is full or damaged."""
    from warpsim.store.place import FULL

    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise RequestError(f"{argument}: cannot be written: {error.strerror}") from None


def _try_file(path: Path) -> None:
    """Creates a file and removes it again; leaves an existing file alone."""
    try:
        path.open("xb").close()
    except FileExistsError:
        return
    path.unlink()


@contextmanager
def request(results: str | None = None) -> Iterator[None]:
    """Turns TypeError and ValueError into RequestError; for code in which they mean that the user's request is wrong.

    Args:
        results: their path, which stands in messages in the place of the argument `results`; None: there is none.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        if results is not None and text.startswith(("results:", "provenance:")):
            text = f"{results}: {text.removeprefix('results: ')}"
        raise RequestError(text) from error


def key_values(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the values of a repeated option K=V, parsed by `parse_value`.

    Raises:
        ValueError: a text is not K=V, or several of them, or a key is repeated.
    """
    values = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise ValueError(f"{option} {text}: must be NAME=VALUE")
        several = re.split(r",(?=[\w.\[\]]+=)", text)
        if len(several) > 1:
            raise ValueError(f"{option} {text}: must be {' '.join(f'{option} {one}' for one in several)}")
        if name in values:
            raise ValueError(f"{option} {text}: {name} is set twice")
        values[name] = parse_value(value)
    return values


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, such as "1 block" or "3 blocks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def residency_text(launch: Launch) -> str:
    """Returns the residency of a resolved launch, such as "8 blocks of 1 warp per SM"."""
    assert launch.resident_blocks is not None
    return f"{counted(launch.resident_blocks, 'block')} of {counted(launch.block_warps, 'warp')} per SM"


def selection(where: Sequence[str]) -> dict[str, Any]:
    """Returns the values of `--where`: axis -> a value, or a list of values if the text has commas."""
    values = key_values("--where", where)
    return {k: [parse_value(part) for part in v.split(",")] if isinstance(v, str) and "," in v else v for k, v in values.items()}


def parse_value(text: str) -> Any:
    """Returns the text as a boolean ("true", "false"), an integer or a number if it is one, else unchanged."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

"""The command line. Every command checks the request, makes one call into the API, and prints.

Exit codes: 0 done; 1 the work failed; 2 the request was wrong, with a message on standard error. What a
command does not need is not imported: most of a short command's time is imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DONE, FAILED, WRONG = 0, 1, 2


class RequestError(Exception):
    """The request was wrong; the message says what is allowed."""


class WorkError(Exception):
    """The request was right, but the work failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except RequestError as error:
        return _say(str(error), WRONG)
    except BrokenPipeError:  # the reader has seen enough, as in `warpsim gpus | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (WorkError, OSError) as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return _say("interrupted; the same command goes on where this one stopped", FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warpsim", description="A Monte Carlo simulator of GPU warp schedulers."
    )
    from warpsim import __version__

    parser.add_argument("--version", action="version", version=f"warpsim {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        new = commands.add_parser(
            command.__name__.strip("_"), help=text, description=text[0].upper() + text[1:] + "."
        )
        new.set_defaults(command=command)
        return new

    add(_gpus, "list the chips")
    add(_kernels, "list the kernels and their arguments")

    one = add(_simulate, "simulate one point")
    one.add_argument("--gpu", required=True, help="a name (warpsim gpus), or a file")
    one.add_argument("--kernel", required=True, help="a name (warpsim kernels), or a file")
    one.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        help="an argument of the kernel, such as alpha=32",
    )
    for name, text in _INTEGERS.items():
        one.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    one.add_argument("--scheduler", help="lrr (default), gto, oldest, random")
    one.add_argument("--memory", help="queue (default), fixed, measured")
    one.add_argument("--json", action="store_true", help="print everything as JSON, with the provenance")

    many = add(_sweep, "simulate all points of a plan into a store, or go on with it")
    many.add_argument("plan", type=Path, metavar="PLAN.toml")
    many.add_argument("out", type=Path, metavar="OUT.zarr")
    _add_workers(many)
    many.add_argument("--tile", default="1/1", metavar="K/N", help="only the K-th of N shares of the tiles")

    state = add(_status, "show how far a store is")
    state.add_argument("out", type=Path, metavar="OUT.zarr")

    figure = add(_plot, "draw a variable of a store")
    figure.add_argument("out", type=Path, metavar="OUT.zarr")
    figure.add_argument("--x", help="an axis; left out: occupancy, or alpha for needed_warps")
    figure.add_argument(
        "--y", default="peak_fraction", help="a variable, or needed_warps (default: %(default)s)"
    )
    figure.add_argument("--hue", help="an axis, one curve for each value; left out: scheduler")
    figure.add_argument(
        "--where", action="append", default=[], metavar="K=V", help="select one value of an axis"
    )
    figure.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FIGURE", help="a .png, .pdf or .svg file"
    )

    experiment = add(_experiment, "run an experiment, and write its figure and table")
    experiment.add_argument("name", metavar="NAME")
    experiment.add_argument("--full", action="store_true", help="the whole grid, in place of the quick one")
    experiment.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: results/NAME)"
    )
    _add_workers(experiment)
    return parser


_INTEGERS = {
    "warps": "occupancy, warps per SM (default: as many as fit)",
    "block_warps": "warps of a thread block",
    "replicates": "independent repetitions (default: 1)",
    "seed": "root of all randomness (default: 2016)",
    "sms": "simulate a slice of N SMs (default: the whole chip)",
    "warmup": "cycles before counting starts (default: 20000)",
    "cycles": "cycles that are counted (default: 100000)",
}


def _gpus(_: argparse.Namespace) -> int:
    from warpsim.gpu import list_gpus, load_gpu
    from warpsim.results.summary import table

    header = ("name", "chip", "year", "SMs", "GHz", "schedulers/SM", "warps/SM", "GB/s")
    rows = [
        (
            gpu.name,
            gpu.title,
            str(gpu.year),
            str(gpu.sms),
            f"{gpu.clock_ghz:g}",
            str(gpu.sm.schedulers),
            str(gpu.sm.max_warps),
            f"{gpu.memory.bandwidth_gbs:g}",
        )
        for gpu in sorted(map(load_gpu, list_gpus()), key=lambda gpu: gpu.year)
    ]
    print(table(rows, header))
    return DONE


def _kernels(_: argparse.Namespace) -> int:
    from warpsim.kernels import kernel_arguments, list_kernels, load_kernel
    from warpsim.results.summary import table

    rows = []
    for name in list_kernels():
        arguments = ", ".join(f"{key}={value}" for key, value in kernel_arguments(name).items())
        rows.append((name, load_kernel(name).title, arguments))
    print(table(rows, ("name", "title", "arguments")))
    return DONE


def _simulate(options: argparse.Namespace) -> int:
    from warpsim.results.summary import summary
    from warpsim.store.provenance import point_provenance
    from warpsim.store.schema import result_ops

    given = {name: getattr(options, name) for name in (*_INTEGERS, "scheduler", "memory")}
    with _request():
        from warpsim.gpu import load_gpu
        from warpsim.kernels import load_kernel
        from warpsim.simulation import DeadlockError, make_point, simulate_point

        kernel = load_kernel(options.kernel, **_pairs("--set", options.set))
        point = make_point(
            load_gpu(options.gpu),
            kernel,
            **{name: value for name, value in given.items() if value is not None},
        )
    try:
        arrays = simulate_point(point)
    except DeadlockError as error:
        raise RequestError(str(error)) from None
    ops = result_ops([point.gpu])
    if options.json:
        values = {name: array.tolist() for name, array in arrays.items()}
        print(
            json.dumps(
                {"ops": ops, "variables": _finite(values), "provenance": json.loads(point_provenance(point))}
            )
        )
        return DONE
    launch = point.launch
    resident = f"{launch.resident_blocks} blocks of {launch.block_warps} warps per SM"
    print(f"{point.gpu.title}: {kernel.title or kernel.name}")
    print(f"{resident}, {point.scheduler}, memory {point.memory}")
    window = "to the end of the grid" if point.finite else f"{point.cycles} cycles after {point.warmup}"
    print(f"{point.sms or point.gpu.sms} SMs, {window}, root seed {point.seed}")
    if point.replicates > 1:
        print(f"means of {point.replicates} replicates ± half the width of their 95 % intervals")
    print(f"\n{summary(arrays, ops)}")
    return DONE


def _sweep(options: argparse.Namespace) -> int:
    from warpsim.batch.local import SweepError, sweep
    from warpsim.batch.plan import Plan

    with _request():
        plan = Plan.from_toml(options.plan)
        share = _share(options.tile)
        try:
            sweep(plan, options.out, workers=options.workers, share=share, progress=True)
        except SweepError as error:
            raise WorkError(str(error)) from None
    return DONE


def _status(options: argparse.Namespace) -> int:
    from warpsim.batch.progress import duration
    from warpsim.store.zarr_store import open_store, tile_counts

    with _request():
        store = open_store(options.out, read_only=True)
    counts = tile_counts(store)
    print(f"{len(store.grid)} tiles of {store.grid.points} points")
    print(f"done {counts.done}, pending {counts.pending}, failed {len(counts.failures)}")
    if counts.done and counts.done < len(store.grid):
        print(f"time left: about {duration(counts.seconds_left)} of one worker")
    for index, message in counts.failures.items():
        print(f"tile {index} failed: {message}")
    return DONE


def _plot(options: argparse.Namespace) -> int:
    from matplotlib.figure import Figure

    from warpsim.results.plots import plot, select
    from warpsim.store.zarr_store import open_results

    with _request():
        results = select(open_results(options.out), _pairs("--where", options.where))
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        plot(results, figure.subplots(), x=options.x, y=options.y, hue=options.hue)
        allowed = figure.canvas.get_supported_filetypes()
        if options.output.suffix.removeprefix(".") not in allowed:
            raise RequestError(f"-o {options.output}: must end in one of .{', .'.join(sorted(allowed))}")
    figure.savefig(options.output, dpi=150)
    return DONE


def _experiment(options: argparse.Namespace) -> int:
    folder = experiments_dir()
    names = sorted(path.parent.name for path in folder.glob("*/run.py"))
    if options.name not in names:
        raise RequestError(
            f"experiment {options.name!r}: must be one of {', '.join(names) or '(none found)'}"
        )
    file = folder / options.name / "run.py"
    spec = importlib.util.spec_from_file_location(f"warpsim_experiment_{options.name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))  # the files beside it
    try:
        spec.loader.exec_module(module)
        from warpsim.batch.local import SweepError
        from warpsim.store.zarr_store import StoreError

        try:
            return int(
                module.main(
                    options.out or Path("results") / options.name, full=options.full, workers=options.workers
                )
            )
        except SweepError as error:
            raise WorkError(str(error)) from None
        except StoreError as error:
            raise RequestError(f"{error}\n--out DIR chooses another place") from None
    finally:
        sys.path.remove(str(file.parent))


def experiments_dir() -> Path:
    """The folder of the experiments: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "experiments"
    return installed if installed.is_dir() else package.parent / "experiments"


def _add_workers(parser: argparse.ArgumentParser) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=int, default=cores, metavar="N", help="threads (default: one per core, %(default)s)"
    )


@contextmanager
def _request() -> Iterator[None]:
    """What is wrong in here, the user has asked for."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise RequestError(str(error)) from error


def _pairs(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """The values of a repeated option K=V; a value is an integer, a number, true, false, or else text."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator and value):
            raise ValueError(f"{option} {text}: must be NAME=VALUE")
        if name in pairs:
            raise ValueError(f"{option} {text}: {name} is set twice")
        pairs[name] = _value(value)
    return pairs


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _share(text: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise ValueError(f"--tile {text}: must be K/N with 1 <= K <= N")
    return int(first), int(last)


def _finite(value: Any) -> Any:
    """NaN as null: JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if value != value else value


def _say(message: str, code: int) -> int:
    print(f"warpsim: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""warpsim experiment: runs one folder of experiments/, which writes its figures and tables."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType

from warpsim.arguments import did_you_mean
from warpsim.cli.common import DONE, Commands, RequestError, WorkError, add_workers, make_output_folder, new_command
from warpsim.cli.output import add_json, print_json


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = new_command(commands, "experiment", _run, "run an experiment and write its figures and tables")
    parser.set_defaults(interrupted="interrupted; the same command continues sweeps, and begins all else anew")
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(experiment_names())}")
    parser.add_argument("--full", action="store_true", help="run the full parameter grid, where there is a quick one")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (default: results/NAME)")
    add_workers(parser)
    add_json(parser, "the files that it wrote; the experiment's own text goes to standard error")


def _run(options: argparse.Namespace) -> int:
    names = experiment_names()
    if options.name not in names:
        hint = did_you_mean(options.name, names)
        raise RequestError(f"experiment {options.name!r}: must be one of {', '.join(names) or '(none found)'}{hint}")
    out = options.out or Path("results") / options.name
    make_output_folder("--out", out)
    with _loaded(experiments_dir() / options.name) as module:
        from warpsim.store.place import StoreError
        from warpsim.sweeps.local import SweepError

        try:
            how = _taken(module, {"full": options.full, "workers": options.workers, "progress": not options.quiet})
            if options.full and "full" not in how:
                raise RequestError(f"--full: must be left out, since the experiment {options.name} has one size")
            before = _changes(out)
            with redirect_stdout(sys.stderr) if options.json else nullcontext():
                code = int(module.main(out, **how))
        except SweepError as error:
            raise WorkError(str(error)) from None
        except StoreError as error:
            raise RequestError(f"{error}\n--out DIR chooses another folder") from None
    if options.json:
        written = sorted(name for name, change in _changes(out).items() if before.get(name) != change)
        print_json({"experiment": options.name, "full": options.full, "folder": out, "files": written, "complete": code == DONE})
    return code


def _taken(module: ModuleType, given: dict[str, bool | int]) -> dict[str, bool | int]:
    """Returns those of the arguments that the `main` of an experiment takes."""
    taken = inspect.signature(module.main).parameters
    return {name: value for name, value in given.items() if name in taken}


def _changes(folder: Path) -> dict[str, int]:
    """Returns the files of a folder and when each changed; a store is one file."""
    return {path.name: _latest(path) for path in folder.iterdir()} if folder.is_dir() else {}


def _latest(path: Path) -> int:
    """Returns when a file, or any file in a folder, changed last."""
    return max(part.stat().st_mtime_ns for part in (path, *path.rglob("*")))


@contextmanager
def _loaded(folder: Path) -> Iterator[ModuleType]:
    """Loads `run.py` of a folder. Meanwhile that folder and its parent, which holds `_tables.py`, are on the search path."""
    spec = importlib.util.spec_from_file_location(f"warpsim_experiment_{folder.name}", folder / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    added = [str(folder), str(folder.parent)]
    sys.path[:0] = added
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        for path in added:
            sys.path.remove(path)


def experiment_names() -> list[str]:
    """Returns the names of the experiments, sorted."""
    return sorted(path.parent.name for path in experiments_dir().glob("*/run.py"))


def experiments_dir() -> Path:
    """Returns the folder of the experiments: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "experiments"
    return installed if installed.is_dir() else package.parent / "experiments"

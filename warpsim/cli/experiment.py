"""warpsim experiment: runs a folder of experiments/, which writes its figure and its table."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from warpsim.cli.common import Commands, RequestError, WorkError, add_workers, make_output_folder, new_command


def add(commands: Commands) -> None:
    """Add the command."""
    parser = new_command(commands, "experiment", _run, "run an experiment, and write its figure and table")
    parser.add_argument("name", metavar="NAME", help=", ".join(_names()))
    parser.add_argument("--full", action="store_true", help="the whole grid, in place of the quick one")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: results/NAME)")
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    folder, names = experiments_dir(), _names()
    if options.name not in names:
        raise RequestError(
            f"experiment {options.name!r}: must be one of {', '.join(names) or '(none found)'}"
        )
    out = options.out or Path("results") / options.name
    make_output_folder("--out", out)
    file = folder / options.name / "run.py"
    spec = importlib.util.spec_from_file_location(f"warpsim_experiment_{options.name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))  # the files beside it
    try:
        spec.loader.exec_module(module)
        from warpsim.store.zarr_store import StoreError
        from warpsim.sweeps.local import SweepError

        try:
            return int(module.main(out, full=options.full, workers=options.workers))
        except SweepError as error:
            raise WorkError(str(error)) from None
        except StoreError as error:
            raise RequestError(f"{error}\n--out DIR chooses another place") from None
    finally:
        sys.path.remove(str(file.parent))


def _names() -> list[str]:
    return sorted(path.parent.name for path in experiments_dir().glob("*/run.py"))


def experiments_dir() -> Path:
    """The folder of the experiments: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "experiments"
    return installed if installed.is_dir() else package.parent / "experiments"

"""Output of the commands as JSON, and files of chips and kernels."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from warpsim.cli.common import RequestError

if TYPE_CHECKING:
    import xarray as xr

    from warpsim.simulation.predictions import PredictionInterval


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the option that prints JSON in place of text.

    Args:
        parser: the parser of the command.
        what: what is printed, for the help.
    """
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON; numbers that JSON lacks (NaN, infinity) are null."""
    print(json.dumps(plain(value), allow_nan=False))


def plain(value: Any) -> Any:
    """Returns a value in the types of JSON: numpy's arrays and numbers as lists and numbers, NaN and infinity as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def so_near_text(interval: PredictionInterval) -> str:
    """Returns what an interval of a predicted time is made of."""
    return f"the measured times of {interval.level:.0%} of {interval.kernels} other kernels lay so near the simulated ones"


def dataset_json(ds: xr.Dataset) -> dict[str, Any]:
    """Returns a Dataset as nested dictionaries: its attributes, coordinates, and variables with dims, units and values."""
    return {
        "attributes": dict(ds.attrs),
        "coordinates": {name: values.values for name, values in ds.coords.items()},
        "variables": {
            name: {"dims": values.dims, "units": values.attrs.get("units", "1"), "values": values.values}
            for name, values in ds.data_vars.items()
        },
    }


def add_file(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the arguments that choose the file of one chip or kernel."""
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"print the file of this {what}, with its sources")
    parser.add_argument("--template", action="store_true", help="print a copy to start from: warpsim ... --template > my.toml")


def check_template(options: argparse.Namespace) -> None:
    """Refuses a template of nothing."""
    if options.template and options.name is None:
        raise RequestError("--template: needs NAME, of which it prints a copy")


def print_file(kind: str, name: str, *, template: bool) -> None:
    """Prints a file of params.

    Args:
        kind: "gpus" or "kernels".
        name: a name that exists, or a path.
        template: whether to print a copy to edit, which has a name of its own.
    """
    from warpsim.hardware import files

    path = files.resolve(kind, name)
    text = path.read_text(encoding="utf-8-sig")
    if template:
        text = re.sub(r'^name = "(.*?)"( *#.*)?$', r'name = "my_\1"', text, count=1, flags=re.MULTILINE)
        text = f"# A copy of {path.name}: change what differs, and its sources. A path works in place of a name.\n{text}"
    print(text, end="")

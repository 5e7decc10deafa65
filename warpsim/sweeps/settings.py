"""Settings of a plan: their defaults, the values they accept, and their names in a result."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.arguments import choice, integer
from warpsim.hardware.files import is_file
from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import Kernel, list_kernels
from warpsim.results.schema import SWEEP_VARIABLES
from warpsim.simulation.point import DEFAULTS as POINT_DEFAULTS
from warpsim.simulation.point import MEMORY_MODELS
from warpsim.simulation.policies import as_policy

DEFAULTS: dict[str, Any] = {"warps": None, "warps_per_scheduler": None, "block_warps": None, **POINT_DEFAULTS}
"""Optional settings of a plan: those of `simulate`, and `warps_per_scheduler`."""

SWEEP_WIDE = ("replicates", "cycles")
"""Settings that cannot be axes, because all points of a result have the same number of replicates and the same window."""

OBJECTS = ("gpu", "kernel")
"""Settings with fields: "gpu.alu.latency_cycles" changes one field of the chip."""

RESERVED = {name for declared in SWEEP_VARIABLES for name in (declared.name, *declared.dims)}
"""Names of the variables and dimensions of a result."""

_INTEGERS = ("warps", "warps_per_scheduler", "block_warps", "sms", "cycles")


@dataclass(frozen=True)
class StoredKernel:
    """A kernel restored from the provenance of a result.

    Attributes:
        name: label of the kernel in the result; for a kernel from a file, the file's name.
        kernel: the program, whose own name may differ.
    """

    name: str
    kernel: Kernel


def is_field(name: str) -> bool:
    """Whether a setting changes one field of the chip or the kernel."""
    return name.partition(".")[0] in OBJECTS and "." in name


def is_argument(name: str) -> bool:
    """Whether a setting is an argument of the kernel's builder."""
    return name not in (*OBJECTS, *DEFAULTS) and not is_field(name)


def is_program(name: str) -> bool:
    """Whether a setting changes the kernel's program."""
    return name == "kernel" or is_argument(name) or name.startswith("kernel.")


def dimension(name: str) -> str:
    """Returns the dimension of a setting: its name, or `kernel_NAME` for a builder's argument whose name a result uses itself."""
    return f"kernel_{name}" if is_argument(name) and name in RESERVED else name


def flattened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with the tables `gpu` and `kernel` expanded into dotted names.

    The table gpu = {name = "kepler", clock_ghz = 1.0} becomes gpu = "kepler" and "gpu.clock_ghz" = 1.0.

    Raises:
        ValueError: a setting is given twice.
    """
    result: dict[str, Any] = {}
    for name, value in settings.items():
        items = _leaves(name, value) if name in OBJECTS and isinstance(value, Mapping) else [(name, value)]
        for key, item in items:
            key = name if key == f"{name}.name" else key
            if key in result:
                raise ValueError(f"{key}: is given twice")
            result[key] = item
    return result


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{name}.{key}", item)
    else:
        yield name, value


def checked_value(name: str, value: Any) -> Any:
    """Checks one value of a setting; loads chips, and converts NumPy scalars.

    Raises:
        TypeError, ValueError: the value is wrong.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if name == "gpu":
        return value if isinstance(value, Gpu) else load_gpu(value)
    if name == "kernel" and not isinstance(value, str | os.PathLike | Kernel | StoredKernel):
        raise TypeError(f"kernel = {value!r}: must be a name, a path or a Kernel")
    if name == "kernel" and isinstance(value, str) and value.lower() in _packaged_kernels():
        return value.lower()
    if name == "scheduler" and isinstance(value, str):
        return as_policy(value)
    if name == "memory" and isinstance(value, str):
        return choice(name, value, MEMORY_MODELS)
    if isinstance(value, Mapping | list | tuple):
        kind = "table" if isinstance(value, Mapping) else "list"
        raise TypeError(f"{name} = {value!r}: must be a value or a list of values, not a {kind}")
    if name in _INTEGERS and value is not None:
        return integer(name, value)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name} = nan: must be a number")
    return value


def checked_values(name: str, values: Any) -> tuple[Any, ...]:
    """Checks the values of a setting along an axis.

    Raises:
        TypeError, ValueError: a value is wrong, there are none, or they are of different kinds.
    """
    checked = tuple(checked_value(name, item) for item in values)
    if not checked:
        raise ValueError(f"{name} = []: an axis needs at least one value")
    if None in checked:
        raise TypeError(f"{name} = {values!r}: None is not allowed on an axis")
    kinds = {"number" if isinstance(item, int | float) and not isinstance(item, bool) else type(item) for item in checked}
    if len(kinds) > 1 and name not in OBJECTS:
        raise TypeError(f"{name} = {values!r}: the values of an axis must be of one kind")
    return checked


def label(name: str, value: Any) -> Any:
    """Returns the label of a value on its axis. Chips and kernels are labelled by name, files of kernels by that of the file."""
    if isinstance(value, Gpu | Kernel | StoredKernel):
        return value.name
    return Path(value).stem if name == "kernel" and is_kernel_file(value) else value


def is_kernel_file(kernel: Any) -> bool:
    """Whether a kernel is given by the path of a file."""
    return not isinstance(kernel, Kernel | StoredKernel) and kernel not in _packaged_kernels()


@cache
def _packaged_kernels() -> frozenset[str]:
    """Returns the names of the kernels in the package, some of which are in a folder; labels are asked for at every point."""
    return frozenset(list_kernels())


def to_json(value: Any) -> Any:
    """Converts a label to a JSON value. JSON has no infinity, so that it becomes "inf"."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def from_json(value: Any) -> Any:
    """Converts a JSON value of `to_json`, or a list of them, back to labels."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return math.inf if value == "inf" else value


def resolve_paths(file: Path, value: Any) -> Any:
    """Resolves paths in a plan's file, which are relative to the folder of that file. Names of chips and kernels are kept."""
    if isinstance(value, list):
        return [resolve_paths(file, item) for item in value]
    if isinstance(value, dict):
        return {key: resolve_paths(file, item) if key == "name" else item for key, item in value.items()}
    path = file.parent / value if isinstance(value, str) else None
    return str(path) if path is not None and path.suffix and is_file(path) else value

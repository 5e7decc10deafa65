"""The settings of a plan: their defaults, what a value may be, and the names that they bear in a result."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.hardware.gpu import Gpu, load_gpu
from warpsim.kernels import Kernel
from warpsim.results.schema import SWEEP_VARIABLES

DEFAULTS: dict[str, Any] = {
    "warps": None,
    "warps_per_scheduler": None,
    "block_warps": None,
    "scheduler": "lrr",
    "memory": "queue",
    "replicates": 1,
    "seed": 2016,
    "sms": None,
    "warmup": 20_000,
    "cycles": 100_000,
}
"""Settings of a plan that may be left out. They are those of `simulate`, but for `warps_per_scheduler`."""

NEVER_AXES = ("replicates", "cycles")
"""Settings that hold for the whole sweep: its results have one number of replicates and one window."""

PARTS = ("gpu", "kernel")
"""Settings with fields: "gpu.alu.latency_cycles" changes one field of the chip."""

RESERVED = {name for declared in SWEEP_VARIABLES for name in (declared.name, *declared.dims)}
"""Names that a result has another use for."""

_INTEGERS = ("warps", "warps_per_scheduler", "block_warps", "sms", "cycles")


def is_field(name: str) -> bool:
    """Whether a setting changes one field of the chip or the kernel."""
    return name.partition(".")[0] in PARTS and "." in name


def is_argument(name: str) -> bool:
    """Whether a setting is an argument of the kernel's builder."""
    return name not in (*PARTS, *DEFAULTS) and not is_field(name)


def is_program(name: str) -> bool:
    """Whether a setting changes the kernel's program."""
    return name == "kernel" or is_argument(name) or name.startswith("kernel.")


def dimension(name: str) -> str:
    """The dimension of a setting: its name; that of a builder's argument gives way to the names of a result."""
    return f"kernel_{name}" if is_argument(name) and name in RESERVED else name


@dataclass(frozen=True)
class HeldKernel:
    """A kernel of a plan that is made again from a result, which holds its program.

    Attributes:
        name: its label, which is that of its file, if it came from one.
        kernel: the program, whose own name may be another.
    """

    name: str
    kernel: Kernel


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the tables `gpu` and `kernel` written out.

    The table gpu = {name = "kepler", clock_ghz = 1.0} is gpu = "kepler" and "gpu.clock_ghz" = 1.0.

    Raises:
        ValueError: a setting is given twice.
    """
    result: dict[str, Any] = {}
    for name, value in settings.items():
        items = _leaves(name, value) if name in PARTS and isinstance(value, Mapping) else [(name, value)]
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


def scalar(name: str, value: Any) -> Any:
    """One value of a setting, checked.

    Raises:
        TypeError, ValueError: it is wrong; the message names setting and value.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if name == "gpu":
        return value if isinstance(value, Gpu) else load_gpu(value)
    if name == "kernel" and not isinstance(value, str | os.PathLike | Kernel | HeldKernel):
        raise TypeError(f"kernel = {value!r}: must be a name, a path or a Kernel")
    if isinstance(value, Mapping | list | tuple):
        kind = "table" if isinstance(value, Mapping) else "list"
        raise TypeError(f"{name} = {value!r}: must be a value or a list of values, not a {kind}")
    if name in _INTEGERS and value is not None:
        return integer(name, value)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{name} = nan: must be a number")
    return value


def integer(name: str, value: Any, least: int = 1) -> int:
    """An integer, checked.

    Raises:
        TypeError, ValueError: it is none, or too small; the message names setting and value.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} = {value!r}: must be an integer")
    if value < least:
        raise ValueError(f"{name} = {value!r}: must be at least {least}")
    return int(value)


def column(name: str, values: Any) -> tuple[Any, ...]:
    """The values of a setting along an axis, checked.

    Raises:
        TypeError, ValueError: one is wrong, there are none, or they are of several kinds.
    """
    found = tuple(scalar(name, item) for item in values)
    if not found:
        raise ValueError(f"{name} = []: an axis needs at least one value")
    if None in found:
        raise TypeError(f"{name} = {values!r}: None cannot stand on an axis")
    kinds = {
        "number" if isinstance(item, int | float) and not isinstance(item, bool) else type(item) for item in found
    }
    if len(kinds) > 1 and name not in PARTS:
        raise TypeError(f"{name} = {values!r}: the values of an axis must be of one kind")
    return found


def label(name: str, value: Any) -> Any:
    """The label of a value on its axis: chips and kernels by name."""
    if isinstance(value, Gpu | Kernel | HeldKernel):
        return value.name
    return Path(value).stem if name == "kernel" else value


def beside(file: Path, value: Any) -> Any:
    """A path in a plan's file, relative to that file's folder; a name stays a name."""
    if isinstance(value, list):
        return [beside(file, item) for item in value]
    if isinstance(value, dict):
        return {key: beside(file, item) if key == "name" else item for key, item in value.items()}
    near = file.parent / value if isinstance(value, str) else None
    return str(near) if near is not None and near.suffix and near.is_file() else value

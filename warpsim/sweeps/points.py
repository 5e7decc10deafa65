"""From the settings at one place of a sweep to the point that is simulated, and to its random streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu
from warpsim.hardware.whatif import changed_gpu
from warpsim.kernels import Kernel, load_kernel
from warpsim.kernels.whatif import changed_kernel
from warpsim.results.provenance import dump
from warpsim.sweeps.derived import derived
from warpsim.sweeps.record import encoded
from warpsim.sweeps.settings import HeldKernel, is_argument, is_program, label

if TYPE_CHECKING:
    from warpsim.simulation.point import Point

POINT_SETTINGS = ("block_warps", "scheduler", "memory", "seed", "sms", "warmup", "cycles")
"""Settings that `make_point` takes as they are."""

_KEPT = 64
"""Chips and kernels that are kept at a time."""


class Parts:
    """Chips and kernels, kept from one point to the next: most neighbours share them."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}

    def gpu(self, values: Mapping[str, Any]) -> Gpu:
        """The chip of a point, with the fields that the point changes."""
        fields = {name.removeprefix("gpu."): values[name] for name in values if name.startswith("gpu.")}
        base: Gpu = values["gpu"]
        gpu: Gpu = self._get((base.name, *fields.items()), lambda: changed_gpu(base, fields))
        return gpu

    def kernel(self, values: Mapping[str, Any]) -> Kernel:
        """The kernel of a point, with the arguments and the fields that the point gives it."""
        programs = [(name, label(name, values[name])) for name in values if is_program(name)]
        kernel: Kernel = self._get(tuple(programs), lambda: build_kernel(values))
        return kernel

    def _get(self, key: tuple[Any, ...], build: Callable[[], Any]) -> Any:
        if key not in self._made:
            if len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            self._made[key] = build()
        return self._made[key]


def build_kernel(values: Mapping[str, Any]) -> Kernel:
    """The kernel of a point.

    Raises:
        TypeError: a Kernel object is given arguments.
        ValueError: an argument or a field is wrong.
    """
    kernel = values["kernel"].kernel if isinstance(values["kernel"], HeldKernel) else values["kernel"]
    arguments = {name: value for name, value in values.items() if is_argument(name)}
    if not isinstance(kernel, Kernel):
        kernel = load_kernel(kernel, **arguments)
    elif arguments:
        raise TypeError(f"{next(iter(arguments))}: is no setting of a plan, and a Kernel object takes no arguments")
    fields = {name.removeprefix("kernel."): values[name] for name in values if name.startswith("kernel.")}
    return changed_kernel(kernel, fields)


def build_point(values: Mapping[str, Any], words: Mapping[str, str], replicates: int, parts: Parts) -> Point:
    """The point of settings.

    Args:
        values: setting -> value.
        words: derived setting -> the words that say which values a chip has on that axis.
        replicates: of the point.
        parts: chips and kernels built so far.

    Raises:
        InvalidPoint: the chip cannot hold it, or does not have this value on a derived axis.
        ValueError, TypeError: the combination of settings is wrong.
    """
    from warpsim.simulation.point import make_point

    gpu, kernel = parts.gpu(values), parts.kernel(values)
    for name, text in words.items():
        if values[name] not in derived(name, text, gpu):
            raise InvalidPoint(f"{name} = {values[name]}: is not among '{text}' on {gpu.name}")
    per_scheduler = values["warps_per_scheduler"]
    warps = values["warps"] if per_scheduler is None else per_scheduler * gpu.sm.schedulers
    given = {name: values[name] for name in POINT_SETTINGS}
    return make_point(gpu, kernel, warps=warps, replicates=replicates, **given)


def streams(values: Mapping[str, Any], common: Sequence[str]) -> bytes:
    """What the random streams of a point depend on: all its settings but the common ones, by value."""
    own = {name: _by_value(name, value) for name, value in values.items() if name not in (*common, "replicates")}
    return json.dumps(own, sort_keys=True).encode()


def _by_value(name: str, value: Any) -> Any:
    return dump(value) if isinstance(value, Gpu) else encoded(label(name, value))


def checked_common(common: Any, settings: Sequence[str], groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The settings whose points share random numbers.

    Args:
        common: as given: a name or names of settings or of axes.
        settings: of the plan.
        groups: axis -> its settings.

    Raises:
        TypeError: `common` is not names.
        ValueError: a name is no setting of the plan, or sharing random numbers along it makes no sense.
    """
    names = [common] if isinstance(common, str) else common
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"common = {common!r}: must be the names of settings")
    found = dict.fromkeys(member for name in names for member in groups.get(name, [name]))
    allowed = [name for name in settings if name not in ("seed", "replicates", "cycles")]
    wrong = [name for name in found if name not in allowed]
    if wrong:
        raise ValueError(f"common = {common!r}: {wrong[0]}: must be one of {', '.join(allowed)}")
    return tuple(sorted(found))

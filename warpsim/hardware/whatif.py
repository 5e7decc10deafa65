"""What-if: a chip with single fields changed, checked as its file would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsim.arguments import InvalidPoint
from warpsim.hardware.gpu import Gpu, GpuFileError


def changed_gpu(gpu: Gpu, fields: Mapping[str, Any]) -> Gpu:
    """The chip with fields changed.

    Args:
        gpu: a chip; the changed one keeps its name.
        fields: dotted key after "gpu." -> value, with the keys of a chip's file; "alu.latency_cycles" is short
            for "ops.alu.latency_cycles".

    Raises:
        InvalidPoint: it would be no chip: a key is unknown, a value is not allowed, or contradicts another; the message
            names key and value.
    """
    if not fields:
        return gpu
    data = gpu.to_dict()
    for key, value in fields.items():
        _set(gpu, data, _path(key), value)
    what = ", ".join(f"gpu.{key} = {value!r}" for key, value in fields.items())
    try:
        return Gpu.from_dict(data, source=f"{what} on {gpu.name}")
    except GpuFileError as error:
        raise InvalidPoint(str(error)) from None


def _path(key: str) -> list[str]:
    keys = key.split(".")
    return keys if keys[0] in Gpu.model_fields else ["ops", *keys]


def _set(gpu: Gpu, data: dict[str, Any], path: list[str], value: Any) -> None:
    if path[0] == "name":
        raise InvalidPoint(f"gpu.name = {value!r}: a changed chip keeps its name")
    if path[0] == "ops" and len(path) > 1 and path[1] not in gpu.ops:
        raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no operation class {path[1]}; it has {', '.join(gpu.ops)}")
    *folders, last = path
    for folder in folders:
        inner = data.get(folder)
        if not isinstance(inner, dict):
            raise InvalidPoint(f"gpu.{'.'.join(path)}: {gpu.name} has no such field")
        data = inner
    data[last] = value
